package gids

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
)

// Rows of 3000 bytes by hand: node 1 has bytes 3000 to 6000, on pages 0 and 1; node 4 has 12000
// to 15000, on pages 2 and 3; node 5 is in the buffer; node 0 is on page 0.
func TestWantedByHand(t *testing.T) {
	d := &design{&machine.Table{Facts: featurestore.Facts{Nodes: 9, RowBytes: 3000}}}
	w := makeWanted(d, 4)
	b := &buffer{placeOf: []uint32{0, 0, 0, 0, 0, 1, 0, 0, 0}}
	w.find([]uint32{4, 1, 5, 0}, b, 3000)
	if !slices.Equal(w.rows, []uint64{3, 1<<32 | 1, 4 << 32}) || !slices.Equal(w.pages, []uint32{0, 1, 2, 3}) || !slices.Equal(w.from, []uint32{0, 1, 2, 2}) {
		t.Errorf("%+v", w)
	}
	copy(w.held, []int32{7, absent, 2, 3})
	for near, want := range map[int]int{0: 0, 3: 0, 4: 1, 8: 2} {
		if hits, onGPU, accesses := w.counts(3000, near); hits != 2 || onGPU != want || accesses != 5 {
			t.Errorf("%d lines on the GPU: %d rows hit, %d on the GPU, of %d accesses", near, hits, onGPU, accesses)
		}
	}
}

func makeWanted(d *design, inputs int) *wanted {
	w := new(wanted)
	laid(func(mem *machine.Memory) { w.lay(mem, d, inputs) })
	return w
}

// Byte by byte: the pages are those that have a byte of a row, all of them together give every
// row whole, and a row hits if all of its pages are held.
func TestWanted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		row := rapid.SampledFrom([]int{1, 3, 400, 512, 3000, 4096, 6000, 9000}).Draw(rt, "row")
		nodes := rapid.IntRange(1, 60).Draw(rt, "nodes")
		batch := rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(nodes-1)), 0, nodes, rapid.ID).Draw(rt, "batch")
		b := new(buffer)
		if rapid.Bool().Draw(rt, "buffer") {
			b.placeOf = rapid.SliceOfN(rapid.Uint32Range(0, 1), nodes, nodes).Draw(rt, "buffered")
		}
		file := make([]byte, nodes*row+4096)
		for i := range file {
			file[i] = byte(i*31 + i>>8)
		}
		d := &design{&machine.Table{Facts: featurestore.Facts{Nodes: int64(nodes), RowBytes: row}}}
		w := makeWanted(d, nodes)
		w.find(batch, b, row)

		pages := map[uint32]bool{} // whether it is held
		for _, v := range batch {
			for k := int(v) * row; !b.has(v) && k < (int(v)+1)*row; k++ {
				pages[uint32(k/4096)] = false
			}
		}
		if !slices.IsSorted(w.pages) || len(w.pages) != len(pages) {
			rt.Fatalf("pages %v, want %v", w.pages, pages)
		}
		rows, copied := make([]byte, len(batch)*row), int64(0)
		for j, p := range w.pages {
			if _, ok := pages[p]; !ok {
				rt.Fatalf("page %d has no byte of a row", p)
			}
			pages[p] = rapid.Bool().Draw(rt, "held")
			if w.held[j] = absent; pages[p] {
				w.held[j] = int32(j)
			}
			w.copy(j, file[p*4096:(p+1)*4096], rows, row)
			copied += w.bytes(j, row)
		}
		hits, accesses, bytes := 0, int64(0), int64(0)
		for i, v := range batch {
			if b.has(v) {
				continue
			}
			bytes += int64(row)
			if !slices.Equal(rows[i*row:(i+1)*row], file[int(v)*row:int(v+1)*row]) {
				rt.Fatalf("row %d is not node %d's", i, v)
			}
			held := true
			for p := int(v) * row / 4096; p*4096 < (int(v)+1)*row; p++ {
				accesses++
				held = held && pages[uint32(p)]
			}
			if held {
				hits++
			}
		}
		if h, _, a := w.counts(row, 0); h != hits || a != accesses || copied != bytes {
			rt.Fatalf("%d hits, %d accesses, %d bytes; want %d, %d, %d", h, a, copied, hits, accesses, bytes)
		}
	})
}
