package pack

import (
	"diskgnn/internal/stage"
	"diskgnn/pack/packfile"
)

// A shard packs whole groups of batches, and the first of them what the pack has once.
// What decides where a group ends and which rows it stores, every shard finds for
// itself: ranks, edges, segments, and under policy min what becomes of every access.

// part returns what of the pack is made here, once the segments are settled.
func (p *packing) part() packfile.Part { return packfile.PartOf(p.o.Shard, &p.facts) }

// spec returns what decides the directory's bytes.
func (p *packing) spec() (stage.Spec, error) { return p.o.Shard.Spec(p.whole()) }

// planned returns the facts that memory is planned by: only one shard holds hot rows.
func (p *packing) planned() *packfile.Facts {
	f := p.facts
	if !p.part().Common {
		f.HotRows = 0
	}
	return &f
}

// share returns about how many of the bytes of all training batches are of those
// packed here: batches are alike.
func (p *packing) share(bytes int64) int64 {
	if p.o.Shard.Whole() {
		return bytes
	}
	lo, hi := p.part().Batches(&p.facts)
	return int64(float64(bytes) * float64(hi-lo) / float64(max(p.facts.Train, 1)))
}

// ownNeed returns about what is written here of a pack that takes so many bytes.
func (p *packing) ownNeed(whole int64) int64 {
	f := &p.facts
	once := (f.HotRows + f.EvalRows) * int64(f.RowBytes)
	if p.params.Policy == packfile.PolicyMin {
		once += refills(f.Train) * 8 * f.HotRows
	}
	own := p.share(whole - once)
	if p.part().Common {
		own += once
	}
	return own
}

// samplesRead returns the bytes of the batches packed here.
func (p *packing) samplesRead() int64 {
	s, part := p.samples.Facts(), p.part()
	if p.o.Shard.Whole() {
		return s.Train.Bytes + s.Eval.Bytes
	}
	n := int64(0)
	lo, hi := part.Batches(&p.facts)
	for i := lo; i < hi; i++ {
		n += p.samples.Info(i).Size
	}
	if part.Common {
		n += s.Eval.Bytes
	}
	return n
}
