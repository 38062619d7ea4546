package plain

import (
	"math/rand/v2"
	"slices"
	"testing"

	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/graph/batchcodec"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/binio"
)

// FuzzUnpack: for all bytes that batchcodec leaves in bits, the twins find a fault exactly where batchcodec and the check of a
// block do, and otherwise decode the same block.
func FuzzUnpack(f *testing.F) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := graphtest.Shape{Seeds: 1 + rng.IntN(20), Classes: 2, Layers: 1 + rng.IntN(2), MaxDegree: 9, Fresh: rng.IntN(40), Scatter: seed%2 == 0}
		f.Add(batchcodec.AppendBlocks(nil, s.Batch(rng)))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var left, decoded graph.Batch
		d := binio.NewDecoder(raw)
		batchcodec.BlocksInBits(d, &left)
		if d.Err() != nil || slices.ContainsFunc(left.Blocks, func(k graph.Block) bool { return k.Validate() != nil }) {
			return
		}
		d = binio.NewDecoder(raw)
		batchcodec.Blocks(d, &decoded)
		refused := d.Err() != nil
		found := false
		for l := range left.Blocks {
			k := &left.Blocks[l]
			got, wrong := unpack(k)
			found = found || wrong != 0
			if d.Err() != nil {
				continue
			}
			if want := &decoded.Blocks[l]; (want.Validate() != nil) != (wrong != 0) {
				t.Fatalf("layer %d: %q, but on the host %v", l, kernels.Wrong(wrong), want.Validate())
			} else if wrong == 0 && (!slices.Equal(got.Indptr, want.Indptr) || !slices.Equal(got.Indices, want.Indices) || !slices.Equal(got.Dst, want.Dst)) {
				t.Fatalf("layer %d: %v, want %v", l, got, want)
			}
		}
		if refused && !found {
			t.Fatalf("no fault, but on the host %v", d.Err())
		}
	})
}

// unpack decodes a block.
func unpack(k *graph.Block) (b *graph.Block, wrong uint32) {
	var shape kernels.Shape
	bits := kernels.BitsBlock{Sources: k.NumSrc, Destinations: k.NumDst, Edges: k.Bits.Edges,
		Arrays: [3]kernels.Bits{kernels.Bits(k.Bits.Counts), kernels.Bits(k.Bits.Indices), kernels.Bits(k.Bits.Dst)}}
	words := make([]uint32, bits.Words())
	shape.Lay(&bits, 0)
	for i, a := range bits.Arrays {
		copy(binio.Bytes(words)[4*shape[kernels.ShapeCountsAt+i]:], a.Bytes)
	}
	b = &graph.Block{Indptr: make([]uint32, k.NumDst+1), Indices: make([]uint32, k.Bits.Edges)}
	UnpackIndptr(b.Indptr, nil, words, shape[:], k.NumDst)
	UnpackSources(b.Indices, words, shape[:], k.Bits.Edges)
	if k.Scattered() {
		b.Dst = make([]uint32, k.NumDst)
		UnpackPlaces(b.Dst, nil, words, shape[:], k.NumDst)
	}
	return b, shape[kernels.ShapeWrong]
}
