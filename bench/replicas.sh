#!/usr/bin/env bash
# Compares one GPU with two GPUs of one machine, in turn: GAT of width 512 and GraphSAGE on a pack in
# memory, so that computing is the bound. --gpu-cache has a limit per GPU, so that two GPUs hold twice
# the rows. Then one of two processes is killed, and the run resumed.
#
#   BIN=bin/diskgnn-gpu bench/replicas.sh DIR OUT
#
# DIR, on a tmpfs such as /dev/shm, gets the data; OUT gets the output of every run. NODES, RATIO and
# ROUNDS set the size of the work. DISKGNN_NCCL may name the NCCL library. Only the binary is needed.
set -euo pipefail
dir=${1:?the directory for the data} out=${2:?the directory for the outputs}
bin=$(realpath "${BIN:-bin/diskgnn-gpu}")
mkdir -p "$dir" "$out"

[ -e "$dir/graph" ] || "$bin" generate --out "$dir/graph" --nodes "${NODES:-3000000}" --avg-degree 15 --train-ratio "${RATIO:-0.15}" --quiet
[ -e "$dir/samples" ] || "$bin" presample --dataset "$dir/graph" --out "$dir/samples" --fanout 5,10,15 --eval-fanout 1,1,1 --quiet
[ -e "$dir/pack" ] || "$bin" pack --dataset "$dir/graph" --samples "$dir/samples" --out "$dir/pack" --bands none --cache 100% --dtype bf16 --quiet --json | tee "$out/pack.json"

# train NAME FLAG…: trains, and keeps the log and the result.
train() {
	local name=$1
	shift
	"$bin" train --pack "$dir/pack" --out "$dir/run" --force --engine gpu --accumulate 2 --epochs 2 --validate-every 2 --gpu-cache 20% "$@" --json >"$out/$name.json" 2>"$out/$name.log"
	rm -rf "$dir/run"
}

for round in $(seq "${ROUNDS:-2}"); do
	for gpus in 1 2; do
		train "gat-$gpus-$round" --model gat --hidden 512 --gpus "$gpus"
		train "sage-$gpus-$round" --model sage --gpus "$gpus"
	done
done
train sage-2-host --model sage --gpus 2 --reduce host

# Of two processes the second is killed. Then both resume, and must end with the weights of an
# uninterrupted run.
ranks() { # OUT FLAG…
	local run=$1
	shift
	for rank in 0 1; do
		RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29571 \
			"$bin" train --pack "$dir/pack" --out "$run" --engine gpu --model sage --epochs 2 --checkpoint-every 20 --gpu-cache 20% "$@" >"$out/$(basename "$run")-$rank.json" 2>"$out/$(basename "$run")-$rank.log" --json &
		pids[rank]=$!
	done
}
declare -a pids
if "$bin" train --help 2>&1 | grep -q -- --rank; then
	ranks "$dir/whole"
	wait "${pids[@]}"
	ranks "$dir/killed"
	until ls "$dir"/killed/checkpoints/* >"$out/checkpoints.txt" 2>&1; do sleep 0.2; done # there is something to go on from
	kill -9 "${pids[1]}" || true
	began=$(date +%s%N)
	wait "${pids[0]}" || echo "rank 0 ended with exit code $? after $((($(date +%s%N) - began) / 1000000)) ms" | tee "$out/killed.txt"
	wait "${pids[1]}" || true
	ranks "$dir/killed" --resume
	wait "${pids[@]}"
	cmp "$dir/whole/final.safetensors" "$dir/killed/final.safetensors" && echo "equal weights" | tee -a "$out/killed.txt"
fi
