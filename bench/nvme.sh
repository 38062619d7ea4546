#!/usr/bin/env bash
# Compares training from a volume on NVMe drives, --io nvme:TARGET, with training from the files that
# were loaded onto it, in turn: packed mini-batches, and rows of a dataset (--store rows). Each trains
# a model, where the weights must be equal, and once more without computing, where reads take the
# time.
#
#   bench/nvme.sh DIR [ROUNDS]
#
# The default drives are files behind a controller in software. Both sides then read the same drive.
# The difference is the cost of queues that the program drives itself, of a controller that runs on the
# same processors, and of one more hop to the kernel. TARGET names other drives; if they hold a volume,
# its content is replaced. IO is the storage backend to compare with. DIR needs about 4 GB. NODES, DIM
# and SEEDS set the size of the graph. BIN is a folder with diskgnn and diskgnn-bench; without it they
# are built.
set -euo pipefail
rounds=${2:-3} here=$(realpath "$(dirname "$0")") nodes=${NODES:-1000000} seeds=${SEEDS:-16000}
mkdir -p "$1"
cd "$1"
. "$here/turns.sh"

made generate --out graph --nodes "$nodes" --dim "${DIM:-128}" --train-ratio "$(awk "BEGIN { print $seeds / $nodes }")"
made presample --dataset graph --out samples --batch-size 1000 --fanout 5,5
made pack --dataset graph --samples samples --out pack --cache 5%
for from in pack graph; do
	target=${TARGET:-soft:$PWD/$from.drive} load=()
	if [ -n "${TARGET:-}" ]; then
		load=(--force) # the other source's directory
	elif [ ! -e $from.drive ]; then
		load=(--size "$(($(du -sm --apparent-size $from | cut -f 1) + 64))MiB")
	fi
	made nvme load "${load[@]}" $from "$target"
	train=(train --pack pack)
	[ $from = pack ] || train=(train --dataset graph --samples samples --store rows)
	for engine in cpu none; do
		turns -rounds "$rounds" -swap -same weights -each "--io nvme:$target" -each "--io ${IO:-uring}" \
			-- "${train[@]}" --engine $engine --epochs 3 --validate-every 3 --hidden 16 --ram-cache 5%
	done
done
