#!/usr/bin/env bash
# All tests: style, host, 64-bit ARM under emulation, bare metal. Installs what they need.
set -euo pipefail
cd "$(dirname "$0")/.."

section() { printf '\n== %s (%s s)\n' "$1" "$SECONDS"; }

section "format and lints"
rustup component add rustfmt clippy >/dev/null 2>&1 || true
cargo fmt --check
cargo clippy --workspace --all-targets -- -D warnings

section "bare metal: core only, no allocator"
tools/cross.sh bare build --no-default-features -p eyelet
CARGO_TARGET_AARCH64_UNKNOWN_NONE_RUSTFLAGS="-Clink-arg=--defsym=PACK=0x40000000" \
    tools/cross.sh bare build --manifest-path tests/firmware/Cargo.toml

section "fuzz targets build"
cargo check --manifest-path fuzz/Cargo.toml

section "host"
cargo test --workspace

section "64-bit ARM Linux, under emulation"
tools/cross.sh linux test -p eyelet
tools/cross.sh linux build --release -p eyelet-planner --bin eyelet
tests/arm.sh

section "done"
