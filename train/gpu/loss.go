package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/train/model"
)

// loss computes the loss of the logits, and its gradient.
type loss struct {
	net       *network
	kind      model.Loss
	smoothing float64

	last                  *layer
	grad                  cuda.Buffer
	rowLoss, right, score cuda.Buffer
}

func (o *loss) make(last *layer) {
	n := o.net
	o.last = last
	o.grad = n.floats(last.rows() * last.width)
	o.rowLoss, o.right, o.score = n.bytes(8*int64(last.rows())), n.floats(last.rows()), n.bytes(kernels.ScoreBytes)
}

func (o *loss) run() {
	n, f := o.net, o.net.frame
	a := kernels.CrossEntropy{G: o.grad, Z: o.last.data, Classes: o.last.width, Labels: f.labels.on(n.in.frame), Inverse: f.inverse.on(n.in.frame),
		Smoothing: o.smoothing, RowLoss: o.rowLoss, Right: o.right, Score: o.score, Rows: o.last.count()}
	if o.kind == model.Binary {
		n.try(kernels.Binary{CrossEntropy: a, Targets: f.targets.on(n.in.frame)}.Launch(n.stream))
		return
	}
	n.try(a.Launch(n.stream))
}
