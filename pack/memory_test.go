package pack

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/pack/packfile"
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

// allocated returns the bytes that f allocates.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
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
		index := allocated(func() {
			x = packfile.Index{Bands: bands, Edges: []int64{6, 5, 4, 3, 2, 1}, Train: packfile.NewTrain(batches, bands), Valid: make([]packfile.Eval, evals), Segments: make([]packfile.Segment, c.segments)}
		})
		for i := range x.Train {
			for b := range bands {
				x.Train[i].Bands[b] = c.rows
			}
			x.Train[i].Inputs = bands * c.rows
		}
		index += allocated(func() {
			state = rangeState{Next: 1, Running: make([]uint32, batches*bands), Sums: make([]uint32, pieces(&x, form))}
			x.SharePieces(form, state.Sums, nil)
		})
		books.pieces = int64(len(state.Sums))
		var saved []byte
		saving := allocated(func() {
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
			index += allocated(func() { c.Sums, c.Frames = make([]uint32, n), make([]uint32, n) })
			for i := range c.Frames {
				c.Frames[i] = 1
			}
			saving = max(saving, allocated(func() { saved = c.encode() }))
			x.SharePieces(packed, c.Sums, c.Frames)
			for i := range x.Train {
				x.Train[i].ChunkBytes = x.Train[i].Extent(packed, bands-1)
			}
		}
		encoding := allocated(func() {
			var err error
			if encoded, err = x.Encode(); err != nil {
				t.Fatal(err)
			}
		})
		have, plan := index+max(saving, encoding), books.books()
		if have > plan || have < plan/2 {
			t.Errorf("%s: %d bytes of index and state, %d of a copy, %d of an encoding (%d); planned %d", what, index, saving, encoding, len(encoded), plan)
		}
		if n := allocated(func() { x = packfile.Index{}; _, _ = packfile.DecodeIndex(encoded, packed) }) + int64(len(encoded)); n > plan {
			t.Errorf("%s: %d bytes to read the index again, planned %d", what, n, plan)
		}
		if len(saved) == 0 {
			t.Fatal(what)
		}
	}
}
