package machine

import (
	"testing"

	"pgregory.net/rapid"
)

// Rows by hand: 512 bytes never cross a page, 400 bytes may, 8 KiB are two pages.
func TestSingleByValue(t *testing.T) {
	for _, c := range []struct {
		row          int
		size         int64
		node         uint32
		off, n, most int64
	}{
		{512, 1 << 20, 0, 0, 4096, 4096},
		{512, 1 << 20, 7, 0, 4096, 4096},
		{512, 1 << 20, 8, 4096, 4096, 4096},
		{400, 400 * 100, 10, 0, 8192, 8192},        // bytes 4000 to 4400
		{400, 400 * 100, 99, 36864, 3136, 8192},    // the file ends at 40000
		{8192, 1 << 20, 3, 3 * 8192, 8192, 8192},   //
		{6000, 6000 * 9, 1, 4096, 8192, 3 * 4096},  // bytes 6000 to 12000
		{4098, 4098 * 9, 0, 0, 8192, 8192},         // rows begin on even bytes: at 4094 at the latest
		{3, 3 * 5000, 1365, 0, 8192, 8192},         // bytes 4095 to 4098
		{6, 6 * 5000, 682, 0, 4096 * 2, 8192},      // bytes 4092 to 4098
		{65536, 1 << 30, 1, 65536, 65536, 1 << 16}, //
		{2, 2 * 4096, 2047, 0, 4096, 4096},         //
		{4, 96, 5, 0, 96, 4096},                    // a file of less than a page
	} {
		off, n, served := Single{}.Next([]uint32{c.node, 3}, c.row, c.size)
		if most := (Single{}).Most(c.row); off != c.off || n != c.n || served != 1 || most != c.most {
			t.Errorf("row %d of %d bytes: %d bytes at %d for %d nodes, %d at most; want %+v", c.node, c.row, n, off, served, most, c)
		}
	}
}

// A read has the row and no page without a byte of it, and none is longer than Most, which
// some row of a long file needs.
func TestSingle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.IntRange(1, 20000).Draw(t, "row")
		nodes := rapid.Int64Range(1, 9000).Draw(t, "nodes")
		v := rapid.Int64Range(0, nodes-1).Draw(t, "node")
		size := nodes * int64(row)
		off, n, _ := Single{}.Next([]uint32{uint32(v)}, row, size)
		pages := map[int64]bool{}
		for b := v * int64(row); b < (v+1)*int64(row); b++ {
			pages[b/4096] = true
		}
		want := int64(len(pages)) * 4096
		if end := off + want; end > size {
			want -= end - size
		}
		if !pages[off/4096] || off%4096 != 0 || n != want || n > (Single{}).Most(row) {
			t.Fatalf("%d bytes at %d for pages %v", n, off, pages)
		}
		longest := int64(0)
		for u := range uint32(4096) {
			_, n, _ := Single{}.Next([]uint32{u}, row, 1<<50)
			longest = max(longest, n)
		}
		if longest != (Single{}).Most(row) {
			t.Fatalf("Most is %d, the longest read %d", (Single{}).Most(row), longest)
		}
	})
}
