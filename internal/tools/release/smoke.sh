#!/usr/bin/env bash
# smoke.sh NATIVE PROGRAM… runs all stages from a graph to predictions with PROGRAM…, a command that may
# begin with an emulator, and compares its directories with the directories of NATIVE. Both must have the
# same bytes. Trained runs are not compared, since processors round differently.
set -euo pipefail
native=${1:?usage: smoke.sh NATIVE PROGRAM…}
shift
[ $# -gt 0 ] || { echo "usage: smoke.sh NATIVE PROGRAM…" >&2; exit 2; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
stages() { # DIR PROGRAM…
	local to=$1
	shift
	"$@" generate --out "$to/graph" --nodes 2000 --dim 16 --classes 4 --train-ratio 0.3 --quiet
	"$@" presample --dataset "$to/graph" --out "$to/samples" --batch-size 128 --fanout 5,5 --epochs 2 --quiet
	"$@" pack --dataset "$to/graph" --samples "$to/samples" --out "$to/pack" --quiet
}

"$@" version
stages "$dir/that" "$@" >"$dir/log"
"$@" train --pack "$dir/that/pack" --out "$dir/that/run" --hidden 16 --epochs 3 --quiet >>"$dir/log"
"$@" eval --run "$dir/that/run" --dataset "$dir/that/graph" --exact --quiet
"$@" predict --run "$dir/that/run" --dataset "$dir/that/graph" --out "$dir/that/logits.npy" --quiet >>"$dir/log"
for made in graph samples pack; do
	"$@" verify "$dir/that/$made" --quiet >>"$dir/log"
done

stages "$dir/this" "$native" >>"$dir/log"
for made in graph samples pack; do
	if ! cmp "$dir/this/$made/meta.json" "$dir/that/$made/meta.json"; then
		echo "smoke.sh: $made differs from the output of $native" >&2
		exit 1
	fi
done
echo "graph, samples and pack have the fingerprints that $(basename "$native") makes here"
