#!/usr/bin/env bash
# Runs cargo for a target other than this machine's, installing what that needs.
#
#   tools/cross.sh linux test -p eyelet            64-bit ARM Linux, run under qemu-user
#   tools/cross.sh bare build --no-default-features   64-bit ARM without an operating system
#
# The standard library of the target comes from rustup; where rustup cannot fetch it, from Debian's
# packages, whose compiler is another version and so gets a target directory of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

kind=$1
shift
case "$kind" in
    linux) target=aarch64-unknown-linux-gnu ;;
    bare) target=aarch64-unknown-none ;;
    *) echo "usage: tools/cross.sh linux|bare CARGO-ARGUMENTS" >&2; exit 2 ;;
esac

apt_install() {
    local missing=()
    for package in "$@"; do
        dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    local sudo=""
    [ "$(id -u)" -eq 0 ] || sudo=sudo
    if [[ "${missing[*]}" == *:arm64* ]]; then
        $sudo dpkg --add-architecture arm64
    fi
    $sudo apt-get update -qq
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${missing[@]}" >/dev/null
}

packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
[ "$kind" = linux ] && packages+=(qemu-user-static)
apt_install "${packages[@]}"

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CC_aarch64_unknown_none=aarch64-linux-gnu-gcc
flags=(--target "$target" --target-dir target/cross)
if timeout 120 rustup target add "$target" >/dev/null 2>&1; then
    cargo=cargo
    # libc comes from the cross compiler's tree.
    runner="qemu-aarch64-static -E LD_LIBRARY_PATH=/usr/aarch64-linux-gnu/lib -L /usr/aarch64-linux-gnu"
else
    apt_install rustc-web cargo-web
    RUSTC=$(dpkg -L rustc-web | grep 'bin/rustc$')
    cargo=$(dpkg -L cargo-web | grep '^/usr/bin/cargo')
    export RUSTC
    flags=(--target "$target" --target-dir target/cross-debian)
    if [ "$kind" = linux ]; then
        apt_install libstd-rust-web-dev:arm64
        runner="qemu-aarch64-static"
    else
        apt_install rust-web-src binutils-aarch64-linux-gnu
        export RUSTC_BOOTSTRAP=1
        flags+=(-Zbuild-std=core)
        export CARGO_TARGET_AARCH64_UNKNOWN_NONE_LINKER=aarch64-linux-gnu-ld
        export CARGO_TARGET_AARCH64_UNKNOWN_NONE_RUSTFLAGS="-Clinker-flavor=ld ${CARGO_TARGET_AARCH64_UNKNOWN_NONE_RUSTFLAGS:-}"
    fi
fi
# With the target's own libc installed, qemu must not be given a second one.
if [ "$kind" = linux ]; then
    [ -e /lib/ld-linux-aarch64.so.1 ] && runner="qemu-aarch64-static"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$runner"
fi

subcommand=$1
shift
exec "$cargo" "$subcommand" "${flags[@]}" "$@"
