package train

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"diskgnn/device/cuda/cudatest"
	"diskgnn/internal/fault"
	"diskgnn/internal/job"
	"diskgnn/internal/progress"
	"diskgnn/iostack/all"
	"diskgnn/train/collective"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/epoch"
	"diskgnn/train/ranks"
	"diskgnn/train/rundir"
)

// atEase are limits under which no rank of a test is lost for being slow.
var atEase = collective.Limits{Join: time.Minute, Greeting: time.Minute, Silence: time.Minute, Step: time.Minute, Factor: 20, Beat: 10 * time.Millisecond, Drain: 2 * time.Second}

// party is a run of several ranks within the test's process.
type party struct {
	w      *world
	limits collective.Limits
	change func(rank int, o *Options)
	parts  func(rank int, p *parts)
	ctx    func(rank int) context.Context
	// reports returns what takes a rank's reports; nil: nothing does.
	reports func(rank int) *viewer
	// through returns where a rank finds rank 0 instead of its own address.
	through func(rank int, address string) string
}

// wire is a connection that can be cut, as it is when a process is killed.
type wire struct {
	t     testing.TB
	mu    sync.Mutex
	conns []net.Conn
}

// to returns an address that leads to another one.
func (c *wire) to(address string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { l.Close() })
	go func() {
		from, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", address)
		if err != nil {
			from.Close()
			return
		}
		c.mu.Lock()
		c.conns = []net.Conn{from, to}
		c.mu.Unlock()
		go func() { _, _ = io.Copy(to, from); c.cut() }()
		_, _ = io.Copy(from, to)
		c.cut()
	}()
	return l.Addr().String()
}

func (c *wire) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
}

// run trains with so many ranks, and returns what each came to.
func (r party) run(world int, o Options) ([]rundir.Result, []error) {
	r.w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.w.t.Fatal(err)
	}
	if r.limits == (collective.Limits{}) {
		r.limits = atEase
	}
	results, errs := make([]rundir.Result, world), make([]error, world)
	var wg sync.WaitGroup
	for rank := range world {
		o := o
		o.Job = job.Place{Index: rank, Count: world, LocalCount: 1}
		if rank > 0 { // no shared disk
			o.Out = filepath.Join(r.w.dir, "nowhere", fmt.Sprint(rank))
		}
		if r.change != nil {
			r.change(rank, &o)
		}
		ctx := context.Background()
		if r.ctx != nil {
			ctx = r.ctx(rank)
		}
		p := usual(all.Open, newCPUEngine)
		p.join = func(ctx context.Context, o *ranks.Membership, rep progress.Reporter) (*collective.Group, error) {
			m := collective.Member{Rank: rank, World: o.Job.Count, Run: "test", Program: "1", Limits: r.limits}
			if o.Job.Count == 1 {
				return collective.One(), nil
			}
			if rank == 0 {
				return collective.Listen(ctx, m, l)
			}
			address := l.Addr().String()
			if r.through != nil {
				address = r.through(rank, address)
			}
			return collective.Dial(ctx, m, []string{address})
		}
		if r.parts != nil {
			r.parts(rank, &p)
		}
		rep := progress.Discard
		if r.reports != nil {
			rep = r.reports(rank)
		}
		wg.Go(func() { results[rank], errs[rank] = run(ctx, disk, o, rep, p) })
	}
	wg.Wait()
	return results, errs
}

// must is run where nothing goes wrong. It returns rank 0's result.
func (r party) must(world int, o Options) rundir.Result {
	r.w.t.Helper()
	results, errs := r.run(world, o)
	if err := errors.Join(errs...); err != nil {
		r.w.t.Fatal(err)
	}
	for rank, res := range results {
		if res.BestEpoch != results[0].BestEpoch || fmt.Sprint(res.TestAccuracy) != fmt.Sprint(results[0].TestAccuracy) {
			r.w.t.Errorf("rank %d: %+v, rank 0: %+v", rank, res, results[0])
		}
	}
	if _, err := os.Stat(filepath.Join(r.w.dir, "nowhere")); err == nil {
		r.w.t.Error("a rank beside rank 0 has written something")
	}
	return results[0]
}

// learned is what must not depend on the number of ranks: the weights and what was found.
func (w *world) learned(out string, r *rundir.Result) string {
	var b strings.Builder
	for _, e := range r.Epochs {
		fmt.Fprintln(&b, e.Epoch, e.LR, e.Loss, e.TrainAccuracy, e.ValidAccuracy, e.InputNodes)
	}
	fmt.Fprintln(&b, r.BestEpoch, r.ValidAccuracy, r.TestAccuracy)
	fmt.Fprintf(&b, "%x %x", w.file(out, rundir.WeightsFile), w.file(out, rundir.FinalFile))
	return b.String()
}

// Equal --accumulate: equal bits, whatever number of ranks shares the steps, with dropout, with
// batch norm, of every model, with an odd last step, shuffled or not.
func TestRanksEqualBits(t *testing.T) {
	for name, c := range map[string]struct {
		accumulate int
		worlds     []int
		change     func(*Options)
	}{
		"sage":       {6, []int{1, 2, 3, 6}, func(o *Options) {}},
		"five":       {5, []int{1, 5}, func(o *Options) { o.ShuffleBatches = true }},
		"gcn, batch": {4, []int{1, 2, 4}, func(o *Options) { o.Model, o.Norm = "gcn", "batch" }},
		"gat, batch": {4, []int{1, 2, 4}, func(o *Options) { o.Model, o.Heads, o.Norm, o.InputProjection = "gat", 4, "batch", true }},
		"larger":     {40, []int{1, 5}, func(o *Options) { o.Norm = "layer" }}, // than an epoch
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, worldParams{})
			p := w.pack(10)
			o := w.options(p, func(o *Options) { o.Epochs, o.Hidden, o.Dropout, o.Accumulate = 3, 8, 0.5, c.accumulate }, c.change)
			var want string
			for _, world := range c.worlds {
				o := w.fresh(o)
				r := party{w: w}.must(world, o)
				if e := r.Epochs[0]; e.Batches%c.accumulate == 0 || e.BytesRead == 0 {
					t.Fatalf("%d batches are whole steps: %+v", e.Batches, e)
				}
				got := w.learned(o.Out, &r)
				if want == "" {
					want = got
				}
				if got != want {
					t.Errorf("%d ranks:\n%.600s\none:\n%.600s", world, got, want)
				}
			}
		})
	}
}

// The default is a batch for every rank, and is part of the run.
func TestAccumulateDefault(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120})
	o := w.options(w.pack(10), func(o *Options) { o.Epochs = 1 })
	party{w: w}.must(3, o)
	if f, err := rundir.Read(disk, o.Out); err != nil || f.Params.Accumulate != 3 {
		t.Errorf("%d, %v", f.Params.Accumulate, err)
	}
	alone := w.fresh(o)
	w.mustRun(alone, nil)
	if f, err := rundir.Read(disk, alone.Out); err != nil || f.Params.Accumulate != 1 {
		t.Errorf("%d, %v", f.Params.Accumulate, err)
	}
}

// onStep calls f before the n-th batch of an engine.
func onStep(n int, f func() error) func(*parts) {
	return func(p *parts) {
		wrapEngine(p, func(e engine.Engine) engine.Engine {
			return &bad{Engine: e, before: func() error {
				if n--; n == 0 {
					return f()
				}
				return nil
			}}
		})
	}
}

// Whatever ends a rank, the others end with one message that names it, and the run goes on from
// its latest checkpoint, on another number of ranks, to the bytes of one that was never
// interrupted.
func TestRankIsLost(t *testing.T) {
	w := newWorld(t, worldParams{batch: 8})
	p := w.pack(10)
	first := w.options(p, func(o *Options) {
		o.Epochs, o.Hidden, o.Accumulate, o.Norm = 3, 8, 6, "batch"
		o.CheckpointEvery = rundir.Interval{Batches: 7}
	})
	r := party{w: w}.must(2, first)
	want := w.learned(first.Out, &r)
	boom := errors.New("no space left on the device of the test")
	for what, c := range map[string]struct {
		rank int
		end  func(lost context.Context, cut func()) error
		says string // of the others
		self string // of the rank itself
	}{
		"an error":     {1, func(context.Context, func()) error { return boom }, "rank 1 of 3", "no space left"},
		"rank 0 fails": {0, func(context.Context, func()) error { return boom }, "rank 0 of 3 is lost", "no space left"},
		"a kill":       {2, func(_ context.Context, cut func()) error { cut(); return nil }, "rank 2 of 3", "rank 0 of 3"},
		"a hang": {2, func(lost context.Context, _ func()) error {
			<-lost.Done()
			return context.Cause(lost)
		}, "its step takes longer than", "its step takes longer than"},
	} {
		t.Run(what, func(t *testing.T) {
			o := w.fresh(first)
			all := party{w: w}
			connection := &wire{t: t}
			lost := make(chan context.Context, 1)
			all.through = func(rank int, address string) string {
				if rank == c.rank {
					return connection.to(address)
				}
				return address
			}
			all.parts = func(rank int, p *parts) {
				if rank != c.rank {
					return
				}
				join := p.join
				p.join = func(ctx context.Context, o *ranks.Membership, rep progress.Reporter) (*collective.Group, error) {
					g, err := join(ctx, o, rep)
					if err == nil {
						lost <- g.Context()
					}
					return g, err
				}
				onStep(9, func() error { return c.end(<-lost, connection.cut) })(p)
			}
			if what == "a hang" {
				all.limits = atEase
				all.limits.Step = 100 * time.Millisecond
			}
			_, errs := all.run(3, o)
			for rank, err := range errs {
				says := c.says
				if rank == c.rank {
					says = c.self
				} else if !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(fmt.Sprint(err), "--resume") {
					t.Errorf("rank %d: kind of %v", rank, err)
				}
				if text := fmt.Sprint(err); !strings.Contains(text, says) || strings.Contains(text, "\n") {
					t.Errorf("rank %d: %s, want %q", rank, text, says)
				}
			}
			o.Resume = true
			for _, world := range []int{2} {
				r := party{w: w}.must(world, o)
				if r.State != rundir.ResultResumed {
					t.Errorf("%d ranks: %s", world, r.State)
				}
				if got := w.learned(o.Out, &r); got != want {
					t.Errorf("resumed on %d ranks:\n%.500s\nwant:\n%.500s", world, got, want)
				}
			}
		})
	}
}

// A signal on any rank stops all of them after the same step, with a checkpoint there.
func TestSignalStopsAllRanks(t *testing.T) {
	w := newWorld(t, worldParams{batch: 8})
	p := w.pack(10)
	first := w.options(p, func(o *Options) { o.Epochs, o.Hidden, o.Accumulate, o.Metric = 3, 8, 6, "f1" })
	r := party{w: w}.must(1, first)
	want := w.learned(first.Out, &r)
	for _, c := range []struct{ signalled, call int }{{0, 3}, {0, 7}, {2, 7}, {1, 1}} { // the seventh call of rank 0 evaluates
		signalled := c.signalled
		o := w.fresh(first)
		ctx, cancel := context.WithCancel(context.Background())
		all := party{w: w,
			ctx: func(rank int) context.Context {
				if rank == signalled {
					return ctx
				}
				return context.Background()
			},
			parts: func(rank int, p *parts) {
				if rank == signalled {
					onStep(c.call, func() error { cancel(); return nil })(p)
				}
			}}
		_, errs := all.run(3, o)
		var texts []string
		for rank, err := range errs {
			if !errors.Is(err, fault.ErrInterrupted) {
				t.Errorf("rank %d: %v", rank, err)
			}
			text, _, _ := strings.Cut(fmt.Sprint(err), ";")
			texts = append(texts, text)
		}
		if len(slices.Compact(texts)) != 1 || !strings.HasPrefix(texts[0], "interrupted after ") {
			t.Errorf("%+v: %q", c, texts)
		}
		w.unfinished(o.Out, rundir.StateInterrupted)
		o.Resume = true
		r := party{w: w}.must(6, o)
		if got := w.learned(o.Out, &r); got != want {
			t.Errorf("%+v, resumed:\n%.500s\nwant:\n%.500s", c, got, want)
		}
	}
}

// Ranks that train on something else are refused, all of them, in one message.
func TestOtherRanksRefused(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120})
	p, other := w.pack(10), w.pack(50)
	for want, change := range map[string]func(o *Options){
		"rank 1 cannot train with rank 0: its pack is ": func(o *Options) { o.Pack = other },
		"its --hidden is 9, rank 0's is 8":              func(o *Options) { o.Hidden = 9 },
		"its --accumulate is 6, rank 0's is 3":          func(o *Options) { o.Accumulate = 6 },
		"its results would differ in rounding":          func(o *Options) { o.LayerOrder = "auto"; o.BLAS = "openblas" },
	} {
		o := w.options(p, func(o *Options) { o.Epochs, o.Hidden, o.BLAS = 1, 8, "gonum" })
		_, errs := party{w: w, change: func(rank int, o *Options) {
			if rank == 1 {
				change(o)
			}
		}}.run(3, o)
		for rank, err := range errs {
			if err != nil && strings.Contains(err.Error(), "openblas") && strings.Contains(want, "round") {
				break // there is none here
			}
			if !errors.Is(err, fault.ErrLineage) || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: rank %d: %v", want, rank, err)
			}
		}
		if _, err := os.Stat(o.Out); err == nil {
			t.Errorf("%s: a run's directory was made", want)
		}
	}
}

// A rank that fails between making its engine and taking its place ends with its own error, and
// rank 0 with one that names it.
func TestRankThatCannotPrepare(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120})
	o := w.options(w.pack(10), func(o *Options) { o.Epochs, o.Hidden = 1, 8 })
	full := errors.New("no memory is left")
	_, errs := party{w: w, parts: func(rank int, p *parts) {
		if inner := p.decide; rank == 1 {
			p.decide = func(o decide.Options, f decide.Facts) (decide.Decision, error) {
				_, err := inner(o, f)
				return decide.Decision{}, errors.Join(err, full)
			}
		}
	}}.run(2, o)
	if !errors.Is(errs[1], full) {
		t.Errorf("rank 1: %v", errs[1])
	}
	if errs[0] == nil || !strings.Contains(errs[0].Error(), "rank 1") {
		t.Errorf("rank 0: %v", errs[0])
	}
}

// A finished run is not done for ranks that name another pack: each ends with rank 0's reason.
func TestFinishedOnAnotherPack(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120})
	o := w.options(w.pack(10), func(o *Options) { o.Epochs, o.Hidden, o.Accumulate = 1, 8, 2 })
	party{w: w}.must(2, o)
	o.Resume, o.Pack = true, w.pack(50)
	_, errs := party{w: w}.run(2, o)
	for rank, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "was trained on the pack") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// What several ranks cannot do is refused by name.
func TestRanksRefuse(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120})
	for want, c := range map[string]struct {
		pack   string
		change func(o *Options)
	}{
		"--accumulate 4: 3 ranks cannot": {w.pack(10), func(o *Options) { o.Accumulate = 4 }},
		"3 ranks: ":                      {w.pack(20, policyMin), func(*Options) {}},
		"--record traces one process":    {w.pack(10), func(o *Options) { o.Record = w.path("trace") }},
		"give --dry-epochs all":          {"", func(o *Options) { w.live(o) }},
	} {
		o := w.options(c.pack, func(o *Options) { o.Epochs = 1 }, c.change)
		_, errs := party{w: w}.run(3, o)
		for rank, err := range errs {
			if !errors.Is(err, fault.ErrUsage) && !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: rank %d: %v", want, rank, err)
			}
		}
	}
}

// Replicas within a process train as as many processes do, and as one: also when they are
// interrupted, and go on as another number. What ends one of them ends all, with its error.
func TestReplicas(t *testing.T) {
	w := newWorld(t, worldParams{batch: 8})
	o := w.options(w.pack(10), func(o *Options) { o.Epochs, o.Hidden, o.Accumulate, o.Norm = 3, 8, 6, "batch" })
	r, _ := w.mustRun(o, nil)
	want := w.learned(o.Out, &r)
	for _, n := range []int{2, 3} {
		several := w.fresh(o, func(o *Options) { o.Replicas = n })
		r, err := w.run(context.Background(), several, progress.Discard, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.learned(several.Out, &r); got != want {
			t.Errorf("%d replicas:\n%.500s\nwant:\n%.500s", n, got, want)
		}
	}
	stopped := w.fresh(o, func(o *Options) { o.Replicas = 3 })
	ctx, cancel := context.WithCancel(context.Background())
	_, err := w.run(ctx, stopped, progress.Discard, onStep(3, func() error { cancel(); return nil }))
	if !errors.Is(err, fault.ErrInterrupted) || !strings.HasPrefix(err.Error(), "interrupted after 0 of 3 epochs and ") {
		t.Error(err)
	}
	stopped.Resume, stopped.Replicas = true, 2
	if r, err = w.run(context.Background(), stopped, progress.Discard, nil); err != nil {
		t.Fatal(err)
	}
	if got := w.learned(stopped.Out, &r); got != want {
		t.Errorf("resumed:\n%.500s\nwant:\n%.500s", got, want)
	}
	boom := errors.New("the disk is full")
	made := 0
	_, err = w.run(context.Background(), w.fresh(o, func(o *Options) { o.Replicas = 3 }), progress.Discard, func(p *parts) {
		onStep(4, func() error { return boom })(p)
		inner := p.engine
		p.engine = func(w engineWish) (engine.Engine, engineNeeds, error) {
			e, n, err := inner(w)
			if made++; made == 2 {
				return e, n, err
			}
			return e.(*bad).Engine, n, err
		}
	})
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "epoch 0, batch ") {
		t.Error(err)
	}
}

// A run ends with the error of the replica that failed, also if the others, which know its text alone, end
// before it.
func TestErrorOfAReplica(t *testing.T) {
	boom := errors.New("the disk is full")
	r := &runner{process: new(process)}
	for _, g := range collective.Local(3, collective.Usual) {
		defer g.Close()
		r.replicas = append(r.replicas, &epoch.Replica{Group: g})
	}
	ended := make(chan struct{}, 2)
	err := r.each(func(rep *epoch.Replica) error {
		if rep.Group.Rank() != 1 {
			<-rep.Group.Context().Done()
			defer func() { ended <- struct{}{} }()
			return rep.Group.Lost()
		}
		rep.Group.Fail(boom)
		<-ended
		<-ended
		return boom
	})
	if !errors.Is(err, boom) {
		t.Error(err)
	}
}

// Ranks that compute on GPUs and sum on the host have the bits of one that sums on its device.
func TestGPURanks(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150})
	o := w.options(w.pack(20), gpuRun, func(o *Options) {
		o.Epochs, o.Hidden, o.Accumulate, o.Norm, o.Reduce = 2, 8, 4, "batch", decide.ReduceHost
	})
	var want string
	for _, world := range []int{1, 2, 4} {
		o := w.fresh(o)
		r := party{w: w, parts: func(_ int, p *parts) { onDevice(cudatest.Open(t))(p) }}.must(world, o)
		got := w.learned(o.Out, &r)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%d ranks:\n%.600s\none:\n%.600s", world, got, want)
		}
	}
}

// Whatever the batches come from, ranks share them.
func TestRanksOfOtherStores(t *testing.T) {
	w := newWorld(t, worldParams{})
	for name, change := range map[string]func(*Options){
		"all rows in memory": w.fromSamples,
		"drawn while training": func(o *Options) {
			w.live(o)
			o.DryEpochs = "all"
		},
		"rows that are mapped": w.mappingRows,
	} {
		o := w.options("", func(o *Options) { o.Epochs, o.Hidden, o.Accumulate = 2, 8, 2 }, change)
		r, _ := w.mustRun(o, nil)
		two := w.fresh(o)
		both := party{w: w}.must(2, two)
		if w.learned(o.Out, &r) != w.learned(two.Out, &both) {
			t.Errorf("%s: %+v, of one rank %+v", name, both.Epochs, r.Epochs)
		}
		if e := both.Epochs[0]; e.RankBytes < 1000 || both.Ranks != 2 || r.Ranks != 0 || r.Epochs[0].RankBytes != 0 {
			t.Errorf("%s: %d bytes between %d ranks", name, e.RankBytes, both.Ranks)
		}
	}
	o := w.options(w.pack(10), func(o *Options) { o.Epochs, o.Engine, o.Accumulate = 2, EngineNone, 2 })
	r, _ := w.mustRun(o, nil)
	if both := (party{w: w}).must(2, w.fresh(o)); both.Epochs[1].InputNodes != r.Epochs[1].InputNodes || both.Epochs[1].UsefulBytes != r.Epochs[1].UsefulBytes {
		t.Errorf("without an engine %+v, of one rank %+v", both.Epochs[1], r.Epochs[1])
	}
}

// A rank whose weights are not those of rank 0 is found after the epoch.
func TestRanksAreCompared(t *testing.T) {
	w := newWorld(t, worldParams{})
	o := w.options(w.pack(10), func(o *Options) { o.Epochs, o.Hidden = 3, 8 })
	_, errs := party{w: w, parts: func(rank int, p *parts) {
		if rank != 1 {
			return
		}
		wrapEngine(p, func(e engine.Engine) engine.Engine {
			n := 0
			return &bad{Engine: e, before: func() error {
				if n++; n > 1 {
					return nil
				}
				weights, err := e.Snapshot(nil)
				weights[3] += 1e-6
				return errors.Join(err, e.Restore(weights))
			}}
		})
	}}.run(3, o)
	for rank, err := range errs {
		if !strings.Contains(fmt.Sprint(err), "the weights of rank 1 differ from rank 0's after epoch 0") || (rank == 0) != errors.Is(err, fault.ErrDevice) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// What the machine has is divided among the processes that train on it, unless something else
// was given.
func TestDivideDefaults(t *testing.T) {
	whole := defaults()
	o := Options{Membership: ranks.Membership{Job: job.Place{Count: 4, LocalCount: 2}}}
	if !o.DivideDefaults() || o.Memory != whole.Memory/2 || o.Threads != max(1, whole.Threads/2) {
		t.Errorf("%d bytes, %d threads of %d, %d", o.Memory, o.Threads, whole.Memory, whole.Threads)
	}
	o = Options{Membership: ranks.Membership{Job: job.Place{Count: 4, LocalCount: 2}}, Resources: rundir.Resources{Memory: 5, Threads: 7}}
	if o.DivideDefaults(); o.Memory != 5 || o.Threads != 7 {
		t.Errorf("%d bytes, %d threads, where 5 and 7 were given", o.Memory, o.Threads)
	}
	if o.Job.LocalCount = 1; o.DivideDefaults() {
		t.Error("one process has all")
	}
}
