#!/usr/bin/env bash
# Measures eyelet beside other engines on this machine, and writes lab/results/peers.md. README.md says how.
#
#   benches/peers/run.sh [--networks a,b,c] [--threads 1,2] [--rounds N] [--unsteady [--avx2]] [--help]
set -euo pipefail
cd "$(dirname "$0")/../.."
case " $* " in
*" --help "* | *" -h "*) exec python3 benches/peers/run.py --help ;;
esac
case " $* " in
*" --unsteady "*) benches/peers/setup.sh target/peers onnxruntime ;;
*) benches/peers/setup.sh target/peers ;;
esac
exec target/peers/venv/bin/python benches/peers/run.py "$@"
