package job

import (
	"strconv"
	"strings"
)

// readArray reads the place of a task in a Slurm array. The array may begin at any number, with any step
// between its tasks. If an array leaves out tasks, a task that does not fit the step has no place; the
// others have different places, and without the missing ones the shards are never complete.
func readArray(env Env, _ int) reading {
	v := &vars{env: env}
	var id, first, last int
	if !v.int("SLURM_ARRAY_TASK_ID", &id) {
		return reading{}
	}
	isFirst, isLast := v.int("SLURM_ARRAY_TASK_MIN", &first), v.int("SLURM_ARRAY_TASK_MAX", &last)
	isCount := v.int("SLURM_ARRAY_TASK_COUNT", &v.count)
	switch {
	case !isFirst || !isLast || !isCount:
		v.partial("without SLURM_ARRAY_TASK_COUNT, _MIN and _MAX")
	case v.state == wrong:
	case id < first || id > last || v.count < 1 || v.count > last-first+1:
		v.wrong("the task is outside the array")
	case v.count > 1:
		step := (last - first) / (v.count - 1)
		if (last-first)%(v.count-1) != 0 || (id-first)%step != 0 {
			v.partial("the array leaves out tasks")
			break
		}
		v.index = (id - first) / step
	case first != last:
		v.wrong("the task is outside the array")
	}
	return v.end()
}

// readSlurm reads the place of a task in a step of srun. A batch script has the variables of its first
// task too, but it is a single process.
func readSlurm(env Env, _ int) reading {
	v := &vars{env: env}
	isIndex := v.int("SLURM_PROCID", &v.index)
	var ntasks int
	isTotal := v.int("SLURM_NTASKS", &ntasks)
	isStep := v.int("SLURM_STEP_NUM_TASKS", &v.count)
	switch {
	case !isIndex && !isStep && ntasks <= 1:
		return reading{} // a job with one task
	case !isIndex:
		v.partial("without SLURM_PROCID: tasks are started by srun")
	case isStep:
	case !isTotal:
		if v.index != 0 {
			v.partial("without SLURM_STEP_NUM_TASKS")
			break
		}
		v.count = 1
	case ntasks > 1 && v.index == 0 && !started(env):
		v.partial("a batch script is one process: tasks are started by srun")
	default:
		v.count = ntasks
	}
	if size := env("SLURM_HET_SIZE"); size != "" && size != "1" {
		v.seen = append(v.seen, "SLURM_HET_SIZE="+size)
		v.partial("heterogeneous jobs are not supported")
	}
	if v.count > 1 {
		v.onHost()
		v.firstHost()
	}
	return v.end()
}

// started reports whether srun started this process.
func started(env Env) bool {
	for _, name := range []string{"SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NODELIST", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST"} {
		if env(name) != "" {
			return true
		}
	}
	return false
}

// onHost reads the place of this task among the tasks of its host.
func (v *vars) onHost() {
	if !v.int("SLURM_LOCALID", &v.localIndex) {
		return
	}
	tasks := v.env("SLURM_STEP_TASKS_PER_NODE")
	if tasks == "" {
		tasks = v.env("SLURM_TASKS_PER_NODE")
	}
	var node int
	if tasks == "" || !v.int("SLURM_NODEID", &node) {
		v.localIndex = 0 // without a count, the index is ignored
		return
	}
	per, ok := tasksPerNode(tasks)
	sum := 0
	for _, n := range per {
		sum += n
	}
	if !ok || node >= len(per) || sum != v.count {
		v.wrong("SLURM_STEP_TASKS_PER_NODE=%s does not fit %d tasks", tasks, v.count)
		return
	}
	v.localCount = per[node]
}

// tasksPerNode parses a list such as "2(x3),1": two tasks on each of three nodes, one on the next.
func tasksPerNode(text string) ([]int, bool) {
	var per []int
	for part := range strings.SplitSeq(text, ",") {
		tasks, times, repeated := strings.Cut(part, "(x")
		n, ok := number(tasks)
		k := 1
		if repeated {
			var ok2 bool
			k, ok2 = number(strings.TrimSuffix(times, ")"))
			ok = ok && ok2 && strings.HasSuffix(times, ")")
		}
		if !ok || n < 1 || k < 1 || k > most-len(per) {
			return nil, false
		}
		for range k {
			per = append(per, n)
		}
	}
	return per, true
}

// firstHost sets the address of task 0: the first of the step's nodes, unless a file distributes the
// tasks. The port follows from the number of the job, so that jobs on one node use different ports.
func (v *vars) firstHost() {
	nodes := v.env("SLURM_STEP_NODELIST")
	if nodes == "" {
		nodes = v.env("SLURM_JOB_NODELIST")
	}
	if nodes == "" || strings.HasPrefix(v.env("SLURM_DISTRIBUTION"), "arbitrary") {
		return
	}
	v.host = firstNode(nodes)
	if id, err := strconv.ParseUint(v.env("SLURM_JOB_ID"), 10, 32); err == nil {
		v.port = slurmPorts + int(id%slurmJobs)*Ports
	}
}

// The ports of Slurm jobs lie below the ephemeral ports of systems.
const (
	slurmPorts = 16384
	slurmJobs  = 900
)

// firstNode returns the first node of a list such as "gpu[03-07,11],login": gpu03.
func firstNode(list string) string {
	open := strings.IndexByte(list, '[')
	comma := strings.IndexByte(list, ',')
	if open < 0 || (comma >= 0 && comma < open) {
		node, _, _ := strings.Cut(list, ",")
		return node
	}
	inside, after, ok := strings.Cut(list[open+1:], "]")
	if !ok {
		return ""
	}
	first := inside
	if i := strings.IndexAny(first, "-,"); i >= 0 {
		first = first[:i]
	}
	rest := after
	if i := strings.IndexByte(rest, ','); i >= 0 {
		rest = rest[:i]
	}
	name := list[:open] + first + rest
	if strings.ContainsAny(rest, "[") { // a second dimension: r[1-2]n[1-8]
		return firstNode(list[:open] + first + after)
	}
	return name
}
