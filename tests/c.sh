#!/usr/bin/env bash
# The C interface, from C: the programs in `examples/c`, linked with every C library there is and watched by sanitizers, must give
# the outputs of `eyelet run`, bit for bit, and say what is wrong. Called by tools/test.sh, which has built the command.
set -euo pipefail
cd "$(dirname "$0")/.."

eyelet=${EYELET_HOST:-target/release/eyelet}
data=tests/data/digits
mkdir -p target/c
work=$(mktemp -d target/c/test.XXXXXX)
outside=$(mktemp -d)
trap 'rm -rf "$work" "$outside"' EXIT

# Arrays behind their headers: all images, the first, and the digits.
tail -c +129 $data/images.npy >"$work/images.f32"
head -c 256 "$work/images.f32" >"$work/image.f32"
labels=$(tail -c +129 $data/labels.npy | od -An -v -w4 -tf4 | tr -d ' ')
python3 - "$work" <<'PYTHON'
import sys
header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 8, 8), }"
pixels = open(f"{sys.argv[1]}/image.f32", "rb").read()
with open(f"{sys.argv[1]}/image.npy", "wb") as file:
    file.write(b"\x93NUMPY\x01\x00v\x00" + header.ljust(117) + b"\n" + pixels)
PYTHON

# The same network for any number of images at a time: its first dimension has a name in place of 1.
python3 - $data/digits.onnx "$work/images.onnx" <<'PYTHON'
import sys
model = open(sys.argv[1], "rb").read()
for one, named in [
    (b"Z\x1f\n\x05input\x12\x16\n\x14\x08\x01\x12\x10\n\x02\x08\x01", b"Z\x20\n\x05input\x12\x17\n\x15\x08\x01\x12\x11\n\x03\x12\x01n"),
    (b"b\x18\n\x06output\x12\x0e\n\x0c\x08\x01\x12\x08\n\x02\x08\x01", b"b\x19\n\x06output\x12\x0f\n\x0d\x08\x01\x12\x09\n\x03\x12\x01n"),
    (b":\x8a\xde\x04", b":\x8c\xde\x04"),
]:
    assert model.count(one) == 1
    model = model.replace(one, named)
open(sys.argv[2], "wb").write(model)
PYTHON
"$eyelet" plan "$work/images.onnx" --exact --budget 1MiB --dim n=1,3 --threads 2 -o "$work/shapes.pack" >/dev/null

plan() { "$eyelet" plan $data/digits.onnx --exact --budget 96KiB 1MiB --threads 2 "$@" >/dev/null; }
plan -o "$work/host.pack" --json
plan -o "$work/arm.pack" --json --board raspberry-pi-4
# A plan that reads while it computes, and a larger one.
slow() { "$eyelet" plan $data/digits.onnx --exact --budget 64KiB 1MiB --threads 2 "$@" >/dev/null; }
slow -o "$work/host-slow.pack" --json
slow -o "$work/arm-slow.pack" --json --board raspberry-pi-4
# A set in one file, in a memory that is smaller than its networks: chunks of weights come and go.
scheduled() { # name [board]
    "$eyelet" plan $data/digits.onnx --exact --budget 1MiB --threads 1 -o "$work/$1-whole.pack" "${@:2}" >/dev/null
    cat >"$work/$1.toml" <<TOML
memory = "140KiB"
chunks = ["4KiB"]
[storage]
read = "200MB/s"
[[task]]
name = "fast"
period = "40ms"
pack = "$1-whole.pack"
[[task]]
name = "slow"
period = "60ms"
pack = "$1-whole.pack"
TOML
    "$eyelet" schedule "$work/$1.toml" -o "$work/$1-set.pack" | grep -o '[1-9][0-9.]* chunks read a job'
}
scheduled host
scheduled arm --board raspberry-pi-4
digest() { sed -n 's/.*"output_digest": *"\([0-9a-f]*\)".*/\1/p'; }
expected=$("$eyelet" run "$work/host.pack" --io buffered --json | digest)
"$eyelet" run "$work/host.pack" --io buffered --input "$work/image.npy" --output "$work/expected" --json >/dev/null
tail -c +129 "$work"/expected/*.npy >"$work/expected.f32"
of_three=$("$eyelet" run "$work/shapes.pack" --dim n=3 --io buffered --json | digest)
field() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$work/report"; }

failed=0
same() { # what found expected
    if [ -n "$3" ] && [ "$2" = "$3" ]; then
        echo "ok   $1"
    else
        echo "FAIL $1: ${2:-nothing}, expected ${3:-something}"
        failed=1
    fi
}
check() { # kind pack "ways to read" [emulator]
    local kind=$1 pack="$work/$2.pack" ways=$3 threads io more task
    shift 3
    tools/c.sh "$kind" "$work/$kind"
    local run=("$@" "$work/$kind/run" "$pack")
    for threads in 1 2; do
        for io in $ways; do
            for more in "" --inline --no-verify "--depth 1" "--budget 98304"; do
                # $more may be two words.
                same "$kind: run --threads $threads --io $io $more" \
                    "$("${run[@]}" --threads "$threads" --io "$io" --runs 3 $more | digest)" "$expected"
            done
        done
    done
    "${run[@]}" --io buffered --input "$work/image.f32" --output "$work/found.f32" >/dev/null
    same "$kind: run --input --output" "$(cmp "$work/found.f32" "$work/expected.f32" && echo same)" same
    if [ "$pack" = "$work/host.pack" ]; then
        local shapes=("$work/$kind/run" "$work/shapes.pack" --io buffered --runs 2)
        for more in "" --inline; do
            same "$kind: run $more" "$("${shapes[@]}" $more | digest)" "$expected"
            same "$kind: run --shape 1 $more" "$("${shapes[@]}" --shape 1 $more | digest)" "$of_three"
        done
        if "${shapes[@]}" --shape 2 2>"$work/error"; then
            same "$kind: run --shape 2" "success" "an error"
        fi
        same "$kind: the error" "$(grep -o 'the pack has 2' "$work/error")" "the pack has 2"
    fi
    if [ "$kind" = musl ]; then
        # The budget is the truth: what the process takes beside its arena.
        "${run[@]}" --threads 2 --runs 3 >"$work/report"
        same "musl: at most 1.25 MiB beside the arena" \
            "$(($(field peak_rss_bytes) - $(field arena_bytes) <= 1280 << 10))" 1
    fi
    same "$kind: digits" "$("$@" "$work/$kind/digits" "$pack" "$work/images.f32")" "$labels"
    local set=("$@" "$work/$kind/two_networks" "$pack" "${pack%.pack}-slow.pack" 65536)
    "${set[@]}" >"$work/set" || true
    cat "$work/set"
    # Four rounds, those of the faults, and one after each change of budgets.
    same "$kind: two networks: the urgent one" "$(grep -c "task 0: 10 jobs, 1 misses, 0 failed, .* digest $expected" "$work/set")" 1
    same "$kind: two networks: the slow one" "$(grep -c "task 1: 8 jobs, 0 misses, 1 failed, .* digest $expected" "$work/set")" 1
    same "$kind: two networks: reads while steps compute" "$(grep -c 'card: [0-9]* bytes read, [1-9][0-9]* of them' "$work/set")" 1
    same "$kind: two networks: the card" "$(grep -c 'task 1 failed: .*system error 5' "$work/set")" 1
    local set_file=("$@" "$work/$kind/set_file")
    "${set_file[@]}" "${pack%.pack}-set.pack" 5 >"$work/set" || true
    cat "$work/set"
    for task in fast slow; do
        same "$kind: a set's file: $task" "$(grep -c "^$task: [0-5] jobs, [0-5] misses, 0 failed, digest $expected" "$work/set")" 1
    done
    if "${set_file[@]}" "$pack" 1 2>"$work/error"; then
        same "$kind: a pack that is no set" "success" "an error"
    fi
    same "$kind: the error" "$(grep -o 'the file is no set' "$work/error")" "the file is no set"
    if "${run[@]}" --io buffered --budget 4096 2>"$work/error"; then
        same "$kind: run --budget 4096" "success" "an error"
    fi
    same "$kind: the error" "$(grep -o 'smallest plan needs' "$work/error")" "smallest plan needs"
    if "${run[@]}" --threads 99 2>"$work/error"; then
        same "$kind: run --threads 99" "success" "an error"
    fi
}

# A program outside of this folder finds the library by CMake and by pkg-config, after the prefix was moved.
installed() {
    local prefix
    tools/c.sh install "$outside/first" gnu
    mv "$outside/first" "$outside/prefix"
    prefix=$outside/prefix
    cp examples/c/digits.c "$outside/"
    cat >"$outside/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(outside C)
find_package(eyelet 0.1 REQUIRED)
add_executable(digits digits.c)
target_link_libraries(digits PRIVATE eyelet::eyelet)
CMAKE
    cmake -S "$outside" -B "$outside/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/cmake.log" &&
        cmake --build "$outside/build" >>"$work/cmake.log" || cat "$work/cmake.log"
    same "cmake: digits" "$("$outside/build/digits" "$work/host.pack" "$work/images.f32")" "$labels"
    sed -i 's/eyelet 0.1/eyelet 0.2/' "$outside/CMakeLists.txt"
    if cmake -S "$outside" -B "$outside/other" -DCMAKE_PREFIX_PATH="$prefix" >"$work/cmake.log" 2>&1; then
        same "cmake: another version" "success" "an error"
    fi
    same "cmake: the error" "$(grep -o 'version: 0.1.0' "$work/cmake.log")" "version: 0.1.0"
    local config=(env "PKG_CONFIG_PATH=$prefix/lib/pkgconfig" pkg-config)
    # The flags are several words.
    cc "$outside/digits.c" $("${config[@]}" --cflags --libs eyelet) -o "$outside/digits"
    same "pkg-config: digits" "$("$outside/digits" "$work/host.pack" "$work/images.f32")" "$labels"
}

installed
check musl host "direct buffered mapped"
check gnu host "direct buffered mapped"
check sanitized host "direct buffered mapped"
check arm arm "buffered" qemu-aarch64-static
exit $failed
