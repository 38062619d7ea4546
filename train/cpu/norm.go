package cpu

import (
	"math"

	"diskgnn/internal/kernel"
	"diskgnn/train/model"
)

// norm normalises the sums z of a hidden layer, every row (layer norm) or every
// column over the batch's rows (batch norm), and stretches and shifts the columns:
//
//	x̂ = (z + b − mean)/√(variance + ε)        y = scale·x̂ + shift
//
// In evaluation, batch norm takes the running statistics for the batch's own.
type norm struct {
	*activation
	batch bool

	scale, dScale, shift, dShift []float32
	normed                       []float32 // x̂, kept for the backward pass
	scaleSums, shiftSums         []float32 // of the gradients, by chunk

	inverse []float32 // layer norm: 1/√(variance + ε) of every row; batch norm: of every column

	// Batch norm.
	mean              []float32
	variance          []float32 // of the batch, unbiased, for the running one
	chunkMean, chunk2 []float32 // by chunk: means, and sums of squares around them
	runMean, runVar   []float32
	coefficients      []float32 // of the backward pass
	dz                []float32
}

func newNorm(k *activation) *norm {
	n, d := k.net, k.width
	o := &norm{activation: k, batch: n.model.Norm == model.BatchNorm}
	o.scale, o.dScale = k.param(model.NormScale)
	o.shift, o.dShift = k.param(model.NormShift)
	chunks := divUp(k.rows, chunkRows)
	if n.training {
		o.normed = n.floats(k.rows * d)
		o.scaleSums, o.shiftSums = n.floats(chunks*d), n.floats(chunks*d)
	}
	switch {
	case o.batch:
		o.inverse, o.mean = n.floats(d), n.floats(d)
		o.runMean, _ = k.param(model.RunningMean)
		o.runVar, _ = k.param(model.RunningVar)
		if n.training {
			o.variance, o.coefficients = n.floats(d), n.floats(2*d)
			o.chunkMean, o.chunk2 = n.floats(chunks*d), n.floats(chunks*d)
		}
	case n.training:
		o.inverse = n.floats(k.rows)
	}
	return o
}

// begin sets up the running statistics in evaluation.
func (o *norm) begin() {
	o.activation.begin()
	if !o.batch || o.net.training {
		return
	}
	copy(o.mean, o.runMean)
	for c, v := range o.runVar {
		o.inverse[c] = float32(1 / math.Sqrt(float64(v)+model.NormEpsilon))
	}
}

func (o *norm) finish(lo, hi int) {
	if o.batch && o.net.training {
		o.observe(lo, hi)
		return
	}
	d, bias := o.width, o.sumBias()
	for i := lo; i < hi; i++ {
		row := o.data[i*d : (i+1)*d]
		kernel.Add(row, bias)
		switch {
		case o.batch:
			kernel.Standardize(row, row, o.mean, o.inverse)
			kernel.Mul(row, row, o.scale)
		case o.normed == nil:
			kernel.Normalize(row, row, model.NormEpsilon)
			kernel.Mul(row, row, o.scale)
		default:
			normed := o.normed[i*d : (i+1)*d]
			o.inverse[i] = kernel.Normalize(normed, row, model.NormEpsilon)
			kernel.Mul(row, normed, o.scale)
		}
		o.activate(row, o.shift, i)
	}
}

// observe adds the bias to a chunk of rows and finds the mean of its columns and
// their squares around it.
func (o *norm) observe(lo, hi int) {
	d, bias := o.width, o.sumBias()
	mean, squares := chunkOf(o.chunkMean, lo, d), chunkOf(o.chunk2, lo, d)
	rows := o.data[lo*d : hi*d]
	for ; len(rows) > 0; rows = rows[d:] {
		kernel.Add(rows[:d], bias)
		kernel.Add(mean, rows[:d])
	}
	for c := range mean {
		mean[c] /= float32(hi - lo)
	}
	for rows = o.data[lo*d : hi*d]; len(rows) > 0; rows = rows[d:] {
		kernel.AddSquares(squares, rows[:d], mean)
	}
}

// complete normalises the rows when all have been observed.
func (o *norm) complete() error {
	if !o.batch || !o.net.training {
		return nil
	}
	o.combine(o.count())
	return o.net.each(o.count(), chunkRows, (*standardize)(o))
}

// combine finds the rows' mean and variance from the chunks' (Chan et al. 1983), in
// order.
func (o *norm) combine(rows int) {
	d := o.width
	for c := range d {
		n, mean, squares := 0.0, 0.0, 0.0
		for i := range divUp(rows, chunkRows) {
			more := float64(min(chunkRows, rows-i*chunkRows))
			delta := float64(o.chunkMean[i*d+c]) - mean
			squares += float64(o.chunk2[i*d+c]) + delta*delta*n*more/(n+more)
			n += more
			mean += delta * more / n
		}
		o.mean[c] = float32(mean)
		o.inverse[c] = float32(1 / math.Sqrt(squares/max(1, n)+model.NormEpsilon))
		o.variance[c] = float32(squares / max(1, n-1))
	}
}

// standardize is a batch norm's second pass.
type standardize norm

func (o *standardize) chunk(_, lo, hi int) {
	d := o.width
	for i := lo; i < hi; i++ {
		row, normed := o.data[i*d:(i+1)*d], o.normed[i*d:(i+1)*d]
		kernel.Standardize(normed, row, o.mean, o.inverse)
		kernel.Mul(row, normed, o.scale)
		o.activate(row, o.shift, i)
	}
}

// follow updates a running statistic with a batch's, once its step is taken.
func follow(running, batch []float32) {
	for c := range running {
		running[c] += float32(model.TrackMomentum * (batch[c] - running[c]))
	}
}

// backward propagates gradients of the output back through the activation and, with layer norm,
// through the norm.
func (o *norm) backward(g []float32, lo, hi int) {
	d := o.width
	scales, shifts, bias := chunkOf(o.scaleSums, lo, d), chunkOf(o.shiftSums, lo, d), chunkOf(o.biasSums, lo, d)
	for i := lo; i < hi; i++ {
		row, normed := g[i*d:(i+1)*d], o.normed[i*d:(i+1)*d]
		o.deactivate(row, i, shifts)
		kernel.AddProduct(scales, row, normed)
		if !o.batch {
			kernel.NormalizeBackward(row, normed, o.scale, o.inverse[i])
			kernel.Add(bias, row)
		}
	}
}

// completeBackward adds the chunks' sums. Batch norm needs them to go on:
//
//	dz = scale/√(variance + ε) · (g − mean of g − x̂ · mean of g·x̂)
func (o *norm) completeBackward(dz []float32) error {
	o.addChunks(o.dScale, o.scaleSums)
	o.addChunks(o.dShift, o.shiftSums)
	rows, d := o.count(), o.width
	if o.batch && rows > 0 {
		for c := range d {
			o.coefficients[c] = o.dShift[c] / float32(rows)
			o.coefficients[d+c] = o.dScale[c] / float32(rows)
		}
		o.dz = dz
		if err := o.net.each(rows, chunkRows, (*standardizeBackward)(o)); err != nil {
			return err
		}
	}
	return o.activation.completeBackward(dz)
}

// standardizeBackward is a batch norm's second pass backward.
type standardizeBackward norm

func (o *standardizeBackward) chunk(_, lo, hi int) {
	d := o.width
	sums := chunkOf(o.biasSums, lo, d)
	for i := lo; i < hi; i++ {
		row := o.dz[i*d : (i+1)*d]
		kernel.StandardizeBackward(row, o.normed[i*d:(i+1)*d], o.scale, o.inverse, o.coefficients[:d], o.coefficients[d:])
		kernel.Add(sums, row)
	}
}
