#!/usr/bin/env bash
# One training step on a GPU beside PyTorch Geometric's, on the same blocks and from the
# same weights, the programs taking turns: as it is, and captured as a CUDA graph. The peer
# computes the first steps' losses, and ends the comparison if they are not ours.
#
#   BIN=bin/diskgnn BENCH=bin/diskgnn-bench PYG=python3 bench/step/gpu.sh [DIR] [ROUNDS]
#
# BENCH is ./bench built as make build-gpu builds the program; PYG a Python with PyTorch
# Geometric. DIR takes blocks and weights. MODELS, DROPOUTS and PRECISIONS name what is
# measured. The last lines are medians over the rounds of the programs' medians, in
# milliseconds, with the least and the most; what the host takes to prepare a batch, and a
# step with the copies of the batch; and ours over each of the others.
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
