package gpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/graph/batchcodec"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// staged is how a store brings features: rows are copied to a turn's memory, and from
// there to their places on another stream.
type staged struct {
	rows   *cuda.Pinned // whose first ones are the batch's
	stream *cuda.Stream
	arena  *cuda.Arena
	turns  [2]struct {
		rows   cuda.Buffer
		landed *cuda.Event
		span   *cuda.Span
	}
	fills, dim int
}

func newStaged(t testing.TB, d *cuda.Device, rows *cuda.Pinned, dim int) *staged {
	s := &staged{rows: rows, dim: dim}
	check(t, d.Attached(func() (err error) {
		n := int64(len(rows.Bytes()))
		if s.arena, err = d.NewArena(2 * (n + cuda.Align)); err != nil {
			return err
		}
		for i := range s.turns {
			var errs [3]error
			s.turns[i].rows, errs[0] = s.arena.Take(n)
			s.turns[i].landed, errs[1] = d.NewEvent()
			s.turns[i].span, errs[2] = d.NewSpan()
			if err := errors.Join(errs[:]...); err != nil {
				return err
			}
		}
		s.stream, err = d.NewStream()
		return err
	}))
	return s
}

func (s *staged) close() {
	for i := range s.turns {
		s.turns[i].landed.Free()
		s.turns[i].span.Free()
	}
	s.stream.Free()
	s.arena.Free()
}

// X implements engine.Features: there are none on the host.
func (s *staged) X() []float32 { return nil }

// Fill implements engine.Features.
func (s *staged) Fill(copies device.Stream, x device.Buffer) (device.Span, error) {
	t := &s.turns[s.fills%2]
	s.fills++
	n := min(x.Bytes(), t.rows.Bytes())
	return t.span, errors.Join(copies.CopyIn(t.rows, s.rows.Bytes()), t.landed.Record(cuda.StreamOf(copies)), s.stream.Wait(t.landed), t.span.Begin(s.stream),
		kernels.Gather{Out: x.Slice(0, n), Stride: s.dim, Table: t.rows, Type: dtype.Float32, Width: s.dim, Rows: kernels.Rows(int(n) / 4 / s.dim)}.Launch(s.stream),
		t.span.End(s.stream))
}

// session trains and evaluates as a run does: steps are asked for without waiting, memory
// is used again as soon as it may be, weights and states are taken in between. It returns
// all that it was told. With inBits, blocks come in bits, in memory that the next batch of the work overwrites.
func session(t *testing.T, d *cuda.Device, m model.Model, stage, inBits bool) (told []string) {
	tell := func(what string, x any) { told = append(told, fmt.Sprint(what, ": ", x)) }
	rng := rand.New(rand.NewPCG(11, 2))
	batches := []*graph.Batch{someBatch(rng), someBatch(rng), someBatch(rng)}
	sizes := graphtest.Roomy(batches...)
	e := newEngine(t, d, engine.Config{Network: m, Sizes: sizes, Buckets: []graph.Sizes{graphtest.Roomy(batches[1])}, EvalSizes: sizes, InBits: inBits, Recipe: recipe.Recipe{Seed: 5, WeightDecay: 0.1, Optimizer: recipe.OptimizerAdamW}})
	defer e.Close()
	dim := m.Features()
	host, err := device.NewHost(4 * dim * (sizes.Src[0] + 3))
	check(t, err)
	defer host.Free()
	works := make([]*Work, 3) // two for steps, one for evaluation; they share the features' memory
	for i := range works {
		var features []byte
		if i == 0 {
			features = host.Bytes()
		}
		w, err := e.NewWork(i == 2, features)
		check(t, err)
		works[i] = w.(*Work)
		defer works[i].Close()
	}
	var from, evalFrom engine.Features = engine.Rows(host.Float32s()), engine.Rows(host.Float32s())
	if stage {
		for _, f := range []*engine.Features{&from, &evalFrom} {
			s := newStaged(t, d, works[0].features, dim)
			defer s.close()
			defer func() { check(t, d.Attached(s.stream.Synchronize)) }()
			*f = s
		}
	}
	var raw [3]*cuda.Pinned // of each work's blocks
	if inBits {
		for i := range raw {
			check(t, d.Attached(func() (err error) {
				raw[i], err = d.NewPinned(1 << 16)
				return err
			}))
			defer func() { check(t, d.Attached(func() error { raw[i].Free(); return nil })) }()
		}
	}
	put := func(w *Work, b *graph.Batch) {
		for i := range host.Float32s() {
			host.Float32s()[i] = float32(math.NaN())
		}
		copy(host.Float32s(), graphtest.Features(b, dim, rng))
		if inBits {
			memory := raw[slices.Index(works, w)].Bytes()
			for i := range memory {
				memory[i] = 0xFF
			}
			left := &graph.Batch{Input: b.Input, Degree: b.Degree}
			d := binio.NewDecoder(memory[:copy(memory, batchcodec.AppendBlocks(nil, b))])
			batchcodec.BlocksInBits(d, left)
			check(t, d.Err())
			b = left
		}
		check(t, w.Prepare(b))
	}
	outcome := func(o *engine.Outcome, err error) {
		check(t, err)
		if o != nil {
			tell("step", fmt.Sprint(o.Loss, o.Correct, o.Count, bits(o.Logits), o.Labels))
			if o.Times.Compute.Took <= 0 || o.Times.Copy.Took <= 0 || (o.Times.Gather.Took > 0) != stage {
				t.Errorf("times %+v", o.Times)
			}
		}
	}
	infer := func(b *graph.Batch) {
		put(works[2], b)
		logits, err := e.Infer(context.Background(), works[2], evalFrom)
		check(t, err)
		tell("inferred", bits(logits))
	}
	var saved map[string][]byte
	for i := range 12 {
		b := batches[i%3]
		put(works[i%2], b)
		outcome(e.Step(context.Background(), works[i%2], from))
		switch i {
		case 3, 4, 8:
			infer(batches[2])
		case 5:
			if saved, err = e.State(); err != nil {
				t.Fatal(err)
			}
			saved = maps.Clone(saved)
			for name := range saved {
				saved[name] = slices.Clone(saved[name])
			}
			tell("state", saved)
		case 6:
			tell("weights", bits(snapshot(t, e)))
		case 7:
			outcome(e.Finish())
			if done, err := e.clock.mark.Done(); err != nil || !done {
				t.Errorf("the clock was set by what is not done (%v)", err)
			}
		case 9:
			check(t, e.Restore(make([]float32, len(snapshot(t, e)))))
		case 10:
			check(t, e.LoadState(saved))
			infer(batches[0])
		}
	}
	outcome(e.Finish())
	tell("weights", bits(snapshot(t, e)))
	if took, err := e.Again(); err != nil || took <= 0 {
		t.Errorf("once more: %v, %v", took, err)
	}
	tell("weights", bits(snapshot(t, e)))
	put(works[0], batches[0])
	outcome(e.Step(context.Background(), works[0], from))
	return told // and the engine is closed under its last step
}

// TestLate: whatever order the streams work in, an engine tells the bits that it tells
// when everything is done at once, also if it decodes the batches.
func TestLate(t *testing.T) {
	for _, stage := range []bool{false, true} {
		for name, inBits := range map[string]bool{"sage batch": false, "gat all": false, "gcn block": false, "sage": true, "gat": true, "gcn": true} {
			m := variants[name]
			m.Dims, m.Dropout = []int{6, 16, 4}, 0.3
			t.Run(fmt.Sprintf("%s, staged %v", name, stage), func(t *testing.T) {
				want := session(t, cudatest.Open(t), m, stage, false)
				cudatest.Late(t, 2*cudatest.Orders, func(t *testing.T, d *cuda.Device) {
					got := session(t, d, m, stage, inBits)
					for i := range want {
						if got[i] != want[i] {
							t.Fatalf("%d of %d: told %.100s…, at once %.100s…", i, len(want), got[i], want[i])
						}
					}
				})
			})
		}
	}
}

// TestLateFaults: a step that fails, wherever, leaves no work on the memory of its batch,
// which may be freed. One call fails, or all from one on.
func TestLateFaults(t *testing.T) {
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprintf("decoded, once %t", once), func(t *testing.T) { lateFaults(t, someModel(), false, once) })
		for _, name := range []string{"sage", "gcn", "gat"} {
			m := variants[name]
			m.Dims = []int{6, 6, 4}
			t.Run(fmt.Sprintf("%s, once %t", name, once), func(t *testing.T) { lateFaults(t, m, true, once) })
		}
	}
}

func lateFaults(t *testing.T, m model.Model, inBits, once bool) {
	for seed := range uint64(cudatest.Orders) {
		calls, fails := math.MinInt, 0
		d := cudatest.OpenLateFaulty(t, seed, func(call string) *cuda.Fault {
			if call == "wait" {
				return nil
			}
			if calls++; calls == fails+1 || !once && calls > fails {
				return &cuda.Fault{Why: "it fails"}
			}
			return nil
		})
		rng := rand.New(rand.NewPCG(1, 2))
		b := someBatch(rng)
		e := newEngine(t, d, engine.Config{Network: m, Sizes: graphtest.Roomy(b), NoGraphs: true, InBits: inBits})
		x := graphtest.Features(b, 6, rng)
		if inBits {
			b = batchcodec.ToBits(b)
		}
		saved, err := e.State()
		check(t, err)
		for done := false; !done; fails++ {
			host, err := device.NewHost(4 * 6 * (b.Blocks[0].NumSrc + 20))
			check(t, err)
			copy(host.Float32s(), x)
			w, err := e.NewWork(false, host.Bytes())
			check(t, err)
			check(t, w.Prepare(b))
			for range 2 {
				_, err = e.Step(context.Background(), w, engine.Rows(host.Float32s()))
				check(t, err)
			}
			calls = 0
			_, err = e.Step(context.Background(), w, engine.Rows(host.Float32s()))
			if done = calls <= fails; (err == nil) != done || !done && !errors.Is(err, fault.ErrDevice) {
				t.Fatalf("call %d fails: %v", fails, err)
			}
			calls = math.MinInt
			w.Close()
			host.Free()
			check(t, e.LoadState(saved))
		}
		if fails < 20 {
			t.Errorf("a step has %d calls", fails)
		}
	}
}

// TestSaysWhatFailed: what says that it is done has asked the device, at last.
func TestSaysWhatFailed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := someBatch(rng)
	lost, last := false, ""
	d := cudatest.OpenFaulty(t, cuda.Options{}, func(call string) *cuda.Fault {
		last = call
		if lost && call == "wait" {
			return &cuda.Fault{Why: "it is lost"}
		}
		return nil
	})
	o := engine.Config{Network: someModel(), Sizes: graphtest.Roomy(b), EvalSizes: graphtest.Roomy(b)}
	e := newEngine(t, d, o)
	w, v, x := work(t, e, false, b), work(t, e, true, b), graphtest.Features(b, 6, rng)
	weights := snapshot(t, e)
	saved, err := e.State()
	check(t, err)
	o.Device, o.LR = d, 0.1
	for what, do := range map[string]func() error{
		"New": func() error {
			e, err := New(o)
			if err == nil {
				defer func(was string) { last = was }(last)
				defer e.Close()
			}
			return err
		},
		"Snapshot":    func() error { _, err := e.Snapshot(nil); return err },
		"LoadWeights": func() error { return e.Restore(weights) },
		"State":       func() error { _, err := e.State(); return err },
		"LoadState":   func() error { return e.LoadState(saved) },
		"Infer":       func() error { _, err := e.Infer(context.Background(), v, engine.Rows(x)); return err },
		"Step":        func() error { _, err := e.Step(context.Background(), w, engine.Rows(x)); return err },
		"Finish":      func() error { _, err := e.Finish(); return err },
		"Again":       func() error { _, err := e.Again(); return err },
	} {
		check(t, e.LoadState(saved))
		if what == "Again" {
			step(t, e, w, x)
		}
		last = ""
		check(t, do())
		if last != "wait" {
			t.Errorf("%s of a device that works: %q was the last call", what, last)
		}
		check(t, e.LoadState(saved))
		if what == "Again" || what == "Finish" {
			_, err := e.Step(context.Background(), w, engine.Rows(x))
			check(t, err)
		}
		lost = true
		if err := do(); !errors.Is(err, fault.ErrDevice) {
			t.Errorf("%s of a device that is lost: %v", what, err)
		}
		lost = false
	}
}

// TestAgain: the last batch once more is a step on that batch.
func TestAgain(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := someBatch(rng)
	e := newEngine(t, cudatest.Open(t), engine.Config{Network: someModel(), Sizes: graphtest.Roomy(b)})
	w, x := work(t, e, false, b), graphtest.Features(b, 6, rng)
	step(t, e, w, x)
	saved, err := e.State()
	check(t, err)
	step(t, e, w, x)
	want := snapshot(t, e)
	check(t, e.LoadState(saved))
	_, err = e.Again()
	check(t, err)
	if !slices.Equal(bits(snapshot(t, e)), bits(want)) {
		t.Error("other weights than a step's")
	}
}

// Without the copy of what a step reads, none of its kernels runs. The wait is for the step
// before.
func TestAgainWithoutItsCopy(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := someBatch(rng)
	var calls []string
	failing := false
	d := cudatest.OpenFaulty(t, cuda.Options{}, func(call string) *cuda.Fault {
		if !failing {
			return nil
		}
		if calls = append(calls, call); call == "copy in" {
			return &cuda.Fault{Why: "boom"}
		}
		return nil
	})
	e := newEngine(t, d, engine.Config{Network: someModel(), Sizes: graphtest.Roomy(b)})
	w, x := work(t, e, false, b), graphtest.Features(b, 6, rng)
	step(t, e, w, x)
	failing = true
	_, err := e.Again()
	failing = false
	if !errors.Is(err, fault.ErrDevice) || !slices.Equal(calls, []string{"wait", "event", "copy in"}) {
		t.Errorf("%v after %q", err, calls)
	}
}
