package presample

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample/sampler"
	"diskgnn/presample/walk"
)

// buffered returns options of each order that draws from a buffer of partitions.
func buffered(t *testing.T, dir string) map[string]Options {
	o := testOptions(t, dir)
	o.Order, o.Partitions, o.Buffer = OrderDispersed, 16, 4
	sequential := o
	sequential.Order, sequential.Buffer = OrderSequential, 12
	sequential.Out += "sequential"
	made := map[string]Options{"sequential": sequential}
	out := o.Out
	for _, kind := range []string{walk.Sweep, walk.Beta, walk.Comet} {
		o.Walk, o.Out = kind, out+kind
		made[kind] = o
	}
	return made
}

// TestBufferSameBytes draws with any number of workers, in any memory, whole, in shards, and
// after an interruption: the bytes are the same.
func TestBufferSameBytes(t *testing.T) {
	for name, o := range buffered(t, t.TempDir()) {
		dir := t.TempDir()
		o.Out = filepath.Join(dir, "S")
		mustRun(t, o)
		verifySamples(t, o.Out)
		want := files(t, o.Out)
		compare := func(how string) {
			t.Helper()
			if d := cmp.Diff(want, files(t, o.Out)); d != "" {
				t.Errorf("%s, %s: %.300s", name, how, d)
			}
		}
		for _, workers := range []int{1, 5} {
			for _, memory := range []int64{256 << 20, 8 << 30} {
				o.Workers, o.Memory = workers, memory
				o.Out = filepath.Join(dir, fmt.Sprint(workers, memory))
				mustRun(t, o)
				compare(fmt.Sprintf("%d workers, %d bytes", workers, memory))
			}
		}
		o.Out = filepath.Join(dir, "merged")
		dirs, _, err := sampleShards(o, 3)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := merge(disk, o.Out, dirs); err != nil {
			t.Fatal(err)
		}
		compare("three shards")

		o.Out = filepath.Join(dir, "cancelled")
		ctx, cancel := context.WithCancel(t.Context())
		c := &canceller{Reporter: progress.Discard, cancel: cancel}
		c.left.Store(20)
		if _, err := Run(ctx, disk, o, c); !errors.Is(err, context.Canceled) {
			t.Fatal(name, err)
		}
		if r := mustRun(t, o); r.Resumed < 8 {
			t.Errorf("%s: %d batches were there", name, r.Resumed)
		}
		compare("interrupted")
	}
}

// TestBufferSamples reads samples: of each training batch, all input nodes lie in partitions
// that the buffer holds then, each epoch has every training node once, and evaluation
// batches, of all neighbours, have them.
func TestBufferSamples(t *testing.T) {
	for name, o := range buffered(t, t.TempDir()) {
		mustRun(t, o)
		r := open(t, o.Out)
		d, err := dataset.Open(disk, o.Dataset)
		if err != nil {
			t.Fatal(err)
		}
		seeds, err := sampler.Load(t.Context(), d, r.Params(), progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		of, held, f := seeds.Partitions(), make([]bool, o.Partitions), r.Facts()
		var batch graph.Batch
		var visited, want []uint32
		states := map[int]bool{}
		for i := range f.Batches() {
			if _, err := r.Read(t.Context(), i, nil, &batch); err != nil {
				t.Fatal(err)
			}
			id := seeds.Nth(i)
			state := seeds.State(id, held)
			if i >= f.TrainBatches {
				outer := &batch.Blocks[len(batch.Blocks)-1]
				for k := range outer.NumDst {
					if drawn := outer.Indptr[k+1] - outer.Indptr[k]; drawn != batch.Degree[k] {
						t.Fatalf("%s: batch %d draws %d of %d neighbours", name, i, drawn, batch.Degree[k])
					}
				}
				continue
			}
			for _, v := range batch.Input {
				if !held[of[v]] {
					t.Fatalf("%s: batch %d has node %d of partition %d, the buffer holds %v", name, i, v, of[v], held)
				}
			}
			if id.Epoch > 0 {
				states[state] = true
			}
			visited = append(visited, batch.Input[:len(batch.Labels)]...)
			if id.Index == f.BatchesPerEpoch-1 {
				slices.Sort(visited)
				if id.Epoch == 0 {
					want = slices.Clone(visited)
				}
				if !slices.Equal(visited, want) || len(slices.Compact(visited)) != len(want) {
					t.Fatalf("%s: epoch %d visits %v", name, id.Epoch, visited)
				}
				visited = visited[:0]
			}
		}
		if (len(states) == 1) != (o.Order == OrderSequential) {
			t.Errorf("%s: batches of the states %v", name, states)
		}
	}
}

// TestBufferIsContent: what decides the batches is part of the parameters, and samples drawn
// otherwise are refused in the user's words.
func TestBufferIsContent(t *testing.T) {
	o := buffered(t, t.TempDir())[walk.Sweep]
	o.Walk = ""
	mustRun(t, o)
	if p := open(t, o.Out).Params(); p.Order != OrderDispersed || p.Partitions != 16 || p.Buffer != 4 || p.Walk != walk.Sweep {
		t.Errorf("%+v", p)
	}
	for want, change := range map[string]func(*Options){
		"--walk was sweep, now beta":        func(o *Options) { o.Walk = walk.Beta },
		"--partitions was 16, now 20":       func(o *Options) { o.Partitions = 20 },
		"--buffer was 4, now 6":             func(o *Options) { o.Buffer = 6 },
		"--order was dispersed, now random": func(o *Options) { o.Order, o.Partitions, o.Buffer = OrderRandom, 0, 0 },
		"--buffer was 4, now 12":            func(o *Options) { o.Order, o.Buffer = OrderSequential, 12 },
	} {
		other := o
		change(&other)
		if _, err := Run(t.Context(), disk, other, progress.Discard); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	o.Partitions, o.Buffer, o.Force = 401, 2, true
	if _, err := Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--partitions 401: the graph has only 400 nodes") {
		t.Error(err)
	}
	o.Order, o.Partitions = OrderSequential, 100
	if _, err := Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--buffer is 2") {
		t.Error(err)
	}
}

// TestBufferMemory: the table of partitions and the walks are part of the budget.
func TestBufferMemory(t *testing.T) {
	o := buffered(t, t.TempDir())[walk.Beta]
	o.Partitions, o.Buffer, o.Memory = 400, 2, budget.Reserve+4<<20 // 80 thousand states
	if _, err := Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "sampling") {
		t.Error(err)
	}
	o.Walk = walk.Sweep // 399
	mustRun(t, o)
	o.Out, o.Memory = o.Out+"2", budget.Reserve+4*400+2*400-1
	if _, err := Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "reading the labels") {
		t.Error(err)
	}
}
