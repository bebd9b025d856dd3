#!/bin/sh
# Writes lab/results/tasks.md: tables and figures of task sets, ours next to the published ones.
# Results of random sets are kept by seed in target/tasks; delete that folder to run everything again.
set -eu
cd "$(dirname "$0")/../../.."
cargo run --release --quiet --locked --manifest-path lab/Cargo.toml --target-dir target/lab --bin results -- lab/results/tasks.md target/tasks "$@"
