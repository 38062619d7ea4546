package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
)

// tail is what follows the sums z of a layer, in place:
//
//	dropout(activation(norm(z + b)))        hidden layers
//	z + b                                   the last layer
type tail struct {
	layer      *layer
	activation cuda.Activation
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
		t.activation = cuda.Identity
	case k.index != model.InputLayer && n.model.Unit() == model.ELU:
		t.activation = cuda.ELU
	default:
		t.activation = cuda.ReLU
	}
	t.bias, t.dBias = k.param(model.Bias, model.Bias)
	t.extra, t.dExtra = k.param(model.ResidualBias, model.ResidualBias)
	if n.training {
		t.sums = n.floats(cuda.SumRows(k.rows()) * k.width)
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
	k.net.try(k.net.stream.Tail(&cuda.Tail{Z: k.data, Width: k.width, Bias: bias, Activation: t.activation, Dropout: t.dropout(), Rows: k.count()}))
}

// add adds a bias to the rows.
func (t *tail) add(bias cuda.Buffer) {
	k := t.layer
	k.net.try(k.net.stream.Tail(&cuda.Tail{Z: k.data, Width: k.width, Bias: bias, Activation: cuda.Identity, Rows: k.count()}))
}

// dropout returns the layer's. Input nodes have their identity for it, since their
// positions follow from the cache's size.
func (t *tail) dropout() cuda.Dropout {
	n := t.layer.net
	if t.activation == cuda.Identity || !n.training || n.dropout.Threshold() == 0 {
		return cuda.Dropout{Rate: kernel.Dropout{}}
	}
	d := cuda.Dropout{Rate: n.dropout, Stream: n.in.stream(t.layer.index)}
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
		t.sum(g, t.dBias, cuda.Identity, cuda.Dropout{})
	}
	t.copyExtra()
}

// scatter is backward, of a layer without a norm, for the gradients that a makes.
func (t *tail) scatter(a *cuda.Aggregate) {
	n := t.layer.net
	n.try(n.stream.Scatter(&cuda.Scatter{Aggregate: *a, Y: t.layer.data, Sums: t.sums, DBias: t.dBias, Activation: t.activation, Dropout: t.dropout()}))
	t.copyExtra()
}

// copyExtra stores the gradient of the residual's bias, which is the bias's.
func (t *tail) copyExtra() {
	if t.extra != (cuda.Buffer{}) {
		t.layer.net.try(t.layer.net.stream.Copy(t.dExtra, t.dBias))
	}
}

// sum takes g back through an activation and dropout, and sums its columns.
func (t *tail) sum(g, sum cuda.Buffer, a cuda.Activation, d cuda.Dropout) {
	k := t.layer
	b := cuda.TailBackward{G: g, Width: k.width, Sums: t.sums, DBias: sum, Activation: a, Dropout: d, Rows: k.count()}
	if a != cuda.Identity {
		b.Y = k.data
	}
	k.net.try(k.net.stream.TailBackward(&b))
}
