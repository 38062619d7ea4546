#!/usr/bin/env bash
# One training step on a GPU beside PyTorch Geometric's, on the same blocks, the programs
# taking turns: as it is, and captured as a CUDA graph.
#
#   STEP=bin/step PEERS_DIR=… PYG=python3 bench/step/gpu.sh [DIR] [ROUNDS]
#
# STEP is ./bench/step built as make build-gpu builds the program. PEERS_DIR holds
# bench_step.py, which makes the blocks in DIR if they are not there. MODELS, DROPOUTS and
# PRECISIONS name what is measured. The last lines are medians over the rounds of the
# programs' medians, in milliseconds, and ours over each of the others.
set -euo pipefail
dir=${1:-${TMPDIR:-/tmp}/diskgnn-step} rounds=${2:-3}
step=$(realpath "${STEP:-bin/step}") python=${PYG:-python3} graphed=$(dirname "$0")/graphed.py
[ -e "$dir/meta.json" ] || "$python" "$PEERS_DIR/bench_step.py" --make "$dir"
for model in ${MODELS:-sage gcn gat}; do
	for dropout in ${DROPOUTS:-0 0.5}; do
		for precision in ${PRECISIONS:-float32 tf32}; do
			tf32=()
			[ "$precision" = float32 ] || tf32=(--tf32)
			for ((r = 0; r < rounds; r++)); do
				is="$model dropout $dropout $precision"
				echo "diskgnn $is $("$step" "$dir" --engine gpu --model "$model" --dropout "$dropout" --precision "$precision" --steps 20)"
				echo "pyg $is $("$python" "$PEERS_DIR/bench_step.py" "$dir" --lib pyg --model "$model" --dropout "$dropout" --device cuda --steps 20 "${tf32[@]}")"
				echo "graphed $is $("$python" "$graphed" "$PEERS_DIR" "$dir" --model "$model" --dropout "$dropout" "${tf32[@]}")"
			done
		done
	done
done | tee /dev/stderr | awk -v words=4 -f "$(dirname "$0")/medians.awk"
