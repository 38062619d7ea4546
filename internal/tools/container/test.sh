#!/usr/bin/env bash
# test.sh DIR [VERB…] tests the repository's HEAD with only Debian, make and Go installed. It runs as
# root, makes root directories in DIR (2 GB), and chroots into them. The VERBs, by default both, are:
#
#	image  runs the steps of the Dockerfile, and then, as its user, all stages from a graph to a trained run
#	cold   make demo with empty caches, make install, go install, then make test
#
# It prints the time of each step. Go, the proxy of modules and their checksums are this machine's; the
# rest is fetched. The steps are read from the Dockerfile: FROM, WORKDIR, COPY, RUN and USER.
set -euo pipefail
dir=$(realpath -m "${1:?usage: test.sh DIR [image] [cold]}")
shift
[ $# -gt 0 ] || set -- image cold
repository=$(cd "$(dirname "$0")/../../.." && pwd)
if [ "$(id -u)" != 0 ]; then
	echo "NOT CHECKED: the Dockerfile's steps, and a cold build. This test needs root."
	exit 0
fi
command -v debootstrap >/dev/null || { echo "NOT CHECKED: the Dockerfile's steps, and a cold build. debootstrap is missing (apt-get install debootstrap)."; exit 0; }

mkdir -p "$dir"
[ -d "$dir/context" ] && rm -rf "$dir/context"
mkdir "$dir/context"
git -C "$repository" archive HEAD | tar -x -C "$dir/context"
if [ ! -e "$dir/debian/.made" ]; then
	rm -rf "$dir/debian"
	debootstrap --variant=minbase --include=make,ca-certificates bookworm "$dir/debian" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$dir/debootstrap.log"
	touch "$dir/debian/.made"
fi

# fresh NAME makes a root directory, with the host names, resolver and certificates of this machine.
fresh() {
	rm -rf "${dir:?}/$1"
	cp -a "$dir/debian" "$dir/$1"
	cp /etc/resolv.conf /etc/hosts "$dir/$1/etc/"
	if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
		cp -L /etc/ssl/certs/ca-certificates.crt "$dir/$1/etc/ssl/certs/"
	fi
}
with_go() { cp -a "$(go env GOROOT)" "$dir/$1/usr/local/go"; }

# within ROOT USER COMMAND runs a shell command in a root directory, in namespaces that end with it.
within() {
	local name=$1 user=$2
	root=$dir/$name shell=$3 user=$user unshare --kill-child --mount --pid --fork --ipc --uts sh -euc '
		mount -t proc proc "$root/proc"
		mount -t tmpfs tmpfs "$root/dev"
		mkdir "$root/dev/shm" "$root/dev/pts"
		for device in null zero full random urandom tty; do
			touch "$root/dev/$device"
			mount --bind /dev/$device "$root/dev/$device"
		done
		ln -s /proc/self/fd "$root/dev/fd"
		exec chroot --userspec="$user" "$root" /usr/bin/env -i HOME=/root TERM=dumb \
			PATH=/go/bin:/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin GOPATH=/go GOTOOLCHAIN=local \
			'"$(for v in GOPROXY GOSUMDB GONOSUMDB GOFLAGS http_proxy https_proxy HTTP_PROXY HTTPS_PROXY no_proxy; do
			[ -z "${!v:-}" ] || printf '%q ' "$v=${!v}"
		done)"' sh -c "$shell"'
}

# timed prints the elapsed time of a command, and its processor time, which does not depend on other load.
timed() { # WHAT COMMAND…
	local what=$1
	shift
	echo "== $what"
	TIMEFORMAT="== $what: %0R s, %0U s of processors and %0S s of the kernel"
	time "$@"
}

# image runs the steps of the Dockerfile.
image() {
	local workdir=/ stage="" user=0 line whole=""
	while IFS= read -r line || [ -n "$line" ]; do
		case $line in \#* | "") continue ;; esac
		whole+=$line
		case $whole in *\\) whole=${whole%\\}; continue ;; esac
		# shellcheck disable=SC2086 # words are what an instruction consists of
		set -- $whole
		local instruction=$1 rest=${whole#* }
		whole=""
		case $instruction in
		FROM)
			stage=image-${4:-final} workdir=/ user=0
			fresh "$stage"
			case $2 in golang:*) with_go "$stage" ;; esac
			;;
		WORKDIR)
			workdir=$2
			mkdir -p "$dir/$stage$workdir"
			;;
		COPY)
			shift
			local from=$dir/context to
			case $1 in --from=*) from=$dir/image-${1#--from=}; shift ;; esac
			to=${!#}
			case $to in /*) ;; *) to=$workdir/$to ;; esac
			if [ $# -gt 2 ] || [[ $to == */ ]]; then mkdir -p "$dir/$stage$to"; fi
			while [ $# -gt 1 ]; do
				if [ "$1" = . ]; then cp -a "$from/." "$dir/$stage$to"; else cp -a "$from/$1" "$dir/$stage$to"; fi
				shift
			done
			;;
		RUN) timed "RUN $rest" within "$stage" 0:0 "cd $workdir && $rest" ;;
		USER) user=$2 ;;
		ENTRYPOINT) ;;
		*) echo "test.sh: the Dockerfile has $instruction, which this script does not support" >&2; exit 1 ;;
		esac
	done <"$dir/context/Dockerfile"
	mkdir -m 777 "$dir/image-final/data"
	timed "the image, as user $user" within image-final "$user:$user" 'cd /data && id -u && diskgnn version && diskgnn doctor &&
		diskgnn generate --out graph --nodes 20000 --train-ratio 0.1 --quiet && diskgnn presample --dataset graph --out samples --fanout 5,5 --quiet &&
		diskgnn pack --dataset graph --samples samples --out pack --quiet && diskgnn train --pack pack --out run --epochs 2 --hidden 64 --quiet'
	within image-final "$user:$user" 'diskgnn doctor --dir /data --json' | grep -q '"name":"openblas","state":"yes"' ||
		{ echo "test.sh: the image's program finds no OpenBLAS" >&2; exit 1; }
	ls -l "$dir/image-final/usr/share/doc/diskgnn/"
}

# cold builds and tests with a clone, Go and make.
cold() {
	fresh cold
	with_go cold
	cp -a "$dir/context" "$dir/cold/diskgnn"
	timed "make demo" within cold 0:0 'cd /diskgnn && make demo'
	timed "make install" within cold 0:0 'cd /diskgnn && make install DESTDIR=/tmp/root && find /tmp/root -type f && /tmp/root/usr/local/bin/diskgnn version'
	timed "go install" within cold 0:0 'cd /diskgnn && go install ./cmd/diskgnn && diskgnn version'
	timed "make test" within cold 0:0 'cd /diskgnn && make test'
}

for verb; do
	case $verb in
	image | cold) "$verb" ;;
	*) echo "test.sh: no verb $verb" >&2; exit 2 ;;
	esac
done
