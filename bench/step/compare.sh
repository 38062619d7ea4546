#!/usr/bin/env bash
# One training step beside DGL's and PyTorch Geometric's, on the same blocks and cores,
# the programs taking turns.
#
#   PEERS_DIR=… GB=…/gb/bin/python PYG=…/pyg/bin/python bench/step/compare.sh [DIR] [ROUNDS]
#
# PEERS_DIR holds bench_step.py, which makes the blocks in DIR if they are not there.
# MODELS and DROPOUTS name what is measured. The last lines are medians over the rounds
# of the programs' medians, in milliseconds, and ours over each peer's.
set -euo pipefail
dir=${1:-${TMPDIR:-/tmp}/diskgnn-step} rounds=${2:-3}
cd "$(dirname "$0")/../.."
mkdir -p bin
go build -o bin/step ./bench/step
[ -e "$dir/meta.json" ] || "$PYG" "$PEERS_DIR/bench_step.py" --make "$dir"
for model in ${MODELS:-sage gcn gat}; do
	for dropout in ${DROPOUTS:-0 0.5}; do
		for ((r = 0; r < rounds; r++)); do
			echo "diskgnn $model dropout $dropout $(bin/step "$dir" --model "$model" --dropout "$dropout" --threads 2 --steps 10)"
			for lib in dgl pyg; do
				python=$GB
				[ $lib = dgl ] || python=$PYG
				echo "$lib $model dropout $dropout $("$python" "$PEERS_DIR/bench_step.py" "$dir" --lib $lib --model "$model" --dropout "$dropout" --steps 5 --warmup 2)"
			done
		done
	done
done | tee /dev/stderr | awk -v words=3 -f bench/step/medians.awk
