// Package job finds the place of this process in its job: its index and the number of processes that
// a scheduler or a launcher started, its index on its host, and the address of the first process. Every
// scheduler and launcher has a set of environment variables:
//
//	array     SLURM_ARRAY_TASK_ID, _MIN, _MAX, _STEP, _COUNT             sbatch --array; shards only
//	torchrun  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE             torchrun and its imitations
//	pet       PET_NODE_RANK, PET_NNODES, PET_NPROC_PER_NODE              Kubeflow Trainer, without torchrun
//	slurm     SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS,        srun
//	          SLURM_LOCALID, SLURM_NODEID, SLURM_STEP_TASKS_PER_NODE
//	openmpi   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE      mpirun of Open MPI
//	pmi       PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS       mpiexec of MPICH and Intel MPI
//	jobset    JOBSET_JOB_INDEX, JOBSET_REPLICAS                          by the manifest, see docs/cluster.md
//	indexed   JOB_COMPLETION_INDEX                                       a Kubernetes Job; it has no count
//
// A set is complete if it gives a place by itself, or with the count of a flag. The first complete set in
// this order is used; the places of the others are printed. Nothing is guessed: an incomplete set, a
// number out of range, a count other than the flag's, and contradicting sets are errors, since processes
// with wrong places would make one part twice and another part never.
//
// Within Slurm, mpirun starts daemons on other hosts by srun, and their children inherit the daemon's
// SLURM_PROCID. There the MPI's variables are right, and the step's are not.
package job

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"diskgnn/internal/fault"
)

// Use is the purpose of a place.
type Use int

const (
	// Shards are parts of a directory. Their processes do not communicate, and may run at any time, so a
	// place has no address.
	Shards Use = iota
	// Replicas train one model together. A place has the address of the first process.
	Replicas
)

func (u Use) flag() string {
	if u == Shards {
		return "--shard"
	}
	return "--rank"
}

// most is the largest accepted number of processes of a job.
const most = 1 << 16

// Ask is the value of a flag for a place. The zero Ask stands for a missing flag.
type Ask struct {
	Auto  bool // the environment gives the index and, if Count is 0, the count
	Index int  // without Auto
	Count int  // 0: not given
}

// ParseAsk parses "2/5", "auto" or "auto/5". An error is of kind fault.ErrUsage.
func ParseAsk(text string) (Ask, error) {
	malformed := fault.New(fault.ErrUsage, "%q is no place: write 0/4 for the first of four processes, auto, or auto/4", text)
	index, count, counted := strings.Cut(strings.TrimSpace(text), "/")
	a := Ask{Auto: index == "auto"}
	if !counted {
		if !a.Auto {
			return Ask{}, malformed
		}
		return a, nil
	}
	var ok bool
	if a.Count, ok = number(count); !ok {
		return Ask{}, malformed
	}
	if !a.Auto {
		if a.Index, ok = number(index); !ok {
			return Ask{}, malformed
		}
	}
	if why := outOfRange(a.Index, a.Count); why != "" {
		return Ask{}, fault.New(fault.ErrUsage, "%q: %s", text, why)
	}
	return a, nil
}

// Given reports whether the flag was given.
func (a Ask) Given() bool { return a != Ask{} }

// Place is the place of a process in its job.
type Place struct {
	Index, Count           int // number of the process, from 0, and number of processes: rank and world
	LocalIndex, LocalCount int // the same among the processes of its host; 0 of 1 if unknown

	// Host and Port are the address of the process with index 0; it may listen at a port after Port, see
	// Addresses. They are set for several replicas only.
	Host string
	Port int

	// From is the source of the place: the name of a set with its variables, "--rank", or "" for a
	// process that is alone without any source. Others are the other sets found, with their places.
	From   string
	Others []string
}

// Alone reports whether no other process is part of the job.
func (p Place) Alone() bool { return p.Count == 1 }

// String returns the place and its source, for the log.
func (p Place) String() string {
	if p.From == "" {
		return "a process by itself"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d by %s", p.Index, p.Count, p.From)
	if p.LocalCount > 1 {
		fmt.Fprintf(&b, ", %d of %d on this host", p.LocalIndex, p.LocalCount)
	}
	if p.Host != "" {
		fmt.Fprintf(&b, ", the first at %s", net.JoinHostPort(p.Host, strconv.Itoa(p.Port)))
	}
	if len(p.Others) > 0 {
		fmt.Fprintf(&b, "; also there: %s", strings.Join(p.Others, "; "))
	}
	return b.String()
}

// Env returns the value of an environment variable, "" if it is not set.
type Env func(name string) string

// Environ is the environment of this process.
var Environ Env = os.Getenv

// Find returns the place from the flag and the environment. If the flag gives a place, only the variables
// MASTER_ADDR and MASTER_PORT are used. Without the flag, a stage that makes shards is alone, and
// variables are ignored; a process that trains is alone unless a set gives a place. Errors are of kind
// fault.ErrUsage.
func Find(use Use, ask Ask, env Env) (Place, error) {
	switch {
	case ask.Given() && !ask.Auto:
		p := Place{Index: ask.Index, Count: ask.Count, LocalCount: 1, From: use.flag()}
		return p, p.address(use, env, reading{})
	case use == Shards && !ask.Given():
		return Place{Count: 1, LocalCount: 1}, nil
	}
	return find(use, ask, env)
}

func find(use Use, ask Ask, env Env) (Place, error) {
	var found []reading
	for _, s := range sets {
		if s.shardsOnly && use != Shards {
			continue
		}
		r := s.read(env, ask.Count)
		if r.state == absent {
			continue
		}
		r.name = s.name
		if r.state == complete {
			if why := outOfRange(r.index, r.count); why != "" {
				r.state, r.why = wrong, why
			} else if why := outOfRange(r.localIndex, r.localCount); r.localCount != 0 && why != "" {
				r.state, r.why = wrong, "on this host: "+why
			}
		}
		found = append(found, r)
	}
	at := choose(found)
	if at < 0 {
		if len(found) > 0 {
			return Place{}, unclear(use, found)
		}
		if ask.Given() {
			return Place{}, fault.New(fault.ErrUsage, "%s auto: no scheduler gives the number of this process: write %s 0/4 for the first of four", use.flag(), use.flag())
		}
		return Place{Count: 1, LocalCount: 1}, nil
	}
	r := found[at]
	if err := conflict(use, ask, found, at); err != nil {
		return Place{}, err
	}
	p := Place{Index: r.index, Count: r.count, LocalIndex: r.localIndex, LocalCount: r.localCount, From: r.source()}
	if p.LocalCount == 0 {
		p.LocalIndex, p.LocalCount = 0, 1
	}
	for i, o := range found {
		if i != at {
			p.Others = append(p.Others, o.String())
		}
	}
	return p, p.address(use, env, r)
}

// choose returns the index of the first complete set, or -1 if there is none or if a wrong set comes
// before it. An MPI takes precedence over Slurm's step if mpirun started it: then its place differs from
// the step's, or it has a place on the host, which srun does not give to an MPI.
func choose(found []reading) int {
	for i, r := range found {
		switch r.state {
		case wrong:
			return -1
		case complete:
			if r.name != setSlurm {
				return i
			}
			for j, o := range found[i+1:] {
				if o.mpi() && o.state == complete && (o.localCount > 0 || o.index != r.index || o.count != r.count) {
					return i + 1 + j
				}
			}
			return i
		}
	}
	return -1
}

// unclear returns the error for sets that give no place.
func unclear(use Use, found []reading) error {
	texts := make([]string, len(found))
	for i, r := range found {
		texts[i] = r.String()
	}
	alone := ""
	if use == Replicas {
		alone = ", or --rank 0/1 for a run of its own"
	}
	return fault.New(fault.ErrUsage, "the number of this process is unclear: %s; write %s 0/4 for the first of four%s", strings.Join(texts, "; "), use.flag(), alone)
}

// conflict returns an error if the flag or another set contradicts the chosen place.
func conflict(use Use, ask Ask, found []reading, at int) error {
	r := found[at]
	if ask.Count != 0 && r.count != ask.Count {
		return fault.New(fault.ErrUsage, "%s auto/%d, but %s", use.flag(), ask.Count, r)
	}
	if r.name != setArray {
		return nil
	}
	// Processes within one task of an array would all make the same shard.
	for _, o := range found {
		if o.name != setArray && o.state == complete && o.count > 1 {
			return fault.New(fault.ErrUsage, "%s: write %s 0/4 for the first of four", r.String()+", and "+o.String(), use.flag())
		}
	}
	return nil
}

// outOfRange returns the reason why a place is impossible, or "".
func outOfRange(index, count int) string {
	switch {
	case count < 1 || count > most:
		return fmt.Sprintf("%d processes: there may be 1 to %d", count, most)
	case index < 0 || index >= count:
		return fmt.Sprintf("process %d of %d: they are counted from 0 to %d", index, count, count-1)
	}
	return ""
}

// number parses a whole number from 0 in canonical form: no sign, no space, no leading 0.
func number(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == text
}

// Restarts returns the number of restarts of this process's job, and the environment variable that gives
// it: Slurm's for a requeued job, or torchrun's, which restarts all processes when one fails. Without
// such a variable it returns 0.
func Restarts(env Env) (n int, variable string) {
	for _, name := range []string{"SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"} {
		if n, ok := number(env(name)); ok && n > 0 {
			return n, name
		}
	}
	return 0, ""
}
