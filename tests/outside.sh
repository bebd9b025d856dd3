#!/usr/bin/env bash
# Crates outside of the workspace use the library: one on Linux and one without an operating system, both made by `cargo add`, and
# the firmware in `examples/cortex-m`, which is started in QEMU. EYELET_HOST names the command that makes the packs.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
host=$(realpath "${EYELET_HOST:-target/release/eyelet}")
digits=tests/data/digits/digits.onnx
# With other builds for other machines: what these need at build time is there already.
export CARGO_TARGET_DIR=$root/target/cross
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Makes a crate that has the library, with the versions that the workspace is tested with.
crate() { # kind name, options of cargo add
    local kind=$1 name=$2
    shift 2
    cargo init --quiet --vcs none "$kind" "$folder/$name"
    (cd "$folder/$name" && cargo add --quiet --path "$root" eyelet "$@")
    cp Cargo.lock "$folder/$name/"
}

found() { # what text pattern
    if ! grep -q "$3" <<<"$2"; then
        echo "FAIL $1: no line has $3: $2"
        exit 1
    fi
    echo "ok   $1"
}

"$host" plan "$digits" --budget 64KiB -o "$folder/digits.pack" --json >/dev/null
crate --bin hosted
cp examples/linux.rs "$folder/hosted/src/main.rs"
mkdir "$folder/hosted/src/bin"
cp examples/own_storage.rs "$folder/hosted/src/bin/"
cargo build --quiet --manifest-path "$folder/hosted/Cargo.toml"
cp "$folder/digits.pack" "$CARGO_TARGET_DIR/" # where files can be read past the page cache
found "cargo add, a pack by direct reads and threads" \
    "$("$CARGO_TARGET_DIR/debug/hosted" "$CARGO_TARGET_DIR/digits.pack" 65536)" "the first output is"
found "cargo add, a storage of one's own" "$("$CARGO_TARGET_DIR/debug/own_storage" "$folder/digits.pack")" "outputs \["

crate --lib bare --no-default-features
cat >"$folder/bare/src/lib.rs" <<'RUST'
#![no_std]
use eyelet::{arena::Arena, device::Inline, executor::{Instance, Options}, storage::Slice};

static ARENA: Arena<4096> = Arena::new();

pub fn first(pack: &'static [u8]) -> Option<f32> {
    let (mut storage, mut memory) = (Slice(pack), ARENA.take()?);
    let mut instance = Instance::open(&mut storage, memory.as_mut_slice(), Options::default()).ok()?;
    let mut model = instance.inline(&mut storage);
    model.infer(&Inline).ok()?;
    model.output(0).ok()?.first().copied()
}
RUST
for target in thumbv8m.main-none-eabihf aarch64-unknown-none; do
    rustup target add "$target" >/dev/null 2>&1 || { echo "no standard library for $target: not tested" && exit; }
    CC_aarch64_unknown_none=${CC_aarch64_unknown_none:-aarch64-linux-gnu-gcc} \
        cargo check --quiet --manifest-path "$folder/bare/Cargo.toml" --target "$target"
    echo "ok   cargo add --no-default-features for $target"
done

# As its own instructions say.
example=examples/cortex-m
cp Cargo.lock $example/
"$host" plan "$digits" --board $example/board.toml --budget 12KiB -o $example/digits.pack --json >/dev/null
found "cortex-m-rt: digits in QEMU" "$(cd $example && timeout 300 cargo run --quiet --release 2>&1)" "digit Some(1)"
"$host" sizes "$CARGO_TARGET_DIR/thumbv8m.main-none-eabihf/release/digits-cortex-m" --board $example/board.toml
