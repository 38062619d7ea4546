package mbfile

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// testBatches are drawn by hand over a graph of six nodes: two training batches
// of two layers, one for validation, one for testing.
func testBatches() []*graph.Batch {
	return []*graph.Batch{
		{ // 4 ← 1; then 4 ← 0, 1 ← {}
			Blocks: []graph.Block{
				{NumSrc: 3, NumDst: 2, Indptr: []uint32{0, 1, 1}, Indices: []uint32{2}},
				{NumSrc: 2, NumDst: 1, Indptr: []uint32{0, 1}, Indices: []uint32{1}},
			},
			Input: []uint32{4, 1, 0}, Degree: []uint32{2, 0, 1}, Labels: []int32{1},
		},
		{ // 5 and 2 without neighbours drawn
			Blocks: []graph.Block{
				{NumSrc: 2, NumDst: 2, Indptr: []uint32{0, 0, 0}, Indices: []uint32{}},
				{NumSrc: 2, NumDst: 2, Indptr: []uint32{0, 0, 0}, Indices: []uint32{}},
			},
			Input: []uint32{5, 2}, Degree: []uint32{0, 0}, Labels: []int32{0, 2},
		},
		{ // 3 ← {4, 0}; then 3 ← 4, 4 ← 1, 0 ← {}
			Blocks: []graph.Block{
				{NumSrc: 4, NumDst: 3, Indptr: []uint32{0, 1, 2, 2}, Indices: []uint32{1, 3}},
				{NumSrc: 3, NumDst: 1, Indptr: []uint32{0, 2}, Indices: []uint32{1, 2}},
			},
			Input: []uint32{3, 4, 0, 1}, Degree: []uint32{2, 2, 0, 0}, Labels: []int32{graph.Unlabelled},
		},
		{ // 0 alone
			Blocks: []graph.Block{
				{NumSrc: 1, NumDst: 1, Indptr: []uint32{0, 0}, Indices: []uint32{}},
				{NumSrc: 1, NumDst: 1, Indptr: []uint32{0, 0}, Indices: []uint32{}},
			},
			Input: []uint32{0}, Degree: []uint32{0}, Labels: []int32{2},
		},
	}
}

// disk is what the tests write to: a stage's syncs are counted, not waited for.
var disk = vfs.Unsynced(vfs.OS)

var testParams = Params{BatchSize: 2, Fanout: []int{1, 1}, EvalFanout: []int{1, AllNeighbours}, Epochs: 2, TrainRatio: 1, Order: "random", Seed: 7}

// write writes the test batches, cut every perFile, and returns the fingerprint.
func write(fsys vfs.FS, out string, perFile int, rep progress.Reporter) (fingerprint string, err error) {
	return writeBatches(fsys, out, Format, testParams, Layout{Nodes: 6, Layers: 2, Train: 2, Valid: 1, Test: 1, BatchesPerFile: perFile}, testBatches(), rep)
}

// writeBatches writes the batches of a layout, of two epochs.
func writeBatches(fsys vfs.FS, out string, format stage.Format, p Params, layout Layout, batches []*graph.Batch, rep progress.Reporter) (fingerprint string, err error) {
	spec := stage.Spec{Format: format, Params: p, Parents: map[string]string{stage.RoleDataset: "d"}}
	d, state, err := stage.Begin(fsys, out, spec, false)
	if err != nil || state == stage.StateDone {
		return "", err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	w, err := NewWriter(context.Background(), d, layout, rep)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	var e Encoded
	for _, b := range batches[w.Next():] {
		e.Encode(b)
		if err := w.Append(&e); err != nil {
			return "", err
		}
	}
	files, facts, err := w.Finish(2)
	if err != nil {
		return "", err
	}
	return d.Commit(files, facts, nil)
}

func mustWrite(t *testing.T, perFile int) (dir, fingerprint string) {
	t.Helper()
	dir = filepath.Join(vfstest.TempDir(t), "S")
	fp, err := write(disk, dir, perFile, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return dir, fp
}

func TestValues(t *testing.T) {
	dir, _ := mustWrite(t, 3)
	names, err := vfs.OS.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"batches-00000.bin", "batches-00001.bin", "hotness.bin", "hotness.bin.sums", "index.bin", "meta.json", "run.json"}, names); d != "" {
		t.Error(d)
	}
	r, err := Open(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if d := cmp.Diff(testParams, r.Params()); d != "" {
		t.Error(d)
	}
	facts := Facts{
		Nodes: 6, Layers: 2, Epochs: 2, BatchesPerEpoch: 1, TrainBatches: 2, ValidBatches: 1, TestBatches: 1,
		Train: Summary{SeedNodes: 3, InputNodes: 5, Edges: 2, Bytes: r.Info(0).Size + r.Info(1).Size,
			Max:  graph.Sizes{Src: []int{3, 2}, Dst: []int{2, 2}, Edges: []int{1, 1}},
			Mean: graph.Sizes{Src: []int{3, 2}, Dst: []int{2, 2}, Edges: []int{1, 1}}}, // 2.5, 2; 2, 1.5; 0.5, 0.5
		Eval: Summary{SeedNodes: 2, InputNodes: 5, Edges: 4, Bytes: r.Info(2).Size + r.Info(3).Size,
			Max:  graph.Sizes{Src: []int{4, 3}, Dst: []int{3, 1}, Edges: []int{2, 2}},
			Mean: graph.Sizes{Src: []int{3, 2}, Dst: []int{2, 1}, Edges: []int{1, 1}}},
	}
	if d := cmp.Diff(facts, r.Facts()); d != "" {
		t.Error(d)
	}
	if lo, hi := r.Train(); lo != 0 || hi != 2 {
		t.Errorf("training batches %d to %d", lo, hi)
	}
	if lo, hi := r.Valid(); lo != 2 || hi != 3 {
		t.Errorf("validation batches %d to %d", lo, hi)
	}
	if lo, hi := r.Test(); lo != 3 || hi != 4 {
		t.Errorf("test batches %d to %d", lo, hi)
	}
	hot, err := r.Hotness()
	if d := cmp.Diff([]uint32{1, 1, 1, 0, 1, 1}, hot); err != nil || d != "" {
		t.Errorf("hotness: %v %s", err, d)
	}
	var buf []byte
	var b graph.Batch
	for i, want := range testBatches() {
		if buf, err = r.Read(t.Context(), i, buf, &b); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, &b); d != "" {
			t.Errorf("batch %d: %s", i, d)
		}
		var nodes []uint32
		if nodes, buf, err = r.Inputs(t.Context(), i, buf); err != nil || !slices.Equal(nodes, want.Input) {
			t.Errorf("batch %d: input nodes %v, %v", i, nodes, err)
		}
	}
	if info := r.Info(3); info.File != 1 || info.Offset != 0 || info.Seeds() != 1 || info.InputNodes() != 1 || info.NumEdges() != 0 {
		t.Errorf("batch 3: %+v", info)
	}
	if err := r.Verify(t.Context(), progress.Discard); err != nil {
		t.Error(err)
	}
}

func TestIndexBytes(t *testing.T) {
	ix := &index{layers: 1, perFile: 256}
	ix.add(0, 300, 0x01020304, []uint32{9, 2}, []uint32{8}, nil)
	want := []byte{
		'D', 'G', 'N', 'N', 'S', 'M', 'P', '1', 1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 44, 1, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1, // offset, size, CRC
		9, 0, 0, 0, 2, 0, 0, 0, 8, 0, 0, 0, // nodes, edges
	}
	got := ix.encode()
	if d := cmp.Diff(want, got[:len(got)-4]); d != "" {
		t.Error(d)
	}
	back, err := decodeIndex(got)
	if err != nil {
		t.Fatal(err)
	}
	f := Facts{Layers: 1, TrainBatches: 1}
	if n := f.IndexBytes(); n != int64(len(back.records)) || n != 32 {
		t.Errorf("%d bytes of records are planned", n)
	}
	if d := cmp.Diff(BatchInfo{0, 0, 300, 0x01020304, []uint32{9, 2}, []uint32{8}, nil}, back.info(0)); d != "" {
		t.Error(d)
	}
}

// TestEveryByteIsChecked changes one byte of every file in turn: something that
// is read of the directory must fail, as corrupt, naming the file.
func TestEveryByteIsChecked(t *testing.T) {
	dir, _ := mustWrite(t, 3)
	for _, name := range []string{"batches-00000.bin", "batches-00001.bin", "hotness.bin", "hotness.bin.sums", "index.bin"} {
		path := filepath.Join(dir, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range good {
			bad := append([]byte(nil), good...)
			bad[i] ^= 0x10
			if err := os.WriteFile(path, bad, 0o666); err != nil {
				t.Fatal(err)
			}
			if err := readAll(dir); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
				t.Fatalf("byte %d of %s changed: %v", i, name, err)
			}
		}
		if err := os.WriteFile(path, good, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := readAll(dir); err != nil {
		t.Fatal(err)
	}
}

func readAll(dir string) error {
	r, err := Open(vfs.OS, dir)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Verify(context.Background(), progress.Discard)
}

func TestShrunkWhileOpen(t *testing.T) {
	dir, _ := mustWrite(t, 3)
	r, err := Open(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := os.Truncate(filepath.Join(dir, "batches-00000.bin"), 50); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(t.Context(), 1, nil, new(graph.Batch)); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "truncated") {
		t.Error(err)
	}
	if _, _, err := r.Inputs(t.Context(), 1, nil); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "truncated") {
		t.Error(err)
	}
	if err := os.Truncate(filepath.Join(dir, "hotness.bin"), 4); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Hotness(); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "truncated") {
		t.Error(err)
	}
}

func TestReadRefusals(t *testing.T) {
	dir, _ := mustWrite(t, 3)
	r, err := Open(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Read(ctx, 0, nil, new(graph.Batch)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Read(t.Context(), 0, nil, new(graph.Batch)); err == nil {
		t.Error("read of a closed reader")
	}
	if _, err := Open(vfs.OS, t.TempDir()); !errors.Is(err, fault.ErrInput) {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestLyingBatch writes batches whose checksums are right and whose content is
// not that of the index or the graph.
func TestLyingBatch(t *testing.T) {
	for name, spoil := range map[string]func(*graph.Batch){
		"a node beyond the graph": func(b *graph.Batch) { b.Input[0] = 6 },
		"renumbered destinations": func(b *graph.Batch) { b.Blocks[1].Dst = []uint32{1} },
		"another number of sources": func(b *graph.Batch) {
			b.Blocks[0].NumSrc++
			b.Input = append(b.Input, 3)
			b.Degree = append(b.Degree, 0)
		},
		"one edge fewer": func(b *graph.Batch) {
			b.Blocks[0].Indices = b.Blocks[0].Indices[:1]
			b.Blocks[0].Indptr = []uint32{0, 1, 1, 1}
		},
		"classes as bits":          func(b *graph.Batch) { b.Targets = []byte{1} },
		"another number of layers": func(b *graph.Batch) { b.Blocks = b.Blocks[:1]; b.Labels = make([]int32, 3) },
	} {
		ix := &index{layers: 2, perFile: 256}
		b := testBatches()[2]
		var e Encoded
		e.Encode(b)
		ix.add(0, int64(len(e.Bytes)), e.CRC, e.Nodes, e.Edges, nil)
		spoil(b)
		r := &Reader{dir: "S", facts: Facts{Nodes: 6}}
		info := ix.info(0)
		if err := r.agrees(&info, b); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryFailure fails each operation of writing in turn, alone and with all
// later ones: nothing wrong may pass for finished, and the next run must finish
// with the same bytes.
func TestEveryFailure(t *testing.T) {
	_, want := mustWrite(t, 1)
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			out := filepath.Join(t.TempDir(), "S")
			in := &vfs.FailAt{N: n, After: after, Err: errors.New("boom")}
			if _, err := write(vfs.Inject(disk, in), out, 1, progress.Discard); (err == nil) == in.Fired() {
				t.Fatalf("%v: fired %t, %v", in, in.Fired(), err)
			}
			if !in.Fired() {
				break
			}
			if _, err := write(disk, out, 1, progress.Discard); err != nil {
				t.Fatalf("after %v: %v", in, err)
			}
			r, err := Open(vfs.OS, out)
			if err != nil || r.Fingerprint() != want {
				t.Fatalf("after %v: %v", in, err)
			}
			if err := errors.Join(r.Verify(t.Context(), progress.Discard), r.Close()); err != nil {
				t.Fatalf("after %v: %v", in, err)
			}
		}
	}
}

// durability follows what is written and not synced yet.
type durability struct {
	t     *testing.T
	mu    sync.Mutex
	dirty map[string]bool // base names
}

func (d *durability) Before(op vfs.Op, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	base := filepath.Base(name)
	switch op {
	case vfs.OpWrite:
		d.dirty[base] = true
	case vfs.OpSync:
		d.dirty[base] = false
	case vfs.OpRename:
		if base == "journal.json" {
			d.checkJournal(name + ".tmp")
			return nil
		}
		for file, dirty := range d.dirty { // the directory is published
			if dirty {
				d.t.Errorf("%s is published and was not synced", file)
			}
		}
	}
	return nil
}

// checkJournal checks that what a journal calls finished is durable.
func (d *durability) checkJournal(path string) {
	var j struct {
		Progress journal `json:"progress"`
	}
	b, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(b, &j) != nil {
		d.t.Errorf("the journal is unreadable: %v", err)
	}
	if j.Progress.Files > 0 && d.dirty[recordsFile] {
		d.t.Error("records are journalled and were not synced")
	}
	for i := range j.Progress.Files {
		if d.dirty[BatchesFile(i)] {
			d.t.Errorf("%s is journalled and was not synced", BatchesFile(i))
		}
	}
}

func TestDurableBeforeJournalled(t *testing.T) {
	d := &durability{t: t, dirty: map[string]bool{}}
	if _, err := write(vfs.Inject(disk, d), filepath.Join(t.TempDir(), "S"), 1, progress.Discard); err != nil {
		t.Fatal(err)
	}
	if len(d.dirty) < 7 {
		t.Errorf("only these files were followed: %v", d.dirty)
	}
}

// TestResumeDistrusts damages what an interrupted run left: it is found out and
// written again.
func TestResumeDistrusts(t *testing.T) {
	_, want := mustWrite(t, 1)
	for name, damage := range map[string]func(t *testing.T, partial string){
		"a changed byte":  func(t *testing.T, p string) { flip(t, filepath.Join(p, BatchesFile(1))) },
		"a missing file":  func(t *testing.T, p string) { remove(t, filepath.Join(p, BatchesFile(0))) },
		"damaged records": func(t *testing.T, p string) { flip(t, filepath.Join(p, recordsFile)) },
		"missing records": func(t *testing.T, p string) { remove(t, filepath.Join(p, recordsFile)) },
		"nothing":         func(*testing.T, string) {},
	} {
		out := filepath.Join(t.TempDir(), "S")
		stop := &vfs.FailAt{Err: errors.New("stop"), After: true, Match: func(op vfs.Op, name string) bool {
			return op == vfs.OpCreate && filepath.Base(name) == BatchesFile(3)
		}}
		if _, err := write(vfs.Inject(disk, stop), out, 1, progress.Discard); err == nil {
			t.Fatal("not stopped")
		}
		damage(t, out+".partial")
		if fp, err := write(disk, out, 1, progress.Discard); err != nil || fp != want {
			t.Errorf("%s: %s, %v", name, fp, err)
		}
		if err := readAll(out); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func flip(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// TestManyFiles reads more files than stay open, from several goroutines.
func TestManyFiles(t *testing.T) {
	dir, err := manyFiles(t)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	const readers = 4
	for g := range readers {
		go func() {
			var buf []byte
			var b graph.Batch
			var err error
			for i := range r.Facts().Batches() {
				if buf, err = r.Read(context.Background(), (i*7+g)%r.Facts().Batches(), buf, &b); err != nil {
					break
				}
			}
			errs <- err
		}()
	}
	for range readers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := len(r.files.open); n > maxIdle+readers {
		t.Errorf("%d files left open", n)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func manyFiles(t *testing.T) (string, error) {
	dir := filepath.Join(t.TempDir(), "S")
	d, _, err := stage.Begin(disk, dir, stage.Spec{Format: Format, Params: testParams}, false)
	if err != nil {
		return "", err
	}
	const n = 3 * maxIdle
	w, err := NewWriter(t.Context(), d, Layout{Nodes: 6, Layers: 2, Train: n, BatchesPerFile: 1}, progress.Discard)
	if err != nil {
		return "", err
	}
	defer w.Close()
	var e Encoded
	for i := range n {
		e.Encode(testBatches()[i%2])
		if err := w.Append(&e); err != nil {
			return "", err
		}
	}
	files, facts, err := w.Finish(2)
	if err != nil {
		return "", err
	}
	_, err = d.Commit(files, facts, nil)
	return dir, err
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	dir, _ := mustWrite(t, 3)
	r, err := Open(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var e Encoded
	b := testBatches()[0]
	if n := testing.AllocsPerRun(100, func() { e.Encode(b) }); n > 0 {
		t.Errorf("Encode allocates %v times", n)
	}
	var buf []byte
	var into graph.Batch
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() { buf, err = r.Read(ctx, 0, buf, &into) }); n > 0 || err != nil {
		t.Errorf("Read allocates %v times; %v", n, err)
	}
}

func FuzzIndex(f *testing.F) {
	ix := &index{layers: 2, perFile: 2}
	ix.add(0, 300, 1, []uint32{9, 4, 2}, []uint32{8, 3}, nil)
	ix.add(300, 5, 2, []uint32{2, 2, 2}, []uint32{0, 0}, nil)
	ix.add(0, 5, 3, []uint32{2, 1, 1}, []uint32{1, 0}, nil)
	whole := ix.encode()
	f.Add(whole[:len(whole)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		// The checksum is made to fit: fuzzing is not for finding CRCs.
		src := append([]byte(nil), body...)
		crc := binio.CRC(src)
		src = append(src, byte(crc), byte(crc>>8), byte(crc>>16), byte(crc>>24))
		got, err := decodeIndex(src)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		for i := range got.batches() {
			b := got.info(i)
			_, _, _ = b.Seeds(), b.InputNodes(), b.NumEdges()
		}
		for i := range got.files() {
			_ = got.fileSize(i)
		}
		if string(got.encode()) != string(src) {
			t.Fatal("the index does not encode to the bytes it was read from")
		}
	})
}
