#!/usr/bin/env bash
# `eyelet-profile` for 64-bit ARM: it is static and small, measures under emulation, and its profile can be planned with.
#
#   EYELET_HOST=target/debug/eyelet tests/profile.sh
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

# As docs/boards.md has it.
MOST_BYTES=$((3 << 20))
host=${EYELET_HOST:-target/debug/eyelet}
built=${CROSS_TARGET_DIR:-target/cross}/aarch64-unknown-linux-musl/board/eyelet-profile
work=$(mktemp -d target/profile.XXXXXX)
trap 'rm -rf "$work"' EXIT

tools/cross.sh musl build --quiet --profile board -p eyelet-profile
bytes=$(stat -c %s "$built")
[ "$bytes" -lt $MOST_BYTES ] || fail "eyelet-profile has $bytes bytes, and no more than $MOST_BYTES fit"
if readelf --program-headers "$built" | grep -q INTERP; then fail "eyelet-profile is not static"; fi

measure() { qemu-aarch64-static "$built" "$@"; }
measure --board list --json | grep -q '"name":"raspberry-pi-4"' || fail "it does not list boards"
if measure --board host-avx2 -o "$work/none.toml" --json >"$work/error" 2>/dev/null; then
    fail "it measures kernels that the processor does not have"
fi
grep -q '^{"error":"the board host-avx2 needs kernels for avx2' "$work/error" || fail "error: $(cat "$work/error")"
measure --board raspberry-pi-4 --once --threads 2 --io buffered -o "$work/pi.toml" >"$work/report"
grep -q 'neon kernels, 2 threads' "$work/report" || fail "report: $(cat "$work/report")"
[ "$(ls -A "$work" | tr '\n' ' ')" = "error pi.toml report " ] || fail "it leaves $(ls -A "$work")"

"$host" plan tests/data/digits/digits.onnx --board raspberry-pi-4 --profile "$work/pi.toml" --budget 96KiB \
    -o "$work/digits.pack" --json >"$work/plan"
grep -q '"estimated": *false' "$work/plan" || fail "the plan is not by what was measured: $(cat "$work/plan")"
echo "ok   eyelet-profile for 64-bit ARM has $bytes bytes; its profile plans digits"
