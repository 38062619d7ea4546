package marius

import (
	"fmt"
	"slices"
	"testing"
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
