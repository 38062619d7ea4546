#!/usr/bin/env bash
# Measures the scores of DGL with GraphBolt, or of PyTorch Geometric, with the protocol of our examples:
# the same batch size, fanout, learning rate and epochs, hidden width 256, dropout 0.5, fresh samples for
# every epoch, everything in memory. After each epoch all nodes are evaluated from all of their
# neighbours. The test score belongs to the best validation epoch.
#
#   PEERS_DIR=… PEERS_DATA=… GB=…/gb/bin/python bench/accuracy/peers.sh fb100-sage fb100-gcn fb100-gat > peers.jsonl
#   go run ./bench accuracy -seeds 3 -peers peers.jsonl fb100-sage fb100-gcn fb100-gat
#
# PEERS_DIR has peer_graphbolt.py and peer_train.py, PEERS_DATA their graphs. GB is a Python with DGL.
# PEER=pyg selects PyTorch Geometric, with the Python PYG. SEEDS lists the seeds, THREADS is the number
# of threads of a run. Each example gives a line of JSON; progress goes to stderr.
set -euo pipefail
examples=$(dirname "$0")/../../examples
python=${GB:-} script=peer_graphbolt.py
[ "${PEER:-dgl}" = dgl ] || { python=${PYG:-} script=peer_train.py; }
read -ra seeds <<<"${SEEDS:-0 1 2}"

# of NAME SECTION KEY: prints a value of an example.
of() { awk -v section="$2:" -v key="$3:" '/^[a-z]/ { now = $1 } now == section && $1 == key { sub(/^ *[a-z-]*: */, ""); gsub(/[][ ]/, ""); print }' "$examples/$1.yaml"; }

for name; do
	batch=$(of "$name" presample batch-size)
	"${python:?GB or PYG names a Python}" "$PEERS_DIR/$script" "${name%%-*}" --data "$PEERS_DATA" --model "${name#*-}" \
		--batch "${batch:-1000}" --fanout "$(of "$name" presample fanout)" --lr "$(of "$name" train lr)" \
		--epochs "$(of "$name" train epochs)" --seeds "${seeds[@]}" --threads "${THREADS:-2}"
done
