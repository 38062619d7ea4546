# unpacked.sh is what scripts share that make a directory of Debian's packages, unpacked and not
# installed, which takes apt-get and dpkg-deb, and no root:
#
#	. unpacked.sh DIR TOOL…   ends the script when DIR is up to date, or a TOOL is missing
#	x86_64                    ends it on other machines
#	missing PACKAGE…          prints what installing them here would bring along, but not what
#	                          that would replace
#	unpack PACKAGE…           unpacks them in $new, which is empty before; $new/packages says
#	                          which versions they are
#	finish                    makes $new DIR
dir=${1:?usage: ${0##*/} DIR}
version=$(cat "$0" "${BASH_SOURCE[0]}" | sha256sum)
if [ -f "$dir/version" ] && [ "$(cat "$dir/version")" = "$version" ]; then
	exit 0
fi
for tool in apt-get dpkg-deb "${@:2}"; do
	command -v "$tool" >/dev/null || { echo "${0##*/}: $tool is missing" >&2; exit 1; }
done

# All is made beside DIR, which what is finished replaces.
new=$(realpath -m "$dir").partial

x86_64() {
	if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
		echo "${0##*/}: the packages are for Linux on x86-64" >&2
		exit 1
	fi
}

missing() {
	apt-get install --simulate --no-install-recommends -o Debug::NoLocking=1 "$@" | awk '$1 == "Inst" && $3 !~ /^\[/ { print $2 }'
}

unpack() {
	local deb
	rm -rf "$new"
	mkdir -p "$new/debs"
	(cd "$new/debs" && apt-get download -qq -o APT::Sandbox::User=root "$@")
	for deb in "$new"/debs/*.deb; do
		dpkg-deb --show --showformat='${Package} ${Version}\n' "$deb" >>"$new/packages"
		dpkg-deb --extract "$deb" "$new"
	done
	rm -rf "$new/debs"
}

finish() {
	echo "$version" >"$new/version"
	rm -rf "$dir"
	mv "$new" "$dir"
}
