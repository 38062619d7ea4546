package hyperion

import (
	"testing"

	"pgregory.net/rapid"
)

// Rows of ascending nodes by hand: those on the same and on adjacent pages are one request.
func TestJoinedByHand(t *testing.T) {
	const size = 1 << 30
	for _, c := range []struct {
		row    int
		nodes  []uint32
		size   int64
		off, n int64
		served int
	}{
		{512, []uint32{0, 3, 7, 16}, size, 0, 4096, 3},                // page 1 has none of them
		{512, []uint32{9, 16, 40}, size, 4096, 8192, 2},               // pages 1 and 2, then 5
		{400, []uint32{10, 11, 20}, size, 0, 12288, 3},                // node 10 is on pages 0 and 1
		{400, []uint32{98, 99}, 400 * 100, 36864, 3136, 2},            // the file ends at 40000
		{4096, []uint32{0, 1, 2, 4}, size, 0, 3 * 4096, 3},            //
		{32768, []uint32{5, 6, 7}, size, 5 * 32768, 2 * 32768, 2},     // 64 KiB are the most
		{100_000, []uint32{0, 1}, size, 0, 25 * 4096, 1},              // but for a row that is larger
		{4096, []uint32{1}, size, 4096, 4096, 1},                      //
		{1 << 10, []uint32{0, 60, 63, 64}, size, 0, 4096, 1},          //
		{1 << 10, []uint32{56, 60, 63, 64}, size, 56 << 10, 12288, 4}, // pages 14, 15 and 16
	} {
		if off, n, served := (joined{}).Next(c.nodes, c.row, c.size); off != c.off || n != c.n || served != c.served {
			t.Errorf("%+v: %d bytes at %d, %d served", c, n, off, served)
		}
	}
}

// A request has whole pages, all of them of the rows it serves, and no more than Most.
func TestJoined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.IntRange(1, 90_000).Draw(t, "row")
		v, nodes := uint32(0), []uint32{}
		for range rapid.IntRange(1, 30).Draw(t, "nodes") {
			v += uint32(rapid.IntRange(1, 9).Draw(t, "gap"))
			nodes = append(nodes, v)
		}
		size := int64(v+1) * int64(row)
		off, n, served := (joined{}).Next(nodes, row, size)
		pages := map[int64]bool{}
		for _, v := range nodes[:served] {
			for at := int64(v) * int64(row) / 4096; at*4096 < int64(v+1)*int64(row); at++ {
				pages[at] = true
			}
		}
		if served < 1 || off%4096 != 0 || off/4096 != int64(nodes[0])*int64(row)/4096 || (n+4095)/4096 != int64(len(pages)) || n%4096 != 0 && off+n != size || n > (joined{}).Most(row) {
			t.Fatalf("%d bytes at %d for %d nodes on %d pages", n, off, served, len(pages))
		}
	})
}
