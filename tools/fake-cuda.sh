#!/usr/bin/env bash
# Builds a libcuda.so.1 that runs the GPU's kernels on the processor, and prints the folder it is in:
#
#   LD_LIBRARY_PATH=$(tools/fake-cuda.sh) cargo test -p eyelet --features cuda
#
# What is up to date stays. CXX is the compiler (g++). tests/fake-cuda/ says what the library can do.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${CARGO_TARGET_DIR:-target}/fake-cuda
mkdir -p "$out"
# Tests call this, several at a time.
exec 9>"$out/lock"
flock 9
cxx=${CXX:-g++}
flags=(-O2 -g1 -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno -Wall -Wextra -Werror
    -Wno-unknown-pragmas -Wno-unused-function)
case $($cxx -dumpmachine) in x86_64*) flags+=(-mfma) ;; esac

stale() { # whether the file is older than what it is made of
    [ -e "$1" ] || return 0
    local target=$1 source
    shift
    for source in "$@"; do
        [ ! "$source" -nt "$target" ] || return 0
    done
    return 1
}

headers=(tools/fake-cuda.sh kernels/*.h kernels/cuda/*.h kernels/cuda/*.cuh tests/fake-cuda/*.h)
objects=()
compile() { # source, object, flags
    objects+=("$2")
    ! stale "$2" "$1" "${headers[@]}" || $cxx "${flags[@]}" "${@:3}" -c -x c++ "$1" -o "$2"
}
# Variables of the kernels' objects are static shared memory, and nothing else: the emulator fills a source's before each
# block. (A section attribute would do it, if g++ did not ignore it in templates.)
shared="SECTIONS { .eyelet_shared : ALIGN(64) {"
for source in kernels/cuda/*.cu tests/fake-cuda/*.cu; do
    name=$(basename "$source" .cu)
    symbol=eyelet_shared_${name//[^a-zA-Z0-9]/_}
    # C++14 is what CUDA 10.2 compiles.
    compile "$source" "$out/$name.cu.o" -std=c++14 "-DEYELET_SHARED=$symbol"
    shared+=" . = ALIGN(64); HIDDEN(${symbol}_start = .); */$name.cu.o(.bss .bss.*) HIDDEN(${symbol}_end = .);"
    if nm "$out/$name.cu.o" | grep -q ' [uV] '; then
        echo "tools/fake-cuda.sh: $source: shared memory in a template that is not static: other sources would share it" >&2
        exit 1
    fi
done
echo "$shared } } INSERT AFTER .data;" >"$out/shared.ld"
for source in tests/fake-cuda/*.cpp; do
    compile "$source" "$out/$(basename "$source").o" -std=c++17
done
if stale "$out/libcuda.so.1" "${objects[@]}"; then
    $cxx -shared -pthread -Wl,-soname,libcuda.so.1 -Wl,-z,defs -Wl,-T,"$out/shared.ld" "${objects[@]}" -o "$out/libcuda.so.1.new"
    mv "$out/libcuda.so.1.new" "$out/libcuda.so.1"
fi
# A driver that lacks nearly everything, for a test.
old=tests/fake-cuda/old/driver.c
mkdir -p "$out/old"
! stale "$out/old/libcuda.so.1" $old || $cxx -x c -shared -fPIC -Wl,-soname,libcuda.so.1 $old -o "$out/old/libcuda.so.1"
cd "$out" && pwd
