package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/train/model"
)

// norm normalises the sums of a hidden layer, every row (layer norm) or every column
// over the batch's rows (batch norm), ahead of the tail's shift and activation. In
// evaluation, batch norm takes the running statistics for the batch's own.
type norm struct {
	tail  *tail
	layer *layer
	batch bool

	scale, dScale, shift, dShift cuda.Buffer
	normed                       cuda.Buffer // kept for the backward pass
	inverse                      cuda.Buffer // 1/√(variance + ε), of every row or column

	// Batch norm.
	mean, variance  cuda.Buffer // of the batch, in training
	runMean, runVar cuda.Buffer
}

func newNorm(t *tail) *norm {
	k, n := t.layer, t.layer.net
	o := &norm{tail: t, layer: k, batch: n.model.Norm == model.BatchNorm}
	o.scale, o.dScale = k.param(model.NormScale, model.NormScale)
	o.shift, o.dShift = k.param(model.NormShift, model.NormShift)
	if n.training || !o.batch {
		o.normed = n.floats(k.rows() * k.width)
	}
	if !o.batch {
		o.inverse = n.floats(k.rows())
		return o
	}
	o.inverse = n.floats(k.width)
	o.runMean, _ = k.param(model.RunningMean, model.RunningMean)
	o.runVar, _ = k.param(model.RunningVar, model.RunningVar)
	if n.training {
		o.mean, o.variance = n.floats(k.width), n.floats(k.width)
	}
	return o
}

func (o *norm) forward() {
	k, n := o.layer, o.layer.net
	rows := k.count()
	if !o.batch {
		n.try(kernels.LayerNorm{Z: k.data, Normed: o.normed, Inverse: o.inverse, Bias: o.tail.bias, Scale: o.scale,
			Epsilon: model.NormEpsilon, Width: k.width, Rows: rows}.Launch(n.stream))
		return
	}
	o.tail.add(o.tail.bias)
	mean := o.runMean
	if n.training {
		mean = o.mean
		n.try(kernels.BatchStatistics{Z: k.data, Mean: o.mean, Inverse: o.inverse, Variance: o.variance,
			Epsilon: model.NormEpsilon, Width: k.width, Sums: o.tail.sums, Rows: rows}.Launch(n.stream))
		if !n.sums {
			o.track(o.mean, o.variance)
		}
	}
	n.try(kernels.Standardize{Z: k.data, Normed: o.normed, Mean: mean, Inverse: o.inverse, Scale: o.scale, Width: k.width, Rows: rows}.Launch(n.stream))
}

// track lets the running statistics follow a batch's.
func (o *norm) track(mean, variance cuda.Buffer) {
	n, d := o.layer.net, o.layer.width
	n.combine(d, model.TrackMomentum, mean, 1-model.TrackMomentum, o.runMean)
	n.combine(d, model.TrackMomentum, variance, 1-model.TrackMomentum, o.runVar)
}

// backward takes gradients back through the norm, in place, and computes those of its
// parameters. The shift's is there.
func (o *norm) backward(g cuda.Buffer) {
	k, n := o.layer, o.layer.net
	rows := k.count()
	n.try(kernels.SumProducts{Out: o.dScale, A: g, B: o.normed, Width: k.width, Sums: o.tail.sums, Rows: rows}.Launch(n.stream))
	if o.batch {
		n.try(kernels.StandardizeBackward{G: g, Normed: o.normed, Inverse: o.inverse, Scale: o.scale,
			DShift: o.dShift, DScale: o.dScale, Width: k.width, Rows: rows}.Launch(n.stream))
		return
	}
	n.try(kernels.LayerNormBackward{G: g, Normed: o.normed, Inverse: o.inverse, Scale: o.scale, Width: k.width, Rows: rows}.Launch(n.stream))
}
