#!/usr/bin/env bash
# Runs cargo for a target other than this machine's, installing what that needs.
#
#   tools/cross.sh linux test -p eyelet               64-bit ARM Linux, run under qemu-user
#   tools/cross.sh musl build --release -p eyelet-planner --bin eyelet       static: runs on any 64-bit ARM Linux
#   tools/cross.sh musl build --profile board -p eyelet-profile              measures boards: static, and small
#   tools/cross.sh musl-x86 build --release -p eyelet-planner --bin eyelet   likewise, for any x86-64 Linux
#   tools/cross.sh bare build --no-default-features   64-bit ARM without an operating system
#   tools/cross.sh linux32 check -p eyelet            32-bit ARM Linux; `check` only, with rustup only
#   tools/cross.sh bare32 build --no-default-features 32-bit ARM without an operating system
#   tools/cross.sh thumb build --no-default-features  Cortex-M33 and later
#
# The standard library of the target comes from rustup; where rustup cannot fetch it (or with
# CROSS_FROM=debian), from Debian's packages, whose compiler is another version and so gets a target
# directory of its own. CROSS_TARGET_DIR names another one than target/cross.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

usage() {
    echo "usage: tools/cross.sh linux|musl|musl-x86|bare|linux32|bare32|thumb CARGO-ARGUMENTS" >&2
    exit 2
}
[ $# -ge 2 ] || usage
case "$1" in
    linux) target=aarch64-unknown-linux-gnu ;;
    musl) target=aarch64-unknown-linux-musl ;;
    musl-x86) target=x86_64-unknown-linux-musl ;;
    bare) target=aarch64-unknown-none ;;
    linux32) target=armv7-unknown-linux-gnueabihf ;;
    bare32) target=armv7a-none-eabi ;;
    thumb) target=thumbv8m.main-none-eabihf ;;
    *) usage ;;
esac
kind=$1
subcommand=$2
shift 2

# Wherever they come from, these two are enough with rustup. No kernels are compiled for 32 bits.
[[ "$kind" == *32 || "$kind" = thumb || "$kind" = musl-x86 ]] || command -v aarch64-linux-gnu-gcc >/dev/null || tools/apt.sh gcc-aarch64-linux-gnu libc6-dev-arm64-cross
if [[ "$kind $subcommand" =~ ^linux\ (test|run|bench)$ ]]; then
    command -v qemu-aarch64-static >/dev/null || tools/apt.sh qemu-user-static
fi

# Whether rustup has the target, or fetches it. A failure is remembered: it can take its whole timeout.
failed=target/cross-debian/no-rustup-$target
from_rustup() {
    [ "${CROSS_FROM:-}" != debian ] && [ ! -e "$failed" ] && command -v rustup >/dev/null || return 1
    rustup target list --installed 2>/dev/null | grep -qx "$target" && return
    timeout 120 rustup target add "$target" >/dev/null 2>&1 && return
    mkdir -p "$(dirname "$failed")"
    touch "$failed"
    return 1
}

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
# The kernels need headers of the compiler's own only; Rust brings musl and a linker.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
export CC_x86_64_unknown_linux_musl=${CC_x86_64_unknown_linux_musl:-cc}
export CC_aarch64_unknown_linux_musl=${CC_aarch64_unknown_linux_musl:-aarch64-linux-gnu-gcc}
export CC_aarch64_unknown_none=${CC_aarch64_unknown_none:-aarch64-linux-gnu-gcc}
flags=(--target "$target")
if from_rustup; then
    cargo=cargo
    flags+=(--target-dir "${CROSS_TARGET_DIR:-$root/target/cross}")
elif [[ "$kind" == musl* ]]; then
    echo "tools/cross.sh: rustup cannot fetch $target, and Debian does not have it" >&2
    exit 1
elif [ "$kind" = linux32 ]; then
    echo "tools/cross.sh: rustup cannot fetch $target: not checked" >&2
    exit 0
else
    tools/apt.sh rustc-web cargo-web
    RUSTC=$(dpkg -L rustc-web | grep 'bin/rustc$')
    cargo=$(dpkg -L cargo-web | grep '^/usr/bin/cargo')
    export RUSTC
    flags+=(--target-dir "$root/target/cross-debian")
    if [ "$kind" = linux ]; then
        tools/apt.sh libstd-rust-web-dev:arm64
    else
        tools=aarch64-linux-gnu
        [ "$kind" = bare ] || tools=arm-none-eabi
        tools/apt.sh rust-web-src "binutils-$tools"
        # The standard library is built from its source, which only an unstable option does.
        export RUSTC_BOOTSTRAP=1
        flags+=(-Zbuild-std=core)
        variable=CARGO_TARGET_$(tr 'a-z.-' 'A-Z__' <<<"$target")
        flags_of=${variable}_RUSTFLAGS
        export "${variable}_LINKER=$tools-ld" "$flags_of=-Clinker-flavor=ld ${!flags_of:-}"
    fi
fi
if [ "$kind" = linux ]; then
    runner=qemu-aarch64-static
    # With the target's own libc installed, the emulator must not be given a second one: the loader of
    # one with the library of the other hangs in the first pthread_create.
    [ -e /lib/ld-linux-aarch64.so.1 ] ||
        runner="$runner -E LD_LIBRARY_PATH=/usr/aarch64-linux-gnu/lib -L /usr/aarch64-linux-gnu"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$runner"
fi
exec "$cargo" "$subcommand" "${flags[@]}" "$@"
