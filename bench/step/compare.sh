#!/usr/bin/env bash
# One training step beside DGL's and PyTorch Geometric's, on the same blocks and cores,
# the programs taking turns.
#
#   PEERS_DIR=… GB=…/gb/bin/python PYG=…/pyg/bin/python bench/step/compare.sh [DIR] [ROUNDS]
#
# PEERS_DIR holds bench_step.py, which makes the blocks in DIR if they are not there.
# MODELS and DROPOUTS name what is measured. The last lines are medians over the rounds
# of the programs' medians, in milliseconds, and ours over the faster peer's.
set -euo pipefail
dir=${1:-${TMPDIR:-/tmp}/diskgnn-step} rounds=${2:-3}
cd "$(dirname "$0")/../.."
mkdir -p bin
go build -o bin/step ./bench/step
[ -e "$dir/meta.json" ] || "$PYG" "$PEERS_DIR/bench_step.py" --make "$dir"
for model in ${MODELS:-sage gcn gat}; do
	for dropout in ${DROPOUTS:-0 0.5}; do
		for ((r = 0; r < rounds; r++)); do
			echo "diskgnn $model $dropout $(bin/step "$dir" --model "$model" --dropout "$dropout" --threads 2 --steps 10)"
			for lib in dgl pyg; do
				python=$GB
				[ $lib = dgl ] || python=$PYG
				echo "$lib $model $dropout $("$python" "$PEERS_DIR/bench_step.py" "$dir" --lib $lib --model "$model" --dropout "$dropout" --steps 5 --warmup 2)"
			done
		done
	done
done | tee /dev/stderr | awk '
	match($0, /"median_ms": *[0-9.]+/) {
		of = $2 " dropout " $3
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
			of = order[i]; us = median(of, "diskgnn"); dgl = median(of, "dgl"); pyg = median(of, "pyg")
			printf "%s: diskgnn %.0f, DGL %.0f, PyG %.0f ms: %.2f of the faster\n", of, us, dgl, pyg, us / (dgl < pyg ? dgl : pyg)
		}
	}'
