package prepare

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/train/model"
)

// plainTransposed transposes by looking for every source's edges.
func plainTransposed(src int, indptr, indices []uint32) (t transposed) {
	of := make([][][2]uint32, src)
	for d := range len(indptr) - 1 {
		for e := indptr[d]; e < indptr[d+1]; e++ {
			of[indices[e]] = append(of[indices[e]], [2]uint32{uint32(d), e})
		}
	}
	t.indptr = []uint32{0}
	for _, list := range of {
		for _, x := range list {
			t.indices, t.edges = append(t.indices, x[0]), append(t.edges, x[1])
		}
		t.indptr = append(t.indptr, uint32(len(t.edges)))
	}
	return t
}

// plainLooped drops edges from nodes to themselves, and adds one at the end.
func plainLooped(b *graph.Block) Looped {
	q := Looped{Indptr: []uint32{0}}
	for i := range b.NumDst {
		self := uint32(b.DstPos(i))
		for _, s := range b.Indices[b.Indptr[i]:b.Indptr[i+1]] {
			if s != self {
				q.Indices = append(q.Indices, s)
			}
		}
		q.Indices = append(q.Indices, self)
		q.Indptr = append(q.Indptr, uint32(len(q.Indices)))
	}
	t := plainTransposed(b.NumSrc, q.Indptr, q.Indices)
	q.TIndptr, q.TIndices, q.TEdges = t.indptr, t.indices, t.edges
	return q
}

// plainWeights computes every weight by its formula.
func plainWeights(m *model.Model, b *graph.Batch, l int) (w Block) {
	k := &b.Blocks[l]
	count := func(i int) float64 { return float64(k.Indptr[i+1] - k.Indptr[i]) }
	degree := func(i int) float64 {
		if l > 0 {
			i = b.Blocks[0].DstPos(i)
		}
		return float64(b.Degree[i])
	}
	out := make([]float64, k.NumSrc)
	for _, s := range k.Indices {
		out[s]++
	}
	for i := range k.NumDst {
		out[k.DstPos(i)]++
	}
	for s := range k.NumSrc {
		switch {
		case m.Kind == model.GCN && m.GCNNorm == model.BlockNorm:
			w.Src = append(w.Src, float32(1/math.Sqrt(max(1, out[s]))))
		case m.Kind == model.GCN:
			w.Src = append(w.Src, float32(1/math.Sqrt(degree(s)+1)))
		}
	}
	for i := range k.NumDst {
		d, n := degree(k.DstPos(i)), count(i)
		switch {
		case m.Kind == model.GCN && m.GCNNorm == model.BlockNorm:
			w.Dst = append(w.Dst, float32(1/math.Sqrt(n+1)))
			w.Own = append(w.Own, w.Dst[i]*w.Src[k.DstPos(i)])
		case m.Kind == model.GCN:
			w.Dst = append(w.Dst, float32(d/(max(1, n)*math.Sqrt(d+1))))
			w.Own = append(w.Own, float32(1/(d+1)))
		case m.Kind == model.SAGE && n > 0:
			w.Dst = append(w.Dst, 1/float32(n))
		case m.Kind == model.SAGE:
			w.Dst = append(w.Dst, 0)
		}
	}
	return w
}

// All that is derived has the bits of the plain twins, whatever was derived before.
func TestPlainTwins(t *testing.T) {
	var kept Prepared
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		b := graphtest.Shape{Seeds: rng.IntN(9) + 1, Classes: 3, Layers: rng.IntN(3) + 1, MaxDegree: rng.IntN(30),
			Fresh: rng.IntN(12), Scatter: rng.IntN(2) == 0}.Batch(rng)
		if rng.IntN(5) == 0 {
			b.Degree[0] = 1 << 20 // beyond what is tabulated
		}
		m := rapid.SampledFrom([]model.Model{{Kind: model.SAGE}, {Kind: model.GCN}, {Kind: model.GCN, GCNNorm: model.BlockNorm}, {Kind: model.GAT, Heads: 1}}).Draw(t, "model")
		m.Dims = slices.Repeat([]int{3}, len(b.Blocks)+1)
		r := New(&m, make([]model.Order, len(b.Blocks)), graphtest.Roomy(b), true)
		r.TransposeAll()
		p := &kept
		if rng.IntN(2) == 0 {
			p = new(Prepared)
		}
		if err := r.Prepare(p, b); err != nil {
			t.Fatal(err)
		}
		for l := range b.Blocks {
			k, got := &b.Blocks[l], &p.Blocks[l]
			want := plainWeights(&m, b, l)
			if m.Kind != model.GAT && !slices.Equal(got.Dst, want.Dst) {
				t.Errorf("weights of destinations: %v, want %v", got.Dst, want.Dst)
			}
			if m.Kind == model.GCN && (!slices.Equal(got.Src, want.Src) || !slices.Equal(got.Own, want.Own)) {
				t.Errorf("weights of sources: %v and %v, want %v and %v", got.Src, got.Own, want.Src, want.Own)
			}
			if m.Kind == model.GAT {
				if want := plainLooped(k); !reflect.DeepEqual(got.Looped, want) {
					t.Errorf("%+v, want %+v", got.Looped, want)
				}
				continue
			}
			if want := plainTransposed(k.NumSrc, k.Indptr, k.Indices); !slices.Equal(got.TIndptr, want.indptr) || !slices.Equal(got.TIndices, want.indices) {
				t.Errorf("transposed: %v and %v, want %v", got.TIndptr, got.TIndices, want)
			}
		}
	})
}

// A sorter builds and transposes as its plain twin does, also blocks so small that it is
// never asked to.
func TestSorter(t *testing.T) {
	o := new(sorter) // with what earlier blocks left
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		b := graphtest.Shape{Seeds: rng.IntN(200) + 1, Classes: 2, Layers: 1, MaxDegree: rng.IntN(30),
			Fresh: rng.IntN(2000), Scatter: rng.IntN(2) == 0}.Batch(rng)
		k := &b.Blocks[0]
		for e := range k.Indices { // loops, and sources that feed many
			if rng.IntN(8) == 0 {
				k.Indices[e] = uint32(k.DstPos(rng.IntN(k.NumDst)))
			}
		}
		n := len(k.Indices) + k.NumDst
		o.records = make([]uint64, n)
		got := Looped{Indptr: make([]uint32, k.NumDst+1), Indices: make([]uint32, n)}
		got.Indices = got.Indices[:o.build(&got, k)]
		n = len(got.Indices)
		to := transposed{make([]uint32, k.NumSrc+2), make([]uint32, n), make([]uint32, n)}
		got.TIndptr, got.TIndices, got.TEdges = o.transpose(to), to.indices, to.edges
		if want := plainLooped(k); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

// Large blocks of GAT pass through the sorter, whose memory is counted.
func TestSorterIsUsed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	b := graphtest.Shape{Seeds: 1000, Classes: 2, Layers: 1, MaxDegree: 9, Fresh: fewSources, Scatter: true}.Batch(rng)
	var s graph.Sizes
	s.Cover(b)
	m := model.Model{Kind: model.GAT, Heads: 1, Dims: []int{2, 2}}
	r := New(&m, []model.Order{model.Multiply}, s, true)
	p := new(Prepared)
	if err := r.Prepare(p, b); err != nil {
		t.Fatal(err)
	}
	if want := plainLooped(&b.Blocks[0]); !reflect.DeepEqual(p.Blocks[0].Looped, want) {
		t.Error("the looped block differs from the plain one")
	}
	if n := len(b.Blocks[0].Indices) + b.Blocks[0].NumDst; p.sorter[0].to == [buckets]uint32{} || r.SortingBytes() != int64(8*n)+int64(unsafe.Sizeof(sorter{})) {
		t.Errorf("%d bytes for sorting %d edges", r.SortingBytes(), n)
	}
	if a := testing.AllocsPerRun(2, func() { _ = r.Prepare(p, b) }); a != 0 {
		t.Errorf("%v allocations", a)
	}
}
