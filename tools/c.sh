#!/usr/bin/env bash
# Builds the static library for programs in C, and the programs in `examples/c`.
#
#   tools/c.sh musl [FOLDER]       for this machine, linked with musl: the leanest that a program can be
#   tools/c.sh gnu [FOLDER]        for this machine, with its own C library
#   tools/c.sh sanitized [FOLDER]  likewise, watched by the compiler's sanitizers
#   tools/c.sh arm [FOLDER]        for 64-bit ARM Linux
#   tools/c.sh install PREFIX [KIND]  the library of a kind [gnu] with its header, for CMake and pkg-config
#
# FOLDER [target/c/KIND] then holds libeyelet.a and the programs, which need nothing else to run. PREFIX may be moved afterwards.
set -euo pipefail
from=$PWD
cd "$(dirname "$0")/.."

usage() {
    sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
    exit 2
}

# Puts the library of a kind to where CMake and pkg-config look below a prefix.
install_below() { # prefix kind
    local prefix=$1 version file
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' c/Cargo.toml)
    mkdir -p "$prefix/include" "$prefix/lib/pkgconfig" "$prefix/lib/cmake/eyelet"
    cp -f include/eyelet.h "$prefix/include/"
    cp -f "target/c/$2/libeyelet.a" "$prefix/lib/"
    cp -f c/install/eyelet-config.cmake "$prefix/lib/cmake/eyelet/"
    for file in pkgconfig/eyelet.pc cmake/eyelet/eyelet-config-version.cmake; do
        sed "s/@VERSION@/$version/g; s/@SERIES@/${version%.*}/g" "c/install/${file##*/}.in" >"$prefix/lib/$file"
    done
}

if [ "${1:-}" = install ]; then
    [ $# = 2 ] || [ $# = 3 ] || usage
    kind=${3:-gnu}
    "tools/c.sh" "$kind"
    cd "$from" && prefix=$(realpath -m "$2") && cd - >/dev/null
    install_below "$prefix" "$kind"
    exit
fi

kind=${1:-}
folder=${2:-target/c/$kind}
compiler=(cc)
options=(-static)
case "$kind" in
musl)
    target=$(uname -m)-unknown-linux-musl
    compiler=(musl-gcc)
    variable=CC_${target//-/_}
    export "$variable=${!variable:-musl-gcc}"
    command -v musl-gcc >/dev/null || tools/apt.sh musl-tools
    ;;
gnu) target=$(uname -m)-unknown-linux-gnu ;;
sanitized)
    target=$(uname -m)-unknown-linux-gnu
    options=(-g -fsanitize=address,undefined -fno-sanitize-recover=all)
    ;;
arm)
    target=aarch64-unknown-linux-gnu
    compiler=(aarch64-linux-gnu-gcc)
    command -v aarch64-linux-gnu-gcc >/dev/null ||
        tools/apt.sh gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    ;;
*) usage ;;
esac
rustup target list --installed | grep -qx "$target" || timeout 300 rustup target add "$target"

# The versions that the workspace is tested with.
cp Cargo.lock c/Cargo.lock
cargo build --quiet --release --manifest-path c/Cargo.toml --target-dir target/c --target "$target"
mkdir -p "$folder"
cp -f "target/c/$target/release/libeyelet.a" "$folder/"
for program in run digits two_networks set_file; do
    "${compiler[@]}" -std=c11 -O2 -Wall -Wextra -Wpedantic -Wshadow -Werror -Iinclude \
        "examples/c/$program.c" "$folder/libeyelet.a" "${options[@]}" -pthread -Wl,--gc-sections \
        -o "$folder/$program"
done
