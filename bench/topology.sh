#!/usr/bin/env bash
# A graph whose topology is twice --memory, sampled and trained on live with --topology mapped and
# cached in turn. The page cache has no limit here but the machine's: what is mapped may lie in
# memory as a whole, beside --memory, which does not count it. Run this in a cgroup of --memory, or a
# little more, to see both under the same limit. The page cache of the graph is dropped before every
# run. All runs must make the same samples, and train to the same losses.
#
#   bench/topology.sh DIR [ROUNDS]
#
# MEMORY is in MiB, DEGREE the neighbours of a node. BIN is a folder with diskgnn and diskgnn-bench;
# without it they are built.
set -euo pipefail
rounds=${2:-2} here=$(realpath "$(dirname "$0")") memory=${MEMORY:-128} degree=${DEGREE:-60}
mkdir -p "$1"
cd "$1"
. "$here/turns.sh"

nodes=$((2 * memory * 1024 * 1024 / (4 * degree + 8)))
graph=graph-$nodes-$degree
made generate --out "$graph" --nodes $nodes --avg-degree "$degree" --dim 16 --train-ratio 0.02
drawing=(--dataset "$graph" --fanout 10,10 --batch-size 512 --epochs 2 --memory "${memory}MiB")
# The table of pages is made beforehand: by a run that is not measured.
made presample "${drawing[@]}" --topology cached --out samples
rm -r samples
of=batches,topology_bytes_read,topology_requests,topology_memory_bytes,peak_anon_bytes
turns -rounds "$rounds" -drop "$graph" -same fingerprint -figures sample_seconds,$of \
	-each "--topology mapped" -each "--topology cached" -- presample "${drawing[@]}"
turns -rounds "$rounds" -drop "$graph" -same losses -figures epoch_seconds,$of \
	-each "--topology mapped" -each "--topology cached --topology-memory $((memory / 8))MiB" \
	-- train "${drawing[@]}" --store rows --ram-cache 5% --hidden 16 --dry-epochs 0.1
