#!/usr/bin/env bash
# All tests: style, host, GPU kernels, bare metal, 64-bit ARM Linux under emulation, agreement with onnxruntime.
#
# Needs Rust, python3 and a C compiler; installs what else it needs (a cross compiler, a C++ compiler, an emulator,
# models of processors and a browser by apt, a compiler for GPUs and onnxruntime by pip into target/). The budgets
# of the largest networks take minutes more:
#
#   cargo test --release -p eyelet-planner --test memory -- --ignored --nocapture
set -euo pipefail
cd "$(dirname "$0")/.."

# Most of this is building from nothing, where incremental compilation and debug information only cost time.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
export CARGO_PROFILE_DEV_DEBUG=${CARGO_PROFILE_DEV_DEBUG:-0}
export CARGO_PROFILE_TEST_DEBUG=${CARGO_PROFILE_TEST_DEBUG:-0}
export CARGO_PROFILE_RELEASE_DEBUG=${CARGO_PROFILE_RELEASE_DEBUG:-0}

times=()
name=""
section() { # what comes next
    [ -z "$name" ] || times+=("$(printf '%5d s  %s' $((SECONDS - started)) "$name")")
    name=$1
    started=$SECONDS
    [ -z "$name" ] || printf '\n== %s\n' "$name"
}

# Crates outside the workspace build with the versions that the workspace is tested with.
with_locked_versions() { cp Cargo.lock "$1/Cargo.lock"; }

section "format and lints"
rustup component add rustfmt clippy >/dev/null 2>&1 || true
cargo fmt --all --check
for manifest in fuzz tests/firmware; do
    with_locked_versions $manifest
    cargo fmt --manifest-path $manifest/Cargo.toml --check
done
cargo clippy --workspace --all-targets -- -D warnings
cargo clippy -p eyelet --no-default-features -- -D warnings

section "fuzz targets: lints"
# Without libFuzzer itself, which wants a C++ compiler.
cargo clippy --manifest-path fuzz/Cargo.toml --target-dir target --no-default-features -- -D warnings

section "host"
# Reports are opened in a browser.
if [ -z "${EYELET_BROWSER:-}" ]; then
    if ! command -v chromium >/dev/null && ! timeout 600 tools/apt.sh chromium; then
        echo "tools/test.sh: no chromium, in which reports are tested, and it could not be installed;" \
            "set EYELET_BROWSER to a Chromium that is there" >&2
        exit 1
    fi
    export EYELET_BROWSER=chromium
fi
cargo test --workspace

section "undefined behaviour: tests in Miri"
tools/miri.sh

section "plans and runs with the host described as other boards"
for board in host-avx512 portable; do # the tests above have run with host-avx2
    if [ $board = portable ] || grep -qw avx512f /proc/cpuinfo; then
        EYELET_HOST_BOARD=$board cargo test -p eyelet-planner --test budgets --test kept
    fi
done

section "GPU: kernels for every board, by their compilers"
tools/cuda.sh
tools/cuda_check.py
cargo clippy --workspace --all-targets --features eyelet/cuda -- -D warnings

section "GPU: kernels and driver, on a driver that runs them on the processor"
command -v "${CXX:-g++}" >/dev/null || tools/apt.sh g++
# That driver loads anything: one architecture is enough.
LD_LIBRARY_PATH=$(tools/fake-cuda.sh) EYELET_CUDA_ARCHS=53 cargo test -p eyelet --features cuda
LD_LIBRARY_PATH=$(tools/fake-cuda.sh) EYELET_CUDA_ARCHS=53 cargo test -p eyelet --features cuda-linked --lib device::cuda
LD_LIBRARY_PATH=$(tools/fake-cuda.sh) EYELET_CUDA_ARCHS=53 cargo test -p eyelet-planner --features cuda \
    --test gpu_cli --test gpu_hostile --test gpu_networks --test gpu_no_alloc

section "bare metal: core only, no allocator"
tools/cross.sh bare build --no-default-features -p eyelet
CARGO_TARGET_AARCH64_UNKNOWN_NONE_RUSTFLAGS="-Clink-arg=--defsym=PACK=0x40000000" \
    tools/cross.sh bare build --release --manifest-path tests/firmware/Cargo.toml

section "32-bit ARM: it compiles, with and without Linux"
tools/cross.sh bare32 check --no-default-features -p eyelet
tools/cross.sh linux32 check -p eyelet

section "32-bit x86: operators, kernels, arena, pack and executor"
if rustup target add i686-unknown-linux-gnu >/dev/null 2>&1 && tools/apt.sh gcc-multilib; then
    # Kernels are the portable ones, with fused multiply-adds in software: no thousands of layers.
    cargo test -p eyelet --lib --target i686-unknown-linux-gnu -- ops::extremes ops::tests arena:: pack:: executor::
else
    echo "no standard library or no C library for 32 bits: not tested"
fi

section "64-bit ARM Linux: with a GPU"
EYELET_CUDA_ARCHS=87 tools/cross.sh linux build -p eyelet --features cuda
EYELET_CUDA_ARCHS=87 tools/cross.sh linux build -p eyelet --features cuda-linked

section "64-bit ARM Linux, under emulation: unit tests"
tools/cross.sh linux test -p eyelet
for cpu in cortex-a53 cortex-a72; do
    QEMU_CPU=$cpu tools/cross.sh linux test -p eyelet --lib -- kernels::table::midr
done

section "ARM cores: the kernels' main loops in models of them"
tools/arm_gate.py

section "64-bit ARM Linux, under emulation: the host's outputs, bit for bit"
tools/cross.sh linux build --release -p eyelet-planner --bin eyelet
# `cargo test` has built the host's command: the two differ in architecture and optimisation, too.
EYELET_HOST=target/debug/eyelet tests/arm.sh

section "programs in C: for this machine, and for ARM under emulation"
with_locked_versions c
cargo fmt --manifest-path c/Cargo.toml --check
EYELET_HOST=target/debug/eyelet tests/c.sh

section "what measures GPUs, and plans"
if python3 -c 'import tomllib' 2>/dev/null; then
    for benches in benches/gpu benches/plans; do
        python3 -m unittest discover -s "$benches" -p 'test_*.py'
    done
else
    echo "no python3 of 3.11 or later: not tested"
fi

section "onnxruntime"
python=python3
if ! command -v python3 >/dev/null; then
    python=""
elif ! python3 -c 'import numpy, onnx, onnxruntime' 2>/dev/null; then
    python=target/onnxruntime/bin/python
    if ! $python -c 'import numpy, onnx, onnxruntime' 2>/dev/null; then
        (timeout 60 python3 -m venv target/onnxruntime &&
            timeout 300 $python -m pip install -q --disable-pip-version-check onnx onnxruntime) || python=""
    fi
fi
if [ -n "$python" ]; then
    $python tests/fold_check.py --eyelet target/debug/eyelet
    $python tests/onnxruntime_check.py --eyelet target/debug/eyelet
else
    echo "onnxruntime could not be installed: not compared"
fi

section ""
printf '\n'
printf '%s\n' "${times[@]}"
echo "all tests passed in $SECONDS s"
