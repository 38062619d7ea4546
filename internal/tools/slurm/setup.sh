#!/usr/bin/env bash
# setup.sh DIR makes in DIR what `make test-slurm` runs the scripts of examples/slurm on: Slurm,
# the munge that it authenticates by, and Open MPI's mpirun, with the libraries that this machine
# lacks. They are Debian's packages, unpacked and not installed: it wants apt-get and dpkg, and
# no root. DIR/packages says which versions they are. It does nothing when DIR is up to date.
set -euo pipefail
dir=${1:?usage: setup.sh DIR}

version=$(sha256sum <"$0")
if [ -f "$dir/version" ] && [ "$(cat "$dir/version")" = "$version" ]; then
	exit 0
fi
if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
	echo "setup.sh: the packages are for Linux on x86-64" >&2
	exit 1
fi
for tool in apt-get dpkg-deb; do
	command -v "$tool" >/dev/null || { echo "setup.sh: $tool is missing" >&2; exit 1; }
done

# All is made beside DIR, which finished tools replace.
new=$(realpath -m "$dir").partial
rm -rf "$new"
mkdir -p "$new/debs"

# Packages that are installed here already are unpacked too, so that DIR is complete.
packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge openmpi-bin openmpi-common)
missing=$(apt-get install --simulate --no-install-recommends -o Debug::NoLocking=1 "${packages[@]}" | awk '$1 == "Inst" && $3 !~ /^\[/ { print $2 }')
(cd "$new/debs" && apt-get download -qq -o APT::Sandbox::User=root $(printf '%s\n' "${packages[@]}" $missing | sort -u))
for deb in "$new"/debs/*.deb; do
	dpkg-deb --show --showformat='${Package} ${Version}\n' "$deb" >>"$new/packages"
	dpkg-deb --extract "$deb" "$new"
done
# What lies in /lib is in /usr/lib where DIR/usr lies over /usr. slurmd starts slurmstepd by the
# name that an installation gives it.
if [ -d "$new/lib" ]; then
	cp -a "$new/lib/." "$new/usr/lib/"
fi
rm -rf "$new/debs" "$new/lib" "$new"/usr/share/{doc,man}
for tool in slurmctld slurmd slurmstepd; do
	ln -s "$tool-wlm" "$new/usr/sbin/$tool"
done
ln -s mpirun.openmpi "$new/usr/bin/mpirun"

# Tools that do not start are none.
lib=$new/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$lib:$lib/slurm-wlm
"$new/usr/sbin/slurmd" -V
"$new/usr/sbin/munged" --version >/dev/null

echo "$version" >"$new/version"
rm -rf "$dir"
mv "$new" "$dir"
echo "Slurm and Open MPI for make test-slurm:"
grep -E '^(slurmd|munge|openmpi-bin) ' "$dir/packages"
