#!/usr/bin/env bash
# Installs the peers under target/peers (or $1) and builds eyelet; with `onnxruntime` as $2 that is the only peer. Nothing
# outside of that is touched. A peer that cannot be had is said and left out; without Python's venv, numpy or eyelet
# there is no run. Packs are planned by the command, and run by the leanest program there is, `examples/c/run.c`.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(realpath -m "${1:-target/peers}")
only=${2:-}
mkdir -p "$work"

cargo build --release --package eyelet-planner --bin eyelet
[ -n "$only" ] || cargo bench --quiet --no-run --bench kernels
if command -v musl-gcc >/dev/null; then
    tools/c.sh musl "$work/c"
else
    echo "peers: no musl, so that eyelet is measured with the system's C library, which takes more memory" >&2
    tools/c.sh gnu "$work/c"
fi

# The stamp is made of what was asked for, so that a changed pin is installed. What one peer needs is a part of all.
wanted="$work/venv.txt"
grep -v '^#' benches/peers/requirements.txt |
    { [ -n "$only" ] && grep -E "^(numpy|flatbuffers|protobuf|packaging|$only)==" || cat; } >"$wanted"
stamp="$work/venv/.installed"
if ! [ -f "$stamp" ] || grep -vxFf "$stamp" "$wanted" >/dev/null; then
    [ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
    while read -r package; do
        # Wheels only: a source package would run its own build here.
        "$work/venv/bin/pip" install --quiet --no-deps --only-binary :all: \
            --disable-pip-version-check "$package" </dev/null ||
            echo "peers: $package cannot be installed and is left out" >&2
    done <"$wanted"
    "$work/venv/bin/python" -c 'import numpy'
    cp "$wanted" "$stamp"
fi
[ -z "$only" ] || exit 0

for peer in tract rten; do
    CARGO_TARGET_DIR="$work/rust" cargo build --release --locked \
        --manifest-path benches/peers/rust/Cargo.toml --package "peer-$peer" ||
        echo "peers: $peer cannot be built and is left out" >&2
done
