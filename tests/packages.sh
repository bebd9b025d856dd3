#!/usr/bin/env bash
# The static commands and the Debian packages: built for both processors, and looked into. The one for 64-bit ARM plans and
# runs a network under emulation.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

work=$(mktemp -d target/packages.XXXXXX)
trap 'rm -rf "$work"' EXIT
for architecture in amd64 arm64; do
    package=$(tools/deb.sh $architecture --dev)
    dpkg-deb --contents "$package" >"$work/contents"
    for file in bin/eyelet share/man/man1/eyelet.1.gz share/man/man1/eyelet-plan.1.gz \
        share/bash-completion/completions/eyelet share/zsh/vendor-completions/_eyelet \
        share/fish/vendor_completions.d/eyelet.fish share/doc/eyelet/copyright; do
        grep -q " \./usr/$file\$" "$work/contents" || fail "$package has no usr/$file"
    done
    [ "$(dpkg-deb --field "$package" Architecture)" = $architecture ] || fail "$package is for another architecture"
    [ -z "$(dpkg-deb --field "$package" Depends)" ] || fail "$package depends on others, the command is static"
    dpkg-deb --extract "$package" "$work/$architecture"
    if readelf --program-headers "$work/$architecture/usr/bin/eyelet" | grep -q INTERP; then
        fail "the command in $package is not static"
    fi
done

# Planned and run by each command, for a board that both are: the same bits.
export EYELET_HOST_BOARD=portable
digest() { sed -n 's/.*"output_digest": *"\([0-9a-f]*\)".*/\1/p'; }
try() { # architecture emulator
    local eyelet=("${@:2}" "$work/$1/usr/bin/eyelet")
    "${eyelet[@]}" plan tests/data/digits/digits.onnx --budget 96KiB --exact --effort fast -o "$work/$1.pack" --json >/dev/null
    "${eyelet[@]}" run "$work/$1.pack" --io buffered --json | digest
}
arm=$(try arm64 qemu-aarch64-static)
[ -n "$arm" ] || fail "the command for ARM ran nothing"
if [ "$(dpkg --print-architecture)" = amd64 ]; then
    own=$(try amd64 env)
    [ "$arm" = "$own" ] || fail "outputs on ARM have the digest $arm, on x86-64 ${own:-none}"
fi
echo "ok   both packages, static commands, $arm on both"
