package gpu

import (
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
)

// resolveBuckets checks that buckets grow, up to the sizes.
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

// checkSizes makes sure that buffers follow from the sizes.
func checkSizes(layers int, s graph.Sizes) error {
	if err := engine.CheckSizes(layers, s); err != nil {
		return err
	}
	for l := range layers {
		if s.Dst[l] < 1 || s.Dst[l] > s.Src[l] {
			return fault.New(fault.ErrUsage, "gpu: %d destinations of %d sources at layer %d", s.Dst[l], s.Src[l], l)
		}
	}
	return nil
}

// joined returns the sizes with as many sources of a layer as the one below it has rows.
func joined(s graph.Sizes) graph.Sizes {
	s.Src = slices.Clone(s.Src)
	for l := range s.Src[1:] {
		s.Src[l+1] = s.Dst[l]
	}
	return s
}

// holds reports whether what fits the smaller sizes fits the larger ones.
func holds(larger, smaller graph.Sizes) bool {
	for l := range larger.Src {
		if smaller.Src[l] > larger.Src[l] || smaller.Dst[l] > larger.Dst[l] || smaller.Edges[l] > larger.Edges[l] {
			return false
		}
	}
	return true
}

// fits reports whether a batch has no more than the sizes.
func fits(b *graph.Batch, s graph.Sizes) bool {
	for l := range b.Blocks {
		k := &b.Blocks[l]
		if k.NumSrc > s.Src[l] || k.NumDst > s.Dst[l] || len(k.Indices) > s.Edges[l] {
			return false
		}
	}
	return true
}
