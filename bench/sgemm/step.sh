#!/usr/bin/env bash
# A training step of each model with the program's own matrix products beside OpenBLAS' and
# gonum's, on the same blocks and cores, the libraries taking turns.
#
#   bench/sgemm/step.sh [DIR] [ROUNDS]
#
# DIR takes the blocks, which bench/step makes. BIN is a folder with step and diskgnn;
# without it they are built. MODELS, BLAS, ORDER and THREADS say what is measured. The last lines
# are medians over the rounds of the steps' medians, in milliseconds, with the least and the
# most, and those of the first library over each other's.
set -euo pipefail
dir=${1:-${TMPDIR:-/tmp}/diskgnn-step} rounds=${2:-3}
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${BIN:-}" ]; then
	BIN=$here/../../bin
	mkdir -p "$BIN"
	(cd "$here/../.." && go build -o "$BIN/step" ./bench/step && go build -o "$BIN/diskgnn" ./cmd/diskgnn)
fi
bin=$BIN/diskgnn step=$BIN/step
. "$here/../step/blocks.sh"
blocks
for model in ${MODELS:-sage gcn gat}; do
	for ((r = 0; r < rounds; r++)); do
		for blas in ${BLAS:-builtin openblas gonum}; do
			echo "$blas $model $("$step" "$dir/blocks" -model "$model" -blas "$blas" -layer-order "${ORDER:-aggregate}" -threads "${THREADS:-2}" -steps "${STEPS:-5}" -warmup 1 -bound=false)"
		done
	done
done | tee /dev/stderr | awk -v words=1 -f "$here/../step/medians.awk"
