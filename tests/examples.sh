#!/usr/bin/env bash
# The programs in `examples/` run, with packs and pictures as their first lines say. Called by tools/test.sh, which has
# built the command and them.
set -euo pipefail
cd "$(dirname "$0")/.."

eyelet=$PWD/${EYELET_HOST:-target/debug/eyelet}
examples=$PWD/target/debug/examples
mkdir -p target/examples
work=$(mktemp -d target/examples/test.XXXXXX)
trap 'rm -rf "$work"' EXIT
digits=$PWD/tests/data/digits/digits.onnx
cd "$work"
# Tests plan for a named board, whatever this machine is.
export EYELET_HOST_BOARD=portable

expect() { # text, output
    if [[ "$2" != *"$1"* ]]; then
        echo "FAIL: \`$1\` is not in: $2" >&2
        exit 1
    fi
}

"$eyelet" zoo squeezenet1_1 -o net.onnx --json >/dev/null
"$eyelet" plan net.onnx --budget 3MiB 6MiB --threads 2 --effort fast --exact -o net.pack --json >/dev/null
"$eyelet" plan "$digits" --budget 64KiB -o a.pack --json >/dev/null
# Two frames that differ, one of them larger than the input.
python3 - <<'PYTHON'
for name, width, height, of in [("1.ppm", 320, 240, lambda at: at % 251), ("2.ppm", 96, 96, lambda at: at * 7 % 256)]:
    with open(name, "wb") as file:
        file.write(b"P6\n%d %d\n255\n" % (width, height) + bytes(of(at) for at in range(3 * width * height)))
PYTHON

found=$("$examples/classify" net.pack 6291456 1.ppm)
expect " %  " "$found"
best=$(sed -n '1s/.* %  \([0-9]*\).*/\1/p' <<<"$found")
frames=$(cat 1.ppm 2.ppm 1.ppm | "$examples/camera" net.pack 3145728)
expect "frame 1: class $best, " "$frames"
expect "frame 3: class $best, " "$frames"
expect "3 frames" "$frames"

found=$("$examples/linux" net.pack 3145728 6291456)
expect "budget 6291456: " "$found"
cp net.pack other.pack
found=$("$examples/two_networks" net.pack other.pack 3145728 6291456)
expect "other.pack has more memory" "$found"
# Every inference of the same inputs, whatever the budgets.
if [ "$(grep -c 'first output' <<<"$found")" != 4 ] || [ "$(sed -n 's/.*first output //p' <<<"$found" | uniq | wc -l)" != 1 ]; then
    echo "FAIL: outputs differ: $found" >&2
    exit 1
fi

expect "steps, outputs [" "$("$examples/own_storage" a.pack)"
cp a.pack b.pack
# The last page has weights.
printf 'damage' | dd of=a.pack bs=1 seek=$(($(stat -c %s a.pack) - 4096)) conv=notrunc status=none
expect "b.pack is good" "$("$examples/slots" a.pack b.pack 2>refused)"
expect "a.pack is not used: " "$(cat refused)"
echo "all examples ran"
