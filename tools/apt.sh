#!/usr/bin/env bash
# Installs those of the given Debian packages that are missing. Fails where that cannot be done.
#
#   tools/apt.sh gcc-aarch64-linux-gnu libstd-rust-web-dev:arm64
set -euo pipefail

# Tests install from several sides.
mkdir -p "$(dirname "$0")/../target"
exec 9>"$(dirname "$0")/../target/apt.lock"
flock 9

missing=()
for package in "$@"; do
    dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
[ ${#missing[@]} -ne 0 ] || exit 0
if ! command -v apt-get >/dev/null; then
    echo "tools/apt.sh: needs what Debian calls ${missing[*]}; install it" >&2
    exit 1
fi
sudo=""
[ "$(id -u)" -eq 0 ] || sudo=sudo
if [[ "${missing[*]}" == *:arm64* ]]; then
    $sudo dpkg --add-architecture arm64
fi
# An unreachable repository of something else is no reason to stop.
$sudo apt-get update -qq || true
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
