#!/usr/bin/env bash
# Measures eyelet's strategies beside each other and the bound on this machine, and writes lab/results/plans.md.
#
#   lab/benches/plans/run.sh [--networks a,b,c] [--rounds N] [--help]
set -euo pipefail
cd "$(dirname "$0")/../../.."
cargo build --release --quiet -p eyelet-planner
venv=target/plans/venv
if [ ! -x "$venv/bin/python" ]; then
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --requirement lab/benches/plans/requirements.txt
fi
exec "$venv/bin/python" lab/benches/plans/run.py "$@"
