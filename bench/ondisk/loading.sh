#!/usr/bin/env bash
# Compares loaders, without a model, on features that are read from disk: diskgnn's stores (train
# --engine none) beside GraphBolt's page faults and its io_uring reader. The programs take turns. Before
# the first epoch of each, the features are dropped from the page cache. The second epoch starts with
# the page cache, or the loader's own cache, that the first epoch filled.
#
#   GB=…/bin/python DGL=CHECKOUT bench/ondisk/loading.sh DATASET [DIR] [ROUNDS]
#
# GB is a Python with DGL 2.1 and PyTorch 2.2. CHECKOUT is a source tree of DGL, from which the reader is
# built (with the headers of liburing). BATCH and FANOUT set the batches, CACHES the shares of the rows
# in the caches of diskgnn's stores. DIR gets a second copy of the features. Each line is a run: the
# seconds of its epochs, and the bytes that they read. GraphBolt's bytes are counted by the kernel for
# its process, diskgnn's bytes by the store, with graphs.
set -euo pipefail
dataset=$(realpath "$1") dir=${2:-${TMPDIR:-/tmp}/diskgnn-ondisk} rounds=${3:-3}
dgl=$(realpath "$DGL")
cd "$(dirname "$0")/../.."
mkdir -p bin "$dir"
go build -o bin/diskgnn ./cmd/diskgnn
batch=${BATCH:-1024} fanout=${FANOUT:-10,10} epochs=2
common=(--quiet --json --engine none --epochs $epochs --threads 2)
export PATH="$(dirname "$GB"):$PATH" # ninja, which builds the reader

bin/diskgnn presample --quiet --dataset "$dataset" --out "$dir/samples" --batch-size $batch --fanout $fanout --eval-fanout 1,1 --epochs $epochs >&2
bin/diskgnn pack --quiet --dataset "$dataset" --samples "$dir/samples" --out "$dir/pack" --cache 5% >&2

report() { # LOADER
	"$GB" -c 'import json, sys
epochs = [{k: e[k] for k in ("seconds", "bytes_read")} for e in json.load(open(sys.argv[1]))["epochs"]]
print(json.dumps({"loader": sys.argv[2], "epochs": epochs}))' "$dir/result.json" "$1"
}

ours() { # STORE CACHE
	rm -rf "$dir/run"
	bin/diskgnn train "${common[@]}" --store "$1" --ram-cache "$2" --dataset "$dataset" --samples "$dir/samples" --out "$dir/run" >"$dir/result.json"
	report "diskgnn, $1, --ram-cache $2"
}

packed() {
	rm -rf "$dir/run"
	bin/diskgnn train "${common[@]}" --pack "$dir/pack" --ram-cache 5% --out "$dir/run" >"$dir/result.json"
	report "diskgnn, packed, --ram-cache 5%"
}

ours rows 10% >/dev/null # makes the table of checksums
for ((r = 0; r < rounds; r++)); do
	for by in mmap uring; do
		"$GB" bench/ondisk/loading.py "$dataset" --features "$dir/features.npy" --by $by --batch $batch --fanout $fanout --epochs $epochs --dgl "$dgl"
	done
	for cache in ${CACHES:-10% 100%}; do
		ours rows "$cache"
	done
	ours mmap 100%
	packed
done
