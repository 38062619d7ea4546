package pack

import (
	"diskgnn/graph"
	"diskgnn/internal/binio"
)

// trainMin renumbers a sampled training batch in place for the policy min: [passing
// by, by ascending node id | admitted, likewise | hits by ascending slot]. codes are
// those of the batch's nodes in ascending order. Input becomes ranks; the rows of both
// bands, the chunk's node ids and the plan are left in r.
func (r *renumberer) trainMin(b *graph.Batch, codes []uint32) {
	n := len(b.Input)
	r.grow(n)
	for i, v := range b.Input {
		r.key[i] = uint64(v)
	}
	r.sort(n)
	r.plan.Admit = r.plan.Admit[:0]
	for i, code := range codes {
		switch {
		case code&codeHit != 0:
			r.key[i] = 2<<32 | uint64(code&codeSlot)
		case code&codeAdmit != 0:
			r.key[i] |= 1 << 32
			r.plan.Admit = append(r.plan.Admit, code&codeSlot)
		}
	}
	radixSort(r.key, r.keyTmp, r.val, r.valTmp)
	r.bands, r.ssd = binio.Grow(r.bands, 2), binio.Grow(r.ssd, 2)
	clear(r.ssd)
	var key []uint64
	r.cold, key = takeBands(r.cold, r.bands, r.key[:n], 0)
	r.plan.SSD, r.plan.Hits = r.plan.SSD[:0], r.plan.Hits[:0]
	for _, k := range key {
		r.plan.Hits = append(r.plan.Hits, uint32(k))
	}
	r.apply(b, func(v uint32) uint32 { return r.rank[v] })
}
