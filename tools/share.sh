#!/usr/bin/env bash
# Writes what goes into a system's folder `share` next to the command: its manual, and what shells complete.
#
#   tools/share.sh COMMAND FOLDER
#
# FOLDER is emptied first. The Debian package and the wheel for Python have what is then in it.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# != 2 ]; then
    echo "usage: tools/share.sh COMMAND FOLDER" >&2
    exit 2
fi
command=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"/man "$folder"/bash-completion/completions "$folder"/zsh/vendor-completions \
    "$folder"/fish/vendor_completions.d
"$command" man "$folder/man/man1" >/dev/null
"$command" completions bash >"$folder/bash-completion/completions/eyelet"
"$command" completions zsh >"$folder/zsh/vendor-completions/_eyelet"
"$command" completions fish >"$folder/fish/vendor_completions.d/eyelet.fish"
