package gpu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/graph"
	"diskgnn/graph/batchcodec"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// Batches that the device decodes give the bits of batches that the host decodes, for every model that it decodes batches for:
// losses, logits, weights and inferred logits.
func TestDecodesLikeHost(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		for name, m := range variants {
			for _, order := range []model.Order{model.Aggregate, model.Multiply} {
				if m.Dims = []int{5, 12, 3}; !Decodes(&m) || order == model.Multiply && (m.Kind == model.GAT || !m.Commutes()) {
					continue
				}
				m.Dropout, m.Orders = 0.4, []model.Order{order, order}
				for _, scatter := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%t", name, order, scatter), func(t *testing.T) { decodeBoth(t, d, m, scatter) })
				}
			}
		}
		decodeBoth(t, d, model.Model{Kind: model.SAGE, Aggregator: model.Max, Dims: []int{5, 8, 8, 4}}, true)
		decodeBoth(t, d, model.Model{Kind: model.GCN, Dims: []int{5, 8, 8, 4}, Orders: []model.Order{model.Multiply, model.Multiply, model.Aggregate}}, true)
	})
}

func decodeBoth(t *testing.T, d *cuda.Device, m model.Model, scatter bool) {
	rng := rand.New(rand.NewPCG(3, uint64(len(m.Dims))))
	s := graphtest.Shape{Seeds: 40, Classes: m.Classes(), Layers: m.Layers(), MaxDegree: 6, Fresh: 30, Unlabelled: 0.1, Scatter: scatter}
	batches := []*graph.Batch{s.Batch(rng), s.Batch(rng), s.Batch(rng), s.Batch(rng)}
	s.Seeds = 25
	batches[1], batches[3] = s.Batch(rng), s.Batch(rng)
	o := engine.Config{Network: m, Sizes: graphtest.Roomy(batches...), Buckets: []graph.Sizes{graphtest.Roomy(batches[1], batches[3])}, EvalSizes: graphtest.Roomy(batches...),
		Recipe: recipe.Recipe{Seed: 5, WeightDecay: 0.01, Optimizer: recipe.OptimizerAdamW}}
	run := func(inBits bool) (told []string) {
		c := o
		c.InBits = inBits
		e := newEngine(t, d, c)
		for i := range 3 * len(batches) {
			b := batches[i%len(batches)]
			x := graphtest.Features(b, m.Features(), rand.New(rand.NewPCG(uint64(i), 1)))
			if inBits {
				b = batchcodec.ToBits(b)
			}
			out := step(t, e, work(t, e, false, b), x)
			told = append(told, fmt.Sprint(out.Loss, out.Correct, out.Count, bits(out.Logits)))
			got, err := e.Infer(context.Background(), work(t, e, true, b), engine.Rows(x))
			check(t, err)
			told = append(told, fmt.Sprint(bits(got)))
		}
		for i := range e.inputs {
			if k := e.inputs[i].buckets; inBits && k[0].unpack == nil && k[1].unpack == nil {
				t.Error("decoding is not captured")
			}
		}
		return append(told, fmt.Sprint(bits(snapshot(t, e))))
	}
	want, got := run(false), run(true)
	if !slices.Equal(got, want) {
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("result %d: %s, from decoded batches %s", i, got[i], want[i])
			}
		}
	}
}

// After its first step a batch is decoded in one piece, and so is its step: no kernel is launched by itself. Without graphs all are.
func TestDecodingInOnePiece(t *testing.T) {
	for _, noGraphs := range []bool{false, true} {
		calls := map[string]int{}
		d := cudatest.OpenFaulty(t, cuda.Options{}, func(call string) *cuda.Fault {
			calls[call]++
			return nil
		})
		b := graphtest.Shape{Seeds: 3, Classes: 2, Layers: 2, MaxDegree: 2, Fresh: 3}.Batch(rand.New(rand.NewPCG(1, 1)))
		e := newEngine(t, d, engine.Config{Network: model.Model{Kind: model.GCN, Dims: []int{4, 4, 2}}, Sizes: graphtest.Roomy(b), InBits: true, NoGraphs: noGraphs})
		w, x := work(t, e, false, batchcodec.ToBits(b)), make([]float32, 4*b.Blocks[0].NumSrc)
		for range 5 { // two for each of the engine's inputs
			clear(calls)
			step(t, e, w, x)
		}
		if whole := calls["launch"] == 0 && calls["launch graph"] == 2; whole == noGraphs || noGraphs && calls["launch graph"] > 0 {
			t.Errorf("without graphs %t: %v", noGraphs, calls)
		}
	}
}

// A step fails if its decoding cannot be captured, and the step after LoadState captures it.
func TestCaptureOfDecodingFails(t *testing.T) {
	fails := false
	d := cudatest.OpenFaulty(t, cuda.Options{}, func(call string) *cuda.Fault {
		if fails && call == "capture" { // the first one, of decoding
			fails = false
			return &cuda.Fault{Why: "it fails"}
		}
		return nil
	})
	b := graphtest.Shape{Seeds: 3, Classes: 2, Layers: 1, MaxDegree: 2, Fresh: 3}.Batch(rand.New(rand.NewPCG(1, 1)))
	e := newEngine(t, d, engine.Config{Network: model.Model{Kind: model.SAGE, Dims: []int{4, 2}}, Sizes: graphtest.Roomy(b), InBits: true})
	w, x := work(t, e, false, batchcodec.ToBits(b)), make([]float32, 4*b.Blocks[0].NumSrc)
	state, err := e.State()
	check(t, err)
	step(t, e, w, x)
	step(t, e, w, x)
	fails = true
	captured := &e.inputs[0].buckets[0].unpack
	if _, err := e.Step(t.Context(), w, engine.Rows(x)); !errors.Is(err, fault.ErrDevice) || *captured != nil {
		t.Errorf("the first time: %v", err)
	}
	check(t, e.LoadState(state))
	if step(t, e, w, x); *captured == nil {
		t.Error("it is not captured later")
	}
}

// The frame that the device derives is the host's, array by array, for random batches.
func TestFramesLikeHost(t *testing.T) {
	t.Run("emulated", func(t *testing.T) { framesLikeHost(t, cudatest.Open(t)) })
	t.Run("gpu", func(t *testing.T) { framesLikeHost(t, cudatest.Real(t, cuda.Options{})) })
}

func framesLikeHost(t *testing.T, d *cuda.Device) {
	var names []string
	for name, m := range variants {
		if Decodes(&m) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		m := variants[rapid.SampledFrom(names).Draw(t, "model")]
		b := graphtest.Shape{Seeds: rng.IntN(9) + 1, Classes: 3, Layers: rng.IntN(3) + 1, MaxDegree: rng.IntN(30), Fresh: rng.IntN(40), Scatter: rng.IntN(2) == 0}.Batch(rng)
		for e := range b.Blocks[0].Indices { // loops, and sources that feed many
			if rng.IntN(8) == 0 {
				b.Blocks[0].Indices[e] = uint32(b.Blocks[0].DstPos(rng.IntN(b.Blocks[0].NumDst)))
			}
		}
		if rng.IntN(5) == 0 {
			b.Degree[0] = 1 << 31
		}
		m.Dims, m.Orders = slices.Repeat([]int{4}, len(b.Blocks)+1), nil
		if m.Kind != model.GAT && m.Commutes() && rng.IntN(2) == 0 {
			m.Orders = slices.Repeat([]model.Order{model.Multiply}, len(b.Blocks))
		}
		sameFrames(t, d, m, b)
	})
}

// A batch as large as a real one is decoded like a small one.
func TestLargeFrameLikeHost(t *testing.T) {
	test := func(t *testing.T, d *cuda.Device) {
		for _, m := range []model.Model{{Kind: model.SAGE}, {Kind: model.GCN}, {Kind: model.GAT, Heads: 1}} {
			m.Dims = []int{1, 1, 1, 172}
			sameFrames(t, d, m, graphtest.Deep())
		}
	}
	t.Run("emulated", func(t *testing.T) { test(t, cudatest.Open(t)) })
	t.Run("gpu", func(t *testing.T) { test(t, cudatest.Real(t, cuda.Options{})) })
}

// sameFrames compares the frames of a batch that the host decodes, and of one that the device decodes.
func sameFrames(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, d *cuda.Device, m model.Model, b *graph.Batch) {
	want, got := frames(t, d, m, b, false), frames(t, d, m, batchcodec.ToBits(b), true)
	for i := range want {
		if !slices.Equal(want[i], got[i]) {
			if len(want[i]) > 1000 {
				t.Fatalf("array %d of %d differs", i, len(want))
			}
			t.Fatalf("array %d: %v, on the host %v", i, got[i], want[i])
		}
	}
}

// frames prepares a batch and returns the arrays of its blocks on the device.
func frames(t interface{ Fatal(...any) }, d *cuda.Device, m model.Model, b *graph.Batch, inBits bool) (arrays [][]uint32) {
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	e, err := New(engine.Config{Network: m, Sizes: graphtest.Roomy(b), Device: d, InBits: inBits, Recipe: recipe.Recipe{LR: 1}})
	must(err)
	defer e.Close()
	work, err := e.NewWork(false, nil)
	must(err)
	must(work.Prepare(b))
	must(d.Attached(func() error {
		i := &e.inputs[0]
		must(i.take(e.main, work.(*Work), engine.Rows(nil), false))
		get := func(buffer cuda.Buffer, n int) []uint32 {
			if buffer == (cuda.Buffer{}) {
				return nil
			}
			values := make([]uint32, n)
			must(e.main.CopyOut(binio.Bytes(values), buffer))
			must(e.main.Synchronize())
			return values
		}
		for l := range i.now.blocks {
			k, x := &b.Blocks[l], &i.now.blocks[l]
			src, dst := k.NumSrc, k.NumDst
			indptr := get(x.indptr, dst+1)
			edges := int(indptr[dst])
			arrays = append(arrays, get(x.src.At, 1), get(x.dst.At, 1), indptr, get(x.indices, edges), get(x.outer, dst), get(x.inner, src), get(x.own, dst),
				get(x.tindptr, src+1), get(x.tindices, edges), get(x.tedges, edges), get(x.positions, dst), get(x.place, src))
		}
		if inBits {
			must(i.told(e.main))
			must(e.main.Synchronize())
			must(i.wrong())
		}
		return nil
	}))
	return arrays
}

// Batches in bits with wrong values are refused, in the step or when they are prepared, and nothing is read or written out of bounds.
func TestForgedBits(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		m := model.Model{Kind: model.GAT, Heads: 2, Dims: []int{5, 6, 3}}
		rng := rand.New(rand.NewPCG(8, 1))
		good := graphtest.Shape{Seeds: 20, Classes: 3, Layers: 2, MaxDegree: 5, Fresh: 17, Scatter: true}.Batch(rng)
		sizes := graphtest.Roomy(good)
		x := graphtest.Features(good, 5, rng)
		for name, c := range map[string]struct {
			forge func(b *graph.Batch)
			early error // of Prepare
			want  error
		}{
			"good":         {forge: func(*graph.Batch) {}},
			"source":       {forge: func(b *graph.Batch) { fill(b.Blocks[1].Bits.Indices) }, want: fault.ErrCorrupt},
			"many edges":   {forge: func(b *graph.Batch) { fill(b.Blocks[0].Bits.Counts) }, want: fault.ErrCorrupt},
			"few edges":    {forge: func(b *graph.Batch) { clear(b.Blocks[1].Bits.Counts.Bytes) }, want: fault.ErrCorrupt},
			"destination":  {forge: func(b *graph.Batch) { fill(b.Blocks[0].Bits.Dst) }, want: fault.ErrCorrupt},
			"twice":        {forge: func(b *graph.Batch) { clear(b.Blocks[0].Bits.Dst.Bytes) }, want: fault.ErrCorrupt},
			"short":        {forge: func(b *graph.Batch) { b.Blocks[0].Bits.Counts.Bytes = nil }, early: fault.ErrInput},
			"width":        {forge: func(b *graph.Batch) { b.Blocks[0].Bits.Indices.Width = 33 }, early: fault.ErrInput},
			"more edges":   {forge: func(b *graph.Batch) { b.Blocks[1].Bits.Edges += 50 }, early: fault.ErrInput},
			"scattered":    {forge: func(b *graph.Batch) { b.Blocks[1].Bits.Dst = graph.Bits{Bytes: make([]byte, 20), Width: 8} }, early: fault.ErrInput},
			"wide numbers": {forge: func(b *graph.Batch) { widen(&b.Blocks[0]) }, early: fault.ErrCorrupt},
			"no sources": {forge: func(b *graph.Batch) {
				b.Blocks[0].NumSrc, b.Input, b.Degree = 0, nil, nil
			}, early: fault.ErrInput},
			"decoded": {forge: func(b *graph.Batch) { b.Blocks = good.Blocks }, early: fault.ErrInput},
			"label":   {forge: func(b *graph.Batch) { b.Labels[0] = 3 }, early: fault.ErrInput},
		} {
			e := newEngine(t, d, engine.Config{Network: m, Sizes: sizes, EvalSizes: sizes, InBits: true})
			b := batchcodec.ToBits(good)
			c.forge(b)
			for _, eval := range []bool{false, true} {
				w, err := e.NewWork(eval, nil)
				check(t, err)
				if err = w.Prepare(b); !errors.Is(err, c.early) {
					t.Fatalf("%s: %v", name, err)
				}
				if err == nil && eval {
					_, err = e.Infer(context.Background(), w, engine.Rows(x))
				} else if err == nil {
					if _, err = e.Step(context.Background(), w, engine.Rows(x)); err == nil {
						_, err = e.Finish()
					}
				} else if _, other := e.Step(context.Background(), w, engine.Rows(x)); other == nil {
					t.Errorf("%s: a batch that was refused is computed", name)
				}
				if name == "twice" && eval {
					c.want = nil // as on the host, only training looks for destinations
				}
				if c.early == nil && !errors.Is(err, c.want) {
					t.Errorf("%s, evaluated %t: %v, want %v", name, eval, err, c.want)
				}
			}
			e.Close()
		}
	})
}

// Whatever bytes of a batch are wrong, the device refuses it where the host does, and otherwise has the same loss. A batch with
// wider numbers than they need may be refused, too.
func TestDamagedBits(t *testing.T) {
	d := cudatest.Open(t)
	good := graphtest.Shape{Seeds: 6, Classes: 3, Layers: 2, MaxDegree: 4, Fresh: 5, Scatter: true}.Batch(rand.New(rand.NewPCG(8, 1)))
	x := graphtest.Features(good, 5, rand.New(rand.NewPCG(8, 2)))
	raw := batchcodec.AppendBlocks(nil, good)
	for _, name := range []string{"sage", "gcn", "gat"} {
		m := variants[name]
		m.Dims = []int{5, 6, 3}
		engines := map[bool]*Engine{}
		for _, inBits := range []bool{false, true} {
			engines[inBits] = newEngine(t, d, engine.Config{Network: m, Sizes: graphtest.Roomy(good), InBits: inBits, NoGraphs: true})
		}
		state, err := engines[false].State()
		check(t, err)
		loss := func(damaged []byte, inBits bool) (float64, error) {
			e, decode := engines[inBits], batchcodec.Blocks
			if inBits {
				decode = batchcodec.BlocksInBits
			}
			check(t, e.LoadState(state))
			b := &graph.Batch{Input: good.Input, Degree: good.Degree}
			decoder := binio.NewDecoder(damaged)
			n := decode(decoder, b)
			if err := decoder.Err(); err != nil {
				return 0, err
			}
			b.Input, b.Degree = b.Input[:min(n, len(b.Input))], b.Degree[:min(n, len(b.Degree))]
			w, err := e.NewWork(false, nil)
			check(t, err)
			defer w.Close()
			if err := w.Prepare(b); err != nil {
				return 0, err
			}
			_, err = e.Step(t.Context(), w, engine.Rows(x))
			check(t, err)
			o, err := e.Finish()
			if err != nil {
				return 0, err
			}
			return o.Loss, nil
		}
		rapid.Check(t, func(t *rapid.T) {
			damaged := slices.Clone(raw)
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				damaged[rapid.IntRange(0, len(raw)-1).Draw(t, "at")] ^= rapid.Byte().Draw(t, "bits")
			}
			want, refused := loss(damaged, false)
			got, err := loss(damaged, true)
			wide := err != nil && refused == nil && strings.Contains(err.Error(), "with the least widths")
			if !wide && ((err == nil) != (refused == nil) || got != want) {
				t.Fatalf("loss %v, %v; decoded on the host %v, %v", got, err, want, refused)
			}
		})
	}
}

// A batch that the device finds wrong fails its step, also if Finish tells it: the weights are lost until LoadState, after which steps
// have the results of an engine that never failed.
func TestWrongBatchIsKept(t *testing.T) {
	d := cudatest.Open(t)
	good := graphtest.Shape{Seeds: 20, Classes: 3, Layers: 2, MaxDegree: 5, Fresh: 17, Scatter: true}.Batch(rand.New(rand.NewPCG(8, 1)))
	x := graphtest.Features(good, 5, rand.New(rand.NewPCG(8, 2)))
	forged := batchcodec.ToBits(good)
	fill(forged.Blocks[1].Bits.Indices)
	o := engine.Config{Network: model.Model{Kind: model.SAGE, Dims: []int{5, 6, 3}}, Sizes: graphtest.Roomy(good), InBits: true}
	e, other := newEngine(t, d, o), newEngine(t, d, o)
	before, err := e.State()
	check(t, err)
	_, err = e.Step(t.Context(), work(t, e, false, forged), engine.Rows(x))
	check(t, err)
	for range 2 {
		if _, err := e.Finish(); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("the outcome: %v", err)
		}
	}
	if _, err := e.State(); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("the state: %v", err)
	}
	if err := e.Apply(); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("an update: %v", err)
	}
	if err := e.ApplySum(&engine.Sum{Gradients: make([]float32, e.adam.layout.Trained)}); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("an update by a sum: %v", err)
	}
	w := work(t, e, false, batchcodec.ToBits(good))
	if _, err := e.Step(t.Context(), w, engine.Rows(x)); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("another step: %v", err)
	}
	check(t, e.LoadState(before))
	got, want := step(t, e, w, x), step(t, other, work(t, other, false, batchcodec.ToBits(good)), x)
	if got.Loss != want.Loss || !slices.Equal(bits(snapshot(t, e)), bits(snapshot(t, other))) {
		t.Errorf("loss %v after the state was loaded, want %v", got.Loss, want.Loss)
	}
}

// fill makes all numbers their largest.
func fill(b graph.Bits) {
	for i := range b.Bytes {
		b.Bytes[i] = 0xFF
	}
}

// widen stores the sources in 32 bits.
func widen(k *graph.Block) {
	k.Bits.Indices = graph.Bits{Bytes: make([]byte, 4*k.Bits.Edges), Width: 32}
}

// An engine of decoded batches refuses batches in bits, and a model that needs decoded batches cannot have others.
func TestBitsAreAsked(t *testing.T) {
	d := cudatest.Open(t)
	b := graphtest.Shape{Seeds: 3, Classes: 2, Layers: 1, MaxDegree: 2, Fresh: 3}.Batch(rand.New(rand.NewPCG(1, 1)))
	o := engine.Config{Network: model.Model{Kind: model.SAGE, Dims: []int{4, 2}}, Sizes: graphtest.Roomy(b)}
	e := newEngine(t, d, o)
	w, err := e.NewWork(false, nil)
	check(t, err)
	if err := w.Prepare(batchcodec.ToBits(b)); !errors.Is(err, fault.ErrInput) {
		t.Errorf("in bits: %v", err)
	}
	o.InBits, o.Device = true, d
	o.LR, o.Network = 1, model.Model{Kind: model.GCN, GCNNorm: model.BlockNorm, Dims: []int{4, 2}}
	if _, err := New(o); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("weights by block: %v", err)
	}
}

// nothing are features that are there already.
type nothing struct{}

func (nothing) X() []float32                                           { return nil }
func (nothing) Fill(device.Stream, device.Buffer) (device.Span, error) { return nil, nil }

// BenchmarkTake measures the copy of a prepared batch to a GPU, and its decoding there, on an idle GPU: of the batch of
// BenchmarkHostPreparation. launch-ms is the time of the host that launches them.
func BenchmarkTake(b *testing.B) {
	batch := graphtest.Deep()
	for _, kind := range []model.Kind{model.SAGE, model.GCN, model.GAT} {
		for _, inBits := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/%s", kind, map[bool]string{false: "host decodes", true: "device decodes"}[inBits]), func(b *testing.B) {
				d := cudatest.Real(b, cuda.Options{})
				o := engine.Config{Network: model.Model{Kind: kind, Heads: 1, Dims: []int{1, 1, 1, 172}}, Device: d, InBits: inBits, Recipe: recipe.Recipe{LR: 1}}
				o.Network.ClearOthers()
				o.Sizes.Cover(batch)
				e, err := New(o)
				check(b, err)
				defer e.Close()
				w, err := e.NewWork(false, nil)
				check(b, err)
				own := batch
				if inBits {
					raw := batchcodec.AppendBlocks(nil, batch)
					var pinned *cuda.Pinned
					check(b, d.Attached(func() (err error) {
						pinned, err = d.NewPinned(int64(len(raw)))
						return err
					}))
					defer func() { check(b, d.Attached(func() error { pinned.Free(); return nil })) }()
					own = &graph.Batch{Input: batch.Input, Degree: batch.Degree, Labels: batch.Labels}
					copy(pinned.Bytes(), raw)
					batchcodec.BlocksInBits(binio.NewDecoder(pinned.Bytes()), own)
				}
				check(b, w.Prepare(own))
				check(b, d.Attached(func() error {
					i := &e.inputs[0]
					i.buckets[0].warm = true
					check(b, i.take(e.copies, w.(*Work), nothing{}, true))
					check(b, e.copies.Synchronize())
					var launching time.Duration
					for b.Loop() {
						began := time.Now()
						check(b, i.take(e.copies, w.(*Work), nothing{}, true))
						launching += time.Since(began)
						check(b, e.copies.Synchronize())
					}
					b.ReportMetric(1e3*launching.Seconds()/float64(b.N), "launch-ms")
					b.ReportMetric(1e3*b.Elapsed().Seconds()/float64(b.N), "ms/batch")
					return nil
				}))
			})
		}
	}
}

// BenchmarkHostPreparation measures the time of the host for a batch of GraphSAGE, 1024 seeds and fanouts 10, 15 and 20, from the
// bytes of its blocks to a work that is ready, on one thread:
//
//	go test -run '^$' -bench HostPreparation -cpu 1 ./train/gpu
func BenchmarkHostPreparation(b *testing.B) {
	batch := graphtest.Deep()
	raw := batchcodec.AppendBlocks(nil, batch)
	for _, kind := range []model.Kind{model.SAGE, model.GCN, model.GAT} {
		for _, inBits := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/%s", kind, map[bool]string{false: "host decodes", true: "device decodes"}[inBits]), func(b *testing.B) {
				o := engine.Config{Network: model.Model{Kind: kind, Heads: 1, Dims: []int{1, 1, 1, 172}}, Device: cudatest.Open(b), InBits: inBits, Recipe: recipe.Recipe{LR: 1}}
				o.Network.ClearOthers()
				o.Sizes.Cover(batch)
				e, err := New(o)
				check(b, err)
				defer e.Close()
				w, err := e.NewWork(false, nil)
				check(b, err)
				decode, own := batchcodec.Blocks, o.Sizes.NewBatch(0)
				if inBits {
					decode, own = batchcodec.BlocksInBits, o.Sizes.NewBatchInBits(0)
				}
				own.Input, own.Degree = batch.Input, batch.Degree
				var decoding time.Duration
				b.ReportAllocs()
				for b.Loop() {
					began := time.Now()
					d := binio.NewDecoder(raw)
					decode(d, &own)
					check(b, errors.Join(d.Err(), own.Validate()))
					decoding += time.Since(began)
					check(b, w.Prepare(&own))
				}
				n := float64(b.N)
				b.ReportMetric(1e3*decoding.Seconds()/n, "decode-ms")
				b.ReportMetric(1e3*b.Elapsed().Seconds()/n, "ms/batch")
				copied := e.train.frame.copied
				if inBits {
					copied += int64(len(raw))
				}
				b.ReportMetric(float64(copied)/1e6, "MB-copied")
			})
		}
	}
}
