package kernels_test

import (
	"fmt"
	"slices"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/binio"
	"diskgnn/internal/rng"
)

// csc is a graph in compressed sparse columns.
type csc struct {
	indptr  []int64
	indices []uint32
}

// csc returns a random graph: most nodes have a few in-neighbours, some none, some many.
func (r random) csc(nodes, many int) *csc {
	g := &csc{indptr: make([]int64, 1, nodes+1)}
	for range nodes {
		n := r.IntN(8)
		if r.IntN(10) == 0 {
			n = r.IntN(many + 1)
		}
		list := r.indices(n, nodes)
		slices.Sort(list)
		g.indices = append(g.indices, list...)
		g.indptr = append(g.indptr, int64(len(g.indices)))
	}
	return g
}

// places returns a record for each node, and the lists of those that are near, in their order.
func (g *csc) places(near func(v int) bool) (records, lists []uint32) {
	for v, from := range g.indptr[:len(g.indptr)-1] {
		to, place := g.indptr[v+1], uint64(from)
		if near(v) {
			place = kernels.SampleNear | uint64(len(lists))
			lists = append(lists, g.indices[from:to]...)
		}
		records = append(records, uint32(place), uint32(place>>32), uint32(to-from))
	}
	return records, lists
}

// none is no node's list on the device.
func none(int) bool { return false }

// hop is what is drawn in one hop.
type hop struct{ indptr, indices []uint32 }

// sample draws hops as the kernels' comment defines it, with maps, without their table.
func (g *csc) sample(seeds []uint32, fanouts []uint32, keys []uint64) (hops []hop, nodes []uint32) {
	number := make(map[uint32]uint32)
	of := func(v uint32) uint32 {
		n, ok := number[v]
		if !ok {
			n = uint32(len(nodes))
			number[v], nodes = n, append(nodes, v)
		}
		return n
	}
	for _, v := range seeds {
		of(v)
	}
	for i, fanout := range fanouts {
		h := hop{indptr: []uint32{0}}
		for _, v := range slices.Clone(nodes) {
			list := g.indices[g.indptr[v]:g.indptr[v+1]]
			n, taken := len(list), make(map[uint32]bool)
			k := n
			if uint64(fanout) < uint64(n) {
				k = int(fanout)
			}
			src := rng.New(rng.Join(keys[i], uint64(v)))
			for j := n - k; j < n; j++ {
				at := uint32(j)
				if k < n {
					if t := src.Uint32n(at + 1); !taken[t] {
						at = t
					}
					taken[at] = true
				}
				h.indices = append(h.indices, of(list[at]))
			}
			h.indptr = append(h.indptr, uint32(len(h.indices)))
		}
		hops = append(hops, h)
	}
	return hops, nodes
}

// sampling is a batch on the device that is drawn hop by hop.
type sampling struct {
	kernels.Frontier
	counts cuda.Buffer // nodes before each hop, and after the last
	hops   []kernels.SampleHop
}

// sampling makes room for hops of so many edges, and so many nodes after each. pinned puts
// the graph into host memory, without the lists of nodes that are near.
func (g *gpu) sampling(of *csc, seeds []uint32, fanouts []uint32, keys []uint64, edges, nodes []int, near func(v int) bool, pinned bool) *sampling {
	g.Helper()
	most, wide := slices.Max(nodes), nodes[0]
	for i, n := range nodes[1:] {
		wide = max(wide, nodes[i]+edges[i], n)
	}
	s := &sampling{counts: g.empty(4 * len(nodes))}
	records, lists := of.places(near)
	far := put(g, append(slices.Clone(of.indices), 0))
	s.Frontier = kernels.Frontier{Graph: put(g, records), Nodes: g.empty(4 * most), Degree: g.empty(4 * most), Start: g.empty(8 * most), Most: most,
		Table: g.empty(int(kernels.SampleTableBytes(wide))), Wrong: put(g, []uint32{0})}
	if pinned {
		s.Graph, far = g.pinned(binio.Bytes(records)), g.pinned(binio.Bytes(append(slices.Clone(of.indices), 0)))
	}
	check(g, g.CopyIn(s.Nodes.Slice(0, int64(4*len(seeds))), binio.Bytes(seeds)))
	at := func(i int) cuda.Buffer { return s.counts.Slice(int64(4*i), 4) }
	for i, fanout := range fanouts {
		s.hops = append(s.hops, kernels.SampleHop{Frontier: s.Frontier, Far: far, Near: put(g, append(lists, 0)), Fanout: fanout, Key: keys[i],
			Destinations: kernels.Count{Most: nodes[i], At: at(i)}, Edges: kernels.Count{Most: edges[i], At: put(g, []uint32{99})}, Sources: kernels.Count{Most: nodes[i+1], At: at(i + 1)},
			Indptr: g.empty(4 * (nodes[i] + 1)), Indices: g.empty(4 * edges[i]), Sums: g.empty(int(kernels.SampleSumBytes(max(nodes[i], edges[i]))))})
	}
	return s
}

// pinned returns pinned host memory with such content, for as long as the test.
func (g *gpu) pinned(content []byte) cuda.Buffer {
	g.Helper()
	p, err := g.NewPinned(int64(len(content)))
	check(g, err)
	g.Cleanup(p.Free)
	copy(p.Bytes(), content)
	b, err := p.Buffer()
	check(g, err)
	return b
}

// draw draws the batch and returns what is wrong with it.
func (s *sampling) draw(g *gpu, seeds int) uint32 {
	g.Helper()
	check(g, kernels.SampleSeeds{Frontier: s.Frontier, Seeds: seeds, Count: s.counts.Slice(0, 4)}.Launch(g.Stream))
	for _, h := range s.hops {
		check(g, h.Launch(g.Stream))
	}
	return get[uint32](g, s.Wrong)[0]
}

// identical fails unless a part of what is on the device is as wanted.
func identical[T comparable](g *gpu, what string, got, want []T) {
	g.Helper()
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		g.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// TestSample: hops of all sizes are those of the definition, also where fanouts are beyond a
// warp, and tiles beyond a tile, and where the graph, or a part of its lists, lies in host
// memory.
func TestSample(t *testing.T) {
	byDefinition(t, func(g *gpu) {
		all := uint32(kernels.SampleAll)
		for i, c := range []struct {
			nodes, many, seeds int
			fanouts            []uint32
		}{
			{1, 0, 1, []uint32{1}},
			{1, 5, 1, []uint32{3, 3}},
			{40, 20, 7, []uint32{3, 2}},
			{40, 20, 40, []uint32{all}},
			{300, 200, 5, []uint32{10, 31, 32}},
			{300, 200, 300, []uint32{33, 64}},
			{2000, 300, 100, []uint32{100, 65}},
			{5000, 100, 1025, []uint32{5, all}},
			{9000, 30, 4096, []uint32{20, 1, 15}},
			{20000, 500, 33, []uint32{all, 12, 7}},
		} {
			g.reset()
			r := newRandom(uint64(i))
			of := r.csc(c.nodes, c.many)
			seeds := make([]uint32, c.seeds)
			for k, v := range r.Perm(c.nodes)[:c.seeds] {
				seeds[k] = uint32(v)
			}
			keys := make([]uint64, len(c.fanouts))
			for k := range keys {
				keys[k] = r.Uint64()
			}
			want, nodes := of.sample(seeds, c.fanouts, keys)
			edges, counts := make([]int, len(want)), []int{c.seeds}
			exact := []uint32{uint32(c.seeds)}
			for k, h := range want {
				after := len(nodes)
				if k+1 < len(want) {
					after = len(want[k+1].indptr) - 1
				}
				edges[k], counts, exact = len(h.indices)+r.IntN(4), append(counts, after+r.IntN(4)), append(exact, uint32(after))
			}
			near := func(v int) bool { return v%3 < i%4 }
			s := g.sampling(of, seeds, c.fanouts, keys, edges, counts, near, i%2 == 0)
			if wrong := s.draw(g, c.seeds); wrong != 0 {
				t.Fatalf("case %d: wrong %d", i, wrong)
			}
			identical(g, "counts", get[uint32](g, s.counts), exact)
			identical(g, "nodes", get[uint32](g, s.Nodes), nodes)
			degree, start := get[uint32](g, s.Degree), get[uint64](g, s.Start)
			records, _ := of.places(near)
			for k, v := range nodes {
				if d := of.indptr[v+1] - of.indptr[v]; int64(degree[k]) != d || start[k] != uint64(records[3*v+1])<<32|uint64(records[3*v]) {
					t.Fatalf("case %d: node %d has %d edges from %d on", i, v, degree[k], start[k])
				}
			}
			for k, h := range want {
				identical(g, fmt.Sprintf("case %d: edges of hop %d", i, k), get[uint32](g, s.hops[k].Edges.At), []uint32{uint32(len(h.indices))})
				identical(g, fmt.Sprintf("case %d: indptr of hop %d", i, k), get[uint32](g, s.hops[k].Indptr), h.indptr)
				identical(g, fmt.Sprintf("case %d: indices of hop %d", i, k), get[uint32](g, s.hops[k].Indices), h.indices)
			}
		}
	})
}

// TestSampleBeyondTheRoom: a batch that is larger than its room is said to be, in whichever
// hop, and nothing behind the room is written. By hand: node 0 has the in-neighbours 1, 2
// and 3, each of them 4.
func TestSampleBeyondTheRoom(t *testing.T) {
	byDefinition(t, func(g *gpu) {
		of := &csc{[]int64{0, 3, 4, 5, 6, 6}, []uint32{1, 2, 3, 4, 4, 4}}
		fits, sources := []int{3, 6}, []int{1, 4, 5}
		for _, c := range []struct {
			edges, nodes []int
			counts       []uint32
			wrong        uint32
		}{
			{fits, sources, []uint32{1, 4, 5}, 0},
			{[]int{2, 6}, sources, []uint32{1, 1, 4}, kernels.SampleNoRoom},
			{fits, []int{1, 3, 5}, []uint32{1, 0, 0}, kernels.SampleNoRoom},
			{[]int{3, 5}, sources, []uint32{1, 4, 4}, kernels.SampleNoRoom},
			{fits, []int{1, 4, 4}, []uint32{1, 4, 0}, kernels.SampleNoRoom},
		} {
			g.reset()
			s := g.sampling(of, []uint32{0}, []uint32{5, 5}, []uint64{1, 2}, c.edges, c.nodes, none, false)
			last := slices.Max(c.nodes)
			nodes := g.empty(4 * (last + 1))
			check(g, g.CopyIn(nodes, binio.Bytes([]uint32{0})))
			behind := append(make([]cuda.Buffer, 0, 5), nodes.Slice(int64(4*last), 4))
			for k := range s.hops {
				h := &s.hops[k]
				h.Nodes = nodes.Slice(0, int64(4*last))
				room, more := g.empty(4*(c.edges[k]+1)), g.empty(4*(c.nodes[k]+2))
				h.Indices, h.Indptr = room.Slice(0, int64(4*c.edges[k])), more.Slice(0, int64(4*(c.nodes[k]+1)))
				behind = append(behind, room.Slice(int64(4*c.edges[k]), 4), more.Slice(int64(4*(c.nodes[k]+1)), 4))
			}
			s.Nodes = nodes.Slice(0, int64(4*last))
			if wrong := s.draw(g, 1); wrong != c.wrong {
				t.Errorf("room for %v edges, %v nodes: wrong %d, want %d", c.edges, c.nodes, wrong, c.wrong)
			}
			identical(g, "counts", get[uint32](g, s.counts), c.counts)
			for _, b := range behind {
				identical(g, "behind the room", get[uint32](g, b), []uint32{0xFFFFFFFF})
			}
		}
	})
}

// TestSampleSeedsTwice: a seed node that is listed twice is noticed, wherever.
func TestSampleSeedsTwice(t *testing.T) {
	byDefinition(t, func(g *gpu) {
		const nodes = 3000
		of := newRandom(1).csc(nodes, 0)
		for _, at := range []int{1, 31, 1023, 1024, nodes - 2} {
			g.reset()
			seeds := newRandom(2).indices(nodes-1, 1)
			for i := range seeds {
				seeds[i] = uint32(i)
			}
			s := g.sampling(of, seeds, nil, nil, nil, []int{nodes - 1}, none, false)
			if wrong := s.draw(g, len(seeds)); wrong != 0 {
				t.Errorf("different seed nodes are wrong: %d", wrong)
			}
			seeds[at] = 0
			s = g.sampling(of, seeds, nil, nil, nil, []int{nodes - 1}, none, false)
			if wrong := s.draw(g, len(seeds)); wrong != kernels.SampleTwice {
				t.Errorf("node 0 is also seed node %d: wrong %d", at, wrong)
			}
		}
	})
}

// TestSampleTableBytes: entries are a power of two, of which four fifths are enough.
func TestSampleTableBytes(t *testing.T) {
	for most, entries := range map[int]int64{0: 512, 409: 512, 410: 1024, 819: 1024, 820: 2048} {
		if n := kernels.SampleTableBytes(most); n != 8*entries {
			t.Errorf("%d: %d bytes, want %d entries", most, n, entries)
		}
	}
}
