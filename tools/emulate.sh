#!/usr/bin/env bash
# Runs the command as built for 64-bit ARM Linux, in an emulator of the processor. Results and memory are a board's, speed
# is not.
#
#   tools/emulate.sh run model.pack --io buffered
#   QEMU_CPU=cortex-a53 tools/emulate.sh run model.pack --io buffered     a processor that executes in order
#
# EYELET_ARM names a command that is already built. Otherwise it is built, static, by `tools/cross.sh musl`.
set -euo pipefail
root=$(cd -P "$(dirname "$0")/.." && pwd)

command=${EYELET_ARM:-}
if [ -z "$command" ]; then
    "$root/tools/cross.sh" musl build --quiet --release -p eyelet-planner --bin eyelet
    command=$root/target/cross/aarch64-unknown-linux-musl/release/eyelet
fi
command -v qemu-aarch64-static >/dev/null || "$root/tools/apt.sh" qemu-user-static
exec qemu-aarch64-static "$command" "$@"
