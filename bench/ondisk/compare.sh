#!/usr/bin/env bash
# Epochs on features that are read from disk, without a pack: --store rows and --store mmap
# beside GraphBolt with in_memory: false, the programs taking turns. All begin with an empty
# page cache of the features; the first epoch is that of a graph that does not fit in memory,
# the others have what is left of it. GraphBolt's page cache is bounded by the machine's
# memory alone: --ram-cache 100% is the same for ours, and smaller caches are shown beside.
#
#   PEERS_DIR=… DISKGNN_DATA=… GB=…/gb/bin/python bench/ondisk/compare.sh [DIR] [ROUNDS]
#
# GB is a Python with DGL 2.1, PEERS_DIR has common.py and nets_dgl.py. DIR takes the dataset,
# twice. CACHES are the shares that are measured. Each line is a run: the seconds of its
# epochs, and the bytes that they read. GraphBolt's bytes are those that the kernel read for
# its process, ours what the store counts, graphs included.
set -euo pipefail
dir=${1:-${TMPDIR:-/tmp}/diskgnn-ondisk} rounds=${2:-3}
cd "$(dirname "$0")/../.."
mkdir -p bin "$dir"
go build -o bin/diskgnn ./cmd/diskgnn
graph=coauthor-physics batch=512 fanout=5,5 epochs=2
bin/diskgnn import --quiet --format gnn-benchmark --binarize --row-normalize --out "$dir/graph" "$DISKGNN_DATA/$graph.npz" >&2
bin/diskgnn presample --quiet --dataset "$dir/graph" --out "$dir/samples" --batch-size $batch --fanout $fanout --epochs $epochs >&2

ours() { # STORE CACHE
	rm -rf "$dir/run"
	bin/diskgnn train --quiet --json --store "$1" --ram-cache "$2" --dataset "$dir/graph" --samples "$dir/samples" --out "$dir/run" \
		--model sage --hidden 256 --epochs $epochs --validate-every $epochs --threads 2 >"$dir/result.json"
	"$GB" -c 'import json, sys
epochs = [{k: e[k] for k in ("seconds", "bytes_read")} for e in json.load(open(sys.argv[1]))["epochs"]]
print(json.dumps({"store": sys.argv[2], "epochs": epochs}))' "$dir/result.json" "$1, --ram-cache $2"
}

bin/diskgnn train --quiet --force --store rows --dataset "$dir/graph" --samples "$dir/samples" --out "$dir/run" --engine none --epochs 1 >&2 # makes the table of checksums
for ((r = 0; r < rounds; r++)); do
	"$GB" bench/ondisk/graphbolt.py $graph --data "$DISKGNN_DATA" --features "$dir/features.npy" --batch $batch --fanout $fanout --epochs $epochs
	for cache in ${CACHES:-10% 100%}; do
		ours rows "$cache"
		ours mmap "$cache"
	done
done
