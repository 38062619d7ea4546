package mbfile

import (
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/shard"
)

// orders are those that batches were ever drawn in; package sampler defines them.
var orders = []string{"random", "overlap", Dispersed, Sequential}

// verifyParams checks the parameters as far as the index implies them: every batch is full but the
// last of an epoch or a split. The seed, the sampler's version and method, which order it is and the
// training ratio show in nothing but the draws, which the dataset alone would repeat.
func (r *Reader) verifyParams() error {
	p, f := &r.params, &r.facts
	bad := func(format string, args ...any) error { return fault.New(fault.ErrCorrupt, format, args...) }
	switch {
	case !slices.Contains(orders, p.Order):
		return bad("the order of its batches, %.20q, is unknown", p.Order)
	case !(p.TrainRatio > 0 && p.TrainRatio <= 1):
		return bad("its training ratio is %v, not above 0 and up to 1", p.TrainRatio)
	}
	if _, part := r.meta.Format.Whole(); part {
		var of struct {
			Shard string `json:"shard"`
		}
		if err := r.meta.DecodeParams(&of); err != nil {
			return err
		}
		s, err := shard.Parse(of.Shard)
		if err != nil || s.String() != of.Shard {
			return bad("its shard is %.20q, which is not of the form i/n", of.Shard)
		}
		if first, train := f.FirstFile*r.index.perFile, f.Epochs*f.BatchesPerEpoch; f.ValidBatches+f.TestBatches > 0 && max(first, train) != first+f.TrainBatches {
			return bad("it has evaluation batches, but its %d training batches from batch %d on do not end with the last of %d", f.TrainBatches, first, train)
		}
	}
	if p.Partitions > 0 {
		return nil // partitions end batches too
	}
	for i := range f.Batches() {
		if b := r.index.info(i); b.Seeds() != p.BatchSize && !r.endsSplit(i) {
			return bad("batch %d has %d seed nodes instead of %d", i, b.Seeds(), p.BatchSize)
		}
	}
	return nil
}

// endsSplit reports whether a batch may be the last of an epoch, of validation or of test.
func (r *Reader) endsSplit(i int) bool {
	f := &r.facts
	switch {
	case i < f.TrainBatches:
		first := f.FirstFile * r.index.perFile
		return (first+i)%f.BatchesPerEpoch == f.BatchesPerEpoch-1
	case i < f.TrainBatches+f.ValidBatches:
		return i == f.TrainBatches+f.ValidBatches-1
	}
	return i == f.Batches()-1
}

// verifyDrawn checks that every destination of a batch has the number of neighbours that it must draw:
// all, or the fanout if that is less. With a buffer of partitions, and in a typed graph, it may have fewer.
func (r *Reader) verifyDrawn(i int, b *graph.Batch) error {
	fanout := r.params.Fanout
	if i >= r.facts.TrainBatches {
		fanout = r.params.EvalFanout
	}
	if b.Types != nil {
		return r.checkRows(i, b, fanout)
	}
	atMost := r.params.Partitions > 0
	return b.Drawn(func(layer, dst int, edges, degree uint32) error {
		want := degree
		if n := fanout[layer]; n != AllNeighbours {
			want = min(want, uint32(n))
		}
		if edges == want || atMost && edges < want {
			return nil
		}
		return fault.New(fault.ErrCorrupt, "batch %d: destination %d of layer %d has drawn %d of %d neighbours, but the fanout is %d", i, dst, layer, edges, degree, fanout[layer])
	})
}

// checkRows checks that no row of a typed batch has more neighbours than it may draw. Typed batches have no degrees.
func (r *Reader) checkRows(i int, b *graph.Batch, fanout []int) error {
	by := r.params.ByRelation(b.Types, i >= r.facts.TrainBatches)
	var relations []int // of the rows of a layer
	return b.DrawnRows(func(layer, row int, edges uint32) error {
		most := fanout[layer]
		if by != nil {
			if row == 0 {
				relations = b.Types.RowRelations(relations, b.DstEnds(layer))
			}
			most = by[relations[row]][layer]
		}
		if most != AllNeighbours && edges > uint32(most) {
			return fault.New(fault.ErrCorrupt, "batch %d: row %d of layer %d has drawn %d neighbours, but the fanout is %d", i, row, layer, edges, most)
		}
		return nil
	})
}
