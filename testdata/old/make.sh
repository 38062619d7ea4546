#!/usr/bin/env bash
# Makes the directories of an older program: testdata/old/make.sh NAME PROGRAM. A program's directories
# are made once, when its commit is chosen to be kept, and never again: they say that what it wrote
# is still read. The graph of a NAME that ends in -typed has node types.
#
# Runs use the plain kernels and gonum, since resuming refuses others than a run began with.
set -euo pipefail
name=$1 program=$(realpath "$2")
cd "$(dirname "$0")"
mkdir "$name" && cd "$name"
export DISKGNN_SIMD=plain
diskgnn() { "$program" "$@" --quiet; }
training=(--hidden 4 --blas gonum --threads 1 --io pread) graph=(--nodes 300) relations=()
if [[ $name == *-typed ]]; then
	training+=(--model rgcn --bases 2) graph=(--nodes 600 --types 3 --featureless 1) relations=(--relation-fanout type1:to:type0=1,4)
fi

diskgnn generate --out graph "${graph[@]}" --avg-degree 5 --dim 6 --classes 3 --train-ratio 0.2
diskgnn presample --dataset graph --out samples --batch-size 32 --fanout 2,3 --epochs 2 "${relations[@]}"
diskgnn pack --dataset graph --samples samples --out static --cache 10%
diskgnn pack --dataset graph --samples samples --out min --cache 10% --policy min
diskgnn pack --dataset graph --samples samples --out int8 --cache 10% --dtype int8
diskgnn pack --dataset graph --samples samples --out zstd --cache 10% --compress-chunks zstd
diskgnn train --pack static --out run "${training[@]}" --epochs 3

# A run that was killed after a checkpoint.
"$program" train --pack static --out interrupted "${training[@]}" --epochs 300 --checkpoint-every 1ms --quiet &
until compgen -G 'interrupted/checkpoints/*.ckpt' >/dev/null; do :; done
kill -KILL $!
wait || true

if [[ $name != *-typed ]] && "$program" nvme load --help >/dev/null 2>&1; then
	diskgnn nvme load static soft:drive --size 4MiB
fi
find . -name lock -delete # empty
# Paths of the machine are left out, and the checksums at the ends made anew.
for file in run/run.json interrupted/run.json; do
	sed -i "s|\"$program\"|\"diskgnn\"|; s|\"$PWD/|\"/old/|" "$file"
	if grep -q '^  "checksum"' "$file"; then
		sum=$(head -c -85 "$file" | sha256sum | cut -c -64)
		sed -i "s|^  \"checksum\": .*|  \"checksum\": \"$sum\"|" "$file"
	fi
done
