#!/usr/bin/env bash
# Builds the wheel for Python: the module `eyelet`, the command, its manual, and what shells complete.
#
#   tools/wheel.sh                 into target/wheels, as it is released
#   tools/wheel.sh --dev           without optimisation, for tests
#
# EYELET_COMMAND names a command that is already built. PYTHON is the interpreter [python3]. One wheel serves Python 3.9
# and later. The released command is static, so that it runs on every Linux.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
    "") profile=release ;;
    --dev) profile=dev ;;
    *)
        sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
        exit 2
        ;;
esac
command=${EYELET_COMMAND:-}
if [ -z "$command" ]; then
    if [ $profile = release ]; then
        kind=musl
        [ "$(uname -m)" = aarch64 ] || kind=musl-x86
        tools/cross.sh $kind build --quiet --release -p eyelet-planner --bin eyelet
        command=target/cross/$(uname -m)-unknown-linux-musl/release/eyelet
    else
        cargo build --quiet -p eyelet-planner --bin eyelet
        command=target/debug/eyelet
    fi
fi

maturin=target/wheel/tools/bin/maturin
if [ ! -x $maturin ]; then
    "${PYTHON:-python3}" -m venv target/wheel/tools
    target/wheel/tools/bin/pip install -q --disable-pip-version-check "maturin>=1.9,<2"
fi
rm -rf python/eyelet.data
tools/share.sh "$command" python/eyelet.data/data/share
mkdir -p python/eyelet.data/scripts
cp -f "$command" python/eyelet.data/scripts/eyelet

rm -f target/wheels/eyelet_planner-*.whl
# `python/Cargo.lock` has the versions: what only Python needs is not in the workspace's.
$maturin build --quiet --locked --manifest-path python/Cargo.toml --profile $profile --out target/wheels \
    --target-dir "$PWD/target/wheel/build"
ls target/wheels/eyelet_planner-*.whl
