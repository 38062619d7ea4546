#!/usr/bin/env bash
# job.sh ARGUMENTS... is a job of Slurm's that runs `diskgnn ARGUMENTS`, in every task of the job,
# and goes on with it when it is begun again: after preemption, after a node failed, and when its time was not enough.
# Nothing is lost but what was done since the last checkpoint, and no flag is needed: stages
# continue what lies in OUT.partial, and train resumes where SLURM_RESTART_COUNT says that the
# job was requeued.

# Slurm may begin the job again, with the same number and the same arguments.
#SBATCH --requeue
# Its log is then continued. %x is the job's name, %j its number, which tasks of an array have too.
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
# 60 seconds before the time is up, this script gets a USR1. diskgnn needs two.
#SBATCH --signal=B:USR1@60

set -uo pipefail

# A death of the Go runtime is exit code 134, also before diskgnn has begun.
export GOTRACEBACK=crash
# A step has the processors of a task only if srun says so too.
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
# The program, once for each task of the job. It runs beside the script, since bash handles a
# signal only when it waits by `wait`. Ranks of a training notice by themselves that one of them has
# ended; if Slurm killed the others when the first one ends, it could kill rank 0 while that writes
# the last checkpoint. srun ends with the highest of the tasks' exit codes.
srun --kill-on-bad-exit=0 diskgnn "$@" &
step=$!

# When time is almost up, the program is interrupted, and the job begun again below. Preemption
# sends a TERM, and begins the job again by itself; scancel sends one, and does not.
late=
trap 'late=yes; kill -USR1 "$step" 2>/dev/null' USR1
trap 'kill -TERM "$step" 2>/dev/null' TERM

# A signal ends `wait` early, with a code above 128, while the step goes on.
wait "$step"
code=$?
while [ "$code" -gt 128 ] && kill -0 "$step" 2>/dev/null; do
	wait "$step"
	code=$?
done

# 5: interrupted, and the same command goes on. Other codes are final: docs/cluster.md has them.
if [ "$code" = 5 ] && [ -n "$late" ]; then
	scontrol requeue "$SLURM_JOB_ID"
	sleep 60 # Slurm ends this script, and begins it again
fi
exit "$code"
