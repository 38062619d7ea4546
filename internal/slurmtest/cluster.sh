#!/usr/bin/env bash
# cluster.sh TOOLS DIR COMMAND... starts a Slurm cluster of two nodes, n1 and n2, runs COMMAND on it, and
# ends the cluster with COMMAND. The cluster is slurmctld, two slurmd and munged, from the packages
# unpacked in TOOLS, with their state and logs in DIR. All run in mount, network, process and host name
# namespaces of their own, where the packages overlay /usr, and the nodes have names and addresses. It
# needs root. Each node has 2 processors, on any machine.
set -euo pipefail
tools=$(realpath "${1:?usage: cluster.sh TOOLS DIR COMMAND...}") dir=$(realpath "${2:?}")
shift 2

if [ -z "${DISKGNN_SLURM_INSIDE:-}" ]; then
	export DISKGNN_SLURM_INSIDE=1
	exec unshare --mount --net --uts --pid --fork --kill-child --mount-proc "$0" "$tools" "$dir" "$@"
fi

mount -t overlay overlay -o "lowerdir=$tools/usr:/usr" /usr
hostname diskgnn-slurm
ip link set lo up
# Slurm does not look up names of nodes on a host with only the loopback address.
ip link add eth9 type veth peer name eth10 2>/dev/null || ip link add eth9 type dummy
ip addr add 10.77.0.1/24 dev eth9
ip addr add 10.77.0.2/24 dev eth9
ip link set eth9 up
ip link set eth10 up 2>/dev/null || true
printf '127.0.0.1 localhost\n10.77.0.1 n1 diskgnn-slurm\n10.77.0.2 n2\n' >"$dir/hosts"
mount --bind "$dir/hosts" /etc/hosts

export SLURM_CONF=$dir/slurm.conf
cat >"$SLURM_CONF" <<EOF
ClusterName=test
SlurmctldHost=diskgnn-slurm(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/munge.socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
PluginDir=/usr/lib/x86_64-linux-gnu/slurm-wlm
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=1
MinJobAge=3600
KillWait=10
JobRequeue=1
NodeName=n1 NodeHostname=diskgnn-slurm NodeAddr=10.77.0.1 Port=17001 CPUs=2 RealMemory=4096
NodeName=n2 NodeHostname=diskgnn-slurm NodeAddr=10.77.0.2 Port=17002 CPUs=2 RealMemory=4096
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=60 State=UP
EOF
mkdir -p "$dir/state" "$dir/spool-n1" "$dir/spool-n2"
head -c 1024 /dev/urandom >"$dir/munge.key"
chmod 0700 "$dir"
chmod 0400 "$dir/munge.key"
munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" \
	--log-file="$dir/munged.log" --seed-file="$dir/munged.seed" >/dev/null 2>&1
slurmctld
slurmd -N n1
slurmd -N n2
for _ in $(seq 100); do
	[ "$(sinfo --noheader --Node --states=idle --format=%N 2>/dev/null | wc -l)" = 2 ] && break
	sleep 0.1
done
if [ "$(sinfo --noheader --Node --states=idle --format=%N | wc -l)" != 2 ]; then
	echo "cluster.sh: the nodes are not idle; see the logs in $dir" >&2
	exit 1
fi
"$@"
