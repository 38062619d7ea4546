package sampler

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"diskgnn/internal/rng"
)

// arranged is arrange, written with slices of slices.
func arranged(c cutting, local []uint32, key uint64) []uint32 {
	src := rng.New(key)
	shift := int(src.Uint64n(uint64(len(local))))
	circle := slices.Concat(local[shift:], local[:shift])
	number := c.groups * c.runs
	var runs [][][]uint32 // of blocks
	for r := range number {
		run := circle[r*len(circle)/number : (r+1)*len(circle)/number]
		rng.Shuffle(&src, run)
		runs = append(runs, slices.Collect(slices.Chunk(run, c.block)))
	}
	rng.Shuffle(&src, runs)
	var order []uint32
	for group := range slices.Chunk(runs, c.runs) {
		for b := range len(local) {
			for _, run := range group {
				if b < len(run) {
					order = append(order, run[b]...)
				}
			}
		}
	}
	return order
}

func TestArrange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 600).Draw(t, "nodes")
		c := newCutting(n, rapid.IntRange(1, 100).Draw(t, "batch"))
		local := rapid.Permutation(identity(make([]uint32, n))).Draw(t, "local")
		key := rapid.Uint64().Draw(t, "key")
		order := make([]uint32, n)
		c.arrange(order, local, make([]uint32, n), key)
		if d := cmp.Diff(arranged(c, local, key), order); d != "" {
			t.Fatal(d)
		}
		if got := slices.Sorted(slices.Values(order)); !slices.Equal(got, identity(make([]uint32, n))) {
			t.Fatalf("no permutation: %v", got)
		}
	})
}

func TestCutting(t *testing.T) {
	for _, c := range []struct {
		n, batch int
		want     cutting
	}{
		{1, 1024, cutting{n: 1, groups: 1, runs: mixedBlocks, block: 1024 / mixedBlocks}},
		{1024 * groupBatches * 5, 1024, cutting{n: 1024 * groupBatches * 5, groups: 5, runs: mixedBlocks, block: 1024 / mixedBlocks}},
		// Eleven batches make one group, twelve two: not one more than there are counts.
		{1024 * 11, 1024, cutting{n: 1024 * 11, groups: 1, runs: mixedBlocks, block: 1024 / mixedBlocks}},
		{1024*11 + 1, 1024, cutting{n: 1024*11 + 1, groups: 2, runs: mixedBlocks, block: 1024 / mixedBlocks}},
		{100, 1, cutting{n: 100, groups: (100 + groupBatches/2) / groupBatches, runs: 1, block: 1}},
	} {
		if got := newCutting(c.n, c.batch); got != c.want {
			t.Errorf("%d nodes in batches of %d: %+v, want %+v", c.n, c.batch, got, c.want)
		}
	}
}
