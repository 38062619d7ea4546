#!/usr/bin/env bash
# emulator.sh DIR makes in DIR what `make test-arm64` runs the program for arm64 on: QEMU for
# programs of other processors, and their libc. They are Debian's packages, unpacked and not
# installed: it wants apt-get and dpkg-deb, and no root. DIR/packages says which versions they
# are. It does nothing when DIR is up to date.
set -euo pipefail
. "$(dirname "$0")/../debian/unpacked.sh" "${1-}"

unpack qemu-user-static libc6-arm64-cross
find "$new/usr/bin" -type f ! -name qemu-aarch64-static -delete
rm -rf "$new"/usr/share
"$new/usr/bin/qemu-aarch64-static" --version >/dev/null

finish
echo "an emulator for make test-arm64:"
cat "$dir/packages"
