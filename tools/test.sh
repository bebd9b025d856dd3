#!/usr/bin/env bash
# Runs the tests, by sections:
#
#   tools/test.sh                  all sections, as CI does
#   tools/test.sh lints host       only these
#   tools/test.sh --list           the sections, a line each
#
# Needs Rust, python3 and a C compiler. Each section installs what else it needs: a browser, cross compilers, an
# emulator and a C++ compiler by apt, a compiler for GPUs and onnxruntime by pip into target/. The budgets of the
# largest networks take minutes more:
#
#   cargo test --release -p eyelet-planner --test memory -- --ignored --nocapture
set -euo pipefail
cd "$(dirname "$0")/.."

# Most of this is building from nothing, where incremental compilation and debug information only cost time.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
export CARGO_PROFILE_DEV_DEBUG=${CARGO_PROFILE_DEV_DEBUG:-0}
export CARGO_PROFILE_RELEASE_DEBUG=${CARGO_PROFILE_RELEASE_DEBUG:-0}
# The fake driver loads the kernels of any architecture: one is enough for the tests.
GPU_FEATURES=(--features eyelet-planner/cuda)

SECTIONS=(
    "lints        format, clippy with every set of features, fuzz targets"
    "host         all tests of the library and the planner; GPU kernels on a driver that runs them on the processor"
    "boards       plans and runs with this machine described as other boards"
    "gpu          GPU kernels by the compilers of every board; the driver as it is linked into firmware"
    "bare         bare metal without an allocator; 32-bit ARM compiles"
    "miri         undefined behaviour: tests in Miri, where a nightly toolchain has it"
    "bits32       32-bit x86: operators, arena, pack and executor"
    "arm          64-bit ARM Linux under emulation: unit tests, kernel loops, the host's outputs bit for bit"
    "c            programs in C, for this machine and for ARM under emulation"
    "scripts      scripts that measure GPUs and plans"
    "onnxruntime  outputs next to onnxruntime's"
)

# Crates outside the workspace build with the versions that the workspace is tested with.
with_locked_versions() { cp Cargo.lock "$1/Cargo.lock"; }

# Without the compiler for GPUs the library builds, but has no kernels for them.
gpu_compiler() { tools/cuda.sh; }

fake_driver() {
    command -v "${CXX:-g++}" >/dev/null || tools/apt.sh g++
    tools/fake-cuda.sh
}

section_lints() {
    rustup component add rustfmt clippy >/dev/null 2>&1 || true
    cargo fmt --all --check
    local manifest
    for manifest in fuzz tests/firmware c; do
        with_locked_versions $manifest
        cargo fmt --manifest-path $manifest/Cargo.toml --check
    done
    gpu_compiler
    cargo clippy --workspace --all-targets -- -D warnings
    cargo clippy --workspace --all-targets "${GPU_FEATURES[@]}" -- -D warnings
    cargo clippy -p eyelet --no-default-features -- -D warnings
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
}

section_boards() {
    local board
    for board in host-avx512 portable; do # the section `host` has run with host-avx2
        if [ $board = portable ] || grep -qw avx512f /proc/cpuinfo; then
            EYELET_HOST_BOARD=$board \
                cargo test -p eyelet-planner "${GPU_FEATURES[@]}" --test budgets
        fi
    done
}

section_gpu() {
    gpu_compiler
    tools/cuda_check.py
    local driver
    driver=$(fake_driver)
    LD_LIBRARY_PATH=$driver EYELET_CUDA_ARCHS=53 \
        cargo test -p eyelet --features cuda-linked --lib device::cuda
}

section_bare() {
    tools/cross.sh bare build --no-default-features -p eyelet
    with_locked_versions tests/firmware
    CARGO_TARGET_AARCH64_UNKNOWN_NONE_RUSTFLAGS="-Clink-arg=--defsym=PACK=0x40000000" \
        tools/cross.sh bare build --release --manifest-path tests/firmware/Cargo.toml
    tools/cross.sh bare32 check --no-default-features -p eyelet
    tools/cross.sh linux32 check -p eyelet
}

section_miri() { tools/miri.sh; }

section_bits32() {
    if ! rustup target add i686-unknown-linux-gnu >/dev/null 2>&1 || ! tools/apt.sh gcc-multilib; then
        echo "no standard library or no C library for 32 bits: not tested"
        return
    fi
    # Kernels are the portable ones, with fused multiply-adds in software: no thousands of layers.
    cargo test -p eyelet --lib --target i686-unknown-linux-gnu -- \
        ops::extremes ops::tests arena:: pack:: executor::
}

section_arm() {
    tools/cross.sh linux test -p eyelet
    local cpu
    for cpu in cortex-a53 cortex-a72; do
        QEMU_CPU=$cpu tools/cross.sh linux test -p eyelet --lib -- kernels::table::midr
    done
    tools/arm_gate.py
    gpu_compiler
    EYELET_CUDA_ARCHS=87 tools/cross.sh linux check -p eyelet --features cuda
    EYELET_CUDA_ARCHS=87 tools/cross.sh linux check -p eyelet --features cuda-linked
    tools/cross.sh linux build --release -p eyelet-planner --bin eyelet
    # The two commands differ in architecture and optimisation, too.
    EYELET_HOST=$(host_command) tests/arm.sh
}

section_c() {
    EYELET_HOST=$(host_command) tests/c.sh
}

section_scripts() {
    if ! python3 -c 'import tomllib' 2>/dev/null; then
        echo "no python3 of 3.11 or later: not tested"
        return
    fi
    local benches
    for benches in benches/gpu benches/plans; do
        python3 -m unittest discover -s "$benches" -p 'test_*.py'
    done
}

section_onnxruntime() {
    local python=python3
    if ! python3 -c 'import numpy, onnx, onnxruntime' 2>/dev/null; then
        python=target/onnxruntime/bin/python
        if ! $python -c 'import numpy, onnx, onnxruntime' 2>/dev/null &&
            ! { timeout 60 python3 -m venv target/onnxruntime &&
                timeout 300 $python -m pip install -q --disable-pip-version-check onnx onnxruntime; }; then
            echo "onnxruntime could not be installed: not compared"
            return
        fi
    fi
    local command
    command=$(host_command)
    $python tests/onnxruntime_check.py --eyelet "$command"
    $python tests/fold_check.py --eyelet "$command"
}

# The command of this machine, as the section `host` has built it.
host_command() {
    if [ ! -x target/debug/eyelet ]; then
        gpu_compiler >&2
        cargo build --quiet -p eyelet-planner --bin eyelet "${GPU_FEATURES[@]}" >&2
    fi
    echo target/debug/eyelet
}

names=()
for section in "${SECTIONS[@]}"; do names+=("${section%% *}"); done
chosen=()
for argument in "$@"; do
    case " ${names[*]} --list " in
        *" $argument "*) ;;
        *)
            echo "tools/test.sh: no section $argument; there are: ${names[*]}" >&2
            exit 2
            ;;
    esac
    if [ "$argument" = --list ]; then
        printf '%s\n' "${SECTIONS[@]}"
        exit
    fi
    chosen+=("$argument")
done
[ ${#chosen[@]} -gt 0 ] || chosen=("${names[@]}")

times=()
for name in "${chosen[@]}"; do
    printf '\n== %s\n' "$name"
    started=$SECONDS
    "section_$name"
    times+=("$(printf '%5d s  %s' $((SECONDS - started)) "$name")")
done
printf '\n'
printf '%s\n' "${times[@]}"
echo "all tests passed in $SECONDS s"
