package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/train/collective"
	"diskgnn/train/decide"
	"diskgnn/train/ranks"
	"diskgnn/train/rundir"
)

// hall is where ranks of a test sum, in their order: what stands in for NCCL.
type hall struct {
	mu      sync.Mutex
	all     *sync.Cond
	world   int
	came    int
	turn    int
	x       [][]float32
	given   error
	sums    int
	failsAt int // the sum of the last rank that fails; 0: none
}

func newHall(world int) *hall {
	h := &hall{world: world, x: make([][]float32, world)}
	h.all = sync.NewCond(&h.mu)
	return h
}

// reducing returns what ranks sum by.
func (h *hall) reducing() *ranks.Reducing {
	return &ranks.Reducing{
		Available: func() (string, error) { return "a hall", nil },
		ID:        func() ([]byte, error) { return []byte("hall"), nil },
		Join: func(_ context.Context, _ device.GPU, id []byte, world, rank int) (collective.Communicator, error) {
			if string(id) != "hall" || world != h.world {
				return nil, errors.New("another hall")
			}
			return &seat{h, rank}, nil
		},
	}
}

type seat struct {
	*hall
	rank int
}

func (s *seat) Check() error                { return nil }
func (s *seat) Close(context.Context) error { return nil }
func (s *seat) Abort(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why != errNoMore {
		s.given = why
		s.all.Broadcast()
	}
}

func (s *seat) AllReduce(_ context.Context, st device.Stream, x device.Buffer) error {
	mine := make([]float32, x.Bytes()/4)
	if err := errors.Join(st.CopyOut(binio.Bytes(mine), x), st.Synchronize()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failsAt > 0 && s.rank == s.world-1 && s.sums == s.failsAt {
		return errors.New("the link is broken")
	}
	s.x[s.rank] = mine
	turn := s.turn
	if s.came++; s.came == s.world {
		total := slices.Clone(s.x[0])
		for _, o := range s.x[1:] {
			for i := range total {
				total[i] += o[i]
			}
		}
		for i := range s.x {
			s.x[i] = total
		}
		s.came, s.turn, s.sums = 0, s.turn+1, s.sums+1
		s.all.Broadcast()
	}
	for turn == s.turn && s.given == nil {
		s.all.Wait()
	}
	if s.given != nil {
		return s.given
	}
	return errors.Join(st.CopyIn(x, binio.Bytes(s.x[s.rank])), st.Synchronize())
}

// onGPUs trains on emulated devices of one machine.
func onGPUs(t *testing.T, w *world, o Options, n int, apart bool, h *hall, rep progress.Reporter) (rundir.Result, error) {
	t.Helper()
	list := cudatest.OpenMachine(t, n, apart)
	o.Replicas = n
	g := &gpuDevice{from: func(i int, _ cuda.Options) (*cuda.Device, error) { return list[i], nil }}
	return w.run(t.Context(), o, rep, func(p *parts) { p.engine, p.reduce = g.newEngine, h.reducing() })
}

// final returns a run's last weights, one after the other.
func (w *world) final(out string) (all []float32) {
	tensors := w.weights(out, rundir.FinalFile)
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		all = append(all, tensors[name].Data...)
	}
	return all
}

// TestGPUs: GPUs of one process train to the weights that one GPU has, with as many batches a
// step, but for rounding, whether they sum by themselves or on the host, which has the bits; and
// whether their hottest rows are divided or not.
func TestGPUs(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 300})
	pack := w.pack(20)
	options := func(name string, change func(o *Options)) Options {
		return w.options(pack, func(o *Options) {
			o.Out += name
			o.Engine, o.Epochs, o.Accumulate, o.Dropout = EngineGPU, 2, 6, 0.3
			o.GPUCache = &budget.Size{Value: 5, Unit: budget.UnitPercent}
			o.Memory = 4 << 30
			change(o)
		})
	}
	weights := func(o Options) []float32 { return w.final(o.Out) }
	one := &gpuDevice{device: cudatest.Open(t)}
	alone := func(norm string) []float32 {
		o := options("alone"+norm, func(o *Options) { o.Norm = norm })
		if _, err := w.run(context.Background(), o, progress.Discard, func(p *parts) { p.engine = one.newEngine }); err != nil {
			t.Fatal(err)
		}
		return weights(o)
	}
	// The gradient of a bias ahead of a batch norm is nothing but rounding, which Adam makes
	// steps of: sums in another order are compared without.
	norms := map[string]string{decide.ReduceHost: "batch", decide.ReduceAuto: "none"}
	want := map[string][]float32{decide.ReduceHost: alone("batch"), decide.ReduceAuto: alone("none")}
	for _, n := range []int{2, 3} {
		for _, apart := range []bool{false, true} {
			for _, how := range []string{decide.ReduceHost, decide.ReduceAuto} {
				name := fmt.Sprint(n, apart, how)
				o := options(name, func(o *Options) { o.Reduce, o.Norm = how, norms[how] })
				log := new(logged)
				h := newHall(n)
				res, err := onGPUs(t, w, o, n, apart, h, log)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				said := log.String()
				if divided := strings.Contains(said, "they divide the hottest rows"); divided == apart || strings.Contains(said, "on the GPUs by a hall") != (how == decide.ReduceAuto) || (h.sums > 0) != (how == decide.ReduceAuto) {
					t.Errorf("%s: %d sums; %s", name, h.sums, said)
				}
				rows := res.GPUCacheRows
				if one := int64(15); rows != one && apart || rows != one*int64(n) && !apart {
					t.Errorf("%s: %d rows on the GPUs", name, rows)
				}
				got := weights(o)
				if how == decide.ReduceHost && !slices.Equal(got, want[how]) {
					t.Errorf("%s: other bits than one GPU has", name)
				}
				for i := range got {
					if math.Abs(float64(got[i]-want[how][i])) > 1e-6*math.Max(1, math.Abs(float64(want[how][i]))) {
						t.Fatalf("%s: weight %d is %v, of one GPU %v", name, i, got[i], want[how][i])
					}
				}
			}
		}
	}
}

// TestGPUsEnd: what ends one GPU ends all, with its error, and gives everything back; the run goes
// on to the weights of one that never ended.
func TestGPUsEnd(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 300})
	pack := w.pack(20)
	options := func(name string) Options {
		return w.options(pack, func(o *Options) {
			o.Out += name
			o.Engine, o.Epochs, o.Memory = EngineGPU, 2, 4<<30
			o.CheckpointEvery = rundir.Interval{Batches: 4}
		})
	}
	whole := options("whole")
	if _, err := onGPUs(t, w, whole, 2, false, newHall(2), progress.Discard); err != nil {
		t.Fatal(err)
	}
	broken := options("broken")
	h := newHall(2)
	h.failsAt = 9
	_, err := onGPUs(t, w, broken, 2, false, h, progress.Discard)
	if err == nil || !strings.Contains(err.Error(), "the link is broken") {
		t.Fatal(err)
	}
	broken.Resume = true
	if _, err := onGPUs(t, w, broken, 2, false, newHall(2), progress.Discard); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.final(broken.Out), w.final(whole.Out)) {
		t.Error("other weights than those of a run that never ended")
	}
}

// TestGPUsRefuse: what cannot be is said by name.
func TestGPUsRefuse(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150})
	memory := w.options("", func(o *Options) {
		o.Pack, o.Dataset, o.Samples, o.Store, o.Engine, o.Memory = "", w.path("dataset"), w.path("samples"), "memory", EngineGPU, 4<<30
	})
	if _, err := onGPUs(t, w, memory, 2, false, newHall(2), progress.Discard); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "the store memory is for one GPU") {
		t.Errorf("the store memory: %v", err)
	}
	o := Options{Engine: EngineCPU, Replicas: 2}
	if err := o.resolveGPUs(); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--gpus is for --engine gpu, not cpu") {
		t.Errorf("on the CPU: %v", err)
	}
	if by := decide.Reduce(decide.ReduceNCCL, []decide.AbleToReduce{{By: "NCCL 1"}, {Why: "no library"}}); !by.Refused || by.Why != "rank 1: no library" {
		t.Errorf("%+v", by)
	}
}
