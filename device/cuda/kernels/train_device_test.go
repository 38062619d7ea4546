package kernels_test

import (
	"math"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/device/cuda/kernels/plain"
	"diskgnn/internal/kernel"
)

var activations = map[string]kernels.Activation{"identity": kernels.Identity, "relu": kernels.ReLU, "elu": kernels.ELU}

func TestTailOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, width, rows int) {
		for name, activation := range activations {
			for _, rate := range []float64{0, 0.5, kernel.MaxDropout} {
				g.reset()
				d := plain.Dropout{Rate: kernel.NewDropout(rate), Stream: kernel.NewStream(r.Uint64(), 0, 3, 1)}
				count := most(g, rows)
				if r.IntN(2) == 0 {
					d.IDs = r.indices(count.Most, 1<<30)
				}
				dropout := kernels.Dropout{Rate: d.Rate, Stream: put(g, []uint64{uint64(d.Stream)}), IDs: put(g, d.IDs)}
				z, bias := r.floats(count.Most*width), r.floats(width)
				f := kernels.Tail{Z: put(g, z), Width: width, Bias: put(g, bias), Activation: activation, Dropout: dropout, Rows: count}
				check(g, f.Launch(g.Stream))
				plain.Tail(z, width, bias, activation, &d, rows)
				same(g, name, get[float32](g, f.Z), z)

				grads := r.floats(count.Most * width)
				b := kernels.TailBackward{G: put(g, grads), Y: f.Z, Width: width, Sums: g.empty(4 * width * kernels.SumRows(count.Most)),
					DBias: g.empty(4 * width), Activation: activation, Dropout: dropout, Rows: count}
				check(g, b.Launch(g.Stream))
				sums := plain.TailBackward(grads, z, width, activation, &d, rows, count.Most)
				plain.ZeroPadding(grads, width, width, rows, count.Most)
				same(g, name+" backward", get[float32](g, b.G), grads)
				same(g, name+" sums", get[float32](g, b.DBias), sums)
			}
		}
	})
}

func TestCrossEntropyOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, classes, rows int) {
		for _, smoothing := range []float64{0, 0.1} {
			g.reset()
			count := most(g, rows)
			z, labels := r.floats(count.Most*classes), make([]int32, count.Most)
			for i := range labels {
				labels[i] = int32(r.IntN(classes+1)) - 1 // −1: unlabelled
			}
			if rows > 3 && classes > 1 {
				z[classes] = z[classes+1] // of equals the first counts
			}
			inverse := 1 / float32(max(1, rows))
			a := kernels.CrossEntropy{G: g.empty(4 * len(z)), Z: put(g, z), Classes: classes, Labels: put(g, labels), Inverse: put(g, []float32{inverse}),
				Smoothing: smoothing, RowLoss: g.empty(8 * count.Most), Right: g.empty(4 * count.Most), Score: g.empty(kernels.ScoreBytes), Rows: count}
			check(g, a.Launch(g.Stream))
			want := nans(len(z))
			loss, right := plain.CrossEntropy(want, z, classes, labels, inverse, smoothing, rows)
			compareLoss(g, a, rows*classes, want, loss, right)
		}
	})
}

// compareLoss compares what a loss has stored, of whose gradients n are of rows that
// there are, with its twin's.
func compareLoss(g *gpu, a kernels.CrossEntropy, n int, want []float32, loss float64, right int) {
	g.Helper()
	got := get[float32](g, a.G)
	same(g, "beyond the rows", got[n:], want[n:])
	near(g, "gradients", got[:n], want[:n], 1e-7)
	gotLoss, gotRight := kernels.Score(get[uint8](g, a.Score))
	if gotRight != right || !(math.Abs(gotLoss-loss) <= 1e-12*max(1, math.Abs(loss))) {
		g.Fatalf("loss %v of which %d right, want %v, %d", gotLoss, gotRight, loss, right)
	}
}

func TestBinaryOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, classes, rows int) {
		count := most(g, rows)
		z, labels, targets := r.floats(count.Most*classes), make([]int32, count.Most), make([]byte, count.Most*((classes+7)/8))
		for i := range labels {
			labels[i] = int32(r.IntN(5)) - 1
		}
		for i := range targets {
			targets[i] = byte(r.Uint32())
		}
		const inverse = 0.25
		a := kernels.Binary{CrossEntropy: kernels.CrossEntropy{G: g.empty(4 * len(z)), Z: put(g, z), Classes: classes, Labels: put(g, labels),
			Inverse: put(g, []float32{inverse}), RowLoss: g.empty(8 * count.Most), Right: g.empty(4 * count.Most), Score: g.empty(kernels.ScoreBytes), Rows: count},
			Targets: put(g, targets)}
		check(g, a.Launch(g.Stream))
		want := nans(len(z))
		loss, right := plain.Binary(want, z, classes, labels, targets, inverse, rows)
		compareLoss(g, a.CrossEntropy, rows*classes, want, loss, right)
	})
}

func TestAdamOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	for i, n := range []int{1, 4, 5, 255, 1000, 123456} {
		for _, decay := range []float32{0, 0.01} {
			for _, shrink := range []float32{0, -0.02} {
				g.reset()
				r := newRandom(uint64(i))
				w, m, v := r.floats(n), r.floats(n), r.floats(n)
				for k := range v {
					v[k] *= v[k]
				}
				step := kernels.AdamStep{AdamStep: kernel.AdamStep{Beta1: 0.9, Beta2: 0.999, Alpha1: 0.1, Alpha2: 0.001, Rate: 0.003, InvRoot: 3, Epsilon: 1e-8},
					Shrink: shrink, Decay: decay}
				constants := make([]float32, kernels.AdamStepBytes/4)
				step.Put(constants)
				a := kernels.Adam{Weights: put(g, w), Grads: g.empty(4 * n), Moment1: put(g, m), Moment2: put(g, v), Step: put(g, constants), Parameters: n}
				for range 3 {
					grads := r.floats(n)
					a.Grads = put(g, grads)
					check(g, a.Launch(g.Stream))
					plain.Adam(w, grads, m, v, &step)
				}
				same(g, "weights", get[float32](g, a.Weights), w)
				same(g, "first moments", get[float32](g, a.Moment1), m)
				same(g, "second moments", get[float32](g, a.Moment2), v)
			}
		}
	}
}

func TestEdgeSoftmaxOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	for i, heads := range []int{1, 2, 3, 4, 8, 40} {
		for _, rows := range counts {
			g.reset()
			r := newRandom(uint64(i))
			b := r.block(rows, rows+20, 5)
			count := most(g, rows)
			scores := r.floats(b.columns * 2 * heads)
			back := plain.Block{Transposed: true, Indptr: b.tindptr, Indices: b.tedges, Places: rows}
			var places []uint32
			if r.IntN(2) == 0 {
				places, back.Place = make([]uint32, rows), make([]uint32, b.columns)
				for i, s := range r.Perm(b.columns)[:rows] {
					places[i], back.Place[s] = uint32(s), uint32(i)+1
				}
			}
			edges := len(b.indices)
			indptr := append(b.indptr, make([]uint32, count.Most-rows)...)
			a := kernels.EdgeSoftmax{Weights: g.empty(4 * edges * heads), Scores: put(g, scores), Heads: heads, Slope: 0.2,
				Indptr: put(g, indptr), Indices: put(g, append(b.indices, 0)), Edges: edges, Rows: count}
			if places != nil {
				a.Place = put(g, append(places, make([]uint32, count.Most-rows)...))
			}
			check(g, a.Launch(g.Stream))
			weights := make([]float32, edges*heads)
			plain.EdgeSoftmax(weights, scores, places, heads, 0.2, b.indptr, b.indices, rows)
			got := get[float32](g, a.Weights)
			near(g, "weights", got, weights, 1e-6)

			// From the same weights, the way back is exact.
			grads := r.floats(edges * heads)
			gradient := kernels.EdgeSoftmaxBackward{EdgeSoftmax: a, Grads: put(g, grads), OwnGrads: g.empty(4 * count.Most * heads)}
			check(g, gradient.Launch(g.Stream))
			ownGrads := nans(count.Most * heads)
			plain.EdgeSoftmaxBackward(grads, ownGrads, got, scores, places, heads, 0.2, b.indptr, b.indices, rows)
			same(g, "gradients", get[float32](g, gradient.Grads), grads)
			same(g, "own gradients", get[float32](g, gradient.OwnGrads), ownGrads)

			all := most(g, b.columns)
			beyond := make([]uint32, all.Most-b.columns)
			sum := kernels.SumEdges{Out: g.empty(4 * all.Most * 2 * heads), Values: gradient.Grads, Own: gradient.OwnGrads, Heads: heads,
				Indptr: put(g, append(b.tindptr, beyond...)), Edges: put(g, append(b.tedges, 0)), Places: count, Rows: all}
			if back.Place != nil {
				sum.Place = put(g, append(back.Place, beyond...))
			}
			check(g, sum.Launch(g.Stream))
			want := make([]float32, all.Most*2*heads)
			plain.SumEdges(want, grads, ownGrads, heads, &back, b.columns, all.Most)
			same(g, "sums", get[float32](g, sum.Out), want)
		}
	}
}

func TestRelationSoftmaxOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	for i, heads := range []int{1, 2, 3, 4, 8, 40} {
		for _, rows := range counts {
			g.reset()
			r := newRandom(uint64(i))
			b := r.block(rows, rows+20, 5)
			relations := r.IntN(5) + 1
			columns, edges := relations*heads, len(b.indices)
			scores, own, base := r.floats(b.columns*columns), r.floats(rows*heads), make([]uint32, rows)
			for i := range base {
				base[i] = uint32(r.IntN(relations) * heads)
			}
			a := kernels.RelationSoftmax{Weights: g.empty(4 * edges * heads), Scores: put(g, scores), Columns: columns, Base: put(g, base), Own: put(g, own),
				Heads: heads, Slope: 0.2, Indptr: put(g, b.indptr), Indices: put(g, append(b.indices, 0)), Edges: edges, Rows: kernels.Rows(rows)}
			check(g, a.Launch(g.Stream))
			weights := make([]float32, edges*heads)
			plain.RelationSoftmax(weights, scores, columns, base, own, heads, 0.2, b.indptr, b.indices, rows)
			got := get[float32](g, a.Weights)
			near(g, "weights", got, weights, 1e-6)

			// From the same weights, the way back is exact.
			grads := r.floats(edges * heads)
			gradient := kernels.RelationSoftmaxBackward{RelationSoftmax: a, Grads: put(g, grads), OwnGrads: g.empty(4 * rows * heads)}
			check(g, gradient.Launch(g.Stream))
			ownGrads := make([]float32, rows*heads)
			plain.RelationSoftmaxBackward(grads, ownGrads, got, scores, columns, base, own, heads, 0.2, b.indptr, b.indices, rows)
			same(g, "gradients", get[float32](g, gradient.Grads), grads)
			same(g, "own gradients", get[float32](g, gradient.OwnGrads), ownGrads)

			sum := kernels.SumRelationEdges{Out: g.empty(4 * b.columns * columns), Columns: columns, Values: gradient.Grads, Heads: heads,
				Indptr: put(g, b.tindptr), Edges: put(g, append(b.tedges, 0)), Owners: put(g, append(b.tindices, 0)), Base: a.Base, Rows: kernels.Rows(b.columns)}
			check(g, sum.Launch(g.Stream))
			want := make([]float32, b.columns*columns)
			plain.SumRelationEdges(want, columns, grads, heads, b.tindptr, b.tedges, b.tindices, base, b.columns)
			same(g, "sums", get[float32](g, sum.Out), want)
		}
	}
}

func TestSgemmOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	for precision, tolerance := range map[cuda.Precision]float64{cuda.Full: 4e-6, cuda.TF32: 2e-3, cuda.BF16: 2e-2} {
		for i, c := range []struct{ m, n, k int }{{1, 1, 1}, {5, 3, 7}, {100, 47, 33}, {1000, 256, 128}, {3, 2, 0}} {
			for trans := range 4 {
				g.reset()
				r := newRandom(uint64(i))
				workspace, err := g.arena.Take(cuda.BLASWorkspace)
				check(g, err)
				blas, err := g.NewBLAS(workspace)
				check(g, err)
				blas.Precision = precision
				product(g, r, blas, trans&1 > 0, trans&2 > 0, c.m, c.n, c.k, tolerance)
				blas.Free()
			}
		}
	}
}

// TestSgemmBatchOnDevice: products of a batch are those of single calls.
func TestSgemmBatchOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	r := newRandom(3)
	workspace, err := g.arena.Take(cuda.BLASWorkspace)
	check(g, err)
	blas, err := g.NewBLAS(workspace)
	check(g, err)
	defer blas.Free()
	const heads, m, n, k = 3, 40, 8, 12
	x, y := put(g, r.floats(m*heads*k)), put(g, r.floats(k*heads*n))
	one, all := g.empty(4*m*heads*n), g.empty(4*m*heads*n)
	for h := range heads {
		at := func(b cuda.Buffer, elements int) cuda.Buffer {
			return b.Slice(4*int64(elements), b.Bytes()-4*int64(elements))
		}
		check(g, blas.Sgemm(false, false, m, n, k, 1, at(x, h*k), heads*k, at(y, h*n), heads*n, 0, at(one, h*n), heads*n))
	}
	b := cuda.Batch{Count: heads, NextX: k, NextY: n, NextZ: n}
	check(g, blas.SgemmBatch(b, false, false, m, n, k, 1, x, heads*k, y, heads*n, 0, all, heads*n))
	near(g, "products", get[float32](g, all), get[float32](g, one), 1e-5)
	if err := blas.SgemmBatch(cuda.Batch{Count: heads + 1, NextX: k, NextY: n, NextZ: n}, false, false, m, n, k, 1, x, heads*k, y, heads*n, 0, all, heads*n); err == nil {
		t.Error("a product beyond the buffers")
	}
}

// product compares a product with its definition, computed in float64.
func product(g *gpu, r random, blas *cuda.BLAS, transA, transB bool, m, n, k int, tolerance float64) {
	g.Helper()
	rowsA, colsA, rowsB, colsB := m, k, k, n
	if transA {
		rowsA, colsA = k, m
	}
	if transB {
		rowsB, colsB = n, k
	}
	lda, ldb, ldc := colsA+3, colsB+1, n+2
	uniform := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = 2*r.Float32() - 1
		}
		return v
	}
	a, b, c := uniform(rowsA*lda), uniform(rowsB*ldb), uniform(m*ldc)
	for _, beta := range []float32{0, 0.5} {
		const alpha = 1.5
		was := c
		if beta == 0 {
			was = nans(len(c)) // not read
		}
		z := put(g, was)
		check(g, blas.Sgemm(transA, transB, m, n, k, alpha, put(g, append(a, 0)), lda, put(g, append(b, 0)), ldb, beta, z, ldc))
		got := get[float32](g, z)
		for i := range m {
			for j := range n {
				sum := 0.0
				for l := range k {
					x, y := i*lda+l, l*ldb+j
					if transA {
						x = l*lda + i
					}
					if transB {
						y = j*ldb + l
					}
					sum += float64(a[x]) * float64(b[y])
				}
				sum *= alpha
				if beta != 0 {
					sum += float64(beta) * float64(c[i*ldc+j])
				}
				if v := float64(got[i*ldc+j]); !(math.Abs(v-sum) <= tolerance*math.Sqrt(float64(k)+1)) {
					g.Fatalf("%v %d×%d×%d (%t, %t): element %d, %d is %v, want %v", blas.Precision, m, n, k, transA, transB, i, j, v, sum)
				}
			}
		}
	}
}
