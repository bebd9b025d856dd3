#!/usr/bin/env bash
# The result on the host is the result on the board: digits and squeezenet1_1, planned for a NEON board, run
# by the 64-bit ARM build under emulation, must give the host's outputs bit for bit. Mostly by the direct algorithm,
# whatever the host's kernels; and by Winograd's, where the host has plans as the board's, run in plain Rust.
# Called by tools/test.sh, which has built the host's command, and the program in C that runs packs on ARM.
#
#   tests/arm.sh          what needs other code on ARM
#   tests/arm.sh --all    more budgets and encodings, and the command itself built for ARM
set -euo pipefail
cd "$(dirname "$0")/.."

host=${EYELET_HOST:-target/release/eyelet}
arm=target/c/arm/run
all=
[ "${1:-}" != --all ] || all=1
emulator=qemu-aarch64-static
[ -e /lib/ld-linux-aarch64.so.1 ] ||
    emulator="$emulator -E LD_LIBRARY_PATH=/usr/aarch64-linux-gnu/lib -L /usr/aarch64-linux-gnu"
work=$(mktemp -d target/arm-test.XXXXXX)
trap 'rm -rf "$work"' EXIT

digest() { sed -n 's/.*"output_digest": *"\([0-9a-f]*\)".*/\1/p'; }

board=boards/raspberry-pi-4/board.toml
# The board, changed by a script for sed, and its copy with portable kernels.
boards() {
    sed "$1" "$board" >"$work/neon.toml"
    sed 's/^isa = .*/isa = "portable"/' "$work/neon.toml" >"$work/portable.toml"
}
boards ""

# Layers by Winograd's algorithm: with weights transformed before, and with weights that steps transform.
winograd() { sed -n 's/.*"winograd_layers":\([0-9]*\).*"transformed_layers":\([0-9]*\).*/\1 and \2/p'; }

failed=0 before=0 by_steps=0
compare() { # name model budget threads [options of plan]
    local name=$1 model=$2 budget=$3 threads=$4
    shift 4
    "$host" plan "$model" --exact "$@" --budget "$budget" -o "$work/host.pack" --json >/dev/null
    "$host" plan "$model" --exact "$@" --budget "$budget" --board "$board" --threads 4 \
        -o "$work/arm.pack" --json >/dev/null
    run_both "$name" "$budget" "$threads"
}
compare_winograd() { # likewise
    local name=$1 model=$2 budget=$3 threads=$4 here there
    shift 4
    here=$("$host" plan "$model" "$@" --budget "$budget" --board "$work/portable.toml" --threads 4 \
        -o "$work/host.pack" --json | winograd)
    there=$("$host" plan "$model" "$@" --budget "$budget" --board "$work/neon.toml" --threads 4 \
        -o "$work/arm.pack" --json | winograd)
    if [ -z "$here" ] || [ "$here" != "$there" ]; then
        echo "FAIL $name in $budget: ${here:-no} layers by Winograd's algorithm on the host, ${there:-no} on ARM"
        failed=1
    fi
    here=${here:-0 and 0}
    before=$((before + ${here% and *})) by_steps=$((by_steps + ${here#* and }))
    run_both "$name, $here layers by Winograd's algorithm," "$budget" "$threads"
}
run_both() { # name budget threads
    local name=$1 budget=$2 threads=$3 expected found
    expected=$("$host" run "$work/host.pack" --io buffered --json | digest)
    # $emulator is a command with arguments.
    found=$(timeout 600 $emulator "$arm" "$work/arm.pack" --io buffered --threads "$threads" | digest)
    if [ -n "$expected" ] && [ "$expected" = "$found" ]; then
        echo "ok   $name in $budget, $threads threads on ARM: $found"
    else
        echo "FAIL $name in $budget, $threads threads on ARM: ${found:-no digest}, host: ${expected:-no digest}"
        failed=1
    fi
}

"$host" zoo squeezenet1_1 -o "$work/squeezenet1_1.onnx" --json >/dev/null
compare digits tests/data/digits/digits.onnx 256KiB 1
compare digits tests/data/digits/digits.onnx 1MiB 2
compare squeezenet1_1 "$work/squeezenet1_1.onnx" 6MiB 1
[ -z "$all" ] || compare squeezenet1_1 "$work/squeezenet1_1.onnx" 12MiB 2
# Less than the largest layer's input and output: convolutions and poolings slide, in rings of lines.
compare "squeezenet1_1 in rings" "$work/squeezenet1_1.onnx" 2MiB 2
for weights in fp16 ${all:+bf16}; do
    compare "squeezenet1_1 in $weights" "$work/squeezenet1_1.onnx" 4MiB 2 --weights "$weights"
done
compare_winograd squeezenet1_1 "$work/squeezenet1_1.onnx" 24MiB 2
# In less memory than transformed weights take, and by a board that transforms them in no time: on a real one few layers
# are worth it, and not the same with other kernels.
boards 's/^transform_weights_gbs = .*/transform_weights_gbs = 50/'
compare_winograd "squeezenet1_1 in fp16" "$work/squeezenet1_1.onnx" 4MiB 2 --weights fp16
# With the kernels for processors that execute in order.
export QEMU_CPU=cortex-a53
[ -z "$all" ] || compare "squeezenet1_1 on a Cortex-A53" "$work/squeezenet1_1.onnx" 6MiB 1
compare_winograd "squeezenet1_1 in fp16 on a Cortex-A53" "$work/squeezenet1_1.onnx" 24MiB 1 --weights fp16
unset QEMU_CPU
if [ -n "$all" ]; then
    tools/cross.sh linux build -p eyelet-planner --bin eyelet
    # The newest, if there are several.
    command=$(ls -t target/cross*/aarch64-unknown-linux-gnu/debug/eyelet | head -n 1)
    expected=$($emulator "$arm" "$work/arm.pack" --io buffered --threads 1 | digest)
    found=$($emulator "$command" run "$work/arm.pack" --io buffered --threads 1 --json | digest)
    if [ -z "$expected" ] || [ "$expected" != "$found" ]; then
        echo "FAIL the command on ARM: ${found:-no digest}, the program in C: ${expected:-no digest}"
        failed=1
    fi
    refusal=$($emulator "$command" run "$work/arm.pack" --io buffered --device cuda 2>&1 || true)
    if [[ "$refusal" != *"this eyelet was built without CUDA: build it with --features cuda"* ]]; then
        echo "FAIL run --device cuda without CUDA: $refusal"
        failed=1
    fi
fi
if [ "$before" = 0 ] || [ "$by_steps" = 0 ]; then
    echo "FAIL Winograd's weights are transformed before in $before layers, by steps in $by_steps: both are to be tested"
    failed=1
fi
exit $failed
