package kernels_test

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/kernel"
)

// inBits returns a block of the given arrays in bits, each in the least bits.
func inBits(src int, counts, indices, dst []uint32) *kernels.BitsBlock {
	array := func(values []uint32) kernels.Bits {
		width := bits.Len32(slices.Max(append(values, 1)))
		return kernels.Bits{Bytes: kernel.AppendPacked(nil, values, width), Width: width}
	}
	k := &kernels.BitsBlock{Sources: src, Destinations: len(counts), Edges: len(indices), Arrays: [3]kernels.Bits{array(counts), array(indices)}}
	if dst != nil {
		k.Arrays[2] = array(dst)
	}
	return k
}

// unpacking is a block in bits on the device, with room for the results.
type unpacking struct{ kernels.Unpack }

// unpacking puts a block in bits, not at the beginning of its words. There is room for more of everything.
func (g *gpu) unpacking(k *kernels.BitsBlock) *unpacking {
	const first = 3
	var shape kernels.Shape
	words := g.empty(4 * (first + k.Words()))
	if n := shape.Lay(k, first); int64(4*n) != words.Bytes() {
		g.Fatalf("%d words, want %d", n, words.Bytes()/4)
	}
	check(g, shape.CopyIn(g.Stream, words, k))
	on := put(g, shape[:])
	at := func(word int) cuda.Buffer { return on.Slice(int64(4*word), 4) }
	room := func(n, word int) kernels.Count { return kernels.Count{Most: n + n/2 + 3, At: at(word)} }
	u := new(unpacking)
	u.Words, u.Shape = words, on
	u.Sources, u.Destinations, u.Edges = room(k.Sources, kernels.ShapeSources), room(k.Destinations, kernels.ShapeDestinations), room(k.Edges, kernels.ShapeEdges)
	dst := u.Destinations.Most
	u.Indptr, u.Indices, u.Means, u.Positions = g.empty(4*(dst+1)), g.empty(4*u.Edges.Most), g.empty(4*dst), g.empty(4*dst)
	u.Places, u.Sums = g.empty(4*u.Sources.Most), g.empty(int(kernels.TileSumBytes(max(dst, u.Sources.Most))))
	return u
}

// wrong returns the faults that the device has found.
func (u *unpacking) wrong(g *gpu) uint32 { return get[uint32](g, u.Shape)[kernels.ShapeWrong] }

// unpackShapes are counts of destinations, sources beside them, and the most edges of a destination.
var unpackShapes = [][3]int{{1, 0, 0}, {1, 1, 1}, {7, 3, 5}, {33, 300, 40}, {1000, 24, 12}, {1024, 1025, 3}, {5000, 30000, 15}, {3, 2, 9000}}

// decoded draws a block.
func (r random) decoded(dst, more, most int, scatter bool) (k *graph.Block, counts []uint32) {
	b := graphtest.Shape{Seeds: dst, Classes: 2, Layers: 1, MaxDegree: most, Fresh: more, Scatter: scatter}.Batch(r.Rand)
	k = &b.Blocks[0]
	for e := range k.Indices { // loops, and a source of many edges
		switch r.IntN(6) {
		case 0:
			k.Indices[e] = uint32(k.DstPos(r.IntN(dst)))
		case 1:
			k.Indices[e] = 0
		}
	}
	for i := range dst {
		counts = append(counts, k.Indptr[i+1]-k.Indptr[i])
	}
	return k, counts
}

// TestUnpack decodes, loops and transposes blocks of all sizes. The results are the arrays that the blocks were made of, and the
// definitions of the others.
func TestUnpack(t *testing.T) {
	byDefinition(t, func(g *gpu) {
		for i, shape := range unpackShapes {
			for _, scatter := range []bool{false, true} {
				g.reset()
				k, counts := newRandom(uint64(i)).decoded(shape[0], shape[1], shape[2], scatter)
				what := fmt.Sprintf("%v, scattered %t: ", shape, scatter)
				u := g.unpacking(inBits(k.NumSrc, counts, k.Indices, k.Dst))
				check(g, u.Launch(g.Stream))
				if wrong := u.wrong(g); wrong != 0 {
					t.Fatalf("%swrong %d", what, wrong)
				}
				means, positions, places := make([]float32, k.NumDst), make([]uint32, k.NumDst), make([]uint32, k.NumSrc)
				for i, n := range counts {
					if n > 0 {
						means[i] = 1 / float32(n)
					}
					positions[i] = uint32(k.DstPos(i))
					places[positions[i]] = uint32(i) + 1
				}
				identical(g, what+"indptr", get[uint32](g, u.Indptr), k.Indptr)
				identical(g, what+"indices", get[uint32](g, u.Indices), k.Indices)
				identical(g, what+"means", get[float32](g, u.Means), means)
				identical(g, what+"positions", get[uint32](g, u.Positions), positions)
				identical(g, what+"places", get[uint32](g, u.Places), places)
				g.transposes(what, u, u.Edges, k.NumSrc, k.Indptr, k.Indices, false)
				g.loops(what, u, k)
			}
		}
	})
}

// loops adds loops to an unpacked block.
func (g *gpu) loops(what string, u *unpacking, k *graph.Block) {
	indptr, indices := []uint32{0}, []uint32{}
	for i := range k.NumDst {
		self := uint32(k.DstPos(i))
		for _, s := range k.Indices[k.Indptr[i]:k.Indptr[i+1]] {
			if s != self {
				indices = append(indices, s)
			}
		}
		indices = append(indices, self)
		indptr = append(indptr, uint32(len(indices)))
	}
	dst, most := u.Destinations.Most, u.Edges.Most+u.Destinations.Most
	o := kernels.Loop{Indptr: g.empty(4 * (dst + 1)), Indices: g.empty(4 * most), Edges: kernels.Count{Most: most, At: u.Shape.Slice(4*kernels.ShapeLooped, 4)},
		From: u.Indptr, Sources: u.Indices, Destinations: u.Destinations, Counts: g.empty(4 * dst), Sums: u.Sums}
	if k.Dst != nil {
		o.Positions = u.Positions
	}
	check(g, o.Launch(g.Stream))
	identical(g, what+"looped indptr", get[uint32](g, o.Indptr), indptr)
	identical(g, what+"looped indices", get[uint32](g, o.Indices), indices)
	u.Indptr, u.Indices = o.Indptr, o.Indices
	g.transposes(what+"looped, ", u, o.Edges, k.NumSrc, indptr, indices, true)
}

// transposes transposes a block.
func (g *gpu) transposes(what string, u *unpacking, edges kernels.Count, src int, indptr, indices []uint32, withEdges bool) {
	tindptr, next := make([]uint32, src+1), make([]uint32, src)
	for _, s := range indices {
		tindptr[s+1]++
	}
	for s := range src {
		tindptr[s+1] += tindptr[s]
		next[s] = tindptr[s]
	}
	tindices, tedges := make([]uint32, len(indices)), make([]uint32, len(indices))
	for i := range len(indptr) - 1 {
		for e := indptr[i]; e < indptr[i+1]; e++ {
			at := &next[indices[e]]
			tindices[*at], tedges[*at] = uint32(i), e
			*at++
		}
	}
	a := kernels.Transpose{TIndptr: g.empty(4 * (u.Sources.Most + 1)), TIndices: g.empty(4 * edges.Most), Indptr: u.Indptr, Indices: u.Indices,
		Sources: u.Sources, Edges: edges, Destinations: u.Destinations, Counts: g.empty(4 * u.Sources.Most), Arrivals: g.empty(4 * edges.Most), Slots: g.empty(4 * edges.Most), Sums: u.Sums}
	if withEdges {
		a.TEdges = g.empty(4 * edges.Most)
	}
	check(g, a.Launch(g.Stream))
	identical(g, what+"transposed indptr", get[uint32](g, a.TIndptr), tindptr)
	identical(g, what+"transposed indices", get[uint32](g, a.TIndices), tindices)
	if withEdges {
		identical(g, what+"transposed edges", get[uint32](g, a.TEdges), tedges)
	}
}

// TestWeigh, by hand: degrees 0, 3, 15 and 2³²−1, where a root of degree + 1 is 1, 2, 4 and 2¹⁶. Destinations 0, 1 and 2 are the
// sources 2, 1 and 0, with no, three and one of their edges.
func TestWeigh(t *testing.T) {
	byDefinition(t, func(g *gpu) {
		counts := put(g, []uint32{4, 3})
		a := kernels.Weigh{Src: g.empty(4 * 6), Dst: g.empty(4 * 5), Own: g.empty(4 * 5), Degrees: put(g, []uint32{0, 3, 15, 1<<32 - 1}), Positions: put(g, []uint32{2, 1, 0, 7, 7}), Outermost: true,
			Indptr: put(g, []uint32{0, 0, 3, 4, 9, 9}), Sources: kernels.Count{Most: 6, At: counts.Slice(0, 4)}, Destinations: kernels.Count{Most: 5, At: counts.Slice(4, 4)}}
		check(g, a.Launch(g.Stream))
		identical(g, "weights of sources", get[float32](g, a.Src), []float32{1, 1. / 2, 1. / 4, 1. / 65536})
		identical(g, "weights of sums", get[float32](g, a.Dst), []float32{15. / 4, 3. / (3 * 2), 0})
		identical(g, "weights of own rows", get[float32](g, a.Own), []float32{1. / 16, 1. / 4, 1})
		a.Outermost, a.Sources = false, kernels.Count{Most: 3}
		check(g, a.Launch(g.Stream))
		identical(g, "weights of an inner block's sources", get[float32](g, a.Src), []float32{1. / 4, 1. / 2, 1})
	})
}

// TestUnpackWrong: each kind of wrong value is found, wherever it is, and the results stay in bounds.
func TestUnpackWrong(t *testing.T) {
	byDefinition(t, func(g *gpu) {
		for _, c := range []struct {
			counts, indices, dst []uint32
			wrong                uint32
		}{
			{[]uint32{2, 1}, []uint32{0, 1, 4}, []uint32{3, 1}, 0},
			{[]uint32{2, 2}, []uint32{0, 1, 4}, []uint32{3, 1}, kernels.WrongCounts},
			{[]uint32{2, 0}, []uint32{0, 1, 4}, []uint32{3, 1}, kernels.WrongCounts},
			{[]uint32{1<<32 - 1, 1<<32 - 1}, []uint32{0, 1, 4}, []uint32{3, 1}, kernels.WrongCounts},
			{[]uint32{1<<32 - 1, 4}, []uint32{0, 1, 4}, []uint32{3, 1}, kernels.WrongCounts}, // 3 modulo 2³²
			{[]uint32{}, []uint32{0}, nil, kernels.WrongCounts},
			{[]uint32{}, []uint32{}, nil, 0},
			{[]uint32{2, 1}, []uint32{0, 1, 5}, []uint32{3, 1}, kernels.WrongSource},
			{[]uint32{2, 1}, []uint32{1<<32 - 1, 1, 4}, nil, kernels.WrongSource},
			{[]uint32{2, 1}, []uint32{0, 1, 4}, []uint32{3, 5}, kernels.WrongPlace},
			{[]uint32{2, 1}, []uint32{0, 1, 4}, []uint32{3, 3}, kernels.WrongTwice},
			{[]uint32{3, 1}, []uint32{0, 7, 4}, []uint32{3, 3}, kernels.WrongCounts | kernels.WrongSource | kernels.WrongTwice},
		} {
			g.reset()
			u := g.unpacking(inBits(5, c.counts, c.indices, c.dst))
			check(g, u.Launch(g.Stream))
			if wrong := u.wrong(g); wrong != c.wrong || (kernels.Wrong(wrong) == "") != (wrong == 0) {
				t.Errorf("%v: wrong %d: %q", c, wrong, kernels.Wrong(wrong))
			}
			indptr, indices := get[uint32](g, u.Indptr)[:len(c.counts)+1], get[uint32](g, u.Indices)[:len(c.indices)]
			if !slices.IsSorted(indptr) || int(indptr[len(c.counts)]) > len(c.indices) || slices.ContainsFunc(indices, func(s uint32) bool { return s >= 5 }) {
				t.Errorf("%v: %v, %v", c, indptr, indices)
			}
		}
	})
}

// TestMostBitsWords: blocks of the most sources, destinations and edges, with the largest numbers, need no more words.
func TestMostBitsWords(t *testing.T) {
	for _, c := range [][3]int{{1, 1, 0}, {1, 1, 1}, {5, 2, 9}, {257, 256, 1000}} {
		src, dst, edges := c[0], c[1], c[2]
		counts, indices, places := make([]uint32, dst), make([]uint32, edges), make([]uint32, dst)
		counts[0] = uint32(edges)
		for i := range places {
			places[i] = uint32(src - 1 - i)
		}
		for e := range indices {
			indices[e] = uint32(src - 1)
		}
		scattered, prefix := inBits(src, counts, indices, places), inBits(src, counts, indices, nil)
		if n, most := scattered.Words(), kernels.MostBitsWords(src, dst, edges, true); n != most {
			t.Errorf("%v: %d words, at most %d", c, n, most)
		}
		if n, most := prefix.Words(), kernels.MostBitsWords(src, dst, edges, false); n != most {
			t.Errorf("%v: %d words without positions, at most %d", c, n, most)
		}
	}
}
