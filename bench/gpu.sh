#!/usr/bin/env bash
# Measures the GPU path on one large machine, in ten minutes and 60 GB of disk: generates a graph, then
# trains with a tenth of the rows on the GPU in float32, where the drive is the bound, and with half of
# the rows in bf16 on GAT of width 512, where drive and GPU take nearly the same time. Each training is
# compared with the lower bounds of drive and GPU. Every pack is deleted before the next one is made.
#
#   make build-gpu && go build -o bin/diskgnn-bench ./bench
#   BIN=bin/diskgnn-gpu BENCH=bin/diskgnn-bench bench/gpu.sh DIR OUT
#
# DIR gets the data, and is emptied; OUT gets a file of JSON lines for every part, and the last run.
# Only the binaries are needed. NODES, DEGREE and ROUNDS set the size of the graph and of the work.
# PARTS lists the parts to measure. To measure the parts in several calls, give KEEP=1 in each: it
# keeps the data in DIR for the next call.
set -euo pipefail
dir=${1:?the directory for the data} out=${2:?the directory for the figures}
bin=$(realpath "${BIN:-bin/diskgnn-gpu}") bench=$(realpath "${BENCH:-bin/diskgnn-bench}")
nodes=${NODES:-20000000} degree=${DEGREE:-15} rounds=${ROUNDS:-2}
mkdir -p "$out" "$dir"
out=$(realpath "$out") dir=$(realpath "$dir")
. "$(dirname "$0")/parts.sh"

# streams FLAG…
streams() { "$bench" stream -json -bin "$bin" -pack "$dir/pack" -rounds "$rounds" "$@"; }

begin
[ -e "$dir/graph" ] || part generate "$bin" generate --out "$dir/graph" --nodes "$nodes" --avg-degree "$degree" --train-ratio 0.01 --quiet --json
# Validation would take longer than training, so its batches are small.
[ -e "$dir/samples" ] || part presample "$bin" presample --dataset "$dir/graph" --out "$dir/samples" --eval-fanout 1,1,1 --quiet --json
for what in ${PARTS:-float32 bf16}; do
	case $what in
	float32)
		part pack-float32 packs --bands none --cache 10%
		part float32 streams -epochs 2 -- --model sage --gpu-cache 10% --ram-cache 0
		;;
	bf16)
		part pack-bf16 packs --bands 100,50 --cache 50% --dtype bf16
		part bf16 streams -epochs 3 -memory 100% -serial -- --model gat --hidden 512 --gpu-cache 50% --ram-cache 0
		part bf16-narrow streams -rounds 1 -epochs 3 -- --model gat --hidden 256 --gpu-cache 50% --ram-cache 0
		part report "$bin" train --pack "$dir/pack" --out "$out/run" --force --model gat --epochs 2 --gpu-cache 50% --ram-cache 0 --trace --quiet --json
		;;
	esac
done
finish
