#!/usr/bin/env bash
# pipeline.sh submits the stages from presample to train to Slurm: drawing samples in shards and merging
# them, packing in shards and merging them, and training on several nodes together. Call it in a directory that all nodes
# share and that has the dataset, with `diskgnn` in PATH. A second call submits all jobs again; stages
# that are finished do nothing.
#
#   CONFIG=pipeline.yaml SHARDS=4 RANKS=2 examples/slurm/pipeline.sh
set -euo pipefail

here=$(dirname "$(realpath "$0")")     # directory of job.sh
config=${CONFIG:-$here/pipeline.yaml}  # flags of all stages
shards=${SHARDS:-4}                    # number of tasks of presample and of pack
ranks=${RANKS:-2}                      # number of processes that train one model; 1: no others

# The secret that ranks on several nodes share: it is made once, and only its owner may read it.
secret=secret
if [ ! -s "$secret" ]; then
	(umask 077 && head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$secret")
fi

# Resources and time limit of each kind of job: change them for your cluster. The tasks of an array may
# run in any order, on any nodes, and any number of them at a time.
sampling=(--cpus-per-task=2 --mem=2G --time=0:30:00)
packing=(--cpus-per-task=2 --mem=2G --time=0:30:00)
merging=(--cpus-per-task=1 --mem=2G --time=0:30:00)
# All ranks train at the same time, each on a node with --mem of memory. On nodes with four GPUs, and
# with the gpu variant of diskgnn, give --ntasks-per-node=4 --gpus-per-node=4: each rank uses the GPU
# with the number SLURM_LOCALID, its number on the node.
training=(--ntasks="$ranks" --ntasks-per-node=1 --cpus-per-task=2 --mem=2G --time=0:30:00)

# submit NAME AFTER OPTIONS... -- ARGUMENTS... submits job.sh with `diskgnn ARGUMENTS`, and prints the
# number of the job.
submit() {
	local name=$1 after=$2 options=()
	shift 2
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	# afterok: the job begins when all tasks of the job before it ended with exit code 0. If a task
	# fails, kill-on-invalid-dep removes this job and the jobs after it.
	if [ -n "$after" ]; then
		options+=(--dependency="afterok:$after" --kill-on-invalid-dep=yes)
	fi
	sbatch --parsable --job-name="$name" "${options[@]}" "$here/job.sh" "$@"
}

# shards_of OUT prints the names of the directories that the tasks of an array make.
shards_of() {
	local i
	for ((i = 0; i < shards; i++)); do
		echo "$1.shard-$i-of-$shards"
	done
}

# --shard auto: each task of the array draws the shard of its number. The numbers may begin anywhere, but
# diskgnn refuses an array that leaves numbers out.
array=(--array="0-$((shards - 1))")

sampled=$(submit presample "" "${sampling[@]}" "${array[@]}" -- presample --config "$config" --shard auto)
samples=$(submit merge-samples "$sampled" "${merging[@]}" -- merge --out samples $(shards_of samples))
packed=$(submit pack "$samples" "${packing[@]}" "${array[@]}" -- pack --config "$config" --shard auto)
pack=$(submit merge-pack "$packed" "${merging[@]}" -- merge --out pack $(shards_of pack))
# --resume: an existing run is resumed, or is finished. Without it train refuses an existing run, unless
# Slurm has requeued this job. --rank auto: srun starts every rank with this command line, and
# SLURM_PROCID is the number of the rank. The batches of a step, `accumulate` in pipeline.yaml, are
# divided among the ranks, so the weights are the same for any number of ranks.
trained=$(submit train "$pack" "${training[@]}" -- train --config "$config" --rank auto --resume --secret-file "$secret")

echo "presample $sampled, merge $samples, pack $packed, merge $pack, train $trained"
