#!/usr/bin/env bash
# The three commands of docs/pytorch.md, as they stand there: the board's digest must be the host's. Where PyTorch is
# missing, or its weights cannot be fetched, the same network with random weights takes the place of the first command.
#
#   EYELET_HOST=target/debug/eyelet EYELET_ARM=… tests/pytorch.sh
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(realpath "${EYELET_HOST:-target/debug/eyelet}")
EYELET_ARM=$(realpath "$EYELET_ARM")
export EYELET_ARM
mkdir -p target/pytorch/bin
ln -sf "$host" target/pytorch/bin/eyelet
PATH=$PWD/target/pytorch/bin:$PATH
work=$(mktemp -d target/pytorch/test.XXXXXX)
trap 'rm -rf "$work"' EXIT

mapfile -t commands < <(sed -n '/^## The three commands/,/^## Your own/p' docs/pytorch.md |
    sed -n '/^```sh/,/^```$/p' | grep -v '^```')
if [ ${#commands[@]} != 3 ]; then
    echo "docs/pytorch.md has ${#commands[@]} commands, not 3" >&2
    exit 1
fi
ln -s "$PWD/tools" "$work/tools"
cd "$work"

digest() { sed -n 's/.*"output_digest": *"\([0-9a-f]*\)".*/\1/p'; }

if python3 -c 'import torch, torchvision' 2>/dev/null && bash -c "${commands[0]}" >export.log 2>&1; then
    echo "exported from PyTorch"
else
    echo "no PyTorch, or no weights: random ones"
    eyelet zoo squeezenet1_1 -o squeezenet1_1.onnx --json >/dev/null
fi
bash -c "${commands[1]}"
board=$(bash -c "${commands[2]} --json" | digest)
eyelet plan squeezenet1_1.onnx --board portable --budget 24MiB --exact -o host.pack --json >/dev/null
host=$(eyelet run host.pack --io buffered --json | digest)
if [ -z "$host" ] || [ "$board" != "$host" ]; then
    echo "FAIL: the digest under emulation is ${board:-none}, the host's is ${host:-none}" >&2
    exit 1
fi
echo "ok   $host on both"
