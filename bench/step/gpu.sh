#!/usr/bin/env bash
# Compares one training step on a GPU with PyTorch Geometric, on the same blocks and with the same
# initial weights. The programs take turns. PyTorch Geometric runs uncaptured and as a CUDA graph. It
# computes the losses of the first steps, and ends the comparison if they differ from diskgnn's.
#
#   BIN=bin/diskgnn BENCH=bin/diskgnn-bench PYG=python3 bench/step/gpu.sh [DIR] [ROUNDS]
#
# BENCH is ./bench, built like the program of make build-gpu; PYG is a Python with PyTorch Geometric. DIR
# gets blocks and weights. MODELS, DROPOUTS and PRECISIONS select the measurements. The last lines are
# medians over the rounds of the programs' medians, in milliseconds, with the least and the most; then
# the host's time to prepare a batch, the time of a step with the copies of its batch, and the ratio of
# diskgnn to each of the others.
set -euo pipefail
dir=${1:-${TMPDIR:-/tmp}/diskgnn-step} rounds=${2:-3}
here=$(dirname "$0") bin=$(realpath "${BIN:-bin/diskgnn}") bench=$(realpath "${BENCH:-bin/diskgnn-bench}") python=${PYG:-python3}
. "$here/blocks.sh"
blocks
for model in ${MODELS:-sage gcn gat}; do
	"$bench" step "$dir/blocks" -engine gpu -model "$model" -save "$dir/weights" -steps 1 -warmup 0 >/dev/null
	for dropout in ${DROPOUTS:-0 0.5}; do
		for precision in ${PRECISIONS:-float32 tf32}; do
			tf32=()
			[ "$precision" = float32 ] || tf32=(--tf32)
			for ((r = 0; r < rounds; r++)); do
				is="$model dropout $dropout $precision"
				peer() { "$python" "$here/peer.py" "$dir/blocks" "$dir/weights" --model "$model" --dropout "$dropout" --device cuda --steps 20 "${tf32[@]}" "$@"; }
				echo "diskgnn $is $("$bench" step -json "$dir/blocks" -engine gpu -model "$model" -dropout "$dropout" -precision "$precision" -steps 20)"
				echo "pyg $is $(peer)"
				echo "graphed $is $(peer --graphed)"
				[ "$model" = gcn ] || continue
				echo "pyg-bipartite $is $(peer --lib pyg-bipartite)"
				echo "bipartite-graphed $is $(peer --lib pyg-bipartite --graphed)"
			done
		done
	done
done | tee /dev/stderr | awk -v words=4 -f "$here/medians.awk"
