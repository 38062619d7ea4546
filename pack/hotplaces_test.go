package pack

import (
	"testing"

	"diskgnn/internal/stage"
	"diskgnn/pack/cut"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/packfile"
)

// TestHotPlaces: the places of a cache's first rows are the entries that were written, of more rows than are read at a
// time.
func TestHotPlaces(t *testing.T) {
	const nodes, rows = 80_000, 70_000
	dir, _, err := stage.Begin(unsynced, t.TempDir()+"/P", stage.Spec{Format: packfile.Format, Params: struct{}{}}, false)
	if err != nil {
		t.Fatal(err)
	}
	p := &Packing{request: &request{fs: unsynced, params: packfile.Params{Policy: packfile.PolicyMin}}, dir: dir, files: rowfile.NewSet(dir, 0)}
	entries := make([]uint32, rows)
	for e := range entries {
		entries[e] = uint32(nodes - 1 - e)
	}
	crc, err := (&recorder{p: p}).writeEntries(entries)
	if err != nil {
		t.Fatal(err)
	}
	d := cut.Decision{Rank: make([]uint32, nodes)}
	d.Facts.HotRows = rows
	places, err := p.hotPlaces(&d, crc)
	if err != nil {
		t.Fatal(err)
	}
	for v, place := range places {
		want := uint32(cut.NoEntry)
		if v >= nodes-rows {
			want = uint32(nodes - 1 - v)
		}
		if place != want {
			t.Fatalf("node %d has place %d, want %d", v, place, want)
		}
	}
	_ = p.end(nil)
}
