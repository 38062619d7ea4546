package packed_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore/packed"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/faultio"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
)

// sharingPlain is a pack whose batches share rows on disk and have chunks that are not
// compressed.
func sharingPlain(t testing.TB, d string) *world {
	t.Helper()
	po := pack.Options{Cache: &budget.Size{Value: 10, Unit: budget.UnitPercent}, Bands: []float64{20}, DType: d, Memory: 1 << 30, Workers: 1}
	w := build(t, t.TempDir(), datasettest.Params{Nodes: 90, AvgDegree: 4, Dim: 1200, Seed: 3}.Raw(),
		presample.Options{BatchSize: 6, Fanout: []int{3, 3}, Memory: 1 << 30, Workers: 1}, po)
	t.Cleanup(w.close)
	po.MaxDisk = &budget.Size{Value: 0.3}
	w.underBudget(t, po)
	both := 0
	for i := range w.reader.Index().Train {
		if tr := &w.reader.Index().Train[i]; tr.ColdRows(0) > 0 && tr.SSDRows(0) > 0 {
			both++
		}
	}
	if both == 0 {
		t.Fatal("no batch has rows of both levels")
	}
	return w
}

// onGPU returns the layout of the least cache, half of it on a GPU, whose memory chunks
// are read into where they can be.
func onGPU(w *world, d *cuda.Device) (packed.Layout, error) {
	edges, row := w.reader.Index().Edges, int64(w.reader.Facts().RowBytes)
	rows := func(n int64) *budget.Size { return &budget.Size{Value: float64(n * row)} }
	least := edges[len(edges)-1]
	return packed.Plan(w.reader, packed.PlanOptions{Cache: rows(least - least/2), Memory: 1 << 30, Slots: 1, EvalSlots: 1,
		GPU: d, GPUMemory: 1 << 30, GPUCache: rows(least / 2), Direct: true, MostSlots: 1})
}

// TestDirectBesideSharedRows: of batches whose chunks are read into the GPU's memory, the
// rows of the SSD level come from the host's.
func TestDirectBesideSharedRows(t *testing.T) {
	gpu := cudatest.Open(t)
	for _, d := range []string{"same", "bf16"} {
		w := sharingPlain(t, d)
		stack := &toDevice{Stack: newStack(t), gpu: gpu, landed: make(map[*iostack.Group][]landing)}
		for through := range w.reader.Index().Edges {
			w.check(t, stack, through, gpu, 0.5)
		}
	}
}

// registrar counts the device memory that is registered.
type registrar struct {
	*toDevice
	t    *testing.T
	live map[cuda.Buffer]bool
}

func (r *registrar) RegisterDevice(bufs ...cuda.Buffer) error {
	for _, b := range bufs {
		r.live[b] = true
	}
	return nil
}

func (r *registrar) UnregisterDevice(bufs ...cuda.Buffer) error {
	for _, b := range bufs {
		if !r.live[b] {
			r.t.Errorf("%d bytes of the device are unregistered that were not registered", b.Bytes())
		}
		delete(r.live, b)
	}
	return nil
}

// use takes a store on a GPU through its life: open, fill, a training and an evaluation
// batch in matrices. What it has is given back whatever happens; end is called before.
func use(ctx context.Context, w *world, stack iostack.Stack, d *cuda.Device, end func()) (err error) {
	defer end()
	l, err := onGPU(w, d)
	if err != nil {
		return err
	}
	s, err := packed.Open(vfs.OS, w.reader, stack, l)
	if err != nil {
		return err
	}
	defer func() { end(); err = errors.Join(err, s.Close()) }()
	if _, err := s.PreloadFor(ctx, 1, progress.Discard); err != nil {
		return err
	}
	sl, err := s.NewSlot()
	if err != nil {
		return err
	}
	defer func() { end(); sl.Free() }()
	es, err := s.NewEvalSlot()
	if err != nil {
		return err
	}
	defer func() { end(); es.Free() }()
	detach, err := d.Attach()
	if err != nil {
		return err
	}
	defer detach()
	a, err := d.NewArena(1 << 22)
	if err != nil {
		return err
	}
	defer a.Free()
	stream, err := d.NewStream()
	if err != nil {
		return err
	}
	defer stream.Free()
	for _, load := range []func() (*packed.Slot, error){
		func() (*packed.Slot, error) { return sl, load(ctx, s, sl, 1) },
		func() (*packed.Slot, error) { return es, s.LoadEval(ctx, es, false, 0) },
	} {
		sl, err := load()
		if err != nil {
			return err
		}
		x, err := a.Take(int64(4 * len(sl.Batch().Input) * w.reader.Facts().Dim))
		if err != nil {
			return err
		}
		span, err := sl.Fill(stream, x)
		if err != nil {
			return err
		}
		if span != nil {
			if err := stream.Wait(cuda.SpanOf(span).Ended()); err != nil {
				return err
			}
		}
		if err := stream.Synchronize(); err != nil {
			return err
		}
	}
	return nil
}

// TestEveryDeviceCall fails each call of a store's life in turn: it is reported, and all
// that was taken goes back: of the device's memory, the host's, and what was registered.
func TestEveryDeviceCall(t *testing.T) {
	for name, w := range map[string]*world{"bf16": small(t, "bf16"), "sharing": sharingPlain(t, "same"), "min": buildMin(t, "bf16", "none"), "min int8 s2": buildMin(t, "int8", "s2")} {
		calls := 0
		for n := 0; ; n++ {
			armed, fired, at := true, false, 0
			var what string
			d := cudatest.OpenFaulty(t, cuda.Options{}, func(call string) *cuda.Fault {
				if at++; !armed || at != n+1 {
					return nil
				}
				fired, what = true, call
				return &cuda.Fault{Why: "boom", OutOfMemory: call == "alloc" || call == "pin"}
			})
			at = 0 // what opening takes is cuda's
			before := device.HostBytes()
			stack := &registrar{&toDevice{Stack: newStack(t), gpu: d, landed: make(map[*iostack.Group][]landing)}, t, map[cuda.Buffer]bool{}}
			err := use(t.Context(), w, stack, d, func() { armed = false })
			if fired != (err != nil) {
				t.Errorf("%s: call %d (%s) failed: %t, reported: %v", name, n, what, fired, err)
			}
			if held := device.HostBytes() - before; held > 64*4096+16*128<<10 || len(stack.live) != 0 {
				t.Errorf("%s: call %d (%s): %d bytes of the host are held, %d buffers registered", name, n, what, held, len(stack.live))
			}
			_ = stack.Close()
			if held := device.HostBytes() - before; held != 0 {
				t.Errorf("%s: call %d (%s): %d bytes of the host are held", name, n, what, held)
			}
			if !fired {
				break
			}
			calls++
		}
		if calls < 20 {
			t.Errorf("%s: only %d calls", name, calls)
		}
	}
}

// TestSlotsTakeWhatIsPlanned compares the layout with what slots take, of the host's
// pages and of Go's heap.
func TestSlotsTakeWhatIsPlanned(t *testing.T) {
	large := build(t, t.TempDir(), datasettest.Params{Nodes: 6000, AvgDegree: 4, Dim: 4, Seed: 3}.Raw(),
		presample.Options{BatchSize: 1000, Fanout: []int{6, 6}, Memory: 1 << 30, Workers: 1},
		pack.Options{Policy: packfile.PolicyMin, Cache: &budget.Size{Value: 40, Unit: budget.UnitPercent}, Memory: 1 << 30, Workers: 1})
	t.Cleanup(large.close)
	for name, w := range map[string]*world{
		"small": small(t, "same"), "bf16": small(t, "bf16"), "sharing": sharing(t), "plain": sharingPlain(t, "same"), "large": large,
		"min": buildMin(t, "same", "none"), "min int8 s2": buildMin(t, "int8", "s2"),
	} {
		l := plan(t, w)
		s := w.open(t, newStack(t), l)
		for what, c := range map[string]struct {
			make func() (*packed.Slot, error)
			said int64
		}{"training": {s.NewSlot, l.SlotBytes}, "evaluation": {s.NewEvalSlot, l.EvalSlotBytes}} {
			var before, after runtime.MemStats
			pages := device.HostBytes()
			runtime.ReadMemStats(&before)
			sl, err := c.make()
			if err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			pages = device.HostBytes() - pages
			heap := int64(after.TotalAlloc - before.TotalAlloc)
			// The allocator's size classes and the slot itself are beside it.
			said := c.said - pages
			if heap < said || heap > said+said/8+8<<10 {
				t.Errorf("%s, %s: %d bytes of pages and %d of the heap, planned %d", name, what, pages, heap, c.said)
			}
			sl.Free()
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestBytesAddUp: what filling the caches says that it reads is what the stack was asked for,
// what loading a batch says is what the stack read, to the last byte of a file, and what is
// useful of it is what the index says.
func TestBytesAddUp(t *testing.T) {
	gpu := cudatest.Open(t)
	for name, w := range map[string]*world{"small": small(t, "same"), "bf16": small(t, "bf16"), "sharing": sharing(t), "plain": sharingPlain(t, "same"), "min": buildMin(t, "same", "none")} {
		static := w.reader.Params().Policy != packfile.PolicyMin
		edges, row := w.reader.Index().Edges, int64(w.reader.Facts().RowBytes)
		rows := func(n int64) *budget.Size { return &budget.Size{Value: float64(n * row)} }
		least := edges[len(edges)-1]
		plans := map[string]packed.PlanOptions{"RAM": {Cache: rows(least)}}
		if static {
			plans["both"] = packed.PlanOptions{Cache: rows(least - least/2), GPU: gpu, GPUMemory: 1 << 30, GPUCache: rows(least / 2)}
			plans["GPU"] = packed.PlanOptions{Cache: rows(0), GPU: gpu, GPUMemory: 1 << 30, GPUCache: rows(least)}
			plans["chunks in the GPU's memory"] = packed.PlanOptions{Cache: rows(0), GPU: gpu, GPUMemory: 1 << 30, GPUCache: rows(least), Direct: true}
		}
		for where, o := range plans {
			o.Memory, o.Slots, o.EvalSlots, o.MostSlots = 1<<30, 1, 1, 1
			l, err := packed.Plan(w.reader, o)
			if err != nil {
				t.Fatal(err)
			}
			stack := newStack(t)
			if o.Direct {
				stack = &toDevice{Stack: stack, gpu: gpu, landed: make(map[*iostack.Group][]landing)}
			}
			s := w.open(t, stack, l)
			asked := stack.Stats().BytesAsked
			n, err := s.Preload(t.Context(), progress.Discard)
			if got := stack.Stats().BytesAsked - asked; err != nil || n != got || n < least*row {
				t.Errorf("%s, %s: %d bytes were read to fill the caches, %d reported: %v", name, where, got, n, err)
			}
			sl := newSlot(t, s)
			for i := range w.reader.Facts().Train {
				before := stack.Stats().BytesRead
				if err := load(t.Context(), s, sl, i); err != nil {
					t.Fatal(err)
				}
				useful, ssd := w.useful(i, l.Through)
				if sl.UsefulBytes != useful || sl.SSDUseful != ssd || sl.BytesRead != stack.Stats().BytesRead-before {
					t.Errorf("%s, %s, batch %d: %d useful bytes of %d, %d of them of the SSD level; want %d of %d, %d",
						name, where, i, sl.UsefulBytes, sl.BytesRead, sl.SSDUseful, useful, stack.Stats().BytesRead-before, ssd)
				}
			}
			sl.Free()
			if sl, err = s.NewEvalSlot(); err != nil {
				t.Fatal(err)
			}
			for test, batches := range map[bool]int{false: w.reader.Facts().Valid, true: w.reader.Facts().Test} {
				for i := range batches {
					before := stack.Stats().BytesRead
					if err := s.LoadEval(t.Context(), sl, test, i); err != nil {
						t.Fatal(err)
					}
					if read := stack.Stats().BytesRead - before; sl.BytesRead != read || sl.UsefulBytes > read {
						t.Errorf("%s, %s, evaluation batch %d, test %t: %d useful bytes of %d, %d were read", name, where, i, test, sl.UsefulBytes, sl.BytesRead, read)
					}
				}
			}
			sl.Free()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// useful returns the useful bytes of training batch i, if bands 0 to through are read from disk, and the bytes among
// them of the SSD level.
func (w *world) useful(i, through int) (all, ssd int64) {
	t := &w.reader.Index().Train[i]
	ssd = int64(t.SSDRows(through)) * int64(w.reader.Facts().RowBytes)
	return int64(t.GraphBytes()) + t.Stored(w.reader.Form(), through) + ssd, ssd
}

// TestGPUReadsAddUp: batches with chunks that the GPU reads count the useful bytes of the index.
func TestGPUReadsAddUp(t *testing.T) {
	w := small(t, "bf16")
	d := storetest.OpenDriveDevice(t)
	in := storetest.OpenDrives(t, storetest.LoadDrives(t, w.pack, 1), d)
	defer in.Close()
	found, err := packed.Find(vfs.OS, w.pack)
	if err != nil {
		t.Fatal(err)
	}
	planned, err := found.Plan(packed.PlanOptions{Memory: 1 << 30, Slots: 1, GPU: d, GPUMemory: 1 << 30,
		Cache: leastCache(w), GPUCache: new(budget.Size), Reads: in, MostSlots: 1})
	if err != nil || planned.QueueBytes == 0 {
		t.Fatalf("%+v, %v", planned, err)
	}
	l := planned.Own.(packed.Layout)
	s := w.open(t, in, l)
	sl := newSlot(t, s)
	for i := range w.reader.Facts().Train {
		if err := load(t.Context(), s, sl, i); err != nil {
			t.Fatal(err)
		}
		if want, _ := w.useful(i, l.Through); sl.UsefulBytes != want || sl.BytesRead < want {
			t.Errorf("batch %d: %d useful bytes of %d, want %d", i, sl.UsefulBytes, sl.BytesRead, want)
		}
	}
	sl.Free()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// keeper is a stack whose files may be closed once, while no read of them is under way.
type keeper struct {
	iostack.Stack
	t  *testing.T
	mu sync.Mutex
	by map[*iostack.Group][]*keptFile
	// open is the number of files that are open.
	open int
}

type keptFile struct {
	iostack.File
	k             *keeper
	reads, closes int
}

func (k *keeper) Open(path string) (iostack.File, error) {
	f, err := k.Stack.Open(path)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open++
	return &keptFile{File: f, k: k}, nil
}

func (f *keptFile) Close() error {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if f.closes++; f.closes > 1 || f.reads > 0 {
		f.k.t.Errorf("%s is closed for the %d. time, under %d reads", f.Name(), f.closes, f.reads)
	}
	f.k.open--
	return f.File.Close()
}

func (k *keeper) Submit(g *iostack.Group, reqs []iostack.Request) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	inner := make([]iostack.Request, len(reqs))
	for i, r := range reqs {
		f := r.File.(*keptFile)
		f.reads++
		k.by[g] = append(k.by[g], f)
		r.File = f.File
		inner[i] = r
	}
	return k.Stack.Submit(g, inner)
}

func (k *keeper) Wait(ctx context.Context, g *iostack.Group) error {
	err := k.Stack.Wait(ctx, g)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.by[g] {
		f.reads--
	}
	delete(k.by, g)
	return err
}

// TestFilesAreGivenBackOnce keeps a batch's chunk under way while another slot loads one
// with a chunk in the same file and one without, with no file kept open for later.
func TestFilesAreGivenBackOnce(t *testing.T) {
	w := build(t, t.TempDir(), datasettest.Params{Nodes: 90, AvgDegree: 4, Dim: 40, Seed: 3}.Raw(),
		presample.Options{BatchSize: 1, Fanout: []int{2}, Memory: 1 << 30, Workers: 1},
		pack.Options{Cache: &budget.Size{Value: 50, Unit: budget.UnitPercent}, Bands: []float64{}, Memory: 1 << 30, Workers: 1})
	t.Cleanup(w.close)
	with, without := []int{}, []int{}
	for i := range w.reader.Index().Train {
		switch cold := w.reader.Index().Train[i].ColdRows(0); {
		case w.reader.Group(i) != 0:
		case cold > 0:
			with = append(with, i)
		default:
			without = append(without, i)
		}
	}
	if len(with) < 2 || len(without) < 1 {
		t.Fatalf("batches with chunks %v, without %v", with, without)
	}
	k := &keeper{Stack: newStack(t), t: t, by: map[*iostack.Group][]*keptFile{}}
	s := w.open(t, k, plan(t, w))
	s.KeepIdle(0)
	preload(t, s)
	var sl [2]*packed.Slot
	for i := range sl {
		sl[i] = newSlot(t, s)
	}
	if err := s.Start(sl[0], with[0]); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{with[1], without[0], without[0], with[1]} {
		if err := load(t.Context(), s, sl[1], i); err != nil {
			t.Errorf("batch %d: %v", i, err)
		}
	}
	if err := errors.Join(s.LoadGraph(t.Context(), sl[0]), s.Wait(t.Context(), sl[0]), s.Assemble(t.Context(), sl[0])); err != nil {
		t.Error(err)
	}
	for i := range sl {
		sl[i].Free()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestFilesOfFailedBatches: if a chunk cannot be read, the file of the batch's shared rows is given back when no read of
// it is under way.
func TestFilesOfFailedBatches(t *testing.T) {
	w := sharingPlain(t, "same")
	boom := errors.New("boom")
	k := &keeper{Stack: faultio.Wrap(newStack(t), faultio.On(faultio.File("cold-*"), faultio.Fail(boom))), t: t, by: map[*iostack.Group][]*keptFile{}}
	s := w.open(t, k, plan(t, w))
	s.KeepIdle(0)
	sl := ready(t, s)
	for i := range w.reader.Facts().Train {
		if tr := &w.reader.Index().Train[i]; tr.ColdRows(0) > 0 && tr.SSDRows(0) > 0 {
			if err := load(t.Context(), s, sl, i); !errors.Is(err, boom) {
				t.Errorf("batch %d: %v", i, err)
			}
		}
	}
	sl.Free()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestMinRecordsOfManyPages resumes where refill records have more than a page, and begin
// inside one.
func TestMinRecordsOfManyPages(t *testing.T) {
	w := build(t, t.TempDir(), datasettest.Params{Nodes: 1200, AvgDegree: 4, Dim: 4, Seed: 3}.Raw(),
		presample.Options{BatchSize: 8, Epochs: 2, Fanout: []int{6, 6}, Memory: 1 << 30, Workers: 1},
		pack.Options{Policy: packfile.PolicyMin, Cache: &budget.Size{Value: 55, Unit: budget.UnitPercent}, Memory: 1 << 30, Workers: 1})
	t.Cleanup(w.close)
	f := w.reader.Facts()
	if f.Train <= 2*packfile.RefillBatches || f.HotRows*8 < 5000 {
		t.Fatalf("%d batches, %d rows", f.Train, f.HotRows)
	}
	for _, first := range []int{0, packfile.RefillBatches, 2*packfile.RefillBatches + 1} {
		s, sl := w.openMin(t, newStack(t))
		if _, err := s.PreloadFor(t.Context(), first, progress.Discard); err != nil {
			t.Fatalf("from batch %d: %v", first, err)
		}
		for i := first; i < min(first+3, f.Train); i++ {
			if err := load(t.Context(), s, sl, i); err != nil {
				t.Fatal(err)
			}
			x := sl.X()
			for k, v := range sl.Batch().Input {
				if got, want := fmt.Sprint(x[k*f.Dim:(k+1)*f.Dim]), fmt.Sprint(w.row(w.node[v])); got != want {
					t.Fatalf("from batch %d, batch %d: row %d is %s, want %s", first, i, k, got, want)
				}
			}
		}
		sl.Free()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestReplayGivesFilesBack fills the cache of a training that begins in the middle: no chunk's file stays open.
func TestReplayGivesFilesBack(t *testing.T) {
	w := buildMin(t, "same", "none")
	k := &keeper{Stack: newStack(t), t: t, by: map[*iostack.Group][]*keptFile{}}
	s, sl := w.openMin(t, k)
	s.KeepIdle(0)
	before := k.open
	if _, err := s.PreloadFor(t.Context(), packfile.RefillBatches-1, progress.Discard); err != nil {
		t.Fatal(err)
	}
	if k.open != before {
		t.Errorf("%d files are open, %d were before", k.open, before)
	}
	sl.Free()
	if err := s.Close(); err != nil || k.open != 0 {
		t.Errorf("%d files are open, %v", k.open, err)
	}
}

// TestSumsBytes: by hand, 4 bytes for every 4096 of the rows that are cached, read for evaluation, or shared.
func TestSumsBytes(t *testing.T) {
	w := sharing(t)
	f := w.reader.Facts()
	if f.HotRows == 0 || f.EvalRows == 0 || f.SSDRows == 0 {
		t.Fatalf("%+v", f)
	}
	if got, want := packed.SumsBytes(w.reader), 4*((f.HotRows+f.EvalRows+f.SSDRows)*int64(f.RowBytes)/4096); got != want || want < 12 {
		t.Errorf("%d bytes, want %d", got, want)
	}
}

// TestChunkFileIsGone: a batch with a chunk in a file that cannot be opened does not begin.
func TestChunkFileIsGone(t *testing.T) {
	w := buildMin(t, "same", "none")
	s, sl := w.openMin(t, newStack(t))
	defer func() { sl.Free(); _ = s.Close() }()
	preload(t, s)
	if w.reader.Index().Train[0].ColdRows(1) == 0 {
		t.Fatal("the first batch has no chunk")
	}
	if err := os.Remove(w.reader.Path(packfile.ColdFile(0))); err != nil {
		t.Fatal(err)
	}
	err := s.Start(sl, 0)
	if err == nil {
		err = s.LoadGraph(t.Context(), sl)
	}
	err = errors.Join(err, s.Wait(t.Context(), sl)) // no read is in flight then
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestFactsCountSeeds: an epoch has the seed nodes of its batches, and all epochs have the same number; of evaluation
// the larger set counts.
func TestFactsCountSeeds(t *testing.T) {
	w := buildMin(t, "same", "none")
	ix, f := w.reader.Index(), packed.Facts(w.reader)
	train, valid, test := 0, 0, 0
	for i := range ix.Train {
		train += int(ix.Train[i].Seeds)
	}
	for i := range ix.Valid {
		valid += int(ix.Valid[i].Seeds)
	}
	for i := range ix.Test {
		test += int(ix.Test[i].Seeds)
	}
	if f.Epochs*int(f.EpochSeeds) != train || int(f.EvalSeeds) != max(valid, test) || train == 0 || f.EvalSeeds == 0 {
		t.Errorf("%d epochs of %d seed nodes, %d in all; %d of evaluation, of %d and %d", f.Epochs, f.EpochSeeds, train, f.EvalSeeds, valid, test)
	}
}
