#!/usr/bin/env bash
# Runs the tests, by sections:
#
#   tools/test.sh                  all sections, as CI does
#   tools/test.sh lints host       only these
#   tools/test.sh --all            all sections with their long sweeps, and the long sections: before a release
#   tools/test.sh --all arm        the long sweep of one section
#   tools/test.sh --list           the sections, a line each
#
# Two sections run at a time, and each prints its output when it ends. What a section prints is also in target/test/.
# The first failure ends the run.
#
# Needs Rust, python3 and a C compiler. Installs what else the sections need: a browser, cross compilers, an emulator
# and a C++ compiler by apt, a compiler for GPUs and onnxruntime by pip into target/.
set -euo pipefail
cd "$(dirname "$0")/.."

# Most of this is building from nothing, where incremental compilation and debug information only cost time.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
export CARGO_PROFILE_DEV_DEBUG=${CARGO_PROFILE_DEV_DEBUG:-0}
export CARGO_PROFILE_RELEASE_DEBUG=${CARGO_PROFILE_RELEASE_DEBUG:-0}
# Tests plan for named boards: nothing of them measures this machine.
export EYELET_CALIBRATE=no
GPU_FEATURES=(--features eyelet-planner/cuda)

# Sections of one lane run one after the other, next to those of the other lane. The lanes build in different folders:
# Cargo lets one build at a time into a folder.
FIRST_LANE=(
    "lints        format, clippy and rustdoc without a warning, no cycle among modules, no arrow upward; compiles for 64-bit ARM Linux"
    "host         all tests of the library and the planner; GPU kernels on a driver that runs them on the processor"
    "gpu          GPU kernels by the compilers of every board; the driver as it is linked into firmware"
    "boards       plans and runs with this machine described as other boards"
)
SECOND_LANE=(
    "bits32       32-bit x86: operators, arena, pack and executor"
    "bare         bare metal without an allocator; 32-bit ARM Linux compiles; the oldest Rust"
    "images       firmware images of boards, booted in QEMU: the host's outputs bit for bit; crates of one's own"
    "miri         undefined behaviour: tests in Miri, where a nightly toolchain has it"
    "arm          64-bit ARM Linux under emulation: unit tests, kernel loops, the host's outputs bit for bit"
    "c            programs in C, for this machine and for ARM under emulation"
    "onnxruntime  outputs next to onnxruntime's; the ONNX project's own tests"
    "scripts      scripts that measure GPUs and plans, and find cycles and arrows"
    "lab          programs of lab/: format, clippy, published evaluations"
)
# Only with --all, or by name.
LONG=(
    "fuzz         arbitrary models, packs and allocation problems, by libFuzzer, a minute each"
    "largest      memory and limits of the largest networks"
    "packages     crates as they are published, the Debian package, static commands"
    "wheel        the wheel for Python, in a fresh environment"
    "pages        the commands of docs/pytorch.md, and the command that measures boards, under emulation"
)

# What Debian calls the tools of a section.
packages() {
    case $1 in
        host) echo g++ chromium ;;
        bits32) multilib ;;
        arm) echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static llvm-19 ;;
        lints | bare) echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross ;;
        images) echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-system-arm ;;
        c) echo musl-tools gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static cmake pkg-config ;;
        packages | pages) echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static ;;
    esac
}

# The C library for 32 bits, by the version of the compiler. What Debian calls `gcc-multilib` excludes cross compilers, so that
# nothing could be installed together.
multilib() { echo "gcc-$(cc -dumpversion | cut -d. -f1)-multilib"; }

all=
# Whether long sweeps are asked for.
long() { [ -n "$all" ]; }

# Crates outside the workspace build with the versions that the workspace is tested with.
with_locked_versions() { cp Cargo.lock "$1/Cargo.lock"; }

# Without the compiler for GPUs the library builds, but has no kernels for them.
gpu_compiler() { tools/cuda.sh; }

fake_driver() {
    command -v "${CXX:-g++}" >/dev/null || tools/apt.sh g++
    tools/fake-cuda.sh
}

section_lints() {
    cargo fmt --all --check
    local manifest
    for manifest in fuzz tests/firmware c examples/cortex-m boards/support $(tools/board.sh --list | sed 's|^|boards/|; s| .*||'); do
        with_locked_versions $manifest
        cargo fmt --manifest-path $manifest/Cargo.toml --check
    done
    cargo fmt --manifest-path python/Cargo.toml --check
    tools/cycles.py
    tools/floors.py
    tools/kinds.py
    gpu_compiler
    cargo clippy --workspace --all-targets "${GPU_FEATURES[@]}" -- -D warnings
    # Without an operating system.
    cargo clippy -p eyelet --no-default-features -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps "${GPU_FEATURES[@]}"
    # Firmware: what images share, and the images.
    cargo clippy --manifest-path boards/support/Cargo.toml --target-dir target --all-targets -- -D warnings
    if rustup target add aarch64-unknown-none armv7a-none-eabi thumbv8m.main-none-eabihf >/dev/null 2>&1; then
        CROSS_TARGET_DIR=target tools/board.sh --lint
    else
        echo "no standard library for the targets of images: these are not linted"
    fi
    # 64-bit ARM Linux, by the build scripts and macros of this machine that are built already: the command without GPUs,
    # and the library with either way to find the driver. The compiler of Debian's standard library has no clippy.
    local how=check warnings=() driver
    if rustup target add aarch64-unknown-linux-gnu >/dev/null 2>&1; then how=clippy warnings=(-- -D warnings); fi
    CROSS_TARGET_DIR=target tools/cross.sh linux $how -p eyelet-planner "${warnings[@]}"
    for driver in cuda cuda-linked; do
        EYELET_CUDA_ARCHS=53 CROSS_TARGET_DIR=target tools/cross.sh linux $how -p eyelet --features $driver "${warnings[@]}"
    done
    # Without libFuzzer itself, which wants a C++ compiler.
    cargo clippy --manifest-path fuzz/Cargo.toml --target-dir target --no-default-features -- -D warnings
}

section_host() {
    # Reports are opened in a browser.
    if [ -z "${EYELET_BROWSER:-}" ]; then
        if ! command -v chromium >/dev/null && ! timeout 600 tools/apt.sh chromium; then
            echo "tools/test.sh: no chromium, in which reports are tested, and it could not be installed;" \
                "set EYELET_BROWSER to a Chromium that is there" >&2
            exit 1
        fi
        export EYELET_BROWSER=chromium
    fi
    gpu_compiler
    local driver
    driver=$(fake_driver)
    LD_LIBRARY_PATH=$driver cargo test --workspace "${GPU_FEATURES[@]}"
    EYELET_HOST=$(host_command) tests/examples.sh
    # A command without GPUs, which says so.
    if long; then cargo test -p eyelet-planner --test gpu -- cli::; fi
}

section_boards() {
    local board
    for board in host-avx512 portable; do # the section `host` has run with host-avx2
        if [ $board = portable ] || grep -qw avx512f /proc/cpuinfo; then
            EYELET_HOST_BOARD=$board cargo test --workspace "${GPU_FEATURES[@]}" --test budgets
        fi
    done
}

section_gpu() {
    gpu_compiler
    tools/cuda_check.py
    local driver
    driver=$(fake_driver)
    # The fake driver loads the kernels of any architecture, and runs its own: nothing here is worth optimising.
    LD_LIBRARY_PATH=$driver EYELET_CUDA_ARCHS=53 CARGO_PROFILE_DEV_OPT_LEVEL=0 \
        cargo test -p eyelet --features cuda-linked --lib device::cuda
}

section_bare() {
    with_locked_versions tests/firmware
    CARGO_TARGET_AARCH64_UNKNOWN_NONE_RUSTFLAGS="-Clink-arg=--defsym=PACK=0x40000000" \
        tools/cross.sh bare build --manifest-path tests/firmware/Cargo.toml
    tools/cross.sh linux32 check -p eyelet
    oldest_rust
}

# The version of Rust that `Cargo.toml` asks for builds the library; with --all, everything.
oldest_rust() {
    local version
    version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    if [[ "$(rustc --version)" == "rustc $version."* ]]; then
        echo "Rust $version is what all sections build with"
        return
    fi
    if ! rustup run "$version" rustc --version 2>/dev/null &&
        ! timeout 300 rustup toolchain install "$version" --profile minimal >/dev/null 2>&1; then
        echo "Rust $version could not be installed: not tested"
        return
    fi
    local what=(-p eyelet)
    if long; then what=(--workspace); fi
    CARGO_TARGET_DIR=target/oldest-rust rustup run "$version" cargo check "${what[@]}"
}

section_images() {
    with_locked_versions boards/support
    cargo test --manifest-path boards/support/Cargo.toml --target-dir target
    local host boards
    host=$(host_command)
    boards=$(tools/board.sh --list)
    while read -r board _; do EYELET_HOST=$host tools/board.sh "$board"; done <<<"$boards"
    EYELET_HOST=$host tests/outside.sh
}

section_miri() { tools/miri.sh ${all:+--all}; }

section_bits32() {
    if ! rustup target add i686-unknown-linux-gnu >/dev/null 2>&1 || ! tools/apt.sh "$(multilib)"; then
        echo "no standard library or no C library for 32 bits: not tested"
        return
    fi
    # Kernels are the portable ones, with fused multiply-adds in software: no thousands of layers.
    cargo test -p eyelet --lib --target i686-unknown-linux-gnu --target-dir target/cross -- \
        ops::extremes ops::tests arena:: pack:: executor::
}

section_arm() {
    # The order of events in task sets is the same on every processor: the section `host` tries all. So are the crate's
    # pages and what it refuses of drivers.
    # Sweeps that take minutes are left out, too: smaller cases of the same kernels are among the other tests.
    local what=(--lib) sweeps=(--skip functions_are_within_their_bounds --skip means_of_many_keep_their_bound)
    if long; then what=() sweeps=(); fi
    tools/cross.sh linux test -p eyelet "${what[@]}" -- --skip set::every_order "${sweeps[@]}"
    local cpu
    for cpu in cortex-a53 cortex-a72; do
        QEMU_CPU=$cpu tools/cross.sh linux test -p eyelet --lib -- kernels::table::midr
    done
    # A system with pages of 16 KiB: arenas, reads past the page cache, and packs, which have pages of 4 KiB.
    QEMU_PAGESIZE=16384 tools/cross.sh linux test -p eyelet --lib -- \
        arena::map arena::fixed storage::direct storage::buffered executor::tests
    tools/arm_gate.py
    tools/c.sh arm
    EYELET_HOST=$(host_command) tests/arm.sh ${all:+--all}
}

section_c() {
    EYELET_HOST=$(host_command) tests/c.sh
}

section_scripts() {
    if ! python3 -c 'import tomllib' 2>/dev/null; then
        echo "no python3 of 3.11 or later: not tested"
        return
    fi
    local folder
    for folder in benches/gpu lab/benches/plans tools; do
        python3 -m unittest discover -s "$folder" -p 'test_*.py'
    done
    # Pages of results that are old: warnings.
    if long; then tools/stale.py; fi
}

# A workspace of its own, with a lock file of its own.
section_lab() {
    local build=(--locked --manifest-path lab/Cargo.toml --target-dir target/lab)
    cargo fmt --manifest-path lab/Cargo.toml -p eyelet-alloc -p eyelet-papers -p eyelet-trials --check
    cargo clippy "${build[@]}" --all-targets -- -D warnings
    # Programs that measure have no tests.
    cargo test "${build[@]}" -p eyelet-alloc -p eyelet-papers
}

section_onnxruntime() {
    local python=python3
    if ! python3 -c 'import numpy, onnx, onnxruntime' 2>/dev/null; then
        python=target/onnxruntime/bin/python
        if ! $python -c 'import numpy, onnx, onnxruntime' 2>/dev/null &&
            ! { timeout 60 python3 -m venv target/onnxruntime &&
                timeout 300 $python -m pip install -q --disable-pip-version-check onnx==1.23.2 onnxruntime; }; then
            echo "onnxruntime could not be installed: not compared"
            return
        fi
    fi
    local command
    command=$(host_command)
    $python tests/onnxruntime_check.py --eyelet "$command"
    $python tests/fold_check.py --eyelet "$command"
    $python tools/conformance.py --eyelet "$command"
    $python tools/differential.py --eyelet "$command" --graphs $(long && echo 20000 || echo 400)
}

section_fuzz() { tools/fuzz.sh 60; }

section_largest() {
    cargo build --quiet --release -p eyelet-planner
    tools/memory.py --most 5
    cargo test --workspace "${GPU_FEATURES[@]}" --test command -- --ignored --nocapture
}

section_packages() {
    # Builds each crate from what would be published.
    cargo publish --workspace --dry-run --allow-dirty
    EYELET_COMMAND=$(host_command) tests/packages.sh
}

section_wheel() {
    cargo clippy --quiet --locked --manifest-path python/Cargo.toml --target-dir target/wheel/build -- -D warnings
    EYELET_COMMAND=$(host_command) tests/wheel.sh
}

section_pages() {
    tools/cross.sh musl build --quiet -p eyelet-planner --bin eyelet
    EYELET_HOST=$(host_command) EYELET_ARM=target/cross/aarch64-unknown-linux-musl/debug/eyelet tests/pytorch.sh
    EYELET_HOST=$(host_command) tests/profile.sh
}

# The command of this machine, as the section `host` builds it.
host_command() {
    gpu_compiler >&2
    # Of the whole workspace and with its examples: other features of dependencies would have all built again.
    cargo build --quiet --workspace --bin eyelet --examples "${GPU_FEATURES[@]}" >&2
    echo target/debug/eyelet
}

# The names of sections.
names() {
    local section
    for section in "$@"; do echo "${section%% *}"; done
}

known=" $(names "${FIRST_LANE[@]}" "${SECOND_LANE[@]}" "${LONG[@]}" | tr '\n' ' ')"
chosen=()
for argument in "$@"; do
    case $argument in
        --all) all=1 ;;
        --list)
            printf '%s\n' "${FIRST_LANE[@]}" "${SECOND_LANE[@]}"
            printf '%s (only with --all, or by name)\n' "${LONG[@]}"
            exit
            ;;
        *)
            if [[ "$known" != *" $argument "* ]]; then
                echo "tools/test.sh: no section $argument; there are:$known" >&2
                exit 2
            fi
            chosen+=("$argument")
            ;;
    esac
done
if [ ${#chosen[@]} = 0 ]; then
    mapfile -t chosen < <(names "${FIRST_LANE[@]}" "${SECOND_LANE[@]}")
    if long; then mapfile -t -O ${#chosen[@]} chosen < <(names "${LONG[@]}"); fi
fi
# Kernels are the same for every set of features, and for several targets: each is compiled once.
if command -v ccache >/dev/null || tools/apt.sh ccache >/dev/null 2>&1; then
    export CCACHE_DIR=${CCACHE_DIR:-$PWD/target/ccache}
    export CC_x86_64_unknown_linux_gnu=${CC_x86_64_unknown_linux_gnu:-ccache cc}
    export CC_x86_64_unknown_linux_musl=${CC_x86_64_unknown_linux_musl:-ccache musl-gcc}
    export CC_aarch64_unknown_linux_gnu=${CC_aarch64_unknown_linux_gnu:-ccache aarch64-linux-gnu-gcc}
    export CC_aarch64_unknown_none=${CC_aarch64_unknown_none:-ccache aarch64-linux-gnu-gcc}
fi
# Tests look at this.
if long; then export EYELET_TEST_ALL=1; fi
cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 ||
    rustup component add rustfmt clippy

logs=target/test
mkdir -p "$logs"

# The chosen sections of these.
of_lane() {
    local name
    for name in $(names "$@"); do
        if [[ " ${chosen[*]} " == *" $name "* ]]; then echo "$name"; fi
    done
}

# Runs sections, and reports each when it has ended: its name, exit code, seconds, and seconds of processors.
lane() {
    local name code TIMEFORMAT='%0R %0U %0S'
    for name in "$@"; do
        echo "$name started 0 0 0"
        set +e
        {
            time {
                (
                    set -e
                    "section_$name"
                ) >"$logs/$name.log" 2>&1 </dev/null
            }
        } 2>"$logs/$name.time"
        code=$?
        set -e
        echo "$name $code $(tail -n 1 "$logs/$name.time")"
        [ $code = 0 ] || break
    done
    echo "- 0 0 0 0"
}

# All that is missing, at once: what one section waits for is there when the next one asks.
install() {
    local packages
    packages=$(for name in "${chosen[@]}"; do packages "$name"; done | tr ' ' '\n' | sort -u)
    # Sections say what they cannot do without.
    [ -z "$packages" ] || tools/apt.sh $packages >"$logs/install.log" 2>&1 || true
}

# Ends what still runs.
lanes=()
stop() {
    local lane
    for lane in "${lanes[@]}"; do kill -- "-$lane" 2>/dev/null || true; done
}
trap stop EXIT
trap 'exit 130' INT TERM

reports=$(mktemp -u "$logs/reports.XXXXXX")
mkfifo "$reports"
exec 3<>"$reports"
rm "$reports"
mapfile -t first < <(of_lane "${FIRST_LANE[@]}" "${LONG[@]}")
mapfile -t second < <(of_lane "${SECOND_LANE[@]}")
# Each lane in a group of processes of its own.
set -m
lane "${first[@]}" >&3 &
lanes+=($!)
{ install && lane "${second[@]}"; } >&3 &
lanes+=($!)
set +m

table=() cpu=0 running=2
while [ $running -gt 0 ]; do
    read -r -u 3 name code wall user system
    if [ "$name" = - ]; then
        running=$((running - 1))
        continue
    fi
    if [ "$code" = started ]; then
        echo "tools/test.sh: $name has started, prints into $logs/$name.log"
        continue
    fi
    printf '\n== %s\n' "$name"
    cat "$logs/$name.log"
    if [ "$code" != 0 ]; then
        echo "tools/test.sh: $name failed; tools/test.sh $name runs it alone" >&2
        exit 1
    fi
    table+=("$(printf '%-12s %6d s %8d s' "$name" "$wall" $((user + system)))")
    cpu=$((cpu + user + system))
done
printf '\n%-12s %8s %10s\n' section time processors
printf '%s\n' "${table[@]}"
printf '%-12s %6d s %8d s\n' total $SECONDS $cpu
echo "all tests passed in $SECONDS s"
