#!/usr/bin/env bash
# setup.sh DIR makes in DIR what `make test-slurm` runs the scripts of examples/slurm on: Slurm,
# the munge that it authenticates by, and Open MPI's mpirun, with the libraries that this machine
# lacks. They are Debian's packages, unpacked and not installed: it wants apt-get and dpkg, and
# no root. DIR/packages says which versions they are. It does nothing when DIR is up to date.
set -euo pipefail
. "$(dirname "$0")/../debian/unpacked.sh" "${1-}"
x86_64

# Packages that are installed here already are unpacked too, so that DIR is complete.
packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge openmpi-bin openmpi-common)
more=$(missing "${packages[@]}")
unpack $(printf '%s\n' "${packages[@]}" $more | sort -u)
# What lies in /lib is in /usr/lib where DIR/usr lies over /usr. slurmd starts slurmstepd by the
# name that an installation gives it.
if [ -d "$new/lib" ]; then
	cp -a "$new/lib/." "$new/usr/lib/"
fi
rm -rf "$new/lib" "$new"/usr/share/{doc,man}
for tool in slurmctld slurmd slurmstepd; do
	ln -s "$tool-wlm" "$new/usr/sbin/$tool"
done
ln -s mpirun.openmpi "$new/usr/bin/mpirun"

# Tools that do not start are none.
lib=$new/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$lib:$lib/slurm-wlm
"$new/usr/sbin/slurmd" -V
"$new/usr/sbin/munged" --version >/dev/null

finish
echo "Slurm and Open MPI for make test-slurm:"
grep -E '^(slurmd|munge|openmpi-bin) ' "$dir/packages"
