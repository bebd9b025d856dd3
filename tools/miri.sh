#!/usr/bin/env bash
# Runs tests in Miri, an interpreter that finds undefined behaviour: by the rules of Stacked Borrows and of Tree Borrows, for 64 bits and
# for 32. It has no C, so that kernels are the portable ones, and no files.
#
#   tools/miri.sh          Stacked Borrows, for 64 bits
#   tools/miri.sh --all    for 32 bits, and by Tree Borrows, too, which takes much longer
#
# It says that it skips where there is no nightly toolchain with Miri:
#
#   rustup toolchain install nightly --component miri,rust-src
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "tools/miri.sh: skipped: no cargo +nightly miri"
    exit 0
fi
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/miri
# No kernels in C: nobody would call them.
export CC=false
if ! cargo +nightly miri setup >/dev/null 2>&1; then
    echo "tools/miri.sh: skipped: Miri's standard library could not be built (rustup component add rust-src --toolchain nightly)"
    exit 0
fi

run() { # target, flags, tests
    # Pools of threads live as long as the tests.
    MIRIFLAGS="-Zmiri-ignore-leaks $2" cargo +nightly miri test -q -p eyelet --lib --target "$1" -- "${@:3}"
}
host=$(rustc -vV | sed -n 's/^host: //p')
# What is interpreted in seconds: no files, no thousands of rounds. The executor's tests open, prove and run a pack.
executor=(executor::tests set::tests)
small=(matrix arena::memory arena::chunked device::tests device::handoff::tests::put device::threads::tests::a_panic
    device::threads::tests::both storage::memory storage::in_flight storage::faulty
    executor::change::residents::tests::{in_order,loads_are,neighbours,a_circle})
run "$host" "" "${small[@]}" "${executor[@]}"
if [ "${1:-}" = --all ]; then
    run i686-unknown-linux-gnu "" "${small[@]}"
    run "$host" -Zmiri-tree-borrows "${small[@]}" "${executor[@]}"
    run i686-unknown-linux-gnu -Zmiri-tree-borrows "${small[@]}" "${executor[@]}"
fi
