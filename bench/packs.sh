#!/usr/bin/env bash
# Measures the cost of a disk budget: the loader's epochs, in turn, on packs from the smallest possible
# one to a pack without a budget. Then it measures the cost of one pack for several sizes of cache: the
# loader on this pack, beside a pack for each size. The amplification is the bytes read, divided by the
# useful bytes.
#
#   bench/packs.sh DATASET SAMPLES DIR [ROUNDS]
#
# DIR gets the packs. CACHE is the cache of the packs with a budget; CACHES are the sizes in percent of
# the rows, ascending. BIN is a folder with diskgnn and diskgnn-bench; without it they are built.
set -euo pipefail
dataset=$(realpath "$1") samples=$(realpath "$2") rounds=${4:-1} here=$(realpath "$(dirname "$0")") cache=${CACHE:-5%} caches=${CACHES:-5,10,20,30,50}
mkdir -p "$3"
cd "$3"
. "$here/turns.sh"
packed() { "$bin" pack --dataset "$dataset" --samples "$samples" --quiet --json "$@" | tail -n 1; }
of() { sed -E 's/.*"'"$1"'":([0-9.]+).*/\1/'; }
loads() { turns -rounds "$rounds" -figures steady_seconds,bytes_read,useful_bytes,ssd_bytes_read,ssd_useful_bytes "$@"; }

least=$(packed --out none --cache "$cache" --max-disk 1B 2>&1 >/dev/null | sed -nE 's/.*\(([0-9]+) bytes.*/\1/p') || true
whole=$(packed --out pack-3 --cache "$cache" | tee /dev/stderr | of disk_bytes)
each=(-each "--pack pack-3")
for i in 2 1 0; do # each takes the same multiple of the one below it
	packed --out pack-$i --cache "$cache" --max-disk "$(awk "BEGIN { printf \"%.0f\", ${least:?pack refused without the least budget} * ($whole / $least) ^ ($i / 3) + 1 }")B" >&2
	each+=(-each "--pack pack-$i")
done
loads "${each[@]}" -- train --engine none --epochs 4 --ram-cache "$cache"
rm -r pack-?

packed --out one --cache "${caches%%,*}%" --bands "$caches" >&2
for share in ${caches//,/ }; do # one pack beside the common one is there at a time
	packed --out own --cache "$share%" --bands none >&2
	loads -each "--pack one" -each "--pack own" -- train --engine none --epochs 3 --ram-cache "$share%"
	rm -r own
done
rm -r one
