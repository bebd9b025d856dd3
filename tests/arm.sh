#!/usr/bin/env bash
# The result on the host is the result on the board: digits and squeezenet1_1, planned for a NEON board, run
# by the 64-bit ARM build under emulation, must give the host's outputs bit for bit.
# Called by tools/test.sh, which has built both commands.
set -euo pipefail
cd "$(dirname "$0")/.."

host=${EYELET_HOST:-target/release/eyelet}
# The newest, if there are several.
arm=${EYELET_ARM:-$(ls -t target/cross*/aarch64-unknown-linux-gnu/release/eyelet | head -n 1)}
emulator=qemu-aarch64-static
[ -e /lib/ld-linux-aarch64.so.1 ] ||
    emulator="$emulator -E LD_LIBRARY_PATH=/usr/aarch64-linux-gnu/lib -L /usr/aarch64-linux-gnu"
work=$(mktemp -d target/arm-test.XXXXXX)
trap 'rm -rf "$work"' EXIT

digest() { sed -n 's/.*"output_digest": *"\([0-9a-f]*\)".*/\1/p'; }

failed=0
compare() { # name model budget threads [options of plan]
    local name=$1 model=$2 budget=$3 threads=$4 expected found
    shift 4
    "$host" plan "$model" --exact "$@" --budget "$budget" -o "$work/host.pack" --json >/dev/null
    "$host" plan "$model" --exact "$@" --budget "$budget" --board raspberry-pi-4 --threads 4 \
        -o "$work/arm.pack" --json >/dev/null
    expected=$("$host" run "$work/host.pack" --io buffered --json | digest)
    # $emulator is a command with arguments.
    found=$(timeout 600 $emulator "$arm" run "$work/arm.pack" --io buffered --threads "$threads" --json |
        digest)
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
compare squeezenet1_1 "$work/squeezenet1_1.onnx" 12MiB 2
for weights in fp16 bf16; do
    compare "squeezenet1_1 in $weights" "$work/squeezenet1_1.onnx" 4MiB 2 --weights "$weights"
done
# With the kernels for processors that execute in order.
export QEMU_CPU=cortex-a53
compare "squeezenet1_1 on a Cortex-A53" "$work/squeezenet1_1.onnx" 6MiB 1
exit $failed
