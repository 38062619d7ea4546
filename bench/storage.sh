#!/usr/bin/env bash
# Measures the storage side on one large machine, in fifteen minutes and 60 GB of disk: generates a
# graph, then measures the drive, packing, the loader, and the policy min beside static (cold_rows of
# the packs, and loading). Every pack is deleted before the next one is made.
#
#   go build -o bin/diskgnn-bench ./bench && make build
#   BIN=bin/diskgnn BENCH=bin/diskgnn-bench bench/storage.sh DIR OUT
#
# DIR gets the data, and is emptied; OUT gets a file of JSON lines for every part. Only the binaries are
# needed. NODES, DEGREE, ROUNDS, LOADS and SEEDS set the size of the graph and of the work. PARTS lists
# the parts to measure. To measure the parts in several calls, give KEEP=1 in each: it keeps the data
# in DIR for the next call.
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
