#!/usr/bin/env bash
# setup.sh DIR makes in DIR what `make test-nvme` runs the driver on: QEMU, whose NVMe
# controller this project did not write, with the libraries that this machine lacks, and a
# kernel for its guest. They are Debian's packages, unpacked and not installed: it wants
# apt-get and dpkg, and neither root nor a device. DIR/packages says which versions they are.
# It does nothing when DIR is up to date.
set -euo pipefail
. "$(dirname "$0")/../debian/unpacked.sh" "${1-}" apt-cache dpkg
x86_64

# The kernel is what the metapackage depends on; QEMU comes with what installing it here
# would bring along, but not what that would replace.
kernel=$(apt-cache depends --important linux-image-cloud-amd64 | awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }')
[ -n "$kernel" ] || { echo "setup.sh: apt-cache knows no linux-image-cloud-amd64" >&2; exit 1; }
more=$(missing qemu-system-x86)
unpack "$kernel" qemu-system-x86 qemu-system-common qemu-system-data seabios ipxe-qemu $more
rm -rf "$new"/usr/share/{doc,man} "$new/lib/modules" "$new"/boot/System.map*
mv "$new"/boot/vmlinuz-* "$new/vmlinuz"

# A toolchain that emulates nothing is none.
export LD_LIBRARY_PATH=$new/usr/lib/x86_64-linux-gnu:$new/lib/x86_64-linux-gnu
"$new/usr/bin/qemu-system-x86_64" -accel help | grep -q tcg
"$new/usr/bin/qemu-system-x86_64" -device help | grep -q '"nvme"'

finish
echo "QEMU and a kernel for make test-nvme:"
grep -E '^(qemu-system-x86|linux-image)' "$dir/packages"
