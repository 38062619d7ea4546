#!/usr/bin/env bash
# emulator.sh DIR makes in DIR what `make test-arm64` runs the program for arm64 on: QEMU for
# programs of other processors, and their libc. They are Debian's packages, unpacked and not
# installed: it wants apt-get and dpkg-deb, and no root. DIR/packages says which versions they
# are. It does nothing when DIR is up to date.
set -euo pipefail
dir=${1:?usage: emulator.sh DIR}

version=$(sha256sum <"$0")
if [ -f "$dir/version" ] && [ "$(cat "$dir/version")" = "$version" ]; then
	exit 0
fi
for tool in apt-get dpkg-deb; do
	command -v "$tool" >/dev/null || { echo "emulator.sh: $tool is missing" >&2; exit 1; }
done

# All is made beside DIR, which a finished emulator replaces.
new=$(realpath -m "$dir").partial
rm -rf "$new"
mkdir -p "$new/debs"
(cd "$new/debs" && apt-get download -qq -o APT::Sandbox::User=root qemu-user-static libc6-arm64-cross)
for deb in "$new"/debs/*.deb; do
	dpkg-deb --show --showformat='${Package} ${Version}\n' "$deb" >>"$new/packages"
	dpkg-deb --extract "$deb" "$new"
done
find "$new/usr/bin" -type f ! -name qemu-aarch64-static -delete
rm -rf "$new/debs" "$new"/usr/share
"$new/usr/bin/qemu-aarch64-static" --version >/dev/null

echo "$version" >"$new/version"
rm -rf "$dir"
mv "$new" "$dir"
echo "an emulator for make test-arm64:"
cat "$dir/packages"
