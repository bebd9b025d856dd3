#!/usr/bin/env bash
# Measures eyelet on the GPU of this machine beside PyTorch, and writes lab/results/gpu.md.
#
#   benches/gpu/run.sh [--part tests|kernels|latency|layering] [--out DIR] [--folder FOLDER] [--networks A,B] [--no-torch] [--tiny] [--help]
#
# Without --part all parts, one after the other. Each leaves DIR/PART.json, and the page is written from those that are
# there: so parts may run in calls of their own, and on another machine than the one on which the page is wanted.
# What runs is in FOLDER, which benches/gpu/pack.sh makes, here unless it is there already.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec python3 benches/gpu/run.py "$@"
