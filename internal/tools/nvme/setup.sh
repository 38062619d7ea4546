#!/usr/bin/env bash
# setup.sh DIR makes in DIR what `make test-nvme` runs the driver on: QEMU, whose NVMe
# controller this project did not write, with the libraries that this machine lacks, and a
# kernel for its guest. They are Debian's packages, unpacked and not installed: it wants
# apt-get and dpkg, and neither root nor a device. DIR/packages says which versions they are.
# It does nothing when DIR is up to date.
set -euo pipefail
dir=${1:?usage: setup.sh DIR}

version=$(sha256sum <"$0")
if [ -f "$dir/version" ] && [ "$(cat "$dir/version")" = "$version" ]; then
	exit 0
fi
if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
	echo "setup.sh: the toolchain is for Linux on x86-64" >&2
	exit 1
fi
for tool in apt-get apt-cache dpkg dpkg-deb; do
	command -v "$tool" >/dev/null || { echo "setup.sh: $tool is missing" >&2; exit 1; }
done

# All is made beside DIR, which a finished toolchain replaces.
new=$(realpath -m "$dir").partial
rm -rf "$new"
mkdir -p "$new/debs"

# The kernel is what the metapackage depends on; QEMU comes with what installing it here
# would bring along, but not what that would replace.
kernel=$(apt-cache depends --important linux-image-cloud-amd64 | awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }')
[ -n "$kernel" ] || { echo "setup.sh: apt-cache knows no linux-image-cloud-amd64" >&2; exit 1; }
missing=$(apt-get install --simulate --no-install-recommends -o Debug::NoLocking=1 qemu-system-x86 | awk '$1 == "Inst" && $3 !~ /^\[/ { print $2 }')
(cd "$new/debs" && apt-get download -qq -o APT::Sandbox::User=root "$kernel" qemu-system-x86 qemu-system-common qemu-system-data seabios ipxe-qemu $missing)
for deb in "$new"/debs/*.deb; do
	dpkg-deb --field "$deb" Package Version | awk '{ printf "%s ", $2 } END { print "" }' >>"$new/packages"
	dpkg-deb --extract "$deb" "$new"
done
rm -rf "$new/debs" "$new"/usr/share/{doc,man} "$new/lib/modules" "$new"/boot/System.map*
mv "$new"/boot/vmlinuz-* "$new/vmlinuz"

# A toolchain that emulates nothing is none.
export LD_LIBRARY_PATH=$new/usr/lib/x86_64-linux-gnu:$new/lib/x86_64-linux-gnu
"$new/usr/bin/qemu-system-x86_64" -accel help | grep -q tcg
"$new/usr/bin/qemu-system-x86_64" -device help | grep -q '"nvme"'

echo "$version" >"$new/version"
rm -rf "$dir"
mv "$new" "$dir"
echo "QEMU and a kernel for make test-nvme:"
grep -E '^(qemu-system-x86|linux-image)' "$dir/packages"
