#!/usr/bin/env bash
# Looks for inputs that fuzz targets fail for, by libFuzzer.
#
#   tools/fuzz.sh 60             every target, each for a minute
#   tools/fuzz.sh 3600 open      one of them, for an hour
#
# Needs a C++ compiler (installed by apt). With a nightly toolchain the address sanitizer watches, too. The corpus grows
# in fuzz/corpus; inputs that fail are left in fuzz/artifacts. A target
# first runs what is there of both, and the seeds of the tests.
#
# planner/tests/fuzz and lab/alloc/tests run the targets on inputs of their own, with every test run.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: tools/fuzz.sh SECONDS [TARGET...]}
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(alloc darknet import open set)

command -v "${CXX:-g++}" >/dev/null || tools/apt.sh g++
host=$(rustc -vV | sed -n 's/^host: //p')
cargo=(cargo)
# What cargo-fuzz gives the compiler.
flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing
    -Cdebug-assertions -Ccodegen-units=1"
if rustc +nightly --version >/dev/null 2>&1; then
    cargo=(cargo +nightly)
    flags+=" -Zsanitizer=address"
else
    echo "tools/fuzz.sh: no nightly toolchain: without the address sanitizer" >&2
fi
cp Cargo.lock fuzz/Cargo.lock
RUSTFLAGS=${flags//$'\n'/ } "${cargo[@]}" build --release --manifest-path fuzz/Cargo.toml --target-dir target/fuzz \
    --target "$host"

for target in "${targets[@]}"; do
    echo "== $target"
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
    # Where the tests leave their seeds, and an input that fails.
    seeds=target/tmp/fuzz/$target
    mkdir -p "$seeds"
    "target/fuzz/$host/release/$target" "fuzz/corpus/$target" "fuzz/artifacts/$target" "$seeds" \
        "-max_total_time=$seconds" -rss_limit_mb=4096 -timeout=25 "-artifact_prefix=fuzz/artifacts/$target/"
done
