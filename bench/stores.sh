#!/usr/bin/env bash
# Measures every store on one table, on one large machine, in 90 minutes and 40 GB of disk: generates a graph
# of which 1 % of the nodes are seed nodes, then compares the stores with the same memory, which is far
# less than the features. Single rows take nearly all of the time, at 90 thousand pages a second: it is
# shorter on a faster drive, and a quarter with FANOUT=5,5.
#
#   make build
#   BIN=bin/diskgnn bench/stores.sh DIR OUT
#
# DIR gets the data, and is emptied; OUT gets a file of JSON for every part, the table (stores.txt) and the
# page (report.html). Only the binary is needed. NODES, DEGREE, DIM, FANOUT, BATCH, MEMORY, ROUNDS, EPOCHS
# and SAMPLED (sample epochs) set the size of the graph and of the work. STORES lists the stores to measure,
# ENGINE is the engine (none), FLAGS more flags of `bench stores`, for example
#
#   ENGINE=auto FLAGS="--gpu-memory 640MiB" BIN=bin/diskgnn-gpu bench/stores.sh DIR OUT
#
# To measure in several calls, give KEEP=1 in each: a call continues where the last one ended, also where
# that was cut off, and runs more stores or rounds beside those that are there.
set -euo pipefail
dir=${1:?the directory for the data} out=${2:?the directory for the figures}
bin=$(realpath "${BIN:-bin/diskgnn}")
nodes=${NODES:-20000000} degree=${DEGREE:-15} dim=${DIM:-128} fanout=${FANOUT:-10,10} batch=${BATCH:-1024} memory=${MEMORY:-1GiB}
rounds=${ROUNDS:-3} epochs=${EPOCHS:-2} sampled=${SAMPLED:-2}
mkdir -p "$out" "$dir"
out=$(realpath "$out") dir=$(realpath "$dir")
. "$(dirname "$0")/parts.sh"

# compare FLAG…: compares the stores, or shows a comparison that is complete.
compare() {
	# shellcheck disable=SC2086 # FLAGS has several words
	"$bin" bench stores --dataset "$dir/graph" --out "$dir/stores" --memory "$memory" --batch-size "$batch" --fanout "$fanout" \
		--eval-fanout 1,1 --sample-epochs "$sampled" --epochs "$epochs" --rounds "$rounds" --engine "${ENGINE:-none}" \
		${STORES:+--stores "$STORES"} ${FLAGS:-} "$@"
}

[ -n "${KEEP:-}" ] || rm -rf "$dir/stores"
begin
[ -e "$dir/graph" ] || part generate "$bin" generate --out "$dir/graph" --nodes "$nodes" --avg-degree "$degree" --dim "$dim" --train-ratio 0.01 --quiet --json
[ -e "$out/io.json" ] || part io "$bin" bench io "$dir/graph/features.bin" --quiet --json
part stores compare --json
compare --quiet | tee "$out/stores.txt"
cp "$dir/stores/report.html" "$out"
[ -n "${KEEP:-}" ] || rm -rf "$dir/stores"
finish
