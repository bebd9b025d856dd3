#!/usr/bin/env bash
# The wheel in a fresh environment: built, installed by pip, its types checked, and its tests run.
#
#   tests/wheel.sh               EYELET_COMMAND names a command that is already built
set -euo pipefail
cd "$(dirname "$0")/.."

fresh=target/wheel/fresh
wheel=$(tools/wheel.sh --dev)
rm -rf $fresh
python3 -m venv $fresh
$fresh/bin/pip install -q --disable-pip-version-check "$wheel" "mypy<2"
root=$PWD
# Tests plan for a named board, whatever this machine is.
export EYELET_HOST_BOARD=portable
# From another folder, so that nothing but what is installed can be found.
cd "$fresh"
PYTHONDONTWRITEBYTECODE=1 bin/python -m unittest discover -s "$root/python/tests"
bin/mypy --strict --no-error-summary --cache-dir mypy -p eyelet
bin/mypy --strict --no-error-summary --cache-dir mypy "$root/python/tests/typed.py"
[ "$(bin/eyelet --version)" = "$(bin/python -m eyelet --version)" ]
test -s share/man/man1/eyelet-plan.1
test -s share/bash-completion/completions/eyelet
