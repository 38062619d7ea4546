#!/usr/bin/env bash
# Samples a graph with a topology of twice --memory, and trains on it live, with --topology mapped and
# cached in turn. The page cache has no limit here except the machine's memory: a mapped topology may
# lie in memory as a whole, and --memory does not count it. To measure both under the same limit, run
# this in a cgroup with a limit of --memory or slightly more. The graph is dropped from the page cache
# before every run. All runs must make the same samples, and train to the same losses.
#
#   bench/topology.sh DIR [ROUNDS]
#
# MEMORY is in MiB; DEGREE is the mean number of neighbours of a node. BIN is a folder with diskgnn and
# diskgnn-bench; without it they are built.
set -euo pipefail
rounds=${2:-2} here=$(realpath "$(dirname "$0")") memory=${MEMORY:-128} degree=${DEGREE:-60}
mkdir -p "$1"
cd "$1"
. "$here/turns.sh"

nodes=$((2 * memory * 1024 * 1024 / (4 * degree + 8)))
graph=graph-$nodes-$degree
made generate --out "$graph" --nodes $nodes --avg-degree "$degree" --dim 16 --train-ratio 0.02
drawing=(--dataset "$graph" --fanout 10,10 --batch-size 512 --epochs 2 --memory "${memory}MiB")
# The first run makes the table of pages, and is not measured.
made presample "${drawing[@]}" --topology cached --out samples
rm -r samples
of=batches,topology_bytes_read,topology_requests,topology_memory_bytes,peak_anon_bytes
turns -rounds "$rounds" -drop "$graph" -same fingerprint -figures sample_seconds,$of \
	-each "--topology mapped" -each "--topology cached" -- presample "${drawing[@]}"
turns -rounds "$rounds" -drop "$graph" -same losses -figures epoch_seconds,$of \
	-each "--topology mapped" -each "--topology cached --topology-memory $((memory / 8))MiB" \
	-- train "${drawing[@]}" --store rows --ram-cache 5% --hidden 16 --dry-epochs 0.1
