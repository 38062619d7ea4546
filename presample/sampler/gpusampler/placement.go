package gpusampler

import (
	"math"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/internal/binio"
)

// Placement says in which memory the GPU reads the parts of a topology: the record of a node, which says where
// its list of in-neighbours lies, and the lists themselves.
//
//	                      records       lists
//	all fit               GPU           GPU
//	only the records fit  GPU           pinned in RAM, and the chosen ones also on the GPU, which are read there
//	nothing fits          pinned in RAM pinned in RAM
//
// Batches do not depend on it.
type Placement struct {
	GPU, RAM int64   // bytes of device memory, and of pinned memory of the host
	Lists    int64   // number of lists in device memory
	Share    float64 // of the counted draws, from lists in device memory

	all    bool // all lists are in device memory; otherwise lists are chosen by their keys
	draws  []uint32
	fanout int64
	room   int64  // for lists in device memory, in edges
	edges  int64  // of the lists in device memory
	least  uint32 // lists with larger keys are chosen
	rest   int64  // room for lists with this key, in edges
}

// recordBytes returns the size of the records, rounded up so that lists after them are aligned.
func recordBytes(nodes int) int64 {
	return binio.AlignUp(kernels.SampleRecord*int64(nodes), cuda.Align)
}

func listBytes(edges int64) int64 { return binio.AlignUp(4*edges, cuda.Align) }

// Choose divides a graph between device memory, of which it may take room bytes, and pinned memory. draws is the
// number of draws from each node's list, which the placement keeps and the caller must not change; fanout is the
// widest hop, or 0 if draws take whole lists. Without draws no list is chosen. Choose reads the index pointers twice,
// and takes half a MiB until it returns.
//
// It chooses lists by the bytes that their draws move over the bus, for a byte of device memory. The bus moves
// sectors of 32 bytes: a draw moves one for each drawn neighbour, but no more than the list has. Keys are these
// quotients, rounded to 8 bits. Lists with larger keys come first, then lower nodes. The last key's lists are
// chosen as far as they fit. A list larger than the whole room, or without draws, is not chosen.
func Choose(g *graph.CSC, draws []uint32, fanout int, room int64) *Placement {
	nodes, edges := g.NumNodes(), int64(len(g.Indices))
	p := &Placement{draws: draws, fanout: int64(fanout)}
	records := recordBytes(nodes)
	switch {
	case records+listBytes(edges) <= room:
		p.all, p.edges = true, edges
		p.GPU, p.Lists, p.Share = records+listBytes(edges), int64(nodes), 1
		return p
	case records > room:
		p.RAM = binio.AlignUp(records+4*edges, device.PageSize)
		return p
	}
	p.room = (room - records) / cuda.Align * (cuda.Align / 4)
	p.choose(g)
	return p
}

// key returns the rank of a node's list among those that may be chosen, or 0 if it is not to be chosen.
func (p *Placement) key(v int, degree int64) uint32 {
	if p.draws == nil || degree == 0 || degree > p.room {
		return 0
	}
	sectors := degree/8 + 1
	if p.fanout > 0 {
		sectors = min(sectors, p.fanout)
	}
	return math.Float32bits(float32(p.draws[v])*float32(sectors)/float32(degree)) >> 16 // ascends with the quotient
}

// choose chooses the lists within the room, and counts the memory.
func (p *Placement) choose(g *graph.CSC) {
	sums := make([]int64, 1<<16) // by key: the edges of the lists
	for v := range g.NumNodes() {
		n := g.Indptr[v+1] - g.Indptr[v]
		sums[p.key(v, n)] += n
	}
	p.least, p.rest = math.MaxUint16, p.room
	for p.least > 0 && sums[p.least] <= p.rest {
		p.rest -= sums[p.least]
		p.least--
	}
	near, drawn, all := p.near(), 0.0, 0.0
	for v := range g.NumNodes() {
		n := g.Indptr[v+1] - g.Indptr[v]
		if p.draws == nil || n == 0 {
			continue
		}
		all += float64(p.draws[v])
		if near(v, n) {
			p.Lists, p.edges, drawn = p.Lists+1, p.edges+n, drawn+float64(p.draws[v])
		}
	}
	p.Share = drawn / max(all, 1)
	p.GPU, p.RAM = recordBytes(g.NumNodes())+listBytes(p.edges), binio.AlignUp(4*int64(len(g.Indices)), device.PageSize)
}

// near returns a function that reports whether a node's list is in device memory. Call it with the nodes in
// ascending order; nodes without in-neighbours may be left out.
func (p *Placement) near() func(v int, degree int64) bool {
	rest := p.rest
	return func(v int, degree int64) bool {
		if p.all {
			return true
		}
		key := p.key(v, degree)
		if key != p.least || key == 0 || degree > rest {
			return key > p.least
		}
		rest -= degree
		return true
	}
}
