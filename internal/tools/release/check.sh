#!/usr/bin/env bash
# check.sh DIST checks the output of goreleaser: each archive has the files that a user needs and the
# licences, the programs start, and the checksums match the archives.
set -euo pipefail
dist=${1:?usage: check.sh DIST}

wrong=0
complain() {
	echo "check.sh: $*" >&2
	wrong=1
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dist"
sha256sum --quiet --check SHA256SUMS || complain "SHA256SUMS differs"
for kind in diskgnn-[0-9v]*-linux-amd64 diskgnn-[0-9v]*-linux-arm64 diskgnn-gpu-*-linux-amd64; do
	name=$(compgen -G "$kind.tar.gz") || { complain "there is no $kind.tar.gz"; continue; }
	grep -q " $name\$" SHA256SUMS || complain "SHA256SUMS does not have $name"
	tar -xzf "$name" -C "$dir"
	root=$dir/${name%.tar.gz}
	program=diskgnn
	case $name in diskgnn-gpu-*) program=diskgnn-gpu ;; esac
	for file in "$program" LICENSE THIRD_PARTY_LICENCES.txt README.md CHANGELOG.md man/diskgnn.1 \
		completions/diskgnn.bash completions/_diskgnn completions/diskgnn.fish \
		docs/README.md docs/tutorial.md docs/cli.md docs/cli/train.md docs/howto/install.md docs/format/README.md docs/python/load.py python/pyproject.toml python/diskgnn/py.typed \
		examples/README.md examples/generated.yaml examples/slurm/job.sh examples/kubernetes/train.yaml; do
		[ -s "$root/$file" ] || complain "$name has no $file"
	done
	grep -q 'gorgonia.org/gorgonia' "$root/THIRD_PARTY_LICENCES.txt" || complain "$name: THIRD_PARTY_LICENCES.txt does not name Gorgonia"
	case $name in
	*-amd64.tar.gz) "$root/$program" version || complain "$name: $program does not begin" ;;
	esac
done
exit $wrong
