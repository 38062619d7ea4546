package cut

import (
	"testing"

	"diskgnn/pack/packfile"
)

// TestRunBytes counts the pages of rows by hand.
func TestRunBytes(t *testing.T) {
	const page = 4096
	for _, c := range []struct {
		rowBytes int64
		places   []uint32
		pages    int64
	}{
		{page, nil, 0},
		{page, []uint32{0}, 1},
		{page, []uint32{3}, 1}, // not from the file's beginning on
		{page, []uint32{3, 4, 6}, 4},
		{page, []uint32{1, 2 + packfile.MaxGap}, 2 + packfile.MaxGap}, // read through the gap
		{page, []uint32{1, 3 + packfile.MaxGap}, 2},                   // not through one page more
		{1024, []uint32{1, 2, 3}, 1},
		{1024, []uint32{3, 4}, 2},
		{1000, []uint32{4}, 2}, // across a page's end
		{3 * page, []uint32{5}, 3},
	} {
		if got := runBytes(c.places, c.rowBytes); got != c.pages*page {
			t.Errorf("rows of %d bytes at %v: %d bytes, want %d pages", c.rowBytes, c.places, got, c.pages)
		}
	}
}
