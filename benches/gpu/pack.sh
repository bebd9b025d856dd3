#!/usr/bin/env bash
# Builds a folder that measures a GPU on a machine which has one, but neither Rust nor a network: the command, the
# bench, the tests of what runs on a GPU, and the kernels for its architecture. `benches/gpu/run.sh` is told of it.
#
#   benches/gpu/pack.sh [FOLDER]          default: target/gpu-bench
#
# EYELET_CUDA_ARCHS chooses the architecture (default 90). Networks and packs are made on that machine.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=${1:-target/gpu-bench}
limit=$((60 << 20))
export EYELET_CUDA_ARCHS=${EYELET_CUDA_ARCHS:-90}
features=(--features cuda)

rm -rf "$folder"
mkdir -p "$folder/tests"

# What cargo has built: pairs of name and path, of the targets of a kind.
built() {
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable"):
        print(message["target"]["name"], message["executable"])'
}
copy() { # from, to: without debug information
    strip -o "$2" "$1"
    chmod +x "$2"
}

cargo build --release -p eyelet-planner "${features[@]}" --message-format=json-render-diagnostics | built |
    while read -r name path; do [ "$name" != eyelet ] || copy "$path" "$folder/eyelet"; done
cargo build --release -p eyelet --bench gpu "${features[@]}" --message-format=json-render-diagnostics | built |
    while read -r name path; do [ "$name" != gpu ] || copy "$path" "$folder/bench"; done
# Optimised: a GPU's tests compare with the portable kernels on the processor.
{
    cargo test --release --no-run -p eyelet --lib --test chunks "${features[@]}" --message-format=json-render-diagnostics
    cargo test --release --no-run -p eyelet-planner --test gpu --test gpu_no_alloc "${features[@]}" \
        --message-format=json-render-diagnostics
} | built | while read -r name path; do
    # Building tests builds the command, too; the library's own tests have its name.
    case $path in
    */deps/eyelet-*) copy "$path" "$folder/tests/kernels" ;;
    */deps/*) copy "$path" "$folder/tests/$name" ;;
    esac
done
pwd >"$folder/root"
git describe --always --dirty >"$folder/version" 2>/dev/null || echo unknown >"$folder/version"

for file in eyelet bench tests/kernels; do
    [ -x "$folder/$file" ] || { echo "pack.sh: $folder/$file was not built" >&2; exit 1; }
done
bytes=$(du -sb "$folder" | cut -f1)
echo "$folder: $((bytes >> 20)) MiB"
[ "$bytes" -le "$limit" ] || { echo "pack.sh: that is more than $((limit >> 20)) MiB" >&2; exit 1; }
