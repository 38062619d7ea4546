package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/iostack/faultio"
	"diskgnn/pack/packfile"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/trained"
)

// faulty puts injectors into the run's stack, and returns it once the run has begun.
func faulty(s **faultio.Stack, injectors ...faultio.Injector) func(*parts) {
	return func(p *parts) {
		open := p.stack
		p.stack = func(kind string, o iostack.Options) (iostack.Stack, string, error) {
			inner, how, err := open(kind, o)
			if err != nil {
				return nil, "", err
			}
			*s = faultio.Wrap(inner, injectors...)
			return *s, how, nil
		}
	}
}

// unfinished checks that nothing of a run could be taken for a finished one.
func (w *world) unfinished(out string, want rundir.State) {
	w.t.Helper()
	r := state(w.t, out)
	if r.State != want || r.Result != nil || want != rundir.StateRunning && r.Error == "" {
		w.t.Errorf("%s says %s, %q, %v", out, r.State, r.Error, r.Result)
	}
	if _, err := os.Stat(out + "/" + rundir.FinalFile); err == nil {
		w.t.Errorf("%s holds %s", out, rundir.FinalFile)
	}
}

// Whichever read fails, the run ends with an error that says so, in a directory that
// does not look finished.
func TestEveryReadFails(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120, batch: 30, epochs: 1})
	p := w.pack(10)
	for n := 0; ; n++ {
		o := w.options(p, func(o *Options) { o.Epochs, o.RAMCache = 1, percent(10) })
		var s *faultio.Stack
		_, err := w.run(context.Background(), o, &logged{}, faulty(&s, faultio.On(faultio.Nth(n, faultio.Always()), faultio.Fail(syscall.EIO))))
		if s.Injected() == 0 {
			if err != nil || n < 5 {
				t.Errorf("after %d faults: %v", n, err)
			}
			break
		}
		if !errors.Is(err, syscall.EIO) || strings.Contains(err.Error(), "\n") {
			t.Errorf("read %d fails: %v", n, err)
		}
		w.unfinished(o.Out, rundir.StateFailed)
	}
}

// A wrong bit in any file is an error of the right kind, which names the file and,
// for a batch, the batch.
func TestWrongBits(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(10)
	for _, c := range []struct{ pattern, batch, link string }{
		{"hot.bin", "", "fill the RAM cache"},
		{"graph-*.bin", "epoch 0, batch ", ": load graph: "},
		{"cold-*.bin", "epoch 0, batch ", ": assemble: "},
		{"eval-graph.bin", "epoch 0, validation batch ", ": load graph: "},
		{"eval.bin", "", "hold rows of evaluation batches"},
		{"eval.bin", "epoch 0, validation batch ", ": read features: "},
	} {
		o := w.options(p, func(o *Options) { o.RAMCache = percent(20) })
		var s *faultio.Stack
		_, err := w.run(context.Background(), o, &logged{}, func(p *parts) {
			faulty(&s, faultio.On(faultio.Nth(0, faultio.File(c.pattern)), faultio.Flip(-5, 0x10)))(p)
			if c.link == ": read features: " {
				holdingNothing(p)
			}
		})
		file, _, _ := strings.Cut(c.pattern, "*")
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), file) || !strings.HasPrefix(err.Error(), c.batch) || !strings.Contains(err.Error(), c.link) {
			t.Errorf("%s: %v", c.pattern, err)
		}
		cure := "; " + p + " is damaged: make it again, by its diskgnn pack with --force, or from a copy; there is no checkpoint yet: then begin anew with: diskgnn train --out " + o.Out + " --resume"
		if !strings.HasSuffix(err.Error(), cure) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v\nwant %s", c.pattern, err, cure)
		}
		w.unfinished(o.Out, rundir.StateFailed)
	}
}

// A damaged pack, wherever it is found to be, is an error that says how it is made again,
// and what then; made again, the run goes on.
func TestDamagedPack(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(10)
	o := w.options(p, func(o *Options) { o.CheckpointEvery = rundir.Interval{Batches: 3} })
	w.interrupt(o, 20)
	cold := filepath.Join(p, packfile.ColdFile(0))
	whole, err := os.ReadFile(cold)
	if err != nil {
		t.Fatal(err)
	}
	damage := func(name string, at int) (mend func()) {
		t.Helper()
		name = filepath.Join(p, name)
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bad := slices.Clone(b)
		if bad[at] ^= 4; os.WriteFile(name, bad, 0o666) != nil {
			t.Fatal(name)
		}
		return func() {
			if err := os.WriteFile(name, b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	const remake = " is damaged: make it again, by its diskgnn pack with --force, or from a copy"
	mend := damage(packfile.IndexFile, 30)
	fresh := w.fresh(o)
	_, err = w.run(context.Background(), fresh, &logged{}, nil)
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "make it again, by its diskgnn pack") {
		t.Errorf("a damaged index: %v", err)
	}
	_, err = trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: o.Out, Pack: p}, progress.Discard)
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "make it again, by its diskgnn pack") {
		t.Errorf("a damaged index, evaluated: %v", err)
	}
	mend()
	mend = damage(packfile.EvalFile, 30)
	_, err = trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: o.Out, Pack: p}, progress.Discard)
	if !errors.Is(err, fault.ErrCorrupt) || !strings.HasSuffix(err.Error(), p+remake) {
		t.Errorf("damaged rows, evaluated: %v", err)
	}
	mend()
	for i := range whole { // every range
		if i%4096 == 0 {
			whole[i] ^= 4
		}
	}
	if err := os.WriteFile(cold, whole, 0o666); err != nil {
		t.Fatal(err)
	}
	o.Resume = true
	_, err = w.run(context.Background(), o, &logged{}, nil)
	if want := p + remake + "; then go on from the checkpoint after 1 of 3 epochs and "; !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), " with: diskgnn train --out "+o.Out+" --resume") {
		t.Errorf("damaged chunks: %v", err)
	}
	for i := range whole {
		if i%4096 == 0 {
			whole[i] ^= 4
		}
	}
	if err := os.WriteFile(cold, whole, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(context.Background(), o, &logged{}, nil); err != nil {
		t.Errorf("made again: %v", err)
	}
}

// A drive that hangs does not keep a cancelled run from ending, wherever it is.
func TestCancelUnderAHangingRead(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(10)
	for _, pattern := range []string{"hot.bin", "graph-*.bin", "cold-*.bin", "eval-graph.bin", "eval.bin"} {
		o := w.options(p, func(o *Options) { o.RAMCache = percent(20) })
		ctx, cancel := context.WithCancelCause(context.Background())
		var s *faultio.Stack
		hung := make(chan struct{})
		go func() {
			<-hung
			cancel(errors.New("interrupt signal received"))
		}()
		_, err := w.run(ctx, o, &logged{}, func(p *parts) {
			faulty(&s, faultio.On(faultio.File(pattern), faultio.Hang()))(p)
			open := p.stack
			p.stack = func(kind string, o iostack.Options) (iostack.Stack, string, error) {
				st, how, err := open(kind, o)
				return &watched{Stack: st, pattern: pattern[:4], seen: hung}, how, err
			}
		})
		if !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(err.Error(), "after 0 of 3 epochs") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", pattern, err)
		}
		w.unfinished(o.Out, rundir.StateInterrupted)
	}
}

// watched closes seen when a file whose name contains pattern is asked for.
type watched struct {
	iostack.Stack
	pattern string
	seen    chan struct{}
}

func (s *watched) Submit(g *iostack.Group, reqs []iostack.Request) error {
	err := s.Stack.Submit(g, reqs)
	for _, r := range reqs {
		if strings.Contains(r.File.Name(), "/"+s.pattern) {
			select {
			case <-s.seen:
			default:
				close(s.seen)
			}
		}
	}
	return err
}

// A run may be cancelled at any of its steps, and ends there.
func TestCancelAtAnyStep(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120, batch: 30, epochs: 1})
	p := w.pack(10)
	done := false
	for n := 0; !done; n++ {
		o := w.options(p)
		ctx, cancel := context.WithCancel(context.Background())
		var calls *int
		_, err := w.run(ctx, o, &logged{}, func(p *parts) { calls = endAfter(p, n, cancel) })
		cancel()
		if *calls <= n {
			done = true
			if err != nil || n < 5 {
				t.Errorf("after %d steps: %v", n, err)
			}
			continue
		}
		if !errors.Is(err, fault.ErrInterrupted) {
			t.Errorf("cancelled at step %d: %v", n, err)
		}
		w.unfinished(o.Out, rundir.StateInterrupted)
	}
}

func wrapEngine(p *parts, wrap func(engine.Engine) engine.Engine) {
	inner := p.engine
	p.engine = func(w engineWish) (engine.Engine, engineNeeds, error) {
		e, n, err := inner(w)
		if err == nil {
			e = wrap(e)
		}
		return e, n, err
	}
}

// bad is an engine with something wrong.
type bad struct {
	engine.Engine
	before func() error          // of every Backward and Infer
	loss   func(float64) float64 // what Backward returns in its place
}

func (b *bad) Backward(ctx context.Context, w engine.Work, f engine.Features, at engine.Place) (*engine.Outcome, error) {
	if b.before != nil {
		if err := b.before(); err != nil {
			return nil, err
		}
	}
	o, err := b.Engine.Backward(ctx, w, f, at)
	if b.loss != nil {
		o.Loss = b.loss(o.Loss)
	}
	return o, err
}

func (b *bad) Infer(ctx context.Context, w engine.Work, f engine.Features) ([]float32, error) {
	if b.before != nil {
		if err := b.before(); err != nil {
			return nil, err
		}
	}
	return b.Engine.Infer(ctx, w, f)
}

func TestEngineFails(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(10)
	boom := errors.New("boom")
	for what, c := range map[string]struct {
		e    bad
		kind error
		want string
	}{
		"NaN":      {bad{loss: func(float64) float64 { return math.NaN() }}, fault.ErrUsage, "epoch 0, batch 0: compute: the loss is NaN: training diverged (try a lower --lr than 0.01)"},
		"infinity": {bad{loss: func(float64) float64 { return math.Inf(1) }}, fault.ErrUsage, "the loss is +Inf"},
		"error":    {bad{before: func() error { return boom }}, boom, "epoch 0, batch 0: compute: boom"},
		"panic":    {bad{before: func() error { panic(boom) }}, boom, "epoch 0, batch 0: compute: panic: boom"},
	} {
		o := w.options(p)
		_, err := w.run(context.Background(), o, &logged{}, func(p *parts) {
			wrapEngine(p, func(e engine.Engine) engine.Engine { b := c.e; b.Engine = e; return &b })
		})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
		w.unfinished(o.Out, rundir.StateFailed)
	}
}

// The real engine's loss is watched too: here for features that are not finite.
func TestFeaturesNotFinite(t *testing.T) {
	w := newWorld(t, worldParams{nan: true})
	o := w.options(w.pack(10))
	_, err := w.run(context.Background(), o, &logged{}, nil)
	if !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "the loss is NaN") || !strings.Contains(err.Error(), "epoch 0, batch ") {
		t.Error(err)
	}
	w.unfinished(o.Out, rundir.StateFailed)
}

// No loss shows what the last update did: weights and logits that are not finite end the
// run and name the epoch, and no score is made of them.
func TestLastUpdateDiverges(t *testing.T) {
	w := newWorld(t, worldParams{fanout: []int{2, 2, 2, 2}, batch: 300, epochs: 1})
	o := w.options(w.pack(10), func(o *Options) {
		o.Epochs, o.Optimizer, o.LR, o.WeightDecay = 1, recipe.OptimizerAdamW, 9e5, 9e5
	})
	_, err := w.run(context.Background(), o, &logged{}, nil)
	if !errors.Is(err, fault.ErrUsage) || !strings.HasPrefix(fmt.Sprint(err), "epoch 0, validation batch 0: compute: the logits are not finite: training diverged (try a lower --lr than 900000)") {
		t.Errorf("one step far too long: %v", err)
	}
	w.unfinished(o.Out, rundir.StateFailed)

	blind := newWorld(t, worldParams{noValid: true, epochs: 1})
	o = blind.options(blind.pack(10), func(o *Options) { o.Epochs = 2 })
	_, err = blind.run(context.Background(), o, &logged{}, func(p *parts) {
		wrapEngine(p, func(e engine.Engine) engine.Engine { return &lastUpdate{Engine: e, spared: 2} })
	})
	if !errors.Is(err, fault.ErrUsage) || !strings.HasPrefix(fmt.Sprint(err), "after epoch 1 the weights convs.0.lin_l.weight are not finite: training diverged") {
		t.Errorf("nothing is validated: %v", err)
	}
	blind.unfinished(o.Out, rundir.StateFailed)
}

// lastUpdate is an engine whose weights are infinite, but for some copies: of the first
// epoch's, the one that is kept and the one that is written.
type lastUpdate struct {
	engine.Engine
	spared int
}

func (e *lastUpdate) Snapshot(dst []float32) ([]float32, error) {
	all, err := e.Engine.Snapshot(dst)
	if dst != nil {
		return all, err
	}
	if e.spared--; e.spared < 0 {
		all[0] = float32(math.Inf(1))
	}
	return all, err
}

// Whichever operation on the run's directory fails, once or from then on, the run
// either completes or reports it, and then does not look finished.
func TestEveryWriteFails(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120, batch: 60, epochs: 1})
	p := w.pack(10)
	boom := errors.New("no space left on the test's device")
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			o := w.options(p, func(o *Options) { o.Epochs, o.Trace = 2, true })
			in := &vfs.FailAt{N: n, After: after, Err: boom}
			r, err := run(context.Background(), vfs.Inject(disk, in), o, &logged{}, usual(all.Open, newCPUEngine))
			if !in.Fired() {
				if err != nil || n < 20 {
					t.Errorf("after %d faults: %v", n, err)
				}
				break
			}
			if err == nil {
				if s := state(t, o.Out); s.State != rundir.StateFinished || s.Result == nil || len(r.Epochs) != 2 {
					t.Errorf("%v: no error, but the run is %s", in, s.State)
				}
				if there := names(t, o.Out); !strings.Contains(there, " weights.safetensors") || !strings.Contains(there, "final.safetensors ") {
					t.Errorf("%v: no error, but the run holds %s", in, there)
				}
				continue
			}
			if !errors.Is(err, boom) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v: %v", in, err)
			}
			if s, err := rundir.Read(disk, o.Out); err == nil && s.State == rundir.StateFinished {
				// Only when nothing is missing but the durability of run.json's name.
				if s.Result == nil || strings.TrimPrefix(names(t, o.Out), "checkpoints ") != "final.safetensors lock metrics.jsonl report.html run.json trace.json weights.safetensors" {
					t.Errorf("%v: the run failed, holds %s and looks finished", in, names(t, o.Out))
				}
			}
			if _, err := rundir.Verify(disk, o.Out); errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%v: looks damaged: %v", in, err)
			}
			// Whatever is left, a forced run goes through.
			o.Force = true
			if _, err := w.run(context.Background(), o, &logged{}, nil); err != nil {
				t.Errorf("%v: then, forced: %v", in, err)
			}
		}
	}
}

// A plan never exceeds what it was given, and a refusal names what would do.
func TestMemoryPlans(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 3000, batch: 100, dim: 300})
	r, err := packfile.Open(disk, w.pack(5))
	if err != nil {
		t.Fatal(err)
	}
	o := w.options("", func(o *Options) { o.Epochs = 1 })
	needs := decide.Needs{Engine: 10 << 20, Work: 1 << 20, EvalWork: 2 << 20}
	plan := func(memory int64, cache *budget.Size) (decide.Memory, error) {
		o.Memory, o.RAMCache = memory, cache
		return planMemory(find(t, r.Dir()), &o, needs)
	}
	rich, err := plan(10<<30, nil)
	if err != nil || rich.Slots != decide.MostSlots || rich.EvalSlots != decide.MostEvalSlots || rich.Layout.CacheRows != r.Index().Edges[0] {
		t.Fatalf("with all the memory in the world: %+v, %v", rich, err)
	}
	var least int64
	seen := map[string]bool{}
	for memory := int64(1 << 20); memory <= 96<<20; memory += 1 << 19 { // with held rows, slots for evaluation are smaller
		m, err := plan(memory, nil)
		if err != nil {
			var say int64
			_, tail, ok := strings.Cut(err.Error(), "(the least that would do: --memory ")
			if _, serr := fmt.Sscanf(tail, "%dMiB", &say); !ok || serr != nil || !errors.Is(err, fault.ErrBudget) || least != 0 && say<<20 != least {
				t.Fatalf("%d bytes: %v", memory, err)
			}
			least = say << 20
			continue
		}
		if m.Total > memory || m.Total != m.Sum(&needs) || m.Slots < decide.LeastSlots || m.Slots > decide.MostSlots || m.EvalSlots < 1 {
			t.Errorf("%d bytes: %+v", memory, m)
		}
		seen[fmt.Sprint(m.Slots, m.EvalSlots, m.Layout.CacheRows)] = true
	}
	if len(seen) < 5 {
		t.Errorf("the plans seen were %v", seen)
	}
	if _, err := plan(least, nil); err != nil {
		t.Errorf("the least, %d bytes, does not do: %v", least, err)
	}
	if _, err := plan(least-1<<20, nil); err == nil {
		t.Errorf("less than the least, %d bytes, does", least)
	}
	if m, err := plan(10<<30, percent(20)); err != nil || m.Layout.CacheRows != 600 {
		t.Errorf("a cache of a fifth: %+v, %v", m.Layout, err)
	}
	if _, err := plan(10<<30, &budget.Size{Value: 3, Unit: budget.UnitTimes}); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("a cache of 3x: %v", err)
	}
	o.Epochs = 1
	if _, err := plan(least, percent(50)); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "the next smaller cache is") {
		t.Errorf("a cache too large for the memory: %v", err)
	}
}

// A held lock is reported before anything is read.
func TestLockedRun(t *testing.T) {
	w := newWorld(t, worldParams{})
	o := w.options(w.pack(10))
	d := mustBegin(t, o.Out, false)
	defer func() { _ = d.abandon(fault.ErrInterrupted) }()
	for _, o.Force = range []bool{false, true} {
		if _, err := w.run(context.Background(), o, &logged{}, nil); !errors.Is(err, fault.ErrLocked) {
			t.Errorf("force %t: %v", o.Force, err)
		}
	}
}
