#!/usr/bin/env bash
# setup.sh DIR makes the toolchain of the gpu variant in DIR from Python wheels: nvcc
# with its stages, CUDA's headers, and a libcuda to link with. It wants python3 with
# pip, gcc and ar, and no driver or device; it does nothing when DIR is up to date.
set -euo pipefail
src=$(cd "$(dirname "$0")" && pwd)
dir=${1:?usage: setup.sh DIR}

version=$(cd "$src" && sha256sum setup.sh wheels.txt cuda.h shim.c | sha256sum)
if [ -f "$dir/version" ] && [ "$(cat "$dir/version")" = "$version" ]; then
	exit 0
fi
if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
	echo "setup.sh: the toolchain is for Linux on x86-64" >&2
	exit 1
fi

# All is made beside DIR, which a finished toolchain replaces.
new=$dir.partial
rm -rf "$new"
mkdir -p "$new"
PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 python3 -m pip install --quiet \
	--require-hashes --only-binary=:all: --no-deps --no-compile --target "$new/wheels" -r "$src/wheels.txt"
for part in bin include nvvm; do
	mv "$new/wheels/nvidia/cu13/$part" "$new/$part"
done
rm -rf "$new/wheels"

# cgo's include path begins with a cuda.h of our own, which includes CUDA's.
mkdir "$new/compat" "$new/lib"
cp "$src/cuda.h" "$new/compat/"

# functions.inc names what CUDA's cuda.h declares, after its macros have given every
# function the version that callers link to.
printf '#include <cuda.h>\n' | gcc -E -P -I"$new/include" -x c - | tr '\n' ' ' |
	grep -oE 'CUresult +cu[A-Z]\w* *\(' | tr -d '(' | awk '$2 != "cuInit" { print "F(" $2 ")" }' |
	sort -u >"$new/lib/functions.inc"
gcc -std=gnu11 -O2 -fPIC -Wall -Wextra -Werror -I"$new/lib" -c "$src/shim.c" -o "$new/lib/shim.o"
ar rcsD "$new/lib/libcuda.a" "$new/lib/shim.o"
rm "$new/lib/shim.o"

# A toolchain that compiles nothing is none.
echo '__global__ void k(float *x) { *x = 1; }' >"$new/probe.cu"
"$new/bin/nvcc" -fatbin -arch=sm_90 -o "$new/probe.fatbin" "$new/probe.cu"
rm "$new"/probe.*

echo "$version" >"$new/version"
rm -rf "$dir"
mv "$new" "$dir"
