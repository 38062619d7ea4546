#!/usr/bin/env bash
# Checks that runs of a dataset are reproducible: equal losses to the last bit for any cuts of the pack
# and any cache, equal weights to the byte for any number of threads, and equal directories to the byte
# for any workers and memory of the earlier stages. It fails if anything differs.
#
#   bench/reproduce.sh DATASET DIR
#
# DIR gets samples and packs. FANOUT and BATCH set the sampling, EPOCHS the length of each run. BIN is a
# folder with diskgnn and diskgnn-bench; without it they are built.
set -euo pipefail
dataset=$(realpath "$1") here=$(realpath "$(dirname "$0")")
mkdir -p "$2"
cd "$2"
. "$here/turns.sh"

each=()
for workers in 1 2 7; do
	for memory in 256MiB 1GiB 8GiB; do each+=(-each "--workers $workers --memory $memory"); done
done
sampling=(presample --dataset "$dataset" --fanout "${FANOUT:-10,10}" --batch-size "${BATCH:-1000}" --epochs 2)
made "${sampling[@]}" --out samples
turns -rounds 1 -same fingerprint -figures seconds "${each[@]}" -- "${sampling[@]}"
turns -rounds 1 -same fingerprint -figures seconds "${each[@]}" -- pack --dataset "$dataset" --samples samples --cache 10%

each=() packs=()
for cache in 0 10% 100%; do
	made pack --dataset "$dataset" --samples samples --out "pack-$cache" --cache "$cache"
	packs+=(-each "--pack pack-$cache")
	for ram in 100% 30% 10% 0; do
		case $cache,$ram in 100%,30% | 100%,10% | 100%,0 | 10%,0) continue ;; esac # below the pack's least
		each+=(-each "--pack pack-$cache --ram-cache $ram")
	done
done
for threads in 1 2 5; do each+=(-each "--pack pack-10% --threads $threads"); done
train=(train --epochs "${EPOCHS:-2}" --hidden 64)
turns -rounds 1 -same losses,weights "${each[@]}" -- "${train[@]}" --layer-order aggregate
turns -rounds 1 -close first_loss "${packs[@]}" -- "${train[@]}" --layer-order multiply
rm -r samples pack-*
