#!/usr/bin/env bash
# One training step beside DGL's and PyTorch Geometric's, on the same blocks and cores and
# from the same weights, the programs taking turns. The peers compute the first steps'
# losses, and end the comparison if they are not ours.
#
#   GB=…/gb/bin/python PYG=…/pyg/bin/python bench/step/compare.sh [DIR] [ROUNDS]
#
# GB is a Python with DGL, PYG one with PyTorch Geometric; without one that peer is left
# out. DIR takes blocks and weights. MODELS and DROPOUTS name what is measured. The last
# lines are medians over the rounds of the programs' medians, in milliseconds, with the least
# and the most, and ours over each peer's.
set -euo pipefail
dir=${1:-${TMPDIR:-/tmp}/diskgnn-step} rounds=${2:-3}
cd "$(dirname "$0")/../.."
mkdir -p bin
go build -o bin/diskgnn-bench ./bench
go build -o bin/diskgnn ./cmd/diskgnn
bin=bin/diskgnn bench=bin/diskgnn-bench
. bench/step/blocks.sh
blocks
for model in ${MODELS:-sage gcn gat}; do
	"$bench" step "$dir/blocks" -model "$model" -save "$dir/weights" -threads 2 -steps 1 -warmup 0 -bound=false >/dev/null
	for dropout in ${DROPOUTS:-0 0.5}; do
		for ((r = 0; r < rounds; r++)); do
			echo "diskgnn $model dropout $dropout $("$bench" step -json "$dir/blocks" -model "$model" -dropout "$dropout" -threads 2 -steps 10)"
			for lib in dgl pyg pyg-bipartite; do
				python=${PYG:-}
				[ $lib != dgl ] || python=${GB:-}
				[ -n "$python" ] || continue
				[ $lib != pyg-bipartite ] || [ "$model" = gcn ] || continue
				echo "$lib $model dropout $dropout $("$python" bench/step/peer.py "$dir/blocks" "$dir/weights" --lib $lib --model "$model" --dropout "$dropout" --steps 5 --warmup 2)"
			done
		done
	done
done | tee /dev/stderr | awk -v words=3 -f bench/step/medians.awk
