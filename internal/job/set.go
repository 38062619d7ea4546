package job

import (
	"fmt"
	"strings"
)

// Names of sets.
const (
	setArray = "array"
	setSlurm = "slurm"
)

// set has the variables of one scheduler or launcher.
type set struct {
	name       string
	shardsOnly bool
	// read returns the reading of the variables; count is the flag's, 0 if it has none.
	read func(env Env, count int) reading
}

// sets lists all sets in the order of precedence.
var sets = []set{
	{setArray, true, readArray},
	{"torchrun", false, pairs("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")},
	{"pet", false, readPET},
	{setSlurm, false, readSlurm},
	{"openmpi", false, pairs("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")},
	{"pmi", false, pairs("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")},
	{"jobset", false, readJobSet},
	{"indexed", false, readIndexed},
}

// state is the completeness of a set.
type state int

const (
	absent   state = iota // no variable is set
	partial               // some variables are missing
	wrong                 // a value is impossible
	complete              // the set gives a place
)

// reading is the result of reading a set.
type reading struct {
	name  string
	state state
	why   string // of partial and wrong
	seen  []string

	index, count           int
	localIndex, localCount int    // localCount 0: not given
	host                   string // of the first process, "" if not given
	port                   int    // 0: not given
}

func (r reading) mpi() bool { return r.name == "openmpi" || r.name == "pmi" }

func (r reading) source() string { return r.name + " (" + strings.Join(r.seen, ", ") + ")" }

func (r reading) String() string {
	if r.state == complete {
		return fmt.Sprintf("%s says %d of %d", r.source(), r.index, r.count)
	}
	return fmt.Sprintf("%s: %s", r.source(), r.why)
}

// vars reads the variables of a set, and records which of them are set.
type vars struct {
	env Env
	reading
}

func (v *vars) text(name string) string {
	value := v.env(name)
	if value != "" {
		v.seen = append(v.seen, name+"="+value)
	}
	return value
}

// int reads a number into dst and reports whether the variable is set. A value that is no number makes
// the set wrong.
func (v *vars) int(name string, dst *int) bool {
	value := v.text(name)
	if value == "" {
		return false
	}
	n, ok := number(value)
	if !ok {
		v.wrong("%s is no whole number", name)
	}
	*dst = n
	return true
}

// wrong records the first impossible value.
func (v *vars) wrong(format string, args ...any) {
	if v.state != wrong {
		v.state, v.why = wrong, fmt.Sprintf(format, args...)
	}
}

// partial records the first missing variable, unless a value is wrong.
func (v *vars) partial(format string, args ...any) {
	if v.state == absent || v.state == complete {
		v.state, v.why = partial, fmt.Sprintf(format, args...)
	}
}

// end returns the reading after all variables were read.
func (v *vars) end() reading {
	if v.state == absent && len(v.seen) > 0 {
		v.state = complete
	}
	return v.reading
}

// pairs returns a function that reads a launcher's index and count, and the same on the host. The
// variables of the host may both be missing, but not one alone.
func pairs(index, count, localIndex, localCount string) func(Env, int) reading {
	return func(env Env, _ int) reading {
		v := &vars{env: env}
		v.both(index, &v.index, count, &v.count)
		if len(v.seen) == 0 {
			return reading{} // a local rank alone is no place
		}
		v.both(localIndex, &v.localIndex, localCount, &v.localCount)
		return v.end()
	}
}

// both reads two variables that must both be set, or neither.
func (v *vars) both(name1 string, dst1 *int, name2 string, dst2 *int) {
	is1, is2 := v.int(name1, dst1), v.int(name2, dst2)
	switch {
	case is1 && !is2:
		v.partial("without %s", name2)
	case is2 && !is1:
		v.partial("without %s", name1)
	}
}

// readPET reads the variables that are meant for torchrun, for runs without it: one process per host.
func readPET(env Env, _ int) reading {
	v := &vars{env: env}
	v.int("PET_NODE_RANK", &v.index)
	nodes := v.text("PET_NNODES")
	if len(v.seen) == 0 {
		return reading{}
	}
	switch {
	case len(v.seen) == 1 && nodes == "":
		v.partial("without PET_NNODES")
	case len(v.seen) == 1:
		v.partial("without PET_NODE_RANK")
	}
	if n, ok := number(nodes); ok {
		v.count = n
	} else if nodes != "" {
		v.wrong("PET_NNODES is no whole number: the number of hosts has to be fixed")
	}
	// With a word such as auto, torchrun would choose the number of processes.
	if n, ok := number(v.text("PET_NPROC_PER_NODE")); ok && n > 1 {
		v.partial("%d processes per host need torchrun to start them: torchrun --no-python diskgnn", n)
	}
	v.localIndex, v.localCount = 0, 1
	v.host = v.env("PET_MASTER_ADDR")
	if text := v.env("PET_MASTER_PORT"); text != "" {
		var ok bool
		if v.port, ok = port(text); !ok {
			v.wrong("PET_MASTER_PORT=%s is no port", text)
		}
	}
	return v.end()
}

// readJobSet reads the variables that a manifest sets from the annotations of JobSet: the index of this
// replicated Job, and the number of Jobs. If the Jobs are indexed themselves, each has the same number of
// processes, which follows from the flag's count.
func readJobSet(env Env, count int) reading {
	v := &vars{env: env}
	v.both("JOBSET_JOB_INDEX", &v.index, "JOBSET_REPLICAS", &v.count)
	if len(v.seen) == 0 {
		return reading{}
	}
	within := 0
	indexed := v.int("JOB_COMPLETION_INDEX", &within)
	r := v.end()
	if r.state != complete || !indexed || (within == 0 && (count == 0 || count == r.count)) {
		return r
	}
	switch each := count / max(r.count, 1); {
	case count == 0:
		v.partial("it has no number of completions: write auto/N")
	case r.count == 0 || count%r.count != 0 || within >= each || r.index >= r.count:
		v.wrong("%d processes do not fit these values", count)
	default:
		v.index, v.count = r.index*each+within, count
	}
	return v.end()
}

// readIndexed reads the index of a Kubernetes Job. The environment does not have the number of pods.
func readIndexed(env Env, count int) reading {
	v := &vars{env: env, reading: reading{count: count}}
	if env("JOBSET_JOB_INDEX") != "" || env("JOBSET_REPLICAS") != "" {
		return reading{} // readJobSet reads the index
	}
	if v.int("JOB_COMPLETION_INDEX", &v.index) && count == 0 {
		v.partial("it has no number of completions: write auto/N")
	}
	return v.end()
}
