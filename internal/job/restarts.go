package job

// Restarts returns how often the job of this process was begun before, and the variable that
// says so: Slurm's, of a job that was requeued, or torchrun's, which starts all processes anew
// when one fails. It returns 0 where there is none.
func Restarts(env Env) (n int, variable string) {
	for _, name := range []string{"SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"} {
		if n, ok := number(env(name)); ok && n > 0 {
			return n, name
		}
	}
	return 0, ""
}
