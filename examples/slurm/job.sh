#!/usr/bin/env bash
# job.sh ARGUMENTS... is a Slurm job that runs `diskgnn ARGUMENTS` in every task of the job. When Slurm
# begins the job again (after preemption, a failed node, or the end of its time), the program resumes.
# Only the work since the last checkpoint is lost, and no flag is needed: stages resume from
# OUT.partial, and train resumes because SLURM_RESTART_COUNT is set in a requeued job.

# Slurm may begin the job again, with the same number and the same arguments.
#SBATCH --requeue
# It then appends to the same log. %x is the name of the job, or of an array's task, %j its number.
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
# 60 seconds before the time limit, this script gets USR1. diskgnn needs two seconds to stop.
#SBATCH --signal=B:USR1@60

set -uo pipefail

# With this, fatal errors of the Go runtime have exit code 134, also before diskgnn has begun.
export GOTRACEBACK=crash
# A step gets the processors of a task only if srun has the option too.
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
# The program runs once for each task of the job, in the background, since bash handles a signal at
# once only while it waits in `wait`. The ranks of a training notice by themselves that one of them has
# ended. If Slurm killed the others when the first one ends, it could kill rank 0 while it writes the
# last checkpoint. srun ends with the highest exit code of the tasks.
srun --kill-on-bad-exit=0 diskgnn "$@" &
step=$!

# Shortly before the time limit, the program is interrupted, and the job is requeued below. Preemption
# sends TERM, and Slurm requeues the job itself; scancel sends TERM, and the job is not requeued.
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

# Exit code 5: interrupted, and the same command resumes. Other codes are final: see docs/cluster.md.
if [ "$code" = 5 ] && [ -n "$late" ]; then
	scontrol requeue "$SLURM_JOB_ID"
	sleep 60 # Slurm ends this script and begins it again
fi
exit "$code"
