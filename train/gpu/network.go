package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/kernel"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// network is the layers of a model with their buffers, for batches of some sizes.
type network struct {
	*memory
	model    *model.Model
	layout   model.Layout
	sizes    graph.Sizes   // that buffers are made for
	buckets  []graph.Sizes // that launches are for: a batch's is the first that holds it; the last is sizes
	asked    graph.Sizes   // the bucket of the batch being computed; sizes while buffers are made
	orders   []model.Order
	training bool
	sums     bool           // gradients are those of sums of losses; running statistics follow with the update
	dropout  kernel.Dropout // none outside training
	preparer *prepare.Preparer
	frame    *frame

	weights, grads cuda.Buffer // of all parameters, and of those trained
	layers         []*layer    // input side first
	loss           *loss       // nil outside training
	zeros          cuda.Buffer // an indptr of nothing
	one            cuda.Buffer // the float32 1

	stream *cuda.Stream
	blas   *cuda.BLAS
	in     *input // the batch being computed
	failed error  // the first launch that was refused
}

// rates are those of an H100, rounded. Auto orders are chosen by them on every device,
// since an order decides the last bits.
var rates = map[cuda.Precision]model.Rates{
	cuda.Full: {Flops: 40e12, Bytes: 2e12},
	cuda.TF32: {Flops: 250e12, Bytes: 2e12},
	cuda.BF16: {Flops: 250e12, Bytes: 2e12},
}

// newNetwork describes a network. Its buffers are taken by build, once it has weights.
func newNetwork(m *memory, o *engine.Config, buckets []graph.Sizes, typical graph.Sizes, training bool) *network {
	sizes := buckets[len(buckets)-1]
	precision, _ := parsePrecision(o.Precision)
	n := &network{memory: m, model: &o.Network, layout: o.Network.Layout(), sizes: sizes, buckets: buckets, asked: sizes, training: training}
	kind := convolutions[n.model.Kind]
	for l := range n.model.Layers() {
		order := model.Aggregate
		if kind.multiplies {
			order = n.model.ResolveOrder(l, typical.Src[l], typical.Dst[l], typical.Edges[l], training, rates[precision])
		}
		n.orders = append(n.orders, order)
	}
	n.preparer = prepare.New(n.model, n.orders, sizes, training)
	if training {
		if kind.bySource {
			n.preparer.TransposeAll()
		}
		n.dropout, n.sums = kernel.NewDropout(n.model.Dropout), o.Sums()
		n.loss = newLoss(n, o)
	}
	n.frame = newFrame(n)
	return n
}

// build makes the layers.
func (n *network) build() {
	n.zeros, n.one = n.floats(n.sizes.Src[0]+1), n.floats(1)
	var top *layer
	if n.projects() {
		top = newLayer(n, model.InputLayer, nil)
		n.layers = append(n.layers, top)
	}
	for l := range n.model.Layers() {
		top = newLayer(n, l, top)
		n.layers = append(n.layers, top)
	}
	if n.training {
		n.loss.make(top)
	}
}

// start enqueues the writing of what never changes.
func (n *network) start() error {
	n.failed = nil
	n.try(n.stream.Fill(n.zeros, 0))
	n.try(n.stream.CopyIn(n.one, oneBytes))
	for _, k := range n.layers {
		k.conv.start()
	}
	return n.failed
}

func (n *network) projects() bool { return n.model.InputProjection > 0 }

// seeds returns the most seed nodes of a batch.
func (n *network) seeds() int { return n.sizes.Dst[len(n.sizes.Dst)-1] }

func (n *network) last() *layer { return n.layers[len(n.layers)-1] }

// try notes the first launch that was refused.
func (n *network) try(err error) {
	if n.failed == nil {
		n.failed = err
	}
}

// compute makes an input's batch the one that further work is for.
func (n *network) compute(i *input) { n.in, n.asked = i, i.now.sizes }

// forward enqueues the computation of the batch's logits.
func (n *network) forward() error {
	n.failed = nil
	for _, k := range n.layers {
		k.conv.forward(k.source())
		k.tail.forward()
	}
	return n.failed
}

// backward enqueues the computation of the loss and of all gradients.
func (n *network) backward() error {
	n.loss.run()
	g, through := n.loss.grad, false
	for l := len(n.layers) - 1; l >= 0; l-- {
		k := n.layers[l]
		if !through {
			k.tail.backward(g)
		}
		through = k.conv.backward(k.source(), g)
		g = k.dx
	}
	return n.failed
}

// product enqueues c = alpha·op(a)·op(b) + beta·c, row-major; see cuda.BLAS.
func (n *network) product(transA, transB bool, rows, cols, depth int, alpha float32, a cuda.Buffer, lda int, b cuda.Buffer, ldb int, beta float32, c cuda.Buffer, ldc int) {
	n.try(n.blas.Sgemm(transA, transB, rows, cols, depth, alpha, a, lda, b, ldb, beta, c, ldc))
}

// combine enqueues y = alpha·x + beta·y of so many elements, in float32, as a product with
// one. With beta zero, y is not read.
func (n *network) combine(elements int, alpha float32, x cuda.Buffer, beta float32, y cuda.Buffer) {
	was := n.blas.Precision
	n.blas.Precision = cuda.Full
	n.product(false, false, elements, 1, 1, alpha, x, 1, n.one, 1, beta, y, 1)
	n.blas.Precision = was
}

// pad makes the rows of x beyond the count zero, for a product that sums over rows.
func (n *network) pad(x cuda.Buffer, width int, rows kernels.Count) {
	n.try(kernels.ZeroPadding{X: x, Stride: width, Width: width, Rows: rows}.Launch(n.stream))
}

var oneBytes = binio.Bytes([]float32{1})

// memory hands out the device's memory. The first error stays.
type memory struct {
	arena *cuda.Arena
	err   error
}

func (m *memory) bytes(n int64) cuda.Buffer {
	b, err := m.arena.Take(n)
	if m.err == nil {
		m.err = err
	}
	return b
}

// floats takes so many float32s or words.
func (m *memory) floats(n int) cuda.Buffer { return m.bytes(4 * int64(n)) }

// part returns some elements of a buffer of four bytes each.
func part(b cuda.Buffer, from, to int) cuda.Buffer {
	if b == (cuda.Buffer{}) {
		return b
	}
	return b.Slice(4*int64(from), 4*int64(to-from))
}

// after returns what follows so many elements.
func after(b cuda.Buffer, elements int) cuda.Buffer { return part(b, elements, int(b.Bytes()/4)) }

// loss computes the loss of the logits, and its gradient.
type loss struct {
	net       *network
	kind      model.Loss
	smoothing float64

	last                  *layer
	grad                  cuda.Buffer
	rowLoss, right, score cuda.Buffer
}

func newLoss(n *network, o *engine.Config) *loss {
	return &loss{net: n, kind: model.Loss(o.Loss), smoothing: o.LabelSmoothing}
}

// make takes the loss's memory, above the last layer.
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
