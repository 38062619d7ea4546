#!/usr/bin/env bash
# Compares one training step with DGL and PyTorch Geometric, on the same blocks and cores and with the
# same initial weights. The programs take turns. The peers compute the losses of the first steps, and
# end the comparison if they differ from diskgnn's.
#
#   GB=…/gb/bin/python PYG=…/pyg/bin/python bench/step/compare.sh [DIR] [ROUNDS]
#
# GB is a Python with DGL, PYG a Python with PyTorch Geometric. A peer without its Python is left out.
# DIR gets blocks and weights. MODELS and DROPOUTS select the measurements. The last lines are medians
# over the rounds of the programs' medians, in milliseconds, with the least and the most, and the ratio
# of diskgnn to each peer.
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
