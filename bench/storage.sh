#!/usr/bin/env bash
# The storage side on one big machine, from nothing to figures in nine minutes and
# 60 GB of disk: generate a graph, then measure the drive, packing, the loader, and the
# policy min beside static, every pack deleted before the next one is made.
#
#   go build -o bin/bench/ ./bench/... && make build
#   BIN=bin/diskgnn BENCH=bin/bench bench/storage.sh DIR OUT
#
# DIR takes the data, and is emptied; OUT takes a file of JSON lines for every part.
# Nothing but the binaries is needed. NODES, DEGREE, ROUNDS, LOADS and SEEDS make the
# graph and the work smaller.
set -euo pipefail
dir=${1:?the directory for the data} out=${2:?the directory for the figures}
bin=$(realpath "${BIN:-bin/diskgnn}") bench=$(realpath "${BENCH:-bin/bench}")
nodes=${NODES:-20000000} degree=${DEGREE:-15} rounds=${ROUNDS:-3} loads=${LOADS:-5} seeds=${SEEDS:-0.5}
mkdir -p "$out" "$dir"
rm -rf "${dir:?}"/{graph,samples,pack}
out=$(realpath "$out") dir=$(realpath "$dir")
. "$(dirname "$0")/parts.sh"

part generate "$bin" generate --out "$dir/graph" --nodes "$nodes" --avg-degree "$degree" --train-ratio 0.01 --quiet --json
part presample "$bin" presample --dataset "$dir/graph" --out "$dir/samples" --train-ratio "$seeds" --quiet --json
part io "$bin" bench io "$dir" --seconds 1 --quiet --json
# Reading row by row takes minutes for all batches: four are read, in one round.
part individual "$bench/packing" -bin "$bin" -dataset "$dir/graph" -samples "$dir/samples" -out "$dir" -rounds 1 -individual 4 -- --cache 10%
part packing "$bench/packing" -bin "$bin" -dataset "$dir/graph" -samples "$dir/samples" -out "$dir" -rounds $((rounds - 1)) -- --cache 10%
part policy "$bench/policy" -samples "$dir/samples" -cache 10 -scratch "$dir"
part pack packs --cache 10% --policy static
part loader "$bench/loader" -bin "$bin" -pack "$dir/pack" -rounds "$loads"
part pack-min packs --cache 10% --policy min
part loader-min "$bench/loader" -bin "$bin" -pack "$dir/pack" -rounds 1
rm -rf "${dir:?}"/{graph,samples,pack}
