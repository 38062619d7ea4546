#!/usr/bin/env bash
# Measures on one large machine what surrounds training, in some 25 minutes and 60 GB of disk: validation and test
# beside an epoch, exact scores on the GPU and on the CPU, with much and with little memory, the classes of all nodes of a graph with the shape
# of papers100M, and a whole job beside PyTorch Geometric.
#
#   make build-gpu && go build -o bin/diskgnn-bench ./bench
#   BIN=bin/diskgnn-gpu BENCH=bin/diskgnn-bench PYG=python3 bench/job.sh DIR OUT
#
# DIR gets the data, and is emptied; OUT gets a file of JSON lines for every part. Only the binaries and
# bench/job/peer.py are needed. NODES and DEGREE set the size of the graph, SHAPE the nodes and the degree of the
# graph with the shape of papers100M. PARTS lists the parts to measure. To measure the parts in several calls, give
# KEEP=1 in each: it keeps the data in DIR for the next call.
set -euo pipefail
dir=${1:?the directory for the data} out=${2:?the directory for the figures}
bin=$(realpath "${BIN:-bin/diskgnn-gpu}") bench=$(realpath "${BENCH:-bin/diskgnn-bench}") here=$(realpath "$(dirname "$0")")
nodes=${NODES:-20000000} degree=${DEGREE:-15} shape=(${SHAPE:-111059956 14.5}) engine=${ENGINE:-gpu}
mkdir -p "$out" "$dir"
out=$(realpath "$out") dir=$(realpath "$dir")
. "$here/parts.sh"

graph() { [ -e "$dir/graph" ] || part generate "$bin" generate --out "$dir/graph" --nodes "$nodes" --avg-degree "$degree" --train-ratio 0.01 --quiet --json; }

# run makes a run of a GraphSAGE with two layers of width 256.
run() { [ -e "$dir/run" ] || part run "$bin" train --dataset "$dir/graph" --fanout 5,5 --train-ratio 0.01 --epochs 1 --out "$dir/run" --engine "$engine" --quiet --json; }

begin
for what in ${PARTS:-validation exact job papers}; do
	case $what in
	validation)
		graph
		[ -e "$dir/samples" ] || part presample "$bin" presample --dataset "$dir/graph" --out "$dir/samples" --quiet --json
		part pack packs --cache 50% --bands 50 --dtype bf16
		part validation "$bin" train --pack "$dir/pack" --out "$out/validated" --force --model gat --hidden 512 --epochs 3 --engine "$engine" --quiet --json
		rm -rf "$dir/pack" "$dir/samples"
		;;
	exact)
		graph
		run
		for memory in ${MEMORIES:-100GiB 8GiB}; do
			for e in ${ENGINES:-gpu cpu}; do
				limit=()
				[ "$e" = cpu ] || limit=(--gpu-memory "$memory")
				part "exact-$e-$memory" "$bin" eval --exact --run "$dir/run" --dataset "$dir/graph" --engine "$e" --memory "$memory" "${limit[@]}" --json
			done
		done
		;;
	job)
		rm -rf "$dir/graph" "$dir/run"
		PYG=${PYG:-} part job "$bench" job -json -bin "$bin" -dir "$dir/job" -peers "$here/job" -nodes "$nodes" -dim 128 -cache "${CACHE:-50%}" -rounds "${ROUNDS:-1}" -engine "$engine" -device "${DEVICE:-cuda}" -threads "$(nproc)"
		rm -rf "$dir/job"
		;;
	papers)
		rm -rf "$dir/graph" "$dir/run"
		part generate-papers "$bin" generate --out "$dir/graph" --nodes "${shape[0]}" --avg-degree "${shape[1]}" --dim 128 --dtype bfloat16 --classes 172 --train-ratio 0.001 --quiet --json
		part run "$bin" train --dataset "$dir/graph" --fanout 5,5,5 --train-ratio 0.01 --hidden 128 --epochs 1 --out "$dir/run" --engine "$engine" --quiet --json
		part papers "$bin" predict --run "$dir/run" --dataset "$dir/graph" --output classes --out "$dir/classes.npy" --force --state-dtype bf16 --quiet --json
		rm -rf "$dir/graph" "$dir/run" "$dir"/classes.npy*
		;;
	esac
done
finish
