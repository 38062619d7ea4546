package gpu

import (
	"slices"

	"diskgnn/device/cuda"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// plan is a model for batches of some sizes.
type plan struct {
	model    *model.Model
	layout   model.Layout
	sizes    graph.Sizes   // that buffers are made for
	buckets  []graph.Sizes // sizes of launches, ascending: a batch uses the first that holds it; the last is sizes
	orders   []model.Order
	training bool
	inBits   bool // blocks come in bits, and the device decodes them
	lossKind model.Loss
	sums     bool // the loss is a sum over seed nodes, not a mean; the update includes running statistics
	preparer *prepare.Preparer
}

// seeds returns the most seed nodes of a batch.
func (p *plan) seeds() int { return p.sizes.Dst[len(p.sizes.Dst)-1] }

// projects reports whether there is an input projection.
func (p *plan) projects() bool { return p.model.InputProjection > 0 }

// Decodes reports whether the engine can decode the blocks of batches for a model (engine.Config.InBits). Weights by the degrees
// in a block, the order of an input projection's rows, and the rows of typed blocks are derived by the host from decoded blocks.
func Decodes(m *model.Model) bool {
	return m.InputProjection == 0 && m.Weighing() != model.ByBlock && m.Types == nil
}

// parsePrecision returns the precision with this name; "" is float32.
func parsePrecision(name string) (cuda.Precision, bool) {
	if name == "" {
		return cuda.Full, true
	}
	for _, p := range []cuda.Precision{cuda.Full, cuda.TF32, cuda.BF16} {
		if p.String() == name {
			return p, true
		}
	}
	return 0, false
}

// resolveBuckets checks that buckets ascend, up to the sizes.
func resolveBuckets(o *engine.Config) error {
	o.Buckets = slices.Clone(o.Buckets)
	for i, b := range o.Buckets {
		if err := checkSizes(o.Network.Layers(), b); err != nil {
			return err
		}
		if o.Buckets[i] = joined(b); !holds(o.Sizes, o.Buckets[i]) || i > 0 && !holds(o.Buckets[i], o.Buckets[i-1]) {
			return fault.New(fault.ErrUsage, "gpu: bucket %d of %d is smaller than the one before it, or larger than the sizes", i, len(o.Buckets))
		}
	}
	return nil
}

// checkSizes checks the sizes from which buffers are computed.
func checkSizes(layers int, s graph.Sizes) error {
	if err := engine.CheckSizes(layers, s); err != nil {
		return err
	}
	for l := range layers {
		if s.Dst[l] < 1 || s.Dst[l] > s.Src[l] && s.Rows == nil {
			return fault.New(fault.ErrUsage, "gpu: sizes with %d destinations and %d sources at layer %d", s.Dst[l], s.Src[l], l)
		}
	}
	return nil
}

// joined returns the sizes in which every layer has one source for each row of the layer below.
func joined(s graph.Sizes) graph.Sizes {
	s.Src = slices.Clone(s.Src)
	for l := range s.Src[1:] {
		s.Src[l+1] = s.Dst[l]
	}
	return s
}

// holds reports whether every batch within the smaller sizes is within the larger ones.
func holds(larger, smaller graph.Sizes) bool {
	for l := range larger.Src {
		if smaller.Src[l] > larger.Src[l] || smaller.Dst[l] > larger.Dst[l] || smaller.Edges[l] > larger.Edges[l] || smaller.RowsOf(l) > larger.RowsOf(l) {
			return false
		}
	}
	return true
}

// fits reports whether a batch is within the sizes.
func fits(b *graph.Batch, s graph.Sizes) bool {
	for l := range b.Blocks {
		k := &b.Blocks[l]
		if k.NumSrc > s.Src[l] || k.NumDst > s.Dst[l] || k.NumEdges() > s.Edges[l] || b.Types != nil && k.NumRows() > s.RowsOf(l) {
			return false
		}
	}
	return true
}
