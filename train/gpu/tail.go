package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
)

// tail is what follows the sums z of a layer, in place:
//
//	dropout(activation(norm(z + b)))        hidden layers
//	z + b                                   the last layer
type tail struct {
	layer      *layer
	activation kernels.Activation
	norm       *norm // nil: none

	bias, dBias   cuda.Buffer
	extra, dExtra cuda.Buffer // the residual's bias
	sums          cuda.Buffer // of groups of rows
}

func (t *tail) make(k *layer) {
	n := k.net
	t.layer = k
	switch {
	case k.index == n.model.Layers()-1:
		t.activation = kernels.Identity
	case k.index != model.InputLayer && n.model.Unit() == model.ELU:
		t.activation = kernels.ELU
	default:
		t.activation = kernels.ReLU
	}
	t.bias, t.dBias = k.param(model.Bias, model.Bias)
	t.extra, t.dExtra = k.param(model.ResidualBias, model.ResidualBias)
	if n.training {
		t.sums = n.floats(kernels.SumRows(k.rows()) * k.width)
	}
	if n.model.HasNorm(k.index) {
		t.norm = newNorm(t)
	}
}

func (t *tail) forward() {
	k := t.layer
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
	k := t.layer
	k.net.try(kernels.Tail{Z: k.data, Width: k.width, Bias: bias, Activation: kernels.Identity, Rows: k.count()}.Launch(k.net.stream))
}

// dropout returns the layer's. Input nodes have their identity for it, since their
// positions follow from the cache's size.
func (t *tail) dropout() kernels.Dropout {
	n := t.layer.net
	if t.activation == kernels.Identity || !n.training || n.dropout.Threshold() == 0 {
		return kernels.Dropout{Rate: kernel.Dropout{}}
	}
	d := kernels.Dropout{Rate: n.dropout, Stream: n.in.stream(t.layer.index)}
	if t.layer.index == model.InputLayer {
		d.IDs = n.in.ids
	}
	return d
}

// backward takes the rows of g from gradients of the output to gradients of the sums,
// in place, makes g's padding zero, and computes those of the tail's parameters.
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

// scatter is backward, of a layer without a norm, for the gradients that a makes.
func (t *tail) scatter(a *kernels.Aggregate) {
	n := t.layer.net
	n.try(kernels.Scatter{Aggregate: *a, Y: t.layer.data, Sums: t.sums, DBias: t.dBias, Activation: t.activation, Dropout: t.dropout()}.Launch(n.stream))
	t.copyExtra()
}

// copyExtra stores the gradient of the residual's bias, which is the bias's.
func (t *tail) copyExtra() {
	if t.extra != (cuda.Buffer{}) {
		t.layer.net.try(t.layer.net.stream.Copy(t.dExtra, t.dBias))
	}
}

// sum takes g back through an activation and dropout, and sums its columns.
func (t *tail) sum(g, sum cuda.Buffer, a kernels.Activation, d kernels.Dropout) {
	k := t.layer
	b := kernels.TailBackward{G: g, Width: k.width, Sums: t.sums, DBias: sum, Activation: a, Dropout: d, Rows: k.count()}
	if a != kernels.Identity {
		b.Y = k.data
	}
	k.net.try(b.Launch(k.net.stream))
}
