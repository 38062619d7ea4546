#!/usr/bin/env bash
# Compares training of several ranks with DistDGL, on one host that is divided into two: each has a
# network and a /dev/shm of its own, and the link between them counts bytes. Both programs train in turn
# on one and on two hosts, with the same graph, fanout, batches and model. DistDGL 2.1 has a server and a
# trainer per host, with the rows of its partition in memory. diskgnn has a rank per host, which reads a
# pack within $memory.
#
#   GB=…/gb/bin/python bench/distdgl/compare.sh [DIR] [ROUNDS]
#
# GB is a Python with DGL 2.1. DIR gets the dataset, its partitions and the pack. Each line is a run: the
# seconds of its epochs, the bytes between the hosts in each epoch, and the sum of the peak resident
# memory of its processes, divided by the bytes of the dataset. The sum counts shared memory of a server
# and a trainer twice. Two ranks compute the same number of batches as one, in half the steps.
set -euo pipefail
dir=${1:-${TMPDIR:-/tmp}/diskgnn-distdgl} rounds=${2:-3}
nodes=400000 batch=1000 fanout=10,10 hidden=256 epochs=3 memory=300MiB
cd "$(dirname "$0")/../.."

skip() {
	echo "bench/distdgl: skipped: $*" >&2
	exit 0
}
"${GB:-}" -c 'import dgl.distributed' >/dev/null 2>&1 || skip "GB is no Python that has DGL"
if [ -z "${INSIDE:-}" ]; then
	alone=(unshare --map-root-user --mount --net --pid --fork --kill-child --mount-proc)
	"${alone[@]}" true 2>/dev/null || skip "namespaces cannot be made here"
	command -v ip >/dev/null || skip "there is no ip"
	mkdir -p bin "$dir"
	go build -o bin/diskgnn ./cmd/diskgnn
	INSIDE=1 exec "${alone[@]}" "$PWD/bench/distdgl/compare.sh" "$dir" "$rounds"
fi

trap '[ $? = 0 ] || echo "bench/distdgl: failed; the logs of the processes are in $dir" >&2' EXIT
# This process is the first host: when it ends, every process ends, the second host too.
host='mount -t tmpfs tmpfs /dev/shm && ip link set lo up'
bash -c "$host"
coproc SECOND { exec unshare --mount --net bash -c "$host && echo && read -r"; }
second=$SECOND_PID
read -r -u "${SECOND[0]}"
ip link add rank type veth peer name rank netns "$second"
on() { # HOST COMMAND…
	local host=$1
	shift
	if [ "$host" = 0 ]; then "$@"; else nsenter --target "$second" --mount --net --wd="$PWD" "$@"; fi
}
for h in 0 1; do
	on $h ip address add 10.0.0.$((h + 1))/24 dev rank
	on $h ip link set rank addrgenmode none up # and so carries nothing of its own
done
counted() { awk '/^ *rank:/ { sub(/.*:/, ""); print $1 + $9 }' /proc/net/dev; } # of the link, both ways

# The dataset of both, and the partitions, samples and pack, are made once.
graph=$dir/graph
bin/diskgnn generate --quiet --out "$graph" --nodes "$nodes" --dim 256 --train-ratio 0.05 >/dev/null
[ -e "$dir/arrays" ] || bin/diskgnn export --quiet --dataset "$graph" --format npy --out "$dir/arrays" >/dev/null
began=$SECONDS
bin/diskgnn presample --quiet --dataset "$graph" --out "$dir/samples" --batch-size $batch --fanout $fanout --epochs $epochs >/dev/null
bin/diskgnn pack --quiet --dataset "$graph" --samples "$dir/samples" --out "$dir/pack" >/dev/null
echo "presample and pack: $((SECONDS - began)) s" >&2
for hosts in 1 2; do
	[ -e "$dir/parts-$hosts/graph.json" ] && continue
	began=$SECONDS
	"$GB" bench/distdgl/distdgl.py partition --arrays "$dir/arrays" --out "$dir/parts-$hosts" --hosts $hosts >"$dir/partition-$hosts.log" 2>&1
	echo "partition_graph into $hosts: $((SECONDS - began)) s" >&2
done

sum() { # KIND HOSTS LINK FILE…
	local kind=$1 hosts=$2 link=$3
	shift 3
	"$GB" bench/distdgl/distdgl.py sum --kind "$kind" --hosts "$hosts" --dataset "$graph" --link "$link" "$@"
}

mkfifo "$dir/ended" 2>/dev/null || true
exec 3<>"$dir/ended"
begun=0
begin() { # COMMAND…: in the background
	{
		local status=0
		"$@" || status=$?
		echo $status >&3
	} &
	begun=$((begun + 1))
}
finish() { # waits for what was begun; the first that fails ends the script, for the others would wait for it
	local status
	for (( ; begun > 0; begun--)); do
		read -r -u 3 status
		[ "$status" = 0 ] || return 1
	done
}

ours() { # HOSTS
	local hosts=$1 link h
	rm -rf "$dir/run" "$dir"/ours-*
	link=$(counted)
	rank() { # HOST
		MASTER_ADDR=10.0.0.1 MASTER_PORT=29400 on "$1" env -u OMP_NUM_THREADS -u OMP_WAIT_POLICY bin/diskgnn train --quiet --json --rank "$1/$hosts" --pack "$dir/pack" --out "$dir/run" \
			--memory $memory --hidden $hidden --epochs $epochs --validate-every $epochs --threads "$(threads "$hosts")" >"$dir/ours-$1.json"
	}
	for ((h = 0; h < hosts; h++)); do begin rank "$h"; done
	finish
	sum diskgnn "$hosts" $(($(counted) - link)) "$dir"/ours-?.json
}

threads() { # HOSTS: each has its share of the processors
	local n=$(($(nproc) / $1))
	echo $((n > 0 ? n : 1))
}

distdgl() { # HOSTS
	local hosts=$1 link h
	rm -f "$dir"/theirs-*
	link=$(counted)
	for ((h = 0; h < hosts; h++)); do echo "10.0.0.$((h + 1)) 30050"; done >"$dir/ip_config.txt"
	export DGL_DIST_MODE=distributed DGL_IP_CONFIG=$dir/ip_config.txt DGL_CONF_PATH=$dir/parts-$hosts/graph.json \
		DGL_NUM_SERVER=1 DGL_NUM_CLIENT=$hosts DGL_NUM_SAMPLER=0 DGL_GRAPH_FORMAT=csc DGLBACKEND=pytorch \
		MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 GLOO_SOCKET_IFNAME=rank OMP_NUM_THREADS OMP_WAIT_POLICY=passive # more threads than processors
	OMP_NUM_THREADS=$(threads "$hosts")
	process() { # HOST ROLE: its environment says the rest
		on "$1" "$GB" bench/distdgl/distdgl.py train --arrays "$dir/arrays" --out "$dir/theirs-$2-$1.json" \
			--batch $batch --fanout $fanout --hidden $hidden --epochs $epochs >"$dir/$2-$1.log" 2>&1
	}
	for ((h = 0; h < hosts; h++)); do
		DGL_ROLE=server DGL_SERVER_ID=$h begin process "$h" server
		DGL_ROLE=client RANK=$h WORLD_SIZE=$hosts begin process "$h" trainer
	done
	finish
	sum distdgl "$hosts" $(($(counted) - link)) "$dir"/theirs-trainer-?.json "$dir"/theirs-server-?.json
}

for ((r = 0; r < rounds; r++)); do
	for hosts in 1 2; do
		ours $hosts
		distdgl $hosts
	done
done
