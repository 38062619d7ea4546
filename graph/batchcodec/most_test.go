package batchcodec

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/binio"
)

// TestMostByHand has bounds that lists and blocks reach.
func TestMostByHand(t *testing.T) {
	two := twoLayers()
	two.Blocks[0].Dst = []uint32{1, 3, 0}
	two.Targets = make([]byte, 2*5)
	one := &graph.Batch{Blocks: []graph.Block{{NumSrc: 1, NumDst: 1, Indptr: []uint32{0, 9}, Indices: make([]uint32, 9), Dst: []uint32{0}}},
		Input: []uint32{7}, Degree: []uint32{9}, Labels: []int32{1}}
	typed, packed := typedLayers(), typedLayers()
	graphtest.Renumber(packed, []int{3, 0, 2, 1})
	types := Counts{Nodes: []uint32{4, 4, 1}, Edges: []uint32{5, 3}, Rows: []uint32{6, 2}, Types: 2}
	for name, c := range map[string]struct{ got, want, bytes int64 }{
		"no values":      {MostList(0, 7), 0, int64(len(AppendList(nil, nil, nil)))},
		"a value":        {MostList(1, 0), 5 + 1, int64(len(AppendList(nil, []uint32{9}, nil)))},
		"a block":        {MostList(128, 2), 5 + 1 + 32, int64(len(AppendList(nil, slices.Repeat([]uint32{1, 0, 3, 2}, 32), nil)))},
		"a value more":   {MostList(129, 2), 5 + 2 + 33, int64(len(AppendList(nil, append(slices.Repeat([]uint32{1, 0, 3, 2}, 32), 3), nil)))},
		"two layers":     {(&Counts{Nodes: []uint32{4, 3, 2}, Edges: []uint32{4, 2}, Row: 5}).MostBlocks(2), 16 + 2*16 + 3 + 2 + 2*(4+5), int64(len(AppendBlocks(nil, two)))},
		"one source":     {(&Counts{Nodes: []uint32{1, 1}, Edges: []uint32{9}}).MostBlocks(0), 16 + 16 + 1 + 2 + 1 + 4, int64(len(AppendBlocks(nil, one)))},
		"least, byte by": {(&Counts{Nodes: []uint32{4, 3, 2}, Edges: []uint32{4, 2}, Row: 5}).LeastBytes(), 16 + 2*16 + 4*4 + 3 + 4 + 2 + 2 + 2*(4+5), int64(len(Append(nil, two)) - 3*4 - 3)}, // without degrees, and places of destinations
		"typed":          {types.MostBlocks(2), 16 + 2*16 + 2 + 2 + 1 + 1 + 1 + 2*4 + 1 + 4, int64(len(AppendBlocks(nil, packed)))},                                                            // one table of ends, types of inputs
		"least, typed":   {types.LeastBytes(), 16 + 2*16 + 2*2*4 + 4*4 + 6 + 5 + 2 + 3 + 4, int64(len(Append(nil, typed)))},
	} {
		if c.got != c.want || c.bytes != c.want {
			t.Errorf("%s: got %d, want %d, takes %d", name, c.got, c.want, c.bytes)
		}
	}
	// 256 sources have numbers of one byte, 257 of two.
	for sources, width := range map[uint32]int64{256: 1, 257: 2} {
		if n := (&Counts{Nodes: []uint32{sources, 1}, Edges: []uint32{9}}).LeastBytes(); n != 16+16+4*int64(sources)+1+9*width+4 {
			t.Errorf("%d sources: %d bytes at least", sources, n)
		}
	}
	// Nine edges at one destination take four bits, unless each has at most three.
	if n := (&Counts{Nodes: []uint32{1, 40}, Edges: []uint32{9}}).MostBlocks(3); n != 16+16+10+2+5+4*40 {
		t.Errorf("40 destinations of at most three edges: %d bytes", n)
	}
}

// TestMost: no list and no batch takes more, and no batch takes less, byte by byte.
func TestMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := genBatch(t)
		if rapid.Bool().Draw(t, "typed") {
			b = genTyped(t)
		}
		c, most := Counts{Nodes: []uint32{uint32(len(b.Input))}}, uint32(0)
		for l := range b.Blocks {
			k := &b.Blocks[l]
			c.Nodes, c.Edges, most = append(c.Nodes, uint32(k.NumDst)), append(c.Edges, uint32(len(k.Indices))), max(most, mostEdges(k))
			if b.Types != nil {
				c.Rows, c.Types = append(c.Rows, uint32(k.NumRows())), len(b.Types.Nodes)
			}
		}
		if len(b.Labels) > 0 {
			c.Row = len(b.Targets) / len(b.Labels)
		}
		n := int64(len(AppendBlocks(nil, b)))
		if any, few := c.MostBlocks(0), c.MostBlocks(int(max(most, 1))); few > any || n > few {
			t.Errorf("%d bytes, bounds are %d and %d", n, few, any)
		}
		if b.Types != nil && b.InputTypes != nil {
			return // samples have ends
		}
		degrees := len(b.Degree) * binio.Width(maxOf(b.Degree))
		if n, least := int64(len(Append(nil, b))-degrees), c.LeastBytes(); least > n {
			t.Errorf("%d bytes, the bound is %d", n, least)
		}
	})
}

// TestShorterForm: values without an order are in the shorter of two forms, and the length of plain ones is right.
func TestShorterForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values, classes := genList(t)
		if len(values) == 0 {
			return
		}
		least, most, up, down := survey(values)
		plain := len(appendList(nil, listPlain, least, values))
		if got := listHead + blockBytes(values, least); got != plain {
			t.Errorf("plain: %d bytes, want %d", got, plain)
		}
		want := plain
		if within := classesOf(classes, least, most); len(within) > 0 {
			want = min(want, len(appendClasses(nil, values, within)))
		}
		if got := len(AppendList(nil, values, classes)); !up && !down && got != want {
			t.Errorf("%d bytes, the shorter form has %d", got, want)
		}
	})
}
