#!/usr/bin/env bash
# Builds the Debian package: the static command, its manual, and what shells complete.
#
#   tools/deb.sh                   for this machine
#   tools/deb.sh arm64             for 64-bit ARM
#   tools/deb.sh amd64|arm64 --dev without optimisation, for tests
#
# The package is in target/deb. Installs cargo-deb into target/tools if cargo has none. EYELET_COMMAND names a
# command of this machine that is already built.
set -euo pipefail
cd "$(dirname "$0")/.."

architecture=${1:-$(dpkg --print-architecture)}
profile=release built=release quick=()
if [ "${2:-}" = --dev ]; then profile=dev built=debug quick=(--debug); fi
case $architecture in
    amd64) kind=musl-x86 target=x86_64-unknown-linux-musl ;;
    arm64) kind=musl target=aarch64-unknown-linux-musl ;;
    *)
        sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
        exit 2
        ;;
esac
export PATH=$PWD/target/tools/bin:$PATH
cargo deb --version >/dev/null 2>&1 ||
    cargo install --quiet --locked "${quick[@]}" --root target/tools cargo-deb

tools/cross.sh $kind build --quiet --profile $profile -p eyelet-planner --bin eyelet
command=target/cross/$target/$built/eyelet
# The manual comes from a command that this machine can run.
own=$command
if [ "$architecture" != "$(dpkg --print-architecture)" ]; then
    own=${EYELET_COMMAND:-target/debug/eyelet}
    [ -n "${EYELET_COMMAND:-}" ] || cargo build --quiet -p eyelet-planner --bin eyelet
fi
tools/share.sh "$own" target/share
# The package takes the command from where Cargo puts releases. There, one without optimisation is in nobody's way.
build=$PWD/target/deb/build
mkdir -p "$build/$target/release"
cp -f "$command" "$build/$target/release/eyelet"
CARGO_TARGET_DIR=$build cargo deb --quiet --no-build --no-strip -p eyelet-planner --target $target --output target/deb \
    >/dev/null
ls target/deb/eyelet_*_"$architecture".deb
