#!/usr/bin/env bash
# Compares a training step of each model with the program's own matrix products, with OpenBLAS and with
# gonum, on the same blocks and cores. The libraries take turns, step by step.
#
#   bench/sgemm/step.sh [DIR] [STEPS]
#
# DIR gets the blocks. BIN is a folder with diskgnn and diskgnn-bench; without it they are built. MODELS,
# AGAINST, ORDERS and THREADS select the measurements. Each line has the median and the least time of
# both libraries in milliseconds, and the median of the ratios.
set -euo pipefail
dir=${1:-${TMPDIR:-/tmp}/diskgnn-step} steps=${2:-15}
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${BIN:-}" ]; then
	BIN=$here/../../bin
	mkdir -p "$BIN"
	(cd "$here/../.." && go build -o "$BIN/diskgnn-bench" ./bench && go build -o "$BIN/diskgnn" ./cmd/diskgnn)
fi
bin=$BIN/diskgnn bench=$BIN/diskgnn-bench
. "$here/../step/blocks.sh"
blocks
field() { sed -E 's/.*"'"$1"'":"?([^",}]*).*/\1/' <<<"$line"; }
for model in ${MODELS:-sage gcn gat}; do
	for order in ${ORDERS:-aggregate multiply}; do
		for against in ${AGAINST:-openblas gonum}; do
			line=$("$bench" step -json "$dir/blocks" -model "$model" -blas builtin -against "$against" -layer-order "$order" -threads "${THREADS:-2}" -steps "$steps" -bound=false)
			printf '%-5s %-10s %8.1f ms (least %8.1f)   %-28s %8.1f ms (least %8.1f)   ratio %.3f\n' "$model" "$order" \
				"$(field median_ms)" "$(field min_ms)" "$(field against)" "$(field against_ms)" "$(field against_min_ms)" "$(field ratio)"
		done
	done
done
