package pack

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/idset"
	"diskgnn/internal/limittest"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
)

// TestLeastMemory refuses every budget below the one it names, and takes that.
func TestLeastMemory(t *testing.T) {
	for _, c := range []struct {
		nodes, hot int64
		row        int
		workers    int
		lane       int64
	}{
		{40, 0, 36, 1, 0},
		{40, 40, 36, 200, 0},
		{1_000_000, 0, 256, 200, 0},
		{1_000_000, 50_000, 256, 2, 0},
		{1_000_000, 1_000_000, 256, 2, 0},
		{100_000_000, 20_000_000, 512, 64, 0},
		{5, 1, 8 << 20, 3, 0},
		{40, 0, 36, 1, 500 << 20},
		{100_000_000, 20_000_000, 512, 64, 1 << 30},
	} {
		o := Options{Workers: c.workers}
		f := packfile.Facts{Nodes: c.nodes, HotRows: c.hot, RowBytes: c.row, Segment: 2}
		least := leastMemory(&o, &f, mbfile.Facts{}, ledger{lane: c.lane})
		o.Memory = least
		p, err := planMemory(&o, &f, mbfile.Facts{}, ledger{lane: c.lane})
		if err != nil || p.rangeRows < 1 || p.slots < 1 || p.hotWindow < 0 {
			t.Errorf("%+v: %s does not suffice: %+v, %v", c, budget.FormatBytes(least), p, err)
		}
		says := ""
		for o.Memory = 1 << 20; o.Memory < least; o.Memory += max(least/37&^(1<<20-1), 1<<20) {
			_, err := planMemory(&o, &f, mbfile.Facts{}, ledger{lane: c.lane})
			if !errors.Is(err, fault.ErrBudget) {
				t.Errorf("%+v: %s suffices, less than %s: %v", c, budget.FormatBytes(o.Memory), budget.FormatBytes(least), err)
				continue
			}
			says = err.Error()
		}
		if !strings.HasSuffix(says, "at least "+budget.FormatBytes(least)) {
			t.Errorf("%+v: %s; want %s", c, says, budget.FormatBytes(least))
		}
	}
}

// TestBooks makes what a packing of very many batches holds for each, and counts what is
// allocated: all that the plan knows of, and not much less.
func TestBooks(t *testing.T) {
	const batches, evals, bands = 100_000, 30_000, 6
	form := packfile.Form{RowBytes: 400, Codec: packfile.CodecNone}
	for what, c := range map[string]struct {
		rows     int // of every band
		segments int
		codec    string
	}{"few pieces": {1, 0, packfile.CodecNone}, "many pieces": {2000, 0, packfile.CodecNone}, "segments": {1, 50_000, packfile.CodecNone}, "compressed": {3000, 0, packfile.CodecZstd}} {
		var x packfile.Index
		var state rangeState
		books := counts{bands: bands, train: batches, evals: evals, segments: int64(c.segments)}
		index := limittest.Allocated(func() {
			x = packfile.Index{Bands: bands, Edges: []int64{6, 5, 4, 3, 2, 1}, Segments: make([]packfile.Segment, c.segments)}
			x.Clear(batches, evals, 0)
		})
		for i := range x.Train {
			for b := range bands {
				x.Train[i].Bands[b] = c.rows
			}
			x.Train[i].Inputs = bands * c.rows
		}
		index += limittest.Allocated(func() {
			state = rangeState{Next: 1, Running: make([]uint32, batches*bands), Sums: make([]uint32, pieces(&x, form))}
			x.SharePieces(form, state.Sums, nil)
		})
		books.pieces = int64(len(state.Sums))
		var saved []byte
		saving := limittest.Allocated(func() {
			clone := state.clone()
			saved = clone.encode()
			_ = append([]int64(nil), make([]int64, batches+1)...)
		})
		var encoded []byte
		packed := form
		if packed.Codec = c.codec; packed.Compressed() {
			n := pieces(&x, packed)
			books.frames = int64(n)
			var c compressState
			index += limittest.Allocated(func() { c.Sums, c.Frames = make([]uint32, n), make([]uint32, n) })
			for i := range c.Frames {
				c.Frames[i] = 1
			}
			saving = max(saving, limittest.Allocated(func() { saved = c.encode() }))
			x.SharePieces(packed, c.Sums, c.Frames)
			for i := range x.Train {
				x.Train[i].ChunkBytes = x.Train[i].Extent(packed, bands-1)
			}
		}
		encoding := limittest.Allocated(func() {
			var err error
			if encoded, err = x.Encode(); err != nil {
				t.Fatal(err)
			}
		})
		have, plan := index+max(saving, encoding), books.books()
		if have > plan || have < plan/2 {
			t.Errorf("%s: %d bytes of index and state, %d of a copy, %d of an encoding (%d); planned %d", what, index, saving, encoding, len(encoded), plan)
		}
		if n := limittest.Allocated(func() { x = packfile.Index{}; _, _ = packfile.DecodeIndex(encoded, packed) }) + int64(len(encoded)); n > plan {
			t.Errorf("%s: %d bytes to read the index again, planned %d", what, n, plan)
		}
		if len(saved) == 0 {
			t.Fatal(what)
		}
	}
}

// TestBooksOfPages: by hand, a checksum for every page, and the largest of the three tables as it is completed and as it
// is encoded.
func TestBooksOfPages(t *testing.T) {
	none := counts{bands: 2, train: 10, evals: 3}
	for _, c := range [][5]int64{{5, 7, 3, 0, 4*15 + 8*7}, {8, 7, 3, 0, 4*18 + 8*8}, {5, 7, 9, 0, 4*21 + 8*9}, {5, 7, 3, 11, 4*26 + 8*11}} {
		with := none
		with.hot, with.eval, with.ssd, with.evalCold = c[0], c[1], c[2], c[3]
		if got := with.books() - none.books(); got != c[4] {
			t.Errorf("%d hot pages, %d of evaluation, %d shared, %d of its chunks: %d bytes, want %d", c[0], c[1], c[2], c[3], got, c[4])
		}
	}
}

// TestBooksOfADecision: only the part of a pack that has the rows of all batches holds the checksums of their pages.
func TestBooksOfADecision(t *testing.T) {
	r := opened(t, drawn(t, datasettest.Params{Nodes: 100, AvgDegree: 4, Dim: 16, Seed: 5}.Raw()))
	p := &Packing{request: r}
	d := cut.Decision{Facts: r.facts, Bands: 1}
	d.Facts.HotRows, d.Facts.EvalRows = 640, 6400 // of 64 bytes
	without := p.books(&d)
	d.Part.Common = true
	if got, want := p.books(&d)-without, int64(4*(11+101)+8*101); got != want {
		t.Errorf("%d bytes for 10 and 100 pages, want %d", got, want)
	}
}

// TestBooksOfEvalChunks: 1000 rows of 64 bytes are 16 pages, and each batch of validation may begin another.
func TestBooksOfEvalChunks(t *testing.T) {
	r := opened(t, drawn(t, datasettest.Params{Nodes: 100, AvgDegree: 4, Dim: 16, Seed: 5}.Raw()))
	p := &Packing{request: r}
	d := cut.Decision{Facts: r.facts, Bands: 1, Part: packfile.Part{Common: true}}
	without := p.books(&d)
	d.EvalCold = 1000
	pages := int64(16 + r.facts.Valid)
	if got, want := p.books(&d)-without, 4*pages+8*(pages-1); got != want || r.facts.Valid == 0 {
		t.Errorf("%d bytes for chunks of %d batches, want %d", got, r.facts.Valid, want)
	}
}

// TestChunkMemory divides memory between batches and rows by hand: a batch for each worker, in at most half
// of it, and no more rows than a range has.
func TestChunkMemory(t *testing.T) {
	for _, c := range []struct {
		workers    int
		room, slot int64
		rangeRows  int64
		slots      int
		rows, row  int64
	}{
		{4, 1000, 100, 50, 4, 50, 10},
		{4, 1000, 100, 70, 4, 60, 10},
		{9, 1000, 100, 70, 5, 50, 10},
		{4, 1000, 600, 70, 1, 40, 10},
		{4, 500, 600, 70, 1, 0, 10},
	} {
		m := allotment{rangeRows: c.rangeRows}
		m.chunks(&Options{Workers: c.workers}, c.room, c.slot, c.row)
		if m.chunkSlots != c.slots || m.chunkRows != c.rows {
			t.Errorf("%+v: %d batches and %d rows", c, m.chunkSlots, m.chunkRows)
		}
	}
	o := Options{Workers: 2, EvalChunks: true, Memory: 1 << 30}
	f := packfile.Facts{Nodes: 20_000_000, RowBytes: 512, Segment: 1}
	s := mbfile.Facts{Eval: mbfile.Summary{Max: graph.Sizes{Src: []int{1_000_000}, Dst: []int{1000}, Edges: []int{1_000_000}}}}
	p, err := planMemory(&o, &f, s, ledger{})
	room := o.Memory - cut.HeldMemory(f.Nodes) - 2*4096
	if err != nil || p.chunkSlots != int(min(2, room/2/(cut.SlotBytes(s)+1<<20))) || p.chunkRows < leastRange/512 || p.chunkRows*512+int64(p.chunkSlots)*(cut.SlotBytes(s)+1<<20) > room || p.chunkRows > p.rangeRows {
		t.Errorf("%+v, %v", p, err)
	}
	least := leastMemory(&o, &f, s, ledger{})
	if o.Memory = least - 1<<20; fit(&o, &f, s, ledger{}).rangeRows > 0 {
		t.Errorf("%d bytes suffice", o.Memory)
	}
	o.EvalChunks = false
	if without := leastMemory(&o, &f, s, ledger{}); least <= without {
		t.Errorf("chunks take no memory: at least %d bytes, without %d", least, without)
	}
}

// TestSharedRowsTakeBuffers: with an SSD level, every worker has a buffer of a mebibyte for its rows.
func TestSharedRowsTakeBuffers(t *testing.T) {
	o := Options{Workers: 3, Memory: 1 << 30}
	var rows [3]int64
	for segment := 1; segment <= 2; segment++ {
		p, err := planMemory(&o, &packfile.Facts{Nodes: 20_000_000, RowBytes: 512, Segment: segment}, mbfile.Facts{}, ledger{})
		if err != nil {
			t.Fatal(err)
		}
		rows[segment] = p.rangeRows
	}
	if got := rows[1] - rows[2]; got != 3<<20/512/2 { // of each of the two ranges
		t.Errorf("%d rows fewer", got)
	}
}

// TestStates: the state of an interrupted run is read as it was written, with any of its lists empty.
func TestStates(t *testing.T) {
	long := make([]uint32, 40)
	for i := range long {
		long[i] = uint32(i) * 0x01010101
	}
	for i := range 8 {
		list := func(k int) []uint32 {
			if i>>k&1 == 1 {
				return long[k:]
			}
			return nil
		}
		ranges, got := rangeState{Next: 1 << 33, Running: list(0), Sums: list(1), SSD: list(2)}, rangeState{}
		if err := got.decode(ranges.encode()); err != nil || !reflect.DeepEqual(got, ranges) {
			t.Errorf("%+v is read as %+v: %v", ranges, got, err)
		}
	}
	for _, s := range []compressState{{Groups: 3}, {Groups: 3, Sums: long, Frames: long[:40:40]}} {
		var got compressState
		b := s.encode()
		if err := got.decode(b); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%+v is read as %+v: %v", s, got, err)
		}
	}
}

// TestRangesBoundHotRows: by hand, hot rows wait in memory if they are no more than the rows of a range may be.
func TestRangesBoundHotRows(t *testing.T) {
	for _, c := range []struct{ rangeRows, hot, window int64 }{{0, 30, 30}, {1, 1, 1}, {1, 2, 1}, {30, 30, 30}, {30, 31, 30}} {
		o := Options{Workers: 1, Memory: 1 << 30, RangeRows: c.rangeRows}
		p, err := planMemory(&o, &packfile.Facts{Nodes: 40, HotRows: c.hot, RowBytes: 36, Segment: 1}, mbfile.Facts{}, ledger{})
		if err != nil || p.spill != (c.hot > c.window) || p.hotWindow != c.window {
			t.Errorf("%d hot rows, ranges of %d: %+v, %v; want windows of %d", c.hot, c.rangeRows, p, err, c.window)
		}
	}
}

// TestSlots takes every batch of samples through a slot of the first pass, whose slices have
// room for no more than is planned.
func TestSlots(t *testing.T) {
	fsys, dir := vfs.Unsynced(vfs.OS), t.TempDir()
	if err := dataset.Create(fsys, dir+"/D", datasettest.Params{Nodes: 30_000, AvgDegree: 12, Dim: 1, Seed: 5}.Raw()); err != nil {
		t.Fatal(err)
	}
	for _, fanout := range [][]int{{10, 10}, {1, 1}, {4}} {
		out := fmt.Sprint(dir, "/S", fanout)
		if _, err := presample.Run(t.Context(), fsys, presample.Options{Dataset: dir + "/D", Out: out, BatchSize: 300, Fanout: fanout, Memory: 1 << 30}, progress.Discard); err != nil {
			t.Fatal(err)
		}
		samples, err := mbfile.Open(fsys, out)
		if err != nil {
			t.Fatal(err)
		}
		defer samples.Close()
		hotness, err := samples.Hotness()
		if err != nil {
			t.Fatal(err)
		}
		f := samples.Facts()
		rank, classes, _ := cut.Rank(hotness)
		s := &graphSlot{renumberer: renumberer{rank: rank, edges: []int64{f.Nodes / 2, f.Nodes / 10}, hot: f.Nodes, eval: idset.New(0), classes: classes}}
		theirs := cap(s.rank)*4 + cap(s.edges)*8 + cap(s.classes)*4
		for i := range f.Batches() {
			if s.raw, err = samples.Read(t.Context(), i, s.raw, &s.batch); err != nil {
				t.Fatal(err)
			}
			if i < f.TrainBatches {
				s.train(&s.batch)
				s.out, s.parts = s.append(s.out[:0], s.parts[:0], &s.batch)
			} else {
				s.out, s.parts = packfile.AppendEvalGraph(s.out[:0], s.parts[:0], &s.batch, s.evaluation(&s.batch))
			}
		}
		held, planned := roomOf(reflect.ValueOf(s).Elem())-int64(theirs), cut.SlotBytes(f)
		if held > planned || held < (planned-1<<20)/4 { // a mebibyte is for the least of batches
			t.Errorf("fanout %v: %d bytes are held, %d planned", fanout, held, planned)
		}
	}
}

// roomOf adds up what the slices of a struct have room for, those of structs in it and in
// its slices included.
func roomOf(v reflect.Value) (bytes int64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			bytes += roomOf(v.Field(i))
		}
	case reflect.Slice:
		bytes = int64(v.Cap()) * int64(v.Type().Elem().Size())
		for i := 0; i < v.Len() && v.Type().Elem().Kind() == reflect.Struct; i++ {
			bytes += roomOf(v.Index(i))
		}
	}
	return bytes
}

// TestCompressionMemory compares what compressing chunks takes, encoders included, with what
// is planned.
func TestCompressionMemory(t *testing.T) {
	form := packfile.Form{RowBytes: 400, Codec: packfile.CodecZstd}
	for _, form.Codec = range codecs[1:] {
		c := &compression{form: form, workers: 2}
		before := device.HostBytes()
		took := limittest.Allocated(func() {
			mem, err := c.makeSlots()
			if err != nil {
				t.Fatal(err)
			}
			before -= device.HostBytes()
			for i, s := range c.slots {
				b := s.mem[:form.PieceBytes()]
				for k := range b {
					b[k] = byte(k * (i + k>>7))
				}
				s.out = s.encoder.Encode(s.frame[:0], b)
			}
			mem.Free()
		}) - before
		if planned := compressMemory(c.workers, form); took > planned || took < planned/4 {
			t.Errorf("%s: %d bytes are taken, %d planned", form.Codec, took, planned)
		}
	}
}
