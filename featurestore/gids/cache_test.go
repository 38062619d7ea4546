package gids

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// laid has lay take its parts out of memory of Go's.
func laid(lay func(mem *machine.Memory)) { lay(machine.Within(make([]byte, machine.Counted(lay)))) }

func makeCache(pages, lines int) (c *cache) {
	laid(func(mem *machine.Memory) { c = newCache(pages, lines, mem) })
	return c
}

// choice is what the cache says of a batch's pages.
type choice struct{ held, into []int32 }

func (c *cache) choose(pages []uint32, before int64) choice {
	d := choice{make([]int32, len(pages)), make([]int32, len(pages))}
	c.decide(pages, d.held, d.into, before)
	return d
}

func (d choice) equal(e choice) bool {
	return slices.Equal(d.held, e.held) && slices.Equal(d.into, e.into)
}

// Three lines by hand.
func TestCacheByHand(t *testing.T) {
	c := makeCache(9, 3)
	no := absent
	for i, s := range []struct {
		pages      []uint32
		before     int64
		ahead      []uint32 // pages that the window wants
		held, into []int32
	}{
		{[]uint32{4, 7}, 2, nil, []int32{no, no}, []int32{0, 1}},                         // free lines, in order
		{[]uint32{4, 5}, 2, nil, []int32{0, no}, []int32{no, 2}},                         //
		{[]uint32{6}, 2, nil, []int32{no}, []int32{no}},                                  // all are used by the two batches before: it passes by
		{[]uint32{6}, 2, nil, []int32{no}, []int32{1}},                                   // page 7 was used three batches before
		{[]uint32{8}, 0, []uint32{5}, []int32{no}, []int32{0}},                           // line 2 keeps page 5, the hand goes on to line 0
		{[]uint32{3, 8}, 0, []uint32{5}, []int32{no, 0}, []int32{1, no}},                 //
		{[]uint32{1, 2}, 0, []uint32{5}, []int32{no, no}, []int32{0, 1}},                 // past line 2 once more
		{[]uint32{0, 3, 4}, 0, nil, []int32{no, no, no}, []int32{2, 0, 1}},               // more than a turn
		{[]uint32{5, 6, 7, 8}, 0, nil, []int32{no, no, no, no}, []int32{2, 0, 1, no}},    // lines of the batch itself stay
		{[]uint32{1, 2}, 0, []uint32{5, 6, 7}, []int32{no, no}, []int32{no, no}},         // all are wanted
		{[]uint32{5, 6, 7}, 0, []uint32{5, 6, 7}, []int32{2, 0, 1}, []int32{no, no, no}}, //
	} {
		clear(c.ahead)
		for _, p := range s.ahead {
			c.ahead[p]++
		}
		if d := c.choose(s.pages, s.before); !d.equal(choice{s.held, s.into}) {
			t.Fatalf("batch %d: %+v, want %v and %v", i, d, s.held, s.into)
		}
	}
}

// circleOf is a page cache written as what it is for: it knows all batches, and looks at those
// under way and those of the window whenever it needs a line.
type circleOf struct {
	batches [][]uint32
	window  int
	lines   []uint32       // pages, in the order of the lines
	at      map[uint32]int // line of a page
	room    int
	hand    int
}

// kept reports whether one of the batches from lo to hi has a page.
func (c *circleOf) kept(page uint32, lo, hi int) bool {
	for k := max(0, lo); k <= min(hi, len(c.batches)-1); k++ {
		if slices.Contains(c.batches[k], page) {
			return true
		}
	}
	return false
}

func (c *circleOf) load(i, before int) choice {
	var d choice
	at := maps.Clone(c.at)
	for _, p := range c.batches[i] {
		held, into := absent, absent
		if f, ok := at[p]; ok {
			held = int32(f)
		} else if len(c.lines) < c.room {
			into = int32(len(c.lines))
			c.lines = append(c.lines, p)
		} else {
			for range c.lines {
				f := c.hand
				c.hand = (c.hand + 1) % len(c.lines)
				if !c.kept(c.lines[f], i-before, i+c.window) {
					delete(c.at, c.lines[f])
					c.lines[f], into = p, int32(f)
					break
				}
			}
		}
		if into != absent {
			c.at[p] = int(into)
		}
		d.held, d.into = append(d.held, held), append(d.into, into)
	}
	return d
}

// Every decision is the reference's, no page of the window or of a batch under way loses its
// line, and a cache that was saved and loaded anywhere goes on likewise.
func TestCache(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pages := rapid.IntRange(1, 20).Draw(rt, "pages")
		lines := rapid.IntRange(0, pages).Draw(rt, "lines")
		batch := rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(pages-1)), 0, pages, rapid.ID)
		ref := &circleOf{window: rapid.IntRange(0, 3).Draw(rt, "window"), room: lines, at: map[uint32]int{}}
		ref.batches = rapid.SliceOfN(batch, 1, 30).Draw(rt, "batches")
		c := makeCache(pages, lines)
		count := func(b []uint32, n uint32) {
			for _, p := range b {
				c.ahead[p] += n
			}
		}
		for k := range min(ref.window, len(ref.batches)) {
			count(ref.batches[k], 1)
		}
		hits, misses, accesses := 0, 0, 0
		for i, b := range ref.batches {
			if k := i + ref.window; k < len(ref.batches) && ref.window > 0 {
				count(ref.batches[k], 1)
			}
			if ref.window > 0 {
				count(b, ^uint32(0))
			}
			before := rapid.IntRange(0, 4).Draw(rt, "before")
			was := slices.Clone(c.pageOf)
			got, want := c.choose(b, int64(before)), ref.load(i, before)
			if !got.equal(want) {
				rt.Fatalf("batch %d: %+v, want %+v", i, got, want)
			}
			for f, p := range was {
				if c.pageOf[f] != p && ref.kept(p, i-before, i+ref.window) {
					rt.Fatalf("batch %d takes line %d from page %d", i, f, p)
				}
			}
			for j, p := range b {
				accesses++
				if got.held[j] == absent {
					misses++
				} else {
					hits++
				}
				if f := max(got.held[j], got.into[j]); f != absent && c.pageOf[f] != p {
					rt.Fatalf("batch %d: line %d has page %d, not %d", i, f, c.pageOf[f], p)
				}
			}
			if rapid.Bool().Draw(rt, "saved") {
				ahead, state := slices.Clone(c.ahead), c.save(nil)
				if int64(len(state)) > stateBytes(int64(lines))-headBytes-gathersBytes {
					rt.Fatalf("a state of %d bytes", len(state))
				}
				c = makeCache(pages, lines)
				d := binio.NewDecoder(state)
				if c.load(d); d.Err() != nil || d.Rest() > 0 {
					rt.Fatal(d.Err())
				}
				copy(c.ahead, ahead)
			}
		}
		if hits+misses != accesses || lines == 0 && hits > 0 {
			rt.Fatalf("%d hits and %d misses of %d", hits, misses, accesses)
		}
	})
}

// The age of a line in a state is enough for the most batches that are ever under way.
func TestAges(t *testing.T) {
	if mostGathered > ageMost {
		t.Errorf("%d batches are under way, ages end at %d", mostGathered, ageMost)
	}
	c := makeCache(3, 1)
	c.choose([]uint32{0}, 0)
	for range 300 {
		c.choose(nil, 0)
	}
	d := binio.NewDecoder(c.save(nil))
	if c.load(d); d.Err() != nil || c.batch-c.used[0] != ageMost {
		t.Errorf("a line of %d batches ago, %v", c.batch-c.used[0], d.Err())
	}
	if d := c.choose([]uint32{1}, mostGathered); d.into[0] != 0 {
		t.Error("an old line is in use")
	}
}

func TestCacheRefuses(t *testing.T) {
	c := makeCache(4, 2)
	c.choose([]uint32{3, 1}, 0)
	c.choose([]uint32{0}, 0)
	good := c.save(nil)
	for what, s := range map[string]struct {
		spoil func(b []byte) []byte
		want  string
	}{
		"more lines":      {func(b []byte) []byte { b[0] = 3; return append(b, 2, 0, 0, 0, 1) }, "3 of 2 lines"},
		"a far hand":      {func(b []byte) []byte { b[4] = 2; return b }, "the hand at line 2"},
		"an early hand":   {func(b []byte) []byte { b[0] = 1; return b[:13] }, "the hand at line 1"},
		"no such page":    {func(b []byte) []byte { b[8] = 4; return b }, "page 4, but the features have 4 pages"},
		"a page twice":    {func(b []byte) []byte { b[8] = 1; return b }, "two lines hold page 1"},
		"less than there": {func(b []byte) []byte { return b[:12] }, "needs more than the 8 bytes left"},
	} {
		d := binio.NewDecoder(s.spoil(slices.Clone(good)))
		if c.load(d); !errors.Is(d.Err(), fault.ErrCorrupt) || !strings.Contains(d.Err().Error(), s.want) {
			t.Errorf("%s: %v", what, d.Err())
		}
	}
	d := binio.NewDecoder(good)
	if c.load(d); d.Err() != nil || !slices.Equal(c.pageOf, []uint32{0, 1}) || c.hand != 1 {
		t.Errorf("%v at %d, %v", c.pageOf, c.hand, d.Err())
	}
}
