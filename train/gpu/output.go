package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
)

// output is the output rows of a layer, and the layer's place in the network. The rows are the
// destinations of its block; the input projection's are the input nodes.
type output struct {
	net   *network
	index int // of the model's layers, or model.InputLayer
	width int // of a row
	data  cuda.Buffer
}

// param returns the values of the layer's parameters with the roles from to to and, in training,
// the buffer of their gradients; zero Buffers if it has none.
func (k *output) param(from, to model.Role) (values, grads cuda.Buffer) {
	lo, hi := k.net.layout.Span(k.index, from, to)
	if lo == hi {
		return cuda.Buffer{}, cuda.Buffer{}
	}
	values = part(k.net.weights, lo, hi)
	if k.net.training && to <= model.LastTrained {
		grads = part(k.net.grads, lo, hi)
	}
	return values, grads
}

// block returns the batch's block for this layer.
func (k *output) block() *block { return &k.net.in.now.blocks[max(0, k.index)] }

// rows returns the number of rows of a launch.
func (k *output) rows() int {
	if k.index == model.InputLayer {
		return k.net.asked.Src[0]
	}
	return k.net.asked.Dst[k.index]
}

// count returns the number of rows in the batch.
func (k *output) count() kernels.Count {
	if k.index == model.InputLayer {
		return k.block().src
	}
	return k.block().dst
}

// tail computes a layer's output from its sums z, in place:
//
//	dropout(activation(norm(z + b)))        hidden layers
//	z + b                                   the last layer
type tail struct {
	*output
	activation kernels.Activation
	norm       *norm // nil: none

	bias, dBias   cuda.Buffer
	extra, dExtra cuda.Buffer // the residual's bias
	sums          cuda.Buffer // of groups of rows
}

func (t *tail) make(k *output) {
	n := k.net
	t.output = k
	switch {
	case k.index == n.model.Layers()-1:
		t.activation = kernels.Identity
	case k.index != model.InputLayer && n.model.Unit() == model.ELU:
		t.activation = kernels.ELU
	default:
		t.activation = kernels.ReLU
	}
	if t.bias, t.dBias = k.param(model.Bias, model.Bias); n.model.Types != nil {
		t.bias, t.dBias = n.floats(k.width), n.floats(k.width) // zero, and of no use: the convolution has the biases
	}
	t.extra, t.dExtra = k.param(model.ResidualBias, model.ResidualBias)
	if n.training {
		t.sums = n.floats(kernels.SumRows(k.rows()) * k.width)
	}
	if n.model.HasNorm(k.index) {
		t.norm = newNorm(t)
	}
}

func (t *tail) forward() {
	k := t.output
	if t.extra != (cuda.Buffer{}) {
		t.add(t.extra)
	}
	bias := t.bias
	if t.norm != nil {
		t.norm.forward()
		bias = t.norm.shift
	}
	k.net.try(kernels.Tail{Z: k.data, Width: k.width, Bias: bias, Activation: t.activation, Dropout: t.dropout(), Rows: k.count()}.Launch(k.net.stream))
}

// add adds a bias to the rows.
func (t *tail) add(bias cuda.Buffer) {
	k := t.output
	k.net.try(kernels.Tail{Z: k.data, Width: k.width, Bias: bias, Activation: kernels.Identity, Rows: k.count()}.Launch(k.net.stream))
}

// dropout returns the layer's dropout. It uses the ids of input nodes, since their positions depend
// on the cache's size.
func (t *tail) dropout() kernels.Dropout {
	n := t.net
	if t.activation == kernels.Identity || !n.training || n.dropout.Threshold() == 0 {
		return kernels.Dropout{Rate: kernel.Dropout{}}
	}
	d := kernels.Dropout{Rate: n.dropout, Stream: n.in.stream(t.index)}
	if t.index == model.InputLayer {
		d.IDs = n.in.ids
	}
	return d
}

// backward turns the rows of g from gradients of the output into gradients of the sums, in place,
// sets g's padding to zero, and computes the gradients of the tail's parameters.
func (t *tail) backward(g cuda.Buffer) {
	sum := t.dBias
	if t.norm != nil {
		sum = t.norm.dShift
	}
	t.sum(g, sum, t.activation, t.dropout())
	if t.norm != nil {
		t.norm.backward(g)
		t.sum(g, t.dBias, kernels.Identity, kernels.Dropout{})
	}
	t.copyExtra()
}

// scatter is backward of a layer without a norm, for the gradients that a makes.
func (t *tail) scatter(a *kernels.Aggregate) {
	n := t.net
	n.try(kernels.Scatter{Aggregate: *a, Y: t.data, Sums: t.sums, DBias: t.dBias, Activation: t.activation, Dropout: t.dropout()}.Launch(n.stream))
	t.copyExtra()
}

// copyExtra stores the gradient of the residual's bias, which equals the bias's.
func (t *tail) copyExtra() {
	if t.extra != (cuda.Buffer{}) {
		t.net.try(t.net.stream.Copy(t.dExtra, t.dBias))
	}
}

// sum applies the backward pass of activation and dropout to g, and sums its columns.
func (t *tail) sum(g, sum cuda.Buffer, a kernels.Activation, d kernels.Dropout) {
	k := t.output
	b := kernels.TailBackward{G: g, Width: k.width, Sums: t.sums, DBias: sum, Activation: a, Dropout: d, Rows: k.count()}
	if a != kernels.Identity {
		b.Y = k.data
	}
	k.net.try(b.Launch(k.net.stream))
}

// norm normalises the sums of a hidden layer, every row (layer norm) or every column over the
// batch's rows (batch norm), ahead of the tail's shift and activation. In evaluation, batch norm
// uses the running statistics.
type norm struct {
	*output
	tail  *tail
	batch bool

	scale, dScale, shift, dShift cuda.Buffer
	normed                       cuda.Buffer // kept for the backward pass
	inverse                      cuda.Buffer // 1/√(variance + ε), of every row or column

	// Batch norm.
	mean, variance  cuda.Buffer // of the batch, in training
	runMean, runVar cuda.Buffer
}

func newNorm(t *tail) *norm {
	k, n := t.output, t.net
	o := &norm{output: k, tail: t, batch: n.model.Norm == model.BatchNorm}
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
	k, n := o.output, o.net
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

// track updates the running statistics with a batch's.
func (o *norm) track(mean, variance cuda.Buffer) {
	n, d := o.net, o.width
	n.combine(d, model.TrackMomentum, mean, 1-model.TrackMomentum, o.runMean)
	n.combine(d, model.TrackMomentum, variance, 1-model.TrackMomentum, o.runVar)
}

// backward turns gradients of the norm's output into gradients of its input, in place, and computes
// the gradients of its parameters, except for the shift: its gradient exists already.
func (o *norm) backward(g cuda.Buffer) {
	k, n := o.output, o.net
	rows := k.count()
	n.try(kernels.SumProducts{Out: o.dScale, A: g, B: o.normed, Width: k.width, Sums: o.tail.sums, Rows: rows}.Launch(n.stream))
	if o.batch {
		n.try(kernels.StandardizeBackward{G: g, Normed: o.normed, Inverse: o.inverse, Scale: o.scale,
			DShift: o.dShift, DScale: o.dScale, Width: k.width, Rows: rows}.Launch(n.stream))
		return
	}
	n.try(kernels.LayerNormBackward{G: g, Normed: o.normed, Inverse: o.inverse, Scale: o.scale, Width: k.width, Rows: rows}.Launch(n.stream))
}
