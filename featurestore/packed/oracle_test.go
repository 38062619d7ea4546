package packed_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/packed"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/pack"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
)

// world is a dataset, samples and a pack of them, all on disk.
type world struct {
	raw           dataset.Raw
	ds, smp, pack string
	samples       *mbfile.Reader
	reader        *packfile.Reader
	node          []uint32 // by rank
	hold          featurestore.Hold
	stored        bool // matrices have rows in the pack's type, where the host assembles them
}

// fataler is what is needed of *testing.T and *rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// disk does not wait for the device: no plug is pulled here.
var disk = vfs.Unsynced(vfs.OS)

func build(t fataler, dir string, raw dataset.Raw, so presample.Options, po pack.Options) *world {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w := &world{raw: raw, ds: filepath.Join(dir, "D"), smp: filepath.Join(dir, "S"), pack: filepath.Join(dir, "P")}
	must(dataset.Create(disk, w.ds, raw))
	so.Dataset, so.Out = w.ds, w.smp
	_, err := presample.Run(context.Background(), disk, so, progress.Discard)
	must(err)
	po.Dataset, po.Samples, po.Out = w.ds, w.smp, w.pack
	_, err = pack.Run(context.Background(), disk, po, progress.Discard)
	must(err)
	w.samples, err = mbfile.Open(vfs.OS, w.smp)
	must(err)
	w.reader, err = packfile.Open(vfs.OS, w.pack)
	must(err)
	hotness, err := w.samples.Hotness()
	must(err)
	w.node = make([]uint32, len(hotness))
	for v := range w.node {
		w.node[v] = uint32(v)
	}
	slices.SortStableFunc(w.node, func(a, b uint32) int { return int(hotness[b]) - int(hotness[a]) })
	return w
}

func (w *world) close() { _ = w.samples.Close() }

// row returns a node's row as the pack must hold it, in float32.
func (w *world) row(v uint32) []float32 {
	dim, src, to := w.raw.Dim, w.raw.DType, w.reader.Facts().DType
	row := w.raw.Features[int(v)*dim*src.Size() : int(v+1)*dim*src.Size()]
	out := make([]float32, dim)
	if to.Quantized() {
		wide, packed := make([]float32, dim), make([]byte, to.RowBytes(dim))
		dtype.Convert(binio.Bytes(wide), dtype.Float32, slices.Clone(row), src)
		dtype.QuantizeRow(packed, to, wide)
		dtype.DequantizeRow(out, packed, to)
		return out
	}
	packed := make([]byte, dim*to.Size())
	dtype.Convert(packed, to, slices.Clone(row), src)
	dtype.Convert(binio.Bytes(out), dtype.Float32, packed, to)
	return out
}

// holds checks a packed batch, whose i-th input node is node(i), against the
// sampled one: the same graph under the permutation, and every row of the matrix.
func (w *world) holds(t fataler, want, got *graph.Batch, x []float32, node func(i int) uint32) {
	t.Helper()
	if len(got.Blocks) != len(want.Blocks) || len(got.Input) != len(want.Input) {
		t.Fatal("another shape than was sampled")
	}
	dim := w.raw.Dim
	for i := range got.Input {
		if r := w.row(node(i)); !slices.Equal(binio.Bytes(r), binio.Bytes(x[i*dim:(i+1)*dim])) {
			t.Fatal("row", i, "is not node", node(i), "'s: got", x[i*dim:(i+1)*dim], "want", r)
		}
	}
	for l := range got.Blocks {
		g, s := &got.Blocks[l], &want.Blocks[l]
		if g.NumSrc != s.NumSrc || g.NumDst != s.NumDst || !slices.Equal(g.Indptr, s.Indptr) {
			t.Fatal("layer", l, "has another structure")
		}
		if l > 0 {
			if !slices.Equal(g.Indices, s.Indices) || g.Dst != nil {
				t.Fatal("layer", l, "was renumbered")
			}
			continue
		}
		for e := range g.Indices {
			if node(int(g.Indices[e])) != want.Input[s.Indices[e]] {
				t.Fatal("edge", e, "has another source")
			}
		}
		for i := range g.NumDst {
			if node(g.DstPos(i)) != want.Input[s.DstPos(i)] {
				t.Fatal("destination", i, "is another node")
			}
		}
	}
	degree := map[uint32]uint32{}
	for i, v := range want.Input {
		degree[v] = want.Degree[i]
	}
	for i := range got.Degree {
		if got.Degree[i] != degree[node(i)] {
			t.Fatal("input node", i, "has another degree")
		}
	}
	if !slices.Equal(got.Labels, want.Labels) || !slices.Equal(got.Targets, want.Targets) {
		t.Fatal("other labels")
	}
}

// check holds every batch of the pack against its sample, at one cache size. With a GPU,
// that assembles the matrices and holds so much of the cache.
func (w *world) check(t fataler, stack iostack.Stack, through int, gpu *cuda.Device, share float64) {
	t.Helper()
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	edge := w.reader.Index().Edges[through]
	rows := func(n int64) *budget.Size { return &budget.Size{Value: float64(n * int64(w.reader.Facts().RowBytes))} }
	po := packed.PlanOptions{Cache: rows(edge), Memory: 1 << 30, Slots: 1, EvalSlots: 1, Hold: w.hold, Stored: w.stored}
	if gpu != nil {
		near := int64(share * float64(edge))
		po.GPU, po.GPUMemory, po.GPUCache, po.Cache = gpu, 1<<30, rows(near), rows(edge-near)
		po.Direct, po.MostSlots = stack.Caps().Device, 1
	}
	layout, err := packed.Plan(w.reader, po)
	must(err)
	if layout.CacheRows != edge || layout.Through != through || (layout.GPU == nil) != (gpu == nil) || layout.GPURows > edge {
		t.Fatal("asked for a cache of", edge, "rows, planned", layout)
	}
	store, err := packed.Open(vfs.OS, w.reader, stack, layout)
	must(err)
	defer store.Close()
	_, err = store.Preload(ctx, progress.Discard)
	must(err)
	sl, err := store.NewSlot()
	must(err)
	defer sl.Free()
	var want graph.Batch
	var buf []byte
	f := w.reader.Facts()
	for i := range f.Train {
		must(store.Start(sl, i))
		must(store.LoadGraph(ctx, sl))
		must(store.Wait(ctx, sl))
		must(store.Assemble(ctx, sl))
		buf, err = w.samples.Read(ctx, i, buf, &want)
		must(err)
		w.holds(t, &want, sl.Batch(), w.matrix(t, sl, gpu), func(i int) uint32 { return w.node[sl.Batch().Input[i]] })
		if sl.UsefulBytes > sl.BytesRead {
			t.Fatal("more useful bytes than read:", sl.UsefulBytes, sl.BytesRead)
		}
	}
	w.checkEval(t, store, gpu)
}

// matrix is the function matrix, widened if it is stored.
func (w *world) matrix(t fataler, sl *packed.Slot, gpu *cuda.Device) []float32 {
	t.Helper()
	if !w.stored || gpu != nil {
		return matrix(t, sl, gpu)
	}
	f, n := w.reader.Facts(), len(sl.Batch().Input)
	x := make([]float32, n*f.Dim)
	kernel.Widen(x, sl.Matrix()[:n*f.RowBytes], f.DType, f.Dim)
	return x
}

// matrix returns the slot's feature matrix, which may have to come from the GPU.
func matrix(t fataler, sl *packed.Slot, gpu *cuda.Device) []float32 {
	t.Helper()
	if gpu == nil {
		return sl.X()
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	detach, err := gpu.Attach()
	must(err)
	defer detach()
	x := make([]float32, len(sl.Batch().Input)*sl.Dim())
	a, err := gpu.NewArena(int64(4 * len(x)))
	must(err)
	defer a.Free()
	on, err := a.Take(int64(4 * len(x)))
	must(err)
	stream, err := gpu.NewStream()
	must(err)
	defer stream.Free()
	span, err := sl.Fill(stream, on)
	must(err)
	if span != nil {
		must(stream.Wait(cuda.SpanOf(span).Ended()))
	}
	must(stream.CopyOut(binio.Bytes(x), on))
	must(stream.Synchronize())
	return x
}

// checkEval holds the validation and test batches against their samples.
func (w *world) checkEval(t fataler, store *packed.Store, gpu *cuda.Device) {
	t.Helper()
	ctx := context.Background()
	f := w.reader.Facts()
	sl, err := store.NewEvalSlot()
	if err != nil {
		t.Fatal(err)
	}
	defer sl.Free()
	var want graph.Batch
	var buf []byte
	evalNodes := map[uint32]bool{}
	rank := map[uint32]int64{}
	for r, v := range w.node {
		rank[v] = int64(r)
	}
	for i := f.Train; i < f.Train+f.Valid+f.Test; i++ {
		if buf, err = w.samples.Read(ctx, i, buf, &want); err != nil {
			t.Fatal(err)
		}
		for _, v := range want.Input {
			if rank[v] >= f.HotRows || w.reader.Params().Policy == packfile.PolicyMin {
				evalNodes[v] = true
			}
		}
	}
	var slots []uint32
	for v := range evalNodes {
		slots = append(slots, v)
	}
	slices.Sort(slots)
	for i := range f.Valid + f.Test {
		test, k := false, i
		if i >= f.Valid {
			test, k = true, i-f.Valid
		}
		if err := store.LoadEval(ctx, sl, test, k); err != nil {
			t.Fatal(err)
		}
		if buf, err = w.samples.Read(ctx, f.Train+i, buf, &want); err != nil {
			t.Fatal(err)
		}
		var own []uint32 // of the batch, with rows in eval.bin
		for _, v := range want.Input {
			if evalNodes[v] {
				own = append(own, v)
			}
		}
		slices.Sort(own)
		w.holds(t, &want, sl.Batch(), w.matrix(t, sl, gpu), func(i int) uint32 {
			v := int64(sl.Batch().Input[i])
			switch {
			case i >= len(own):
				return w.node[v]
			case w.hold.Memory == 0 && slots[v-f.HotRows] != own[i]:
				t.Fatal("row", i, "has place", v-f.HotRows)
			}
			return own[i]
		})
		if sl.UsefulBytes > sl.BytesRead {
			t.Fatal("more useful bytes than read:", sl.UsefulBytes, sl.BytesRead)
		}
	}
}

// underBudget packs again under a disk budget, from the least possible (MaxDisk 0) to
// what the pack takes without one (1), and holds the pack to it.
func (w *world) underBudget(t fataler, po pack.Options) {
	t.Helper()
	share := po.MaxDisk.Value
	po.Dataset, po.Samples, po.Out = w.ds, w.smp, w.pack+"-budget"
	po.MaxDisk = &budget.Size{Value: 1}
	_, err := pack.Run(context.Background(), disk, po, progress.Discard)
	var refusal *cut.DiskError
	if !errors.Is(err, fault.ErrBudget) || !errors.As(err, &refusal) {
		t.Fatal("a pack of one byte:", err)
	}
	least := float64(refusal.Need)
	po.MaxDisk.Value = least
	for _, f := range w.reader.Meta().Files {
		po.MaxDisk.Value += share * float64(f.Size)
	}
	po.MaxDisk.Value = max(po.MaxDisk.Value-share*least, least)
	res, err := pack.Run(context.Background(), disk, po, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if float64(res.DiskBytes) > po.MaxDisk.Value {
		t.Fatal("the pack takes", res.DiskBytes, "bytes, may take", po.MaxDisk.Value)
	}
	w.pack = po.Out
	if w.reader, err = packfile.Open(vfs.OS, w.pack); err != nil {
		t.Fatal(err)
	}
	if err := w.reader.Verify(context.Background(), vfs.OS, progress.Discard); err != nil {
		t.Fatal(err)
	}
}

// TestOracle packs random graphs in random ways and holds every batch, at every
// cache size and read by every backend, against a direct gather from the dataset, byte for byte.
func TestOracle(t *testing.T) {
	var stacks []iostack.Stack
	for _, kind := range all.Kinds()[1:] {
		stack, _, err := all.Open(kind, iostack.Options{Workers: 3})
		if err != nil {
			t.Logf("without %s: %v", kind, err)
			continue
		}
		defer stack.Close()
		stacks = append(stacks, stack)
	}
	gpu := cudatest.Open(t)
	where := append(slices.Repeat([]string{t.TempDir()}, 9), vfstest.Drive(t)) // some graphs are on the drive
	rapid.Check(t, func(t *rapid.T) {
		stack := stacks[rapid.IntRange(0, len(stacks)-1).Draw(t, "backend")]
		dir, err := os.MkdirTemp(rapid.SampledFrom(where).Draw(t, "directory"), "oracle")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		from := rapid.SampledFrom([]dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16}).Draw(t, "dtype")
		raw := datasettest.Params{
			Nodes:     rapid.IntRange(8, 400).Draw(t, "nodes"),
			AvgDegree: rapid.Float64Range(0, 6).Draw(t, "degree"),
			Dim:       rapid.SampledFrom([]int{1, 3, 16, 100, 128, 1500}).Draw(t, "dim"),
			DType:     from, Seed: rapid.Uint64().Draw(t, "seed"),
			MultiLabel: rapid.Bool().Draw(t, "multi-label"), Classes: 11,
		}.Raw()
		raw.Compress = rapid.Bool().Draw(t, "compressed dataset")
		fanout := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 3).Draw(t, "fanout")
		to := rapid.SampledFrom([]string{"same", "bf16", "fp16", "int8", "int4"}).Draw(t, "pack dtype")
		po := pack.Options{
			Cache:     &budget.Size{Value: rapid.SampledFrom([]float64{0, 0.5, 5, 10, 33, 100}).Draw(t, "cache"), Unit: budget.UnitPercent},
			Bands:     rapid.SampledFrom([][]float64{nil, {}, {90, 1}, {50}}).Draw(t, "bands"),
			DType:     to,
			Compress:  rapid.SampledFrom([]string{"none", "s2", "zstd"}).Draw(t, "codec"),
			Memory:    rapid.SampledFrom([]int64{128 << 20, 1 << 30}).Draw(t, "memory"),
			Workers:   rapid.IntRange(1, 4).Draw(t, "workers"),
			RangeRows: rapid.SampledFrom([]int64{0, 5, 64}).Draw(t, "range"),

			EvalChunks: rapid.Bool().Draw(t, "chunks of validation"),
		}
		if po.Policy = rapid.SampledFrom([]string{packfile.PolicyStatic, packfile.PolicyStatic, packfile.PolicyMin}).Draw(t, "policy"); po.Policy == packfile.PolicyMin {
			po.Bands = nil
		}
		w := build(t, dir, raw, presample.Options{
			BatchSize: rapid.IntRange(1, 40).Draw(t, "batch"), Fanout: fanout,
			Order:  rapid.SampledFrom([]string{presample.OrderRandom, presample.OrderOverlap}).Draw(t, "order"),
			Epochs: rapid.IntRange(1, 2).Draw(t, "epochs"), Memory: 1 << 30, Workers: 2,
		}, po)
		defer w.close()
		w.hold = featurestore.Hold{Memory: rapid.SampledFrom([]int64{0, 1 << 14, 1 << 18, 1 << 30}).Draw(t, "memory for evaluation"),
			Validations: rapid.SampledFrom([]int{0, 1, 100}).Draw(t, "validations")}
		if po.Policy == packfile.PolicyMin {
			w.checkMin(t, stack, nil, 0)
			w.checkMin(t, stack, gpu, rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "share of the GPU"))
			return
		}
		check := func() {
			for through := range w.reader.Index().Edges {
				w.check(t, stack, through, nil, 0)
				w.check(t, stack, through, gpu, rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "share of the GPU"))
			}
		}
		check()
		po.MaxDisk = &budget.Size{Value: rapid.Float64Range(0, 1).Draw(t, "disk")}
		w.underBudget(t, po)
		check()
	})
}
