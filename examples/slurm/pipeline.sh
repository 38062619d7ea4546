#!/usr/bin/env bash
# pipeline.sh submits a whole pipeline to Slurm: samples drawn in shards, merged; packed in
# shards, merged; trained, on several nodes together. It is called in a directory that all nodes share, in which the dataset
# is, with `diskgnn` in PATH. Called again, it submits all jobs again, and what is finished does
# nothing.
#
#   CONFIG=pipeline.yaml SHARDS=4 RANKS=2 examples/slurm/pipeline.sh
set -euo pipefail

here=$(dirname "$(realpath "$0")")     # where job.sh is
config=${CONFIG:-$here/pipeline.yaml}  # flags of all stages
shards=${SHARDS:-4}                    # into how many tasks presample and pack are divided
ranks=${RANKS:-2}                      # how many processes train one model; 1: by itself

# What ranks on several nodes know and nobody else: made once, and read by its owner alone.
secret=secret
if [ ! -s "$secret" ]; then
	(umask 077 && head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$secret")
fi

# What each kind of job takes of the cluster, and how long: change it to yours. An array may run
# in any order and on any nodes, and as many tasks of it at a time as there is room for.
sampling=(--cpus-per-task=2 --mem=2G --time=0:30:00)
packing=(--cpus-per-task=2 --mem=2G --time=0:30:00)
merging=(--cpus-per-task=1 --mem=2G --time=0:30:00)
# All ranks train at the same time: a node for each, which has --mem for it. On nodes with four GPUs,
# with the variant of diskgnn that uses them, it would be --ntasks-per-node=4 --gpus-per-node=4:
# each rank takes the GPU of its number on the node, SLURM_LOCALID.
training=(--ntasks="$ranks" --ntasks-per-node=1 --cpus-per-task=2 --mem=2G --time=0:30:00)

# submit NAME AFTER OPTIONS... -- ARGUMENTS... submits job.sh, to run `diskgnn ARGUMENTS`, and
# prints the number of the job.
submit() {
	local name=$1 after=$2 options=()
	shift 2
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	# afterok: it begins when all tasks of the job before it ended with exit code 0. If one
	# ends otherwise, this job never can: kill-on-invalid-dep removes it, and those after it.
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

# --shard auto: each task of the array draws the part that its number says. Tasks may be
# numbered from anywhere; an array that leaves numbers out is refused.
array=(--array="0-$((shards - 1))")

sampled=$(submit presample "" "${sampling[@]}" "${array[@]}" -- presample --config "$config" --shard auto)
samples=$(submit merge-samples "$sampled" "${merging[@]}" -- merge --out samples $(shards_of samples))
packed=$(submit pack "$samples" "${packing[@]}" "${array[@]}" -- pack --config "$config" --shard auto)
pack=$(submit merge-pack "$packed" "${merging[@]}" -- merge --out pack $(shards_of pack))
# --resume: a run that is there is gone on with, or is finished. Without, train refuses it, unless
# Slurm says that it began this job again. --rank auto: srun starts every rank with this same
# command line, and SLURM_PROCID says which one it is. The batches of a step, `accumulate` in
# pipeline.yaml, are divided among the ranks: the weights are the same for any number of them.
trained=$(submit train "$pack" "${training[@]}" -- train --config "$config" --rank auto --resume --secret-file "$secret")

echo "presample $sampled, merge $samples, pack $packed, merge $pack, train $trained"
