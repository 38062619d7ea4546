package marius

import (
	"fmt"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/binio"
)

// By hand: a circle of seven batches, whose last batch has the partitions of the first.
func TestCourse(t *testing.T) {
	c := &course{train: 7, phases: []phase{{first: 0, held: []uint16{0, 1}}, {first: 2, held: []uint16{1, 2}}, {first: 3, held: []uint16{2, 4}}, {first: 6, held: []uint16{0, 1}}}}
	c.close()
	if got, want := fmt.Sprint(c.phases), "[{2 1 [1 2]} {3 3 [2 4]} {6 3 [0 1]}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for batch, want := range [][2]int{{2, 1}, {2, 2}, {0, 0}, {1, 0}, {1, 1}, {1, 2}, {2, 0}} {
		if number, before := c.at(batch); number != want[0] || before != want[1] {
			t.Errorf("batch %d is in phase %d after %d, want %v", batch, number, before, want)
		}
	}
	for number, want := range [][]uint16{{2}, {4}, {0, 1}} {
		if got := c.comes(number); !slices.Equal(got, want) {
			t.Errorf("with phase %d comes %v, want %v", number, got, want)
		}
	}
	one := &course{train: 3, phases: []phase{{first: 0, held: []uint16{5}}}}
	one.close()
	if number, before := one.at(2); number != 0 || before != 2 || one.phases[0].batches != 3 || one.comes(0) != nil {
		t.Errorf("one phase: %+v", one)
	}
}

// By hand: 10 rows of 1000 bytes in 4 partitions of 3, 2, 3 and 2.
func TestTableLayout(t *testing.T) {
	l := newTableLayout(10, 1000, 4)
	if !slices.Equal(l.begin, []int64{0, 3, 5, 8, 10}) || !slices.Equal(l.offset, []int64{0, 4096, 8192, 12288, 16384}) || l.mostRows() != 3 || l.roomRows() != 512 {
		t.Errorf("%+v, rooms of %d rows", l, l.roomRows())
	}
	for place, want := range []int{0, 0, 0, 1, 1, 2, 2, 2, 3, 3} {
		if got := l.of(int64(place)); got != want {
			t.Errorf("place %d is in partition %d, want %d", place, got, want)
		}
	}
	if l = newTableLayout(10, 3000, 4); !slices.Equal(l.offset, []int64{0, 12288, 20480, 32768, 40960}) || l.sumsBytes() != 40 {
		t.Errorf("%+v", l)
	}
}

// A batch's share of what is read ahead is ⌊bytes·had/batches⌋ when had of
// them had their turns, so that the last batch has all of it, also of phases with more batches than a page
// has bytes, where whole shares leave out more than rounding up to a page brings back.
func TestShare(t *testing.T) {
	share := func(bytes int64, batches, had int) int64 {
		b := &buffer{course: &course{phases: []phase{{batches: batches}}}, ahead: pieces{bytes: bytes}, had: had}
		return b.share()
	}
	for _, c := range []struct {
		bytes        int64
		batches, had int
		want         int64
	}{{10, 4, 1, 2}, {10, 4, 3, 7}, {10, 4, 4, 10}, {8192, 5000, 4999, 8190}, {8192, 5000, 5000, 8192}, {0, 3, 2, 0}, {1 << 62, 1 << 31, 1<<31 - 1, 1<<62 - 1<<31}} {
		if got := share(c.bytes, c.batches, c.had); got != c.want {
			t.Errorf("%d bytes after %d of %d batches: %d, want %d", c.bytes, c.had, c.batches, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.Int64Range(0, 1<<40).Draw(t, "pages") * binio.Page
		batches := rapid.IntRange(1, 1<<31-1).Draw(t, "batches")
		had := rapid.IntRange(0, batches).Draw(t, "had")
		want := new(big.Int).Mul(big.NewInt(bytes), big.NewInt(int64(had)))
		if want.Div(want, big.NewInt(int64(batches))); share(bytes, batches, had) != want.Int64() {
			t.Fatalf("%d bytes after %d of %d batches: %d, want %v", bytes, had, batches, share(bytes, batches, had), want)
		}
	})
}
