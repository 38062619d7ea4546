package pack

import (
	"math"
	"math/bits"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/idset"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
)

// renumberer permutes the input nodes of batches into the pack's order. It holds
// scratch memory and serves one goroutine.
type renumberer struct {
	rank  []uint32   // by node
	edges []int64    // band edges, descending
	hot   int64      // ranks below are in hot.bin, for evaluation
	base  uint32     // the name of the first row of eval.bin: rows of hot.bin
	eval  *idset.Set // nodes of eval.bin
	// shared are the nodes that the batch's segment shares; nil with segments of one
	// batch.
	shared *cut.Segment

	key, keyTmp []uint64
	val, valTmp []uint32
	ranks       []uint32 // of the input nodes, in their old order; in evaluation also places
	pos         []uint32 // new position of every old one
	tmp, dst    []uint32
	classes     []uint32 // first rank of each class of hotness
	bands, ssd  []int    // rows of every band of the chunk, and of the SSD level
	cold        []uint32 // node ids of the chunk's rows, in order
	plan        packfile.Plan
}

// train renumbers a sampled training batch in place: [cold bands, coldest first,
// each by ascending node id | ssd bands by ascending place there | hot by descending rank].
// Input becomes ranks; the rows of each band, the chunk's node ids and the plan are
// left in r.
func (r *renumberer) train(b *graph.Batch) {
	n := len(b.Input)
	r.grow(n)
	bands := len(r.edges)
	r.gather(b.Input)
	for i, v := range b.Input {
		rank := r.ranks[i]
		band := cut.BandOf(r.edges, rank)
		group, place := band, v
		if band == bands {
			group, place = 2*bands, r.coldest()-rank
		} else if r.shared != nil {
			if at, ok := r.shared.Place(v); ok {
				group, place = bands+band, at
			}
		}
		r.key[i] = uint64(group)<<32 | uint64(place)
	}
	r.sort(n)
	r.bands, r.ssd = binio.Grow(r.bands, bands), binio.Grow(r.ssd, bands)
	key := r.key[:n]
	r.cold, key = takeBands(r.cold, r.bands, key, 0)
	r.plan.SSD, _ = takeBands(r.plan.SSD, r.ssd, key, bands)
	r.apply(b)
}

// trainMin renumbers a sampled training batch in place for the policy min: [passing by, by ascending node
// id | admitted, likewise | hits by ascending entry]. codes has the code of each of the batch's nodes, in
// ascending order of the nodes. Input becomes ranks; the rows of both bands, the chunk's node ids and the
// plan are left in r.
func (r *renumberer) trainMin(b *graph.Batch, codes []uint32) {
	n := len(b.Input)
	r.grow(n)
	r.gather(b.Input)
	for i, v := range b.Input {
		r.key[i] = uint64(v)
	}
	r.sort(n)
	r.plan.Admit = r.plan.Admit[:0]
	for i, code := range codes {
		switch {
		case code&cut.Hit != 0:
			r.key[i] = 2<<32 | uint64(code&cut.EntryMask)
		case code&cut.Admit != 0:
			r.key[i] |= 1 << 32
			r.plan.Admit = append(r.plan.Admit, code&cut.EntryMask)
		}
	}
	cut.SortPairs(r.key, r.keyTmp, r.val, r.valTmp)
	r.bands, r.ssd = binio.Grow(r.bands, 2), binio.Grow(r.ssd, 2)
	clear(r.ssd)
	var key []uint64
	r.cold, key = takeBands(r.cold, r.bands, r.key[:n], 0)
	r.plan.SSD, r.plan.Hits = r.plan.SSD[:0], r.plan.Hits[:0]
	for _, k := range key {
		r.plan.Hits = append(r.plan.Hits, uint32(k))
	}
	r.apply(b)
}

// append appends the graph of the training batch that was renumbered last, and its sections to parts.
func (r *renumberer) append(dst []byte, parts []packfile.Section, b *graph.Batch) ([]byte, []packfile.Section) {
	return packfile.AppendTrainGraph(dst, parts, b, r.bands, r.ssd, &r.plan, r.classes)
}

// takeBands takes the groups from first on off the front of key. It counts the rows of each group in bands,
// collects their places in the memory of places, and returns the places and the rest of key.
func takeBands(places []uint32, bands []int, key []uint64, first int) ([]uint32, []uint64) {
	clear(bands)
	places = places[:0]
	for _, k := range key {
		band := int(k>>32) - first
		if band >= len(bands) {
			break
		}
		bands[band]++
		places = append(places, uint32(k))
	}
	return places, key[len(places):]
}

// evaluation renumbers a sampled evaluation batch in place: [eval rows by
// ascending place in eval.bin | hot by descending rank], and returns the number of eval rows.
func (r *renumberer) evaluation(b *graph.Batch) int {
	n := len(b.Input)
	r.grow(n)
	rows := 0
	r.gather(b.Input)
	for i, v := range b.Input {
		if rank := r.ranks[i]; int64(rank) < r.hot {
			r.key[i] = 1<<32 | uint64(r.coldest()-rank)
		} else {
			r.key[i] = uint64(v) // places ascend with node ids
			r.ranks[i] = r.base + r.eval.Place(v)
			rows++
		}
	}
	r.sort(n)
	r.apply(b)
	return rows
}

func (r *renumberer) grow(n int) {
	r.key, r.keyTmp = binio.Grow(r.key, n), binio.Grow(r.keyTmp, n)
	r.val, r.valTmp = binio.Grow(r.val, n), binio.Grow(r.valTmp, n)
	r.pos, r.tmp, r.ranks = binio.Grow(r.pos, n), binio.Grow(r.tmp, n), binio.Grow(r.ranks, n)
}

// sort orders the first n of r.key: groups of at most 8 bits above places of 32. It leaves the old position of each key
// in r.val. The position is sorted as the low bits of the key, if there is room.
func (r *renumberer) sort(n int) {
	key, all := r.key[:n], uint64(0)
	for _, k := range key {
		all |= k
	}
	place, index := bits.Len32(uint32(all)), bits.Len(uint(max(n-1, 0)))
	if width := place + bits.Len64(all>>32); width+index <= 64 {
		for i, k := range key {
			key[i] = (k>>32<<place|k&math.MaxUint32)<<index | uint64(i)
		}
		cut.SortKeys(key, r.keyTmp, index, index+width)
		for i, k := range key {
			r.val[i] = uint32(k & (1<<index - 1))
			k >>= index
			key[i] = k>>place<<32 | k&(1<<place-1)
		}
		return
	}
	for i := range r.val[:n] {
		r.val[i] = uint32(i)
	}
	cut.SortPairs(key, r.keyTmp, r.val, r.valTmp)
}

// gather collects the ranks of nodes in r.ranks. The loop has nothing else, so that the processor has several cache
// misses in flight.
func (r *renumberer) gather(nodes []uint32) {
	ranks := r.ranks[:len(nodes)]
	for i, v := range nodes {
		ranks[i] = r.rank[v]
	}
}

// coldest returns the largest rank.
func (r *renumberer) coldest() uint32 { return uint32(len(r.rank) - 1) }

// types sets the type of every input node in the new order, if the graph is typed.
func (r *renumberer) types(b *graph.Batch) {
	if b.Types == nil {
		return
	}
	b.InputTypes = binio.Grow(b.InputTypes, len(b.Input))
	for i, old := range r.val[:len(b.Input)] {
		b.InputTypes[i] = uint32(b.Types.OfFeatureRow(b.Input[old]))
	}
}

// apply permutes b by r.val. The input nodes become r.ranks.
func (r *renumberer) apply(b *graph.Batch) {
	n := len(b.Input)
	r.types(b)
	for i, old := range r.val[:n] {
		r.pos[old] = uint32(i)
		b.Input[i] = r.ranks[old]
	}
	k := &b.Blocks[0]
	if b.Types == nil {
		for i, old := range r.val[:n] {
			r.tmp[i] = b.Degree[old]
		}
		copy(b.Degree, r.tmp)
	} else {
		k.Ends = nil
	}
	for e, s := range k.Indices {
		k.Indices[e] = r.pos[s]
	}
	if k.Dst == nil {
		r.dst = append(r.dst[:0], r.pos[:k.NumDst]...)
		k.Dst = r.dst // until the next batch
		return
	}
	for i, s := range k.Dst {
		k.Dst[i] = r.pos[s]
	}
}
