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
done | tee /dev/stderr | awk '
	match($0, /"median_ms": *[0-9.]+/) {
		of = $2 " " $3 " " $4 " " $5
		if (!(of in seen)) { seen[of] = 1; order[++n] = of }
		value = substr($0, RSTART, RLENGTH); sub(/.*: */, "", value)
		all[of, $1, ++count[of, $1]] = value + 0
	}
	function median(of, who,   k, i, j, t, v) {
		k = count[of, who]
		for (i = 1; i <= k; i++) v[i] = all[of, who, i]
		for (i = 1; i <= k; i++) for (j = i + 1; j <= k; j++) if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
		return (v[int((k + 1) / 2)] + v[int(k / 2) + 1]) / 2
	}
	END {
		for (i = 1; i <= n; i++) {
			of = order[i]; us = median(of, "diskgnn"); pyg = median(of, "pyg"); graphed = median(of, "graphed")
			printf "%s: diskgnn %.3f, PyG %.3f, PyG as a CUDA graph %.3f ms: %.3f and %.3f of them\n", of, us, pyg, graphed, us / pyg, us / graphed
		}
	}'
