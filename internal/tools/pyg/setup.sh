#!/usr/bin/env bash
# setup.sh DIR makes DIR/bin/python, a Python with PyTorch Geometric for the tests that compare
# with it, from pinned wheels. It wants Linux on x86-64, python3 3.11 to 3.13 with pip, gcc and
# binutils, 2 GB of disk, and no GPU. It does nothing when DIR is up to date.
#
# The index has PyTorch for CUDA alone, which loads 3 GB of CUDA's libraries at its start. Libraries
# without code take their places: PyTorch calls none of their functions where there is no GPU.
set -euo pipefail
src=$(cd "$(dirname "$0")" && pwd)
dir=${1:?usage: setup.sh DIR}

version=$(cat "$src/setup.sh" "$src/wheels.txt" | sha256sum)
if [ -f "$dir/version" ] && [ "$(cat "$dir/version")" = "$version" ]; then
	exit 0
fi
fail() { echo "setup.sh: $*" >&2; exit 1; }
[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || fail "the wheels are for Linux on x86-64"
for tool in python3 gcc nm readelf; do
	command -v "$tool" >/dev/null || fail "$tool is missing"
done
python3 -m pip --version >/dev/null || fail "python3 has no pip"

# A virtual environment works where it was made, so a DIR that was not finished has no version.
rm -rf "$dir"
python3 -m venv --without-pip "$dir"
PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 python3 -m pip --python "$dir/bin/python" install --quiet \
	--require-hashes --only-binary=:all: --no-deps --no-compile -r "$src/wheels.txt"

# Each missing library of CUDA gets the functions, with their versions, that PyTorch wants of it.
# All return 100, which is cudaErrorNoDevice.
lib=$(echo "$dir"/lib/python3*/site-packages/torch/lib)
work=$dir/work
mkdir "$work"
readelf -dVW "$lib"/lib*.so* >"$work/elf"
nm -D --undefined-only "$lib"/lib*.so* | awk 'NF == 2 { print $2 }' | sort -u >"$work/wanted"
for soname in $(awk '/\(NEEDED\)/ { gsub(/[][]/, "", $5); print $5 }' "$work/elf" | sort -u | grep -E '^lib(cu|nccl|nv)'); do
	[ ! -e "$lib/$soname" ] || continue
	versioned=$(awk -v file="$soname" '$4 == "File:" { of = $5 } $2 == "Name:" && of == file { print $3 }' "$work/elf" | sort -u)
	script=()
	if [ -n "$versioned" ]; then
		grep "@$versioned\$" "$work/wanted" | sed 's/@.*//' | sort -u >"$work/names"
		{ echo "$versioned {"; sed 's/$/;/' "$work/names"; echo "};"; } >"$work/map"
		script=("-Wl,--version-script=$work/map")
	else
		grep -E '^(cuFile|cusparseLt|nccl)[A-Z]' "$work/wanted" | grep -v @ >"$work/names"
	fi
	{
		echo 'long none(void) { return 100; }'
		sed 's/.*/long &(void) __attribute__((alias("none")));/' "$work/names"
	} >"$work/none.c"
	gcc -w -fno-builtin -shared -fPIC -Wl,-soname,"$soname" "${script[@]}" -o "$lib/$soname" "$work/none.c"
done
rm -r "$work"

# A Python that computes nothing is none.
"$dir/bin/python" -W ignore -c 'import torch, torch_geometric.nn, safetensors.torch; assert (torch.ones(9, 9) @ torch.ones(9)).sum() == 81'
echo "$version" >"$dir/version"
echo "PyTorch Geometric for the tests:"
grep -E '^torch' "$src/wheels.txt" | tr -d ' \\'
