package mmap

import (
	"testing"

	"pgregory.net/rapid"
)

// Rows of 3 bytes on pages of 4, 18 bytes in all: rows 0 to 5 lie on the pages 0, 0 and 1, 1
// and 2, 2, 3, 3 and 4, of which the last has 2 bytes. Three pages may be held.
func TestPagesByHand(t *testing.T) {
	p := newPages(18, 4, 3, 3, make([]uint32, 2*words(5)))
	for i, c := range []struct {
		nodes []uint32
		drop  bool // before
		want  touched
		held  int64
	}{
		{[]uint32{0}, false, touched{rows: 1, pages: 1, bytes: 4, useful: 3}, 1},
		{[]uint32{1}, false, touched{rows: 1, pages: 1, bytes: 4, useful: 2}, 2},           // page 0 is held
		{[]uint32{0, 1}, false, touched{rows: 2, warm: 2}, 2},                              //
		{[]uint32{5, 2}, false, touched{}, 2},                                              // pages 3 and 4 do not fit beside 0 and 1
		{[]uint32{5, 2}, true, touched{rows: 1, pages: 2, bytes: 6, useful: 3}, 2},         // now they do, but 1 and 2 do not
		{[]uint32{2, 1, 3, 0}, true, touched{rows: 4, pages: 3, bytes: 12, useful: 12}, 3}, // pages of the batch are useful to each of its rows
		{[]uint32{0, 4}, false, touched{rows: 1, warm: 1}, 3},                              // page 3 does not fit
	} {
		if c.drop {
			p.drop()
		}
		p.begin()
		if got := p.take(c.nodes); got != c.want || p.count != c.held {
			t.Errorf("step %d: %+v and %d pages held, want %+v and %d", i, got, p.count, c.want, c.held)
		}
	}
}

// Batches read what the package comment says, byte by byte.
func TestPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const page = 16
		row, nodes := rapid.IntRange(1, 50).Draw(t, "row"), rapid.IntRange(1, 40).Draw(t, "nodes")
		size := row * nodes
		most := rapid.IntRange(int(mostPages(int64(row), page)), size/page+4).Draw(t, "most")
		p := newPages(int64(size), page, int64(row), int64(most), make([]uint32, 2*words(int64(size+page-1)/page)))
		held := map[int]bool{}
		for range rapid.IntRange(1, 5).Draw(t, "batches") {
			batch := rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(nodes-1)), 1, nodes, rapid.ID[uint32]).Draw(t, "batch")
			var want, got touched
			read := map[int]bool{}
			for _, v := range batch {
				on := map[int]bool{}
				missing := 0
				for b := int(v) * row; b < (int(v)+1)*row; b++ {
					if k := b / page; !on[k] {
						on[k] = true
						if !held[k] {
							missing++
						}
					}
				}
				if len(held)+missing > most {
					clear(held)
				}
				want.rows++
				cold := false
				for k := range on {
					if !held[k] {
						held[k], read[k] = true, true
						want.pages++
						for b := k * page; b < (k+1)*page && b < size; b++ {
							want.bytes++
						}
					}
					cold = cold || read[k]
				}
				if !cold {
					want.warm++
				}
				for b := int(v) * row; b < (int(v)+1)*row; b++ {
					if read[b/page] {
						want.useful++
					}
				}
			}
			p.begin()
			for rest := batch; ; p.drop() {
				n := p.take(rest)
				got = touched{got.rows + n.rows, got.warm + n.warm, got.pages + n.pages, got.bytes + n.bytes, got.useful + n.useful}
				if rest = rest[n.rows:]; len(rest) == 0 {
					break
				}
			}
			if got != want || int(p.count) != len(held) || got.useful > got.bytes {
				t.Fatalf("%+v and %d pages held, want %+v and %d", got, p.count, want, len(held))
			}
		}
	})
}

// The most pages of a row, by trying where it may begin.
func TestMostPages(t *testing.T) {
	for row := int64(1); row < 70; row++ {
		most := int64(0)
		for v := range int64(16) {
			most = max(most, ((v+1)*row-1)/16-v*row/16+1)
		}
		if got := mostPages(row, 16); got != most {
			t.Errorf("rows of %d bytes: %d pages, want %d", row, got, most)
		}
	}
}
