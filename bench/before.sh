#!/usr/bin/env bash
# Measures an earlier version of the program beside this one, in turn, on one machine: bytes and decoding of
# packs' graphs, loading without a model for each type of rows, packing, sampling. Medians of ROUNDS.
#
#   git worktree add /tmp/before COMMIT && (cd /tmp/before && make build)
#   go build -o bin/diskgnn-bench ./bench && make build
#   bench/before.sh /tmp/before/bin/diskgnn DIR OUT
#
# DIR gets the data: a directory in memory leaves out the drive. OUT gets a file for every part. NODES, DIM, FANOUT,
# SEEDS (share of the nodes), DTYPES, CACHE and ROUNDS set the size of the work, PARTS the parts.
set -euo pipefail
before=$(realpath "${1:?the earlier program}") dir=${2:?the directory for the data} out=${3:?the directory for the figures}
bin=$(realpath "${BIN:-bin/diskgnn}") bench=$(realpath "${BENCH:-bin/diskgnn-bench}")
nodes=${NODES:-1000000} dim=${DIM:-128} fanout=${FANOUT:-10,15,20} seeds=${SEEDS:-0.01} rounds=${ROUNDS:-5} cache=${CACHE:-10%}
mkdir -p "$dir" "$out"
out=$(realpath "$out") && cd "$dir"

# turns NAME KEYS FLAG… -- COMMAND…: one part, with the figures of KEYS.
turns() { "$bench" turns -rounds "$rounds" -bin "$bin" -dir "$dir" -before "$before" -swap -figures "$2" "${@:3}" | tee "$out/$1"; }
made() { [ -e "$2" ] || "$1" "${@:3}" --out "$2" --quiet >/dev/null; }
sampling=(--dataset graph --batch-size 1024 --fanout "$fanout" --eval-fanout 1,1,1)

made "$bin" graph generate --nodes "$nodes" --avg-degree 15 --dim "$dim" --train-ratio "$seeds"
made "$bin" samples presample "${sampling[@]}"
for part in ${PARTS:-graphs loading packing sampling}; do
	case $part in
	graphs)
		made "$before" before-graphs pack --dataset graph --samples samples --cache "$cache"
		made "$bin" graphs pack --dataset graph --samples samples --cache "$cache"
		for pack in before-graphs graphs; do "$bench" graphs "$pack" samples; done | tee "$out/graphs"
		rm -r before-graphs graphs
		;;
	loading)
		for dtype in ${DTYPES:-same bf16 int8}; do
			made "$before" "before-$dtype" pack --dataset graph --samples samples --cache "$cache" --dtype "$dtype"
			made "$bin" "pack-$dtype" pack --dataset graph --samples samples --cache "$cache" --dtype "$dtype"
			turns "loading-$dtype" epoch_seconds,bytes_read -each-before "--pack before-$dtype" -each "--pack pack-$dtype" -- \
				train --engine none --epochs 4 --ram-cache "$cache"
			rm -r "before-$dtype" "pack-$dtype"
		done
		;;
	packing) turns packing seconds,graph_seconds,row_seconds,bytes_written,peak_anon_bytes -each-before "" -each "" -- pack --dataset graph --samples samples --cache "$cache" ;;
	sampling)
		turns sampling seconds,peak_anon_bytes -each-before "" -each "" -- presample "${sampling[@]}"
		turns labor seconds,peak_anon_bytes -each-before "" -each "" -- presample "${sampling[@]}" --sampler labor
		;;
	esac
done
