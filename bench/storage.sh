#!/usr/bin/env bash
# The storage side on one big machine, from nothing to figures in fifteen minutes and
# 60 GB of disk: generate a graph, then measure the drive, packing, the loader, and the
# policy min beside static (cold_rows of the packs, and loading), every pack deleted before the next one is made.
#
#   go build -o bin/diskgnn-bench ./bench && make build
#   BIN=bin/diskgnn BENCH=bin/diskgnn-bench bench/storage.sh DIR OUT
#
# DIR takes the data, and is emptied; OUT takes a file of JSON lines for every part.
# Nothing but the binaries is needed. NODES, DEGREE, ROUNDS, LOADS and SEEDS make the
# graph and the work smaller. PARTS names what is measured; where time comes in pieces,
# KEEP=1 in every call leaves the data there and goes on with them.
set -euo pipefail
dir=${1:?the directory for the data} out=${2:?the directory for the figures}
bin=$(realpath "${BIN:-bin/diskgnn}") bench=$(realpath "${BENCH:-bin/diskgnn-bench}")
nodes=${NODES:-20000000} degree=${DEGREE:-15} rounds=${ROUNDS:-3} loads=${LOADS:-5} seeds=${SEEDS:-0.5}
mkdir -p "$out" "$dir"
out=$(realpath "$out") dir=$(realpath "$dir")
. "$(dirname "$0")/parts.sh"

begin
[ -e "$dir/graph" ] || part generate "$bin" generate --out "$dir/graph" --nodes "$nodes" --avg-degree "$degree" --train-ratio 0.01 --quiet --json
[ -e "$dir/samples" ] || part presample "$bin" presample --dataset "$dir/graph" --out "$dir/samples" --train-ratio "$seeds" --quiet --json
for what in ${PARTS:-io packing loader loader-min}; do
	case $what in
	io) part io "$bin" bench io "$dir" --quiet --json ;;
	packing) part packing "$bench" packing -json -bin "$bin" -dataset "$dir/graph" -samples "$dir/samples" -dir "$dir" -rounds "$rounds" -- --cache 10% ;;
	loader)
		part pack packs --cache 10% --policy static
		part loader "$bench" loader -json -bin "$bin" -pack "$dir/pack" -rounds "$loads"
		;;
	loader-min)
		part pack-min packs --cache 10% --policy min
		part loader-min "$bench" loader -json -bin "$bin" -pack "$dir/pack" -rounds 1
		;;
	esac
done
finish
