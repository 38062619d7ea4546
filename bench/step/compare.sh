#!/usr/bin/env bash
# One training step of GraphSAGE beside DGL's and PyTorch Geometric's, on the same
# blocks and cores, the programs taking turns.
#
#   PEERS_DIR=… GB=…/gb/bin/python PYG=…/pyg/bin/python bench/step/compare.sh [DIR] [ROUNDS]
#
# PEERS_DIR holds bench_step.py, which makes the blocks in DIR if they are not there.
set -euo pipefail
dir=${1:-${TMPDIR:-/tmp}/diskgnn-step} rounds=${2:-3}
cd "$(dirname "$0")/../.."
mkdir -p bin
go build -o bin/step ./bench/step
[ -e "$dir/meta.json" ] || "$PYG" "$PEERS_DIR/bench_step.py" --make "$dir"
for dropout in 0 0.5; do
	for ((r = 0; r < rounds; r++)); do
		echo "diskgnn $(bin/step "$dir" --dropout "$dropout" --threads 2 --steps 10)"
		echo "dgl $("$GB" "$PEERS_DIR/bench_step.py" "$dir" --lib dgl --model sage --dropout "$dropout")"
		echo "pyg $("$PYG" "$PEERS_DIR/bench_step.py" "$dir" --lib pyg --model sage --dropout "$dropout")"
	done
done
