package gpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/recipe"
)

// summing is an engine.Reducer of some devices, by way of the host: it sums in the order of the ranks.
type summing struct {
	mu      sync.Mutex
	all     *sync.Cond
	world   int
	came    int
	turn    int
	x       [][]float32
	reduced int
}

func newSumming(world int) *summing {
	s := &summing{world: world, x: make([][]float32, world)}
	s.all = sync.NewCond(&s.mu)
	return s
}

// rank is one of them.
type rank struct {
	*summing
	rank int
}

func (r rank) AllReduce(_ context.Context, s device.Stream, x device.Buffer) error {
	mine := make([]float32, x.Bytes()/4)
	if err := errors.Join(s.CopyOut(binio.Bytes(mine), x), s.Synchronize()); err != nil {
		return err
	}
	r.mu.Lock()
	r.x[r.rank] = mine
	turn := r.turn
	if r.came++; r.came == r.world {
		total := slices.Clone(r.x[0])
		for _, o := range r.x[1:] {
			for i := range total {
				total[i] += o[i]
			}
		}
		for i := range r.x {
			r.x[i] = total
		}
		r.came, r.turn = 0, r.turn+1
		r.reduced++
		r.all.Broadcast()
	}
	for turn == r.turn {
		r.all.Wait()
	}
	total := r.x[r.rank]
	r.mu.Unlock()
	return errors.Join(s.CopyIn(x, binio.Bytes(total)), s.Synchronize())
}

// TestReduce: engines on two and three devices, whose sums are brought together on them, end with
// equal bits on all, and within rounding of one engine that has all batches: with batch norm, and
// with tails of which some engines have no batch.
func TestReduce(t *testing.T) {
	const steps, perStep, perEpoch = 6, 6, 14 // 6, 6 and 2 batches, twice
	rng := rand.New(rand.NewPCG(3, 9))
	batches := make([]*graph.Batch, 4)
	features := make([][]float32, len(batches))
	for i := range batches {
		batches[i] = someBatch(rng)
		features[i] = graphtest.Features(batches[i], 6, rng)
	}
	config := engine.Config{Network: someModel(), Sizes: graphtest.Roomy(batches...), Recipe: recipe.Recipe{Seed: 7, WeightDecay: 0.1, Accumulate: perStep}}
	// train runs one of world engines.
	train := func(d *cuda.Device, world, mine int, r engine.Reducer) (weights []float32) {
		e := newEngine(t, d, config)
		defer e.Close()
		if world > 1 {
			check(t, e.Share(mine*perStep/world))
		}
		for epoch := range 2 {
			for first := 0; first < perEpoch; first += perStep {
				labelled, n := int64(0), min(perStep, perEpoch-first)
				for k := range n {
					b := (first + k) % len(batches)
					w := work(t, e, false, batches[b])
					labelled += int64(w.prepared.Labelled)
					if k/(perStep/world) != mine {
						continue
					}
					_, err := e.Backward(context.Background(), w, engine.Rows(features[b]), engine.Place{Epoch: epoch, Batch: first + k})
					check(t, err)
				}
				if world > 1 {
					check(t, e.Reduce(t.Context(), r, labelled, n))
				}
				check(t, e.Apply())
			}
		}
		_, err := e.Finish()
		check(t, err)
		return snapshot(t, e)
	}
	want := train(cudatest.Open(t), 1, 0, nil)
	for world := 2; world <= 3; world++ {
		sum := newSumming(world)
		got := make([][]float32, world)
		var all sync.WaitGroup
		for i := range world {
			d := cudatest.Open(t)
			all.Go(func() { got[i] = train(d, world, i, rank{sum, i}) })
		}
		all.Wait()
		for i := range world {
			if fmt.Sprint(bits(got[i])) != fmt.Sprint(bits(got[0])) {
				t.Errorf("%d engines: the weights of engine %d are not those of the first", world, i)
			}
			for k, v := range got[i] {
				if math.Abs(float64(v-want[k])) > 1e-5*math.Max(1, math.Abs(float64(want[k]))) {
					t.Fatalf("%d engines: weight %d is %v, of one engine %v", world, k, v, want[k])
				}
			}
		}
		if sum.reduced != 2*steps { // gradients, and statistics of batch norm
			t.Errorf("%d engines: %d sums", world, sum.reduced)
		}
	}
}

// TestReduceRefuses: what makes no step.
func TestReduceRefuses(t *testing.T) {
	d := cudatest.Open(t)
	b := someBatch(rand.New(rand.NewPCG(1, 1)))
	alone := newEngine(t, d, engine.Config{Network: someModel(), Sizes: graphtest.Roomy(b)})
	if err := alone.Share(0); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("one batch a step: %v", err)
	}
	e := newEngine(t, d, engine.Config{Network: someModel(), Sizes: graphtest.Roomy(b), Recipe: recipe.Recipe{Accumulate: 2}})
	for _, first := range []int{-1, 2} {
		if err := e.Share(first); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("from %d on: %v", first, err)
		}
	}
	for _, n := range []int{0, 3} {
		if err := e.Reduce(t.Context(), rank{newSumming(1), 0}, 5, n); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%d batches: %v", n, err)
		}
	}
	boom := errors.New("boom")
	if err := e.Reduce(t.Context(), failing{boom}, 5, 2); !errors.Is(err, boom) {
		t.Error(err)
	}
	if err := e.Apply(); err == nil {
		t.Error("a step that was not reduced is applied")
	}
}

type failing struct{ err error }

func (f failing) AllReduce(context.Context, device.Stream, device.Buffer) error { return f.err }
