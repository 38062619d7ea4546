package plain

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/kernel"
)

func near(t *rapid.T, what string, got float32, want, scale float64) {
	if !(math.Abs(float64(got)-want) <= 1e-5*max(1, scale)) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func floats(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// edges draws edges of rows from columns.
func edges(r *rand.Rand, rows, columns int) (indptr, indices []uint32) {
	indptr = make([]uint32, rows+1)
	for i := range rows {
		for range r.IntN(5) {
			indices = append(indices, r.Uint32N(uint32(columns)))
		}
		indptr[i+1] = uint32(len(indices))
	}
	return indptr, indices
}

func transpose(indptr, indices []uint32, columns int) (tindptr, tindices, tedges []uint32) {
	tindptr = make([]uint32, columns+1)
	for s := range columns {
		for i := range len(indptr) - 1 {
			for e := indptr[i]; e < indptr[i+1]; e++ {
				if int(indices[e]) == s {
					tindices, tedges = append(tindices, uint32(i)), append(tedges, e)
				}
			}
		}
		tindptr[s+1] = uint32(len(tindices))
	}
	return tindptr, tindices, tedges
}

// TestAggregateIsAMatrix: forward, aggregating multiplies with the matrix of the edges'
// weights; transposed, with its transpose.
func TestAggregateIsAMatrix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rows, width := rapid.IntRange(0, 6).Draw(t, "rows"), rapid.IntRange(1, 9).Draw(t, "width")
		columns := rows + rapid.IntRange(1, 4).Draw(t, "more")
		b := Block{Outer: floats(r, rows), Inner: floats(r, columns), Own: floats(r, rows)}
		b.Indptr, b.Indices = edges(r, rows, columns)
		back := Block{Outer: b.Inner, Inner: b.Outer, Own: b.Own, Transposed: true, Places: rows}
		back.Indptr, back.Indices, _ = transpose(b.Indptr, b.Indices, columns)
		if rapid.Bool().Draw(t, "scattered") {
			b.Place, back.Place = make([]uint32, rows), make([]uint32, columns)
			for i, s := range r.Perm(columns)[:rows] {
				b.Place[i], back.Place[s] = uint32(s), uint32(i)+1
			}
		}
		a := make([]float64, rows*columns)
		for i := range rows {
			for _, s := range b.Indices[b.Indptr[i]:b.Indptr[i+1]] {
				a[i*columns+int(s)] += float64(b.Outer[i]) * float64(b.Inner[s])
			}
			own := i
			if b.Place != nil {
				own = int(b.Place[i])
			}
			a[i*columns+own] += float64(b.Own[i])
		}
		x, g := floats(r, columns*width), floats(r, rows*width)
		b.OwnX, back.OwnX = x, g
		forward, backward := make([]float32, rows*width), make([]float32, columns*width)
		Aggregate(forward, width, x, width, &b, rows)
		Aggregate(backward, width, g, width, &back, columns)
		for c := range width {
			for i := range rows {
				sum := 0.0
				for s := range columns {
					sum += a[i*columns+s] * float64(x[s*width+c])
				}
				near(t, "forward", forward[i*width+c], sum, 10)
			}
			for s := range columns {
				sum := 0.0
				for i := range rows {
					sum += a[i*columns+s] * float64(g[i*width+c])
				}
				near(t, "transposed", backward[s*width+c], sum, 10)
			}
		}
	})
}

// TestTailBackwardIsTheGradient of the sum of what Tail makes, times factors; and its
// sums are those of all rows.
func TestTailBackwardIsTheGradient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rows, width := rapid.SampledFrom([]int{0, 1, 9, 300}).Draw(t, "rows"), rapid.IntRange(1, 5).Draw(t, "width")
		activation := rapid.SampledFrom([]kernels.Activation{kernels.Identity, kernels.ReLU, kernels.ELU}).Draw(t, "activation")
		d := Dropout{Rate: kernel.NewDropout(rapid.SampledFrom([]float64{0, 0.3, kernel.MaxDropout}).Draw(t, "rate")), Stream: kernel.NewStream(r.Uint64(), 0, 1, 2)}
		z, bias, g := floats(r, rows*width), floats(r, width), floats(r, rows*width)
		y, dz := append([]float32(nil), z...), append([]float32(nil), g...)
		Tail(y, width, bias, activation, &d, rows)
		sums := TailBackward(dz, y, width, activation, &d, rows, rows+3)
		want := make([]float64, width)
		for i, v := range z {
			x := float64(v) + float64(bias[i%width])
			slope := 1.0
			switch {
			case activation == kernels.ReLU && x <= 0:
				slope = 0
			case activation == kernels.ELU && x <= 0:
				slope = math.Exp(x)
			}
			if activation != kernels.Identity && d.Rate.Threshold() > 0 {
				slope *= float64(d.Rate.Scale())
				if y[i] == 0 {
					slope = 0 // dropped
				}
			}
			near(t, "gradient", dz[i], slope*float64(g[i]), 10)
			want[i%width] += float64(dz[i])
		}
		for c, v := range sums {
			near(t, "sum", v, want[c], float64(rows))
		}
	})
}

// TestBatchNormIsOne: columns have mean zero and variance one afterwards, and gradients
// neither change the sum of a column nor follow it.
func TestBatchNormIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rows, width := rapid.SampledFrom([]int{2, 9, 300}).Draw(t, "rows"), rapid.IntRange(1, 5).Draw(t, "width")
		z, g := floats(r, rows*width), floats(r, rows*width)
		ones := make([]float32, width)
		for c := range ones {
			ones[c] = 1
		}
		const epsilon = 1e-12
		mean, inverse, variance := BatchStatistics(z, epsilon, width, rows, rows)
		Standardize(z, nil, mean, inverse, ones, width, rows)
		dShift := sumGroups(width, rows, rows, func(sum []float32, i int) {
			for c := range sum {
				sum[c] += g[i*width+c]
			}
		})
		StandardizeBackward(g, z, inverse, ones, dShift, SumProducts(g, z, width, rows, rows), width, rows)
		for c := range width {
			sum, squares, grads, along := 0.0, 0.0, 0.0, 0.0
			for i := c; i < len(z); i += width {
				sum += float64(z[i])
				squares += float64(z[i]) * float64(z[i])
				grads += float64(g[i])
				along += float64(g[i]) * float64(z[i])
			}
			n, scale := float64(rows), 100*float64(rows)*max(1, float64(inverse[c]))
			near(t, "mean", float32(sum/n), 0, scale)
			near(t, "variance", float32(squares/n), 1, scale)
			near(t, "variance of the sample", variance[c]*inverse[c]*inverse[c]*float32(n-1)/float32(n), 1, scale)
			near(t, "sum of gradients", float32(grads), 0, scale)
			near(t, "gradients along", float32(along), 0, scale)
		}
	})
}

// TestCrossEntropyIsTheLoss whose differences are the gradient.
func TestCrossEntropyIsTheLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rows, classes := rapid.IntRange(0, 4).Draw(t, "rows"), rapid.IntRange(1, 5).Draw(t, "classes")
		smoothing := rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "smoothing")
		z, labels := floats(r, rows*classes), make([]int32, rows)
		for i := range labels {
			labels[i] = int32(r.IntN(classes+1)) - 1
		}
		g := make([]float32, len(z))
		loss, _ := CrossEntropy(g, z, classes, labels, 0.5, smoothing, rows)
		for i := range z {
			const step = 1.0 / 256
			was := z[i]
			z[i] = was + step
			more, _ := CrossEntropy(make([]float32, len(z)), z, classes, labels, 0.5, smoothing, rows)
			z[i] = was
			near(t, "gradient", g[i], 0.5*(more-loss)/step, 200)
		}
	})
}

// TestBinaryIsTheLoss whose differences are the gradient.
func TestBinaryIsTheLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rows, classes := rapid.IntRange(0, 4).Draw(t, "rows"), rapid.IntRange(1, 10).Draw(t, "classes")
		z, labels, targets := floats(r, rows*classes), make([]int32, rows), make([]byte, rows*2)
		for i := range labels {
			labels[i] = int32(r.IntN(4)) - 1
		}
		for i := range targets {
			targets[i] = byte(r.Uint32())
		}
		g := make([]float32, len(z))
		loss, _ := Binary(g, z, classes, labels, targets, 0.5, rows)
		for i := range z {
			const step = 1.0 / 256
			was := z[i]
			z[i] = was + step
			more, _ := Binary(make([]float32, len(z)), z, classes, labels, targets, 0.5, rows)
			z[i] = was
			near(t, "gradient", g[i], 0.5*(more-loss)/step, 200)
		}
	})
}

// TestRelationSoftmax: with one relation it is EdgeSoftmax; and its way back is the gradient, by source, relation and row.
func TestRelationSoftmax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rows, heads, relations := rapid.IntRange(1, 5).Draw(t, "rows"), rapid.IntRange(1, 3).Draw(t, "heads"), rapid.IntRange(1, 3).Draw(t, "relations")
		sources, columns := rows+2, relations*heads
		indptr, indices := edges(r, rows, sources)
		tindptr, owners, tedges := transpose(indptr, indices, sources)
		scores, own, base := floats(r, sources*columns), floats(r, rows*heads), make([]uint32, rows)
		for i := range base {
			base[i] = uint32(r.IntN(relations) * heads)
		}
		factors := floats(r, len(indices)*heads)
		const slope = 0.2
		weigh := func() ([]float32, float64) {
			w, sum := make([]float32, len(factors)), 0.0
			RelationSoftmax(w, scores, columns, base, own, heads, slope, indptr, indices, rows)
			for i, v := range w {
				sum += float64(v) * float64(factors[i])
			}
			return w, sum
		}
		weights, before := weigh()
		if relations == 1 {
			both := make([]float32, sources*2*heads) // rows come first
			for s := range sources {
				copy(both[s*2*heads:], scores[s*heads:(s+1)*heads])
				if s < rows {
					copy(both[(s*2+1)*heads:], own[s*heads:(s+1)*heads])
				}
			}
			want := make([]float32, len(weights))
			EdgeSoftmax(want, both, nil, heads, slope, indptr, indices, rows)
			for i := range want {
				if weights[i] != want[i] {
					t.Fatalf("weight %d is %v, want %v", i, weights[i], want[i])
				}
			}
		}
		grads := append([]float32(nil), factors...)
		ownGrads, scoreGrads := make([]float32, len(own)), make([]float32, len(scores))
		RelationSoftmaxBackward(grads, ownGrads, weights, scores, columns, base, own, heads, slope, indptr, indices, rows)
		SumRelationEdges(scoreGrads, columns, grads, heads, tindptr, tedges, owners, base, sources)
		for _, c := range []struct{ x, grads []float32 }{{scores, scoreGrads}, {own, ownGrads}} {
			for i := range c.x {
				const step = 1.0 / 64
				was := c.x[i]
				c.x[i] = was + step
				_, up := weigh()
				c.x[i] = was - step
				_, down := weigh()
				c.x[i] = was
				if kink := math.Abs(up+down-2*before) > 1e-3; kink {
					continue // a score changes its sign
				}
				if got, want := float64(c.grads[i]), (up-down)/(2*step); math.Abs(got-want) > 0.05 {
					t.Fatalf("gradient %v, want %v", got, want)
				}
			}
		}
	})
}

// TestEdgeSoftmaxBackwardIsTheGradient of the weights' sum, times factors.
func TestEdgeSoftmaxBackwardIsTheGradient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rows, heads := rapid.IntRange(1, 4).Draw(t, "rows"), rapid.IntRange(1, 3).Draw(t, "heads")
		columns := rows + 2
		indptr, indices := edges(r, rows, columns)
		tindptr, _, tedges := transpose(indptr, indices, columns)
		scores := floats(r, columns*2*heads)
		back := Block{Transposed: true, Indptr: tindptr, Indices: tedges, Places: rows}
		var place []uint32
		if rapid.Bool().Draw(t, "scattered") {
			place, back.Place = make([]uint32, rows), make([]uint32, columns)
			for i, s := range r.Perm(columns)[:rows] {
				place[i], back.Place[s] = uint32(s), uint32(i)+1
			}
		}
		factors := floats(r, len(indices)*heads)
		const slope = 0.2
		value := func() float64 {
			w := make([]float32, len(factors))
			EdgeSoftmax(w, scores, place, heads, slope, indptr, indices, rows)
			sum := 0.0
			for i, v := range w {
				sum += float64(v) * float64(factors[i])
			}
			return sum
		}
		weights, grads := make([]float32, len(factors)), append([]float32(nil), factors...)
		EdgeSoftmax(weights, scores, place, heads, slope, indptr, indices, rows)
		ownGrads, scoreGrads := make([]float32, rows*heads), make([]float32, (columns+1)*2*heads)
		EdgeSoftmaxBackward(grads, ownGrads, weights, scores, place, heads, slope, indptr, indices, rows)
		scoreGrads[len(scoreGrads)-1] = 1 // beyond the rows
		SumEdges(scoreGrads, grads, ownGrads, heads, &back, columns, columns+1)
		if scoreGrads[len(scoreGrads)-1] != 0 {
			t.Fatal("the padding is not zero")
		}
		before := value()
		for i := range scores {
			const step = 1.0 / 64
			was := scores[i]
			scores[i] = was + step
			up := value()
			scores[i] = was - step
			down := value()
			scores[i] = was
			if kink := math.Abs(up+down-2*before) > 1e-3; kink {
				continue // a score changes its sign
			}
			if got, want := float64(scoreGrads[i]), (up-down)/(2*step); math.Abs(got-want) > 0.05 {
				t.Fatalf("gradient %v, want %v", got, want)
			}
		}
	})
}
