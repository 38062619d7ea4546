package job

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
)

// environ parses "A=1 B=2" into an environment.
func environ(text string) Env {
	vars := make(map[string]string)
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		vars[name] = value
	}
	return func(name string) string { return vars[name] }
}

const (
	array    = "SLURM_ARRAY_TASK_ID=12 SLURM_ARRAY_TASK_MIN=10 SLURM_ARRAY_TASK_MAX=13 SLURM_ARRAY_TASK_COUNT=4 "
	torchrun = "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=29500 "
	pet      = "PET_NODE_RANK=1 PET_NNODES=2 PET_NPROC_PER_NODE=1 PET_MASTER_ADDR=p PET_MASTER_PORT=29600 "
	batch    = "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NTASKS=3 SLURM_TASKS_PER_NODE=2,1 SLURM_JOB_NODELIST=n[1-2] "
	step     = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=2 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_NTASKS=3 SLURM_STEP_NUM_TASKS=3 SLURM_STEP_TASKS_PER_NODE=2,1 SLURM_STEP_NODELIST=n[1-2] "
	openmpi  = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
	pmi      = "PMI_RANK=4 PMI_SIZE=5 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1 "
	jobset   = "JOBSET_JOB_INDEX=1 JOBSET_REPLICAS=3 "
)

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name string
		use  Use
		ask  string // the flag's value
		env  string
		want string // "index/count local/localCount from host:port", or a part of the error
	}{
		{"nothing", Shards, "", "", "0/1 0/1 -"},
		{"nothing says more", Replicas, "", "HOME=/ SLURM_JOB_ID=7", "0/1 0/1 -"},
		{"no flag, no shard", Shards, "", array, "0/1 0/1 -"},
		{"the flag alone", Shards, "2/5", array, "2/5 0/1 --shard"},
		{"auto of nothing", Shards, "auto", "", "no scheduler gives the number of this process"},
		{"auto of nothing, to train", Replicas, "auto/2", "", "no scheduler gives the number of this process"},

		{"array", Shards, "auto", array, "2/4 0/1 array"},
		{"array and its count", Shards, "auto/4", array, "2/4 0/1 array"},
		{"array and another count", Shards, "auto/8", array, "--shard auto/8, but array"},
		{"array of one", Shards, "auto", "SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_MIN=5 SLURM_ARRAY_TASK_MAX=5 SLURM_ARRAY_TASK_COUNT=1", "0/1 0/1 array"},
		{"array in steps of 4", Shards, "auto", "SLURM_ARRAY_TASK_ID=9 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=9 SLURM_ARRAY_TASK_COUNT=3", "2/3 0/1 array"},
		{"array with gaps", Shards, "auto", "SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_COUNT=3", "leaves out tasks"},
		{"array with a gap, its first", Shards, "auto", "SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=3 SLURM_ARRAY_TASK_COUNT=3", "leaves out tasks"},
		{"array of one that has two ends", Shards, "auto", "SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_MIN=3 SLURM_ARRAY_TASK_MAX=5 SLURM_ARRAY_TASK_COUNT=1", "the task is outside the array"},
		{"array by half", Shards, "auto", "SLURM_ARRAY_TASK_ID=3", "without SLURM_ARRAY_TASK_COUNT"},
		{"array beyond its end", Shards, "auto", "SLURM_ARRAY_TASK_ID=14 SLURM_ARRAY_TASK_MIN=10 SLURM_ARRAY_TASK_MAX=13 SLURM_ARRAY_TASK_COUNT=4", "the task is outside the array"},
		{"array of more than there are", Shards, "auto", "SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=3 SLURM_ARRAY_TASK_COUNT=5", "the task is outside the array"},
		{"array without a number", Shards, "auto", "SLURM_ARRAY_TASK_ID=x SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=3 SLURM_ARRAY_TASK_COUNT=4", "is no whole number"},
		{"array in a batch script", Shards, "auto", array + batch, "2/4 0/1 array"},
		{"array with a step of several tasks", Shards, "auto", array + step, "slurm (SLURM_PROCID=2"},
		{"arrays do not train together", Replicas, "", array, "0/1 0/1 -"},

		{"torchrun", Replicas, "", torchrun, "3/4 1/2 torchrun a:29500"},
		{"torchrun within Slurm's step", Replicas, "auto", torchrun + step, "3/4 1/2 torchrun a:29500"},
		{"torchrun without a host", Replicas, "", "RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1", "set MASTER_ADDR"},
		{"torchrun of one host", Replicas, "", "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", "1/2 1/2 torchrun 127.0.0.1:29400"},
		{"torchrun, nothing of the host", Replicas, "", "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a", "1/2 0/1 torchrun a:29400"},
		{"torchrun for shards", Shards, "auto", "RANK=1 WORLD_SIZE=2", "1/2 0/1 torchrun"},
		{"a process of one", Replicas, "", "RANK=0 WORLD_SIZE=1", "0/1 0/1 torchrun"},
		{"RANK alone", Replicas, "", "RANK=1", "unclear: torchrun (RANK=1): without WORLD_SIZE"},
		{"WORLD_SIZE alone", Replicas, "", "WORLD_SIZE=2", "without RANK"},
		{"half of the host", Replicas, "", "RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=a", "without LOCAL_WORLD_SIZE"},
		{"RANK out of range", Replicas, "", "RANK=2 WORLD_SIZE=2 MASTER_ADDR=a", "process 2 of 2: they are counted from 0 to 1"},
		{"RANK is wrong, whatever follows", Replicas, "", "RANK=2 WORLD_SIZE=2 MASTER_ADDR=a " + step, "process 2 of 2"},
		{"RANK is partial, and srun is not", Replicas, "", "RANK=1 " + step, "2/3 0/1 slurm n1:16503"},
		{"LOCAL_RANK out of range", Replicas, "", "RANK=1 WORLD_SIZE=2 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2", "on this host: process 2 of 2"},
		{"RANK is negative", Replicas, "", "RANK=-1 WORLD_SIZE=2", "RANK is no whole number"},
		{"a port that is none", Replicas, "", "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=65530", "MASTER_PORT=65530 is no port"},
		{"an address alone", Replicas, "", "MASTER_ADDR=a MASTER_PORT=29500", "0/1 0/1 -"},
		{"a local rank alone", Replicas, "", "LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", "0/1 0/1 -"},

		{"pet", Replicas, "", pet, "1/2 0/1 pet p:29600"},
		{"pet, and another port", Replicas, "", pet + "MASTER_PORT=1234", "1/2 0/1 pet p:1234"},
		{"pet, and another host", Replicas, "", pet + "MASTER_ADDR=a", "1/2 0/1 pet a:29600"},
		{"pet, and no port", Replicas, "", "PET_NODE_RANK=1 PET_NNODES=2 PET_MASTER_ADDR=p PET_MASTER_PORT=x", "PET_MASTER_PORT=x is no port"},
		{"pet leaves processes to torchrun", Replicas, "", "PET_NODE_RANK=1 PET_NNODES=2 PET_NPROC_PER_NODE=auto PET_MASTER_ADDR=p", "1/2 0/1 pet p:29400"},
		{"pet wants several", Replicas, "", "PET_NODE_RANK=1 PET_NNODES=2 PET_NPROC_PER_NODE=8", "torchrun --no-python"},
		{"pet is elastic", Replicas, "", "PET_NODE_RANK=1 PET_NNODES=1:4", "PET_NNODES is no whole number"},
		{"pet by half", Replicas, "", "PET_NODE_RANK=1", "without PET_NNODES"},
		{"pet by the other half", Replicas, "", "PET_NNODES=2", "without PET_NODE_RANK"},
		{"pet within an indexed Job", Replicas, "", pet + "JOB_COMPLETION_INDEX=1", "1/2 0/1 pet p:29600"},
		{"torchrun, started by pet", Replicas, "", torchrun + pet, "3/4 1/2 torchrun a:29500"},

		{"srun", Replicas, "", step, "2/3 0/1 slurm n1:16503"},
		{"srun, and where", Replicas, "", step + "MASTER_ADDR=a MASTER_PORT=1234", "2/3 0/1 slurm a:1234"},
		{"srun, and another port", Replicas, "", step + "MASTER_PORT=1234", "2/3 0/1 slurm n1:1234"},
		{"srun for shards", Shards, "auto", step, "2/3 0/1 slurm"},
		{"srun of an old one", Replicas, "", "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_JOB_NODELIST=x,y SLURM_LAUNCH_NODE_IPADDR=10.0.0.1", "1/2 0/1 slurm x:29400"},
		{"srun, local places", Replicas, "", "SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=3 SLURM_LOCALID=1 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=2,1 SLURM_STEP_NODELIST=n[1-2]", "1/3 1/2 slurm n1:29400"},
		{"srun of one task", Replicas, "", "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0", "0/1 0/1 slurm"},
		{"srun by a file of hosts", Replicas, "", step + "SLURM_DISTRIBUTION=arbitrary", "set MASTER_ADDR"},
		{"tasks that do not add up", Replicas, "", "SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=3 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=1(x2)", "SLURM_STEP_TASKS_PER_NODE=1(x2) does not fit 3 tasks"},
		{"a batch script of several tasks", Replicas, "", batch, "tasks are started by srun"},
		{"a batch script of one", Replicas, "", "SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_LOCALID=0", "0/1 0/1 slurm"},
		{"a batch script that says nothing", Replicas, "", "SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0", "0/1 0/1 slurm"},
		{"a shell of salloc", Replicas, "", "SLURM_NTASKS=4", "without SLURM_PROCID"},
		{"a shell of salloc for one", Replicas, "", "SLURM_NTASKS=1", "0/1 0/1 -"},
		{"a job of two kinds", Replicas, "", step + "SLURM_HET_SIZE=2", "heterogeneous"},

		{"mpirun", Replicas, "", openmpi, "1/2 1/2 openmpi 127.0.0.1:29400"},
		{"mpirun in a batch script", Replicas, "", batch + openmpi, "1/2 1/2 openmpi 127.0.0.1:29400"},
		{"mpirun, whose daemon srun started", Replicas, "", step + openmpi, "1/2 1/2 openmpi 127.0.0.1:29400"},
		{"MPI that srun started", Replicas, "", step + "PMI_RANK=2 PMI_SIZE=3", "2/3 0/1 slurm n1:16503"},
		{"mpirun over hosts", Replicas, "", "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1", "set MASTER_ADDR"},
		{"mpiexec", Replicas, "", pmi + "MASTER_ADDR=a", "4/5 0/1 pmi a:29400"},

		{"indexed", Shards, "auto/4", "JOB_COMPLETION_INDEX=3", "3/4 0/1 indexed"},
		{"indexed without a count", Shards, "auto", "JOB_COMPLETION_INDEX=3", "write auto/N"},
		{"indexed out of range", Shards, "auto/3", "JOB_COMPLETION_INDEX=3", "process 3 of 3"},
		{"indexed to train", Replicas, "auto/4", "JOB_COMPLETION_INDEX=3 MASTER_ADDR=train-0.train", "3/4 0/1 indexed train-0.train:29400"},
		{"indexed to train, without a flag", Replicas, "", "JOB_COMPLETION_INDEX=3", "or --rank 0/1 for a run of its own"},
		{"indexed, a run of its own", Replicas, "0/1", "JOB_COMPLETION_INDEX=3", "0/1 0/1 --rank"},
		{"jobset", Shards, "auto", jobset + "JOB_COMPLETION_INDEX=0", "1/3 0/1 jobset"},
		{"jobset, its count", Shards, "auto/3", jobset + "JOB_COMPLETION_INDEX=0", "1/3 0/1 jobset"},
		{"jobset of indexed Jobs", Shards, "auto/6", jobset + "JOB_COMPLETION_INDEX=1", "3/6 0/1 jobset"},
		{"jobset of indexed Jobs, the first", Shards, "auto/6", jobset + "JOB_COMPLETION_INDEX=0", "2/6 0/1 jobset"},
		{"jobset of indexed Jobs without a count", Shards, "auto", jobset + "JOB_COMPLETION_INDEX=1", "write auto/N"},
		{"jobset of indexed Jobs, not divisible", Shards, "auto/4", jobset + "JOB_COMPLETION_INDEX=0", "4 processes do not fit these values"},
		{"jobset of indexed Jobs, beyond", Shards, "auto/6", jobset + "JOB_COMPLETION_INDEX=2", "6 processes do not fit these values"},
		{"jobset by half", Shards, "auto/4", "JOBSET_JOB_INDEX=1 JOB_COMPLETION_INDEX=0", "without JOBSET_REPLICAS"},
		{"jobset of none", Shards, "auto", "JOBSET_JOB_INDEX=0 JOBSET_REPLICAS=0", "0 processes"},

		{"the flag to train", Replicas, "1/2", "MASTER_ADDR=a " + step, "1/2 0/1 --rank a:29400"},
		{"the flag without an address", Replicas, "1/2", step, "set MASTER_ADDR"},
		{"too many", Replicas, "", "RANK=1 WORLD_SIZE=65537", "there may be 1 to 65536"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ask Ask
			if c.ask != "" {
				var err error
				if ask, err = ParseAsk(c.ask); err != nil {
					t.Fatal(err)
				}
			}
			p, err := Find(c.use, ask, environ(c.env))
			if err != nil {
				if !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("%v, want a usage error with %q", err, c.want)
				}
				return
			}
			from, _, _ := strings.Cut(p.From, " ")
			if from == "" {
				from = "-"
			}
			got := fmt.Sprintf("%d/%d %d/%d %s", p.Index, p.Count, p.LocalIndex, p.LocalCount, from)
			if p.Host != "" {
				got += fmt.Sprintf(" %s:%d", p.Host, p.Port)
			}
			if got != c.want {
				t.Fatalf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestSays(t *testing.T) {
	p, err := Find(Replicas, Ask{}, environ(torchrun+step))
	if err != nil {
		t.Fatal(err)
	}
	const want = "3 of 4 by torchrun (RANK=3, WORLD_SIZE=4, LOCAL_RANK=1, LOCAL_WORLD_SIZE=2), 1 of 2 on this host, the first at a:29500; " +
		"also there: slurm (SLURM_PROCID=2, SLURM_NTASKS=3, SLURM_STEP_NUM_TASKS=3, SLURM_LOCALID=0, SLURM_NODEID=1) says 2 of 3"
	if p.String() != want {
		t.Errorf("%s\nwant %s", p, want)
	}
	if got := (Place{Count: 1, LocalCount: 1}).String(); got != "a process by itself" {
		t.Error(got)
	}
}

func TestParseAsk(t *testing.T) {
	for text, want := range map[string]Ask{
		"0/1":    {Count: 1},
		"2/5":    {Index: 2, Count: 5},
		" 2/5 ":  {Index: 2, Count: 5},
		"auto":   {Auto: true},
		"auto/5": {Auto: true, Count: 5},
	} {
		if got, err := ParseAsk(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "2", "5/5", "-1/5", "0/0", "auto/0", "auto/", "auto/x", "x/2", "1/2/3", "01/2", "+1/2", "0/65537", "automatic"} {
		if got, err := ParseAsk(text); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// A launcher starts processes on hosts, each with its variables: an own account of what the
// programs set, from which places are found again.
type launched struct {
	index, count, local, localCount int
	env                             map[string]string
}

// launch draws a layout of processes over hosts, and what a launcher tells each.
func launch(t *rapid.T, kind string) []launched {
	perHost := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 4).Draw(t, "processes of each host")
	var all []launched
	total := 0
	for _, n := range perHost {
		total += n
	}
	lists := make([]string, len(perHost))
	for i, n := range perHost {
		lists[i] = fmt.Sprint(n)
	}
	for host, n := range perHost {
		for local := range n {
			p := launched{index: len(all), count: total, local: local, localCount: n, env: map[string]string{}}
			set := func(name string, value any) { p.env[name] = fmt.Sprint(value) }
			switch kind {
			case "torchrun":
				set("RANK", p.index)
				set("WORLD_SIZE", total)
				set("LOCAL_RANK", local)
				set("LOCAL_WORLD_SIZE", n)
				set("MASTER_ADDR", "h0")
			case "slurm":
				set("SLURM_JOB_ID", 41)
				set("SLURM_STEP_ID", 0)
				set("SLURM_PROCID", p.index)
				set("SLURM_NTASKS", total)
				set("SLURM_STEP_NUM_TASKS", total)
				set("SLURM_LOCALID", local)
				set("SLURM_NODEID", host)
				set("SLURM_STEP_TASKS_PER_NODE", strings.Join(lists, ","))
				set("SLURM_STEP_NODELIST", "h[0-9]")
			case "openmpi":
				set("OMPI_COMM_WORLD_RANK", p.index)
				set("OMPI_COMM_WORLD_SIZE", total)
				set("OMPI_COMM_WORLD_LOCAL_RANK", local)
				set("OMPI_COMM_WORLD_LOCAL_SIZE", n)
				set("MASTER_ADDR", "h0")
			case "pmi":
				set("PMI_RANK", p.index)
				set("PMI_SIZE", total)
				set("MPI_LOCALRANKID", local)
				set("MPI_LOCALNRANKS", n)
				set("MASTER_ADDR", "h0")
			case "pet":
				// One process a host.
				if local > 0 {
					continue
				}
				p.index, p.count, p.localCount = host, len(perHost), 1
				set("PET_NODE_RANK", host)
				set("PET_NNODES", len(perHost))
				set("PET_NPROC_PER_NODE", rapid.SampledFrom([]string{"1", "auto", "gpu"}).Draw(t, "of each"))
				set("PET_MASTER_ADDR", "h0")
			}
			all = append(all, p)
		}
	}
	return all
}

func (l launched) environ() Env { return func(name string) string { return l.env[name] } }

// TestEveryPlaceOnce: whatever a launcher starts, inside whatever started it, gets the places
// that it means.
func TestEveryPlaceOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := []string{"torchrun", "pet", "slurm", "openmpi", "pmi"}
		inner := rapid.SampledFrom(kinds).Draw(t, "launcher")
		all := launch(t, inner)
		// What started the launcher leaves its variables behind: to torchrun anything may have,
		// to an MPI a batch script or a step of daemons.
		var outer []launched
		switch inner {
		case "torchrun":
			outer = launch(t, rapid.SampledFrom(kinds[1:]).Draw(t, "within"))
		case "openmpi", "pmi":
			if rapid.Bool().Draw(t, "within Slurm") {
				outer = launch(t, "slurm")
			}
		}
		for _, l := range all {
			if outer != nil {
				env := maps.Clone(outer[rapid.IntRange(0, len(outer)-1).Draw(t, "where")].env)
				delete(env, "MASTER_ADDR")
				maps.Copy(env, l.env)
				l.env = env
			}
			p, err := Find(Replicas, Ask{}, l.environ())
			if err != nil {
				t.Fatalf("%v: %v", l.env, err)
			}
			if p.Index != l.index || p.Count != l.count || p.LocalIndex != l.local || p.LocalCount != l.localCount {
				t.Fatalf("%v: %+v, want %+v", l.env, p, l)
			}
			where := "h0"
			if p.LocalCount == p.Count {
				where = "127.0.0.1"
			}
			if p.Count > 1 && (p.Host != where || p.Local() != (where != "h0")) {
				t.Fatalf("%v: the first at %q", l.env, p.Host)
			}
		}
	})
}

// TestArrayPlaces: the tasks of any array have all places, or some have none. No two have one.
func TestArrayPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.IntRange(0, 40), 1, 12, rapid.ID[int]).Draw(t, "tasks")
		if rapid.Bool().Draw(t, "regular") {
			first, step := ids[0], rapid.IntRange(1, 9).Draw(t, "step")
			for i := range ids {
				ids[i] = first + i*step
			}
		}
		low, high := ids[0], ids[0]
		for _, id := range ids {
			low, high = min(low, id), max(high, id)
		}
		seen, refused := make(map[int]bool), 0
		for _, id := range ids {
			p, err := Find(Shards, Ask{Auto: true}, environ(fmt.Sprintf("SLURM_ARRAY_TASK_ID=%d SLURM_ARRAY_TASK_MIN=%d SLURM_ARRAY_TASK_MAX=%d SLURM_ARRAY_TASK_COUNT=%d", id, low, high, len(ids))))
			if err != nil {
				refused++
				continue
			}
			if p.Count != len(ids) || p.Index < 0 || p.Index >= p.Count || seen[p.Index] {
				t.Fatalf("tasks %v: %d has the place %d of %d", ids, id, p.Index, p.Count)
			}
			seen[p.Index] = true
		}
		regular := true
		for _, id := range ids {
			regular = regular && len(ids) > 1 && (high-low)%(len(ids)-1) == 0 && (id-low)%((high-low)/(len(ids)-1)) == 0
		}
		if (regular || len(ids) == 1) != (refused == 0) {
			t.Fatalf("tasks %v: %d have no place", ids, refused)
		}
	})
}

// TestAnything: no environment leads to a place that there is not.
func TestAnything(t *testing.T) {
	names := []string{
		"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
		"PET_NODE_RANK", "PET_NNODES", "PET_NPROC_PER_NODE",
		"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_COUNT",
		"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NODELIST",
		"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
		"JOB_COMPLETION_INDEX", "JOBSET_JOB_INDEX", "JOBSET_REPLICAS",
	}
	values := rapid.SampledFrom([]string{"", "0", "1", "2", "3", "4", "-1", "03", "x", "99999999999999999999", "2(x2)", "n[1-2"})
	rapid.Check(t, func(t *rapid.T) {
		env := rapid.MapOf(rapid.SampledFrom(names), values).Draw(t, "environment")
		ask := Ask{Auto: rapid.Bool().Draw(t, "auto")}
		if ask.Auto {
			ask.Count = rapid.IntRange(0, 5).Draw(t, "count")
		}
		for _, use := range []Use{Shards, Replicas} {
			p, err := Find(use, ask, func(name string) string { return env[name] })
			switch {
			case err != nil && !errors.Is(err, fault.ErrUsage):
				t.Fatalf("%v: %v", env, err)
			case err != nil:
			case outOfRange(p.Index, p.Count) != "" || outOfRange(p.LocalIndex, p.LocalCount) != "":
				t.Fatalf("%v: %+v", env, p)
			case ask.Count != 0 && p.Count != ask.Count:
				t.Fatalf("%v: %+v, of %d", env, p, ask.Count)
			case use == Replicas && p.Count > 1 && (p.Host == "" || p.Port < 1):
				t.Fatalf("%v: %+v without an address", env, p)
			case use == Shards && p.Host != "":
				t.Fatalf("%v: %+v with an address", env, p)
			}
		}
	})
}

func TestFirstNode(t *testing.T) {
	for list, want := range map[string]string{
		"n1":                 "n1",
		"n1,n2":              "n1",
		"n[1-2]":             "n1",
		"gpu[03-07,11],a":    "gpu03",
		"gpu[9,11]":          "gpu9",
		"a,gpu[03-07]":       "a",
		"r[1-2]n[3-8],x":     "r1n3",
		"n[1-2].cluster.org": "n1.cluster.org",
		"n[1-2":              "",
		"":                   "",
	} {
		if got := firstNode(list); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}

func TestRestarts(t *testing.T) {
	for _, c := range []struct {
		env  string
		n    int
		from string
	}{
		{"", 0, ""},
		{"SLURM_RESTART_COUNT=0", 0, ""},
		{"SLURM_RESTART_COUNT=2", 2, "SLURM_RESTART_COUNT"},
		{"SLURM_RESTART_COUNT=x TORCHELASTIC_RESTART_COUNT=1", 1, "TORCHELASTIC_RESTART_COUNT"},
	} {
		if n, from := Restarts(environ(c.env)); n != c.n || from != c.from {
			t.Errorf("%q: %d by %s", c.env, n, from)
		}
	}
}
