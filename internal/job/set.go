package job

import (
	"fmt"
	"strings"
)

// The names of sets that others refer to.
const (
	setArray = "array"
	setSlurm = "slurm"
)

// set is the variables by which one scheduler or launcher says a place.
type set struct {
	name       string
	shardsOnly bool
	// read returns the reading of the variables; count is the flag's, 0 if it has none.
	read func(env Env, count int) reading
}

// sets are all of them, in the order in which they are taken.
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

// state is how much a set says.
type state int

const (
	absent   state = iota // nothing
	partial               // something, but no place
	wrong                 // what cannot be
	complete              // a place
)

// reading is the place that a set gives.
type reading struct {
	name  string
	state state
	why   string // of partial and wrong
	seen  []string

	index, count           int
	localIndex, localCount int    // localCount 0: not said
	host                   string // of the first process, "" if not said
	port                   int    // 0: not said
}

func (r reading) mpi() bool { return r.name == "openmpi" || r.name == "pmi" }

func (r reading) source() string { return r.name + " (" + strings.Join(r.seen, ", ") + ")" }

func (r reading) String() string {
	if r.state == complete {
		return fmt.Sprintf("%s says %d of %d", r.source(), r.index, r.count)
	}
	return fmt.Sprintf("%s: %s", r.source(), r.why)
}

// vars reads the variables of a set, and remembers which are there.
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

// int reads a number into dst and reports whether the variable is there. One that is no
// number makes the set wrong.
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

// wrong remembers the first thing that cannot be.
func (v *vars) wrong(format string, args ...any) {
	if v.state != wrong {
		v.state, v.why = wrong, fmt.Sprintf(format, args...)
	}
}

// partial remembers the first thing that is missing, unless something is wrong.
func (v *vars) partial(format string, args ...any) {
	if v.state == absent || v.state == complete {
		v.state, v.why = partial, fmt.Sprintf(format, args...)
	}
}

// end settles the state of a set after its variables were read.
func (v *vars) end() reading {
	if v.state == absent && len(v.seen) > 0 {
		v.state = complete
	}
	return v.reading
}

// pairs returns the reading of a launcher that says everything: index and count, and the
// same on the host, which may be missing, but not by half.
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

// both reads two variables that belong together.
func (v *vars) both(name1 string, dst1 *int, name2 string, dst2 *int) {
	is1, is2 := v.int(name1, dst1), v.int(name2, dst2)
	switch {
	case is1 && !is2:
		v.partial("without %s", name2)
	case is2 && !is1:
		v.partial("without %s", name1)
	}
}

// readPET reads the variables meant for torchrun, in its place: one process a host.
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
	// Words like auto leave the number of processes to torchrun.
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

// readJobSet reads the variables that a manifest sets from the annotations of JobSet: the index of
// this replicated Job, and the number of them. Where these are indexed themselves, each has the same
// number of processes, which follows from the flag's count.
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

// readIndexed reads the index of a Kubernetes Job, which does not say how many there are.
func readIndexed(env Env, count int) reading {
	v := &vars{env: env, reading: reading{count: count}}
	if env("JOBSET_JOB_INDEX") != "" || env("JOBSET_REPLICAS") != "" {
		return reading{} // it is read with them
	}
	if v.int("JOB_COMPLETION_INDEX", &v.index) && count == 0 {
		v.partial("it has no number of completions: write auto/N")
	}
	return v.end()
}
