#!/usr/bin/env bash
# Draws docs/pictures/report.png: the report of a plan, as Chromium shows it.
#
#   tools/report_picture.sh [--help]
#
# The plan is for a named board, from its costs. EYELET is the command (target/debug/eyelet), EYELET_BROWSER a Chromium.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -gt 0 ]; then
	sed -n '2,6s/^# \{0,1\}//p' "$0"
	[ "$1" = --help ]
	exit
fi
eyelet=$(realpath "${EYELET:-target/debug/eyelet}")
browser=${EYELET_BROWSER:-chromium}
picture=$PWD/docs/pictures/report.png
# Chromium keeps what it knows in its folder.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$eyelet" zoo resnet50 -o resnet50.onnx
"$eyelet" plan resnet50.onnx --board raspberry-pi-4 --budget 12MiB,24MiB -o resnet50.pack --report report.html
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1180,1690 --virtual-time-budget=3000 \
	--user-data-dir="$work/chromium" --screenshot=report.png "file://$work/report.html" 2>chromium.log || {
	cat chromium.log >&2
	exit 1
}
bytes=$(stat -c %s report.png)
if [ "$bytes" -gt 200000 ]; then
	echo "tools/report_picture.sh: the picture has $bytes bytes, and may have 200000" >&2
	exit 1
fi
mv report.png "$picture"
echo "$picture: $bytes bytes"
