package gpu

import (
	"fmt"
	"slices"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/kernel"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// rates are an H100's, rounded. They decide Auto orders on every device, since an order decides the
// last bits.
var rates = map[cuda.Precision]model.Rates{
	cuda.Full: {Flops: 40e12, Bytes: 2e12},
	cuda.TF32: {Flops: 250e12, Bytes: 2e12},
	cuda.BF16: {Flops: 250e12, Bytes: 2e12},
}

// machine runs the layers of a model, for batches of some sizes.
type machine struct {
	*network
	layers []*layer // input side first
	loss   *loss    // nil outside training
}

// newMachine describes a network. Its buffers are taken by build, once it has weights.
func newMachine(m *memory, o *engine.Config, buckets []graph.Sizes, typical graph.Sizes, training bool) *machine {
	p := newPlan(o, buckets, typical, training)
	n := &network{plan: p, memory: m, frame: newFrame(p), asked: p.sizes}
	if training {
		n.dropout = kernel.NewDropout(p.model.Dropout)
	}
	return &machine{network: n}
}

func newPlan(o *engine.Config, buckets []graph.Sizes, typical graph.Sizes, training bool) *plan {
	n := &plan{model: &o.Network, layout: o.Network.Layout(), sizes: buckets[len(buckets)-1], buckets: buckets, training: training, inBits: o.InBits}
	precision, _ := parsePrecision(o.Precision)
	kind := convolutions[n.model.Kind]
	for l := range n.model.Layers() {
		order := model.Aggregate
		if kind.multiplies {
			order = n.model.ResolveOrder(l, typical.Src[l], typical.Dst[l], typical.Edges[l], training, rates[precision])
		}
		n.orders = append(n.orders, order)
	}
	n.preparer = prepare.New(n.model, n.orders, n.sizes, training)
	if training {
		if kind.bySource {
			n.preparer.TransposeAll()
		}
		n.lossKind, n.sums = model.Loss(o.Loss), o.Sums()
	}
	return n
}

// build makes the layers and, in training, the loss.
func (m *machine) build(o *engine.Config) {
	most := slices.Max(m.sizes.Src) // not always of the first block: in typed graphs, destinations share input nodes
	m.zeros, m.one = m.floats(most+1), m.floats(1)
	var top *layer
	if m.projects() {
		top = newLayer(m.network, model.InputLayer, nil)
		m.layers = append(m.layers, top)
	}
	for l := range m.model.Layers() {
		top = newLayer(m.network, l, top)
		m.layers = append(m.layers, top)
	}
	if m.training {
		m.loss = newLoss(top, o.LabelSmoothing)
	}
}

// start enqueues the writes of constant buffers.
func (m *machine) start() error {
	m.failed = nil
	m.try(m.stream.Fill(m.zeros, 0))
	m.try(m.stream.CopyIn(m.one, oneBytes))
	for _, k := range m.layers {
		k.conv.start()
	}
	return m.failed
}

var oneBytes = binio.Bytes([]float32{1})

// last returns the layer of the logits.
func (m *machine) last() *layer { return m.layers[len(m.layers)-1] }

// forward enqueues the computation of the batch's logits.
func (m *machine) forward() error {
	m.failed = nil
	for _, k := range m.layers {
		k.conv.forward(k.source())
		k.tail.forward()
	}
	return m.failed
}

// backward enqueues the computation of the loss and of all gradients.
func (m *machine) backward() error {
	m.loss.run()
	g, through := m.loss.grad, false
	for l := len(m.layers) - 1; l >= 0; l-- {
		k := m.layers[l]
		if !through {
			k.tail.backward(g)
		}
		through = k.conv.backward(k.source(), g)
		g = k.dx
	}
	return m.failed
}

func newLayer(n *network, index int, below *layer) *layer {
	k := &layer{output: output{net: n, index: index, width: n.model.Out(index)}, below: below, in: n.model.In(index)}
	k.data = n.floats(k.rows() * k.width)
	if n.training && below != nil {
		k.dx = n.floats(below.rows() * below.width)
	}
	k.tail.make(&k.output)
	k.conv = newConv(k)
	return k
}

// convolution is a row of the table of convolutions.
type convolution struct {
	make       func(*layer) conv
	multiplies bool // it can multiply first
	bySource   bool // training sums by source in every block, which is transposed for it
}

// convolutions has a row for every kind of model.
var convolutions = map[model.Kind]convolution{
	model.SAGE:  {make: newLinear, multiplies: true},
	model.GCN:   {make: newLinear, multiplies: true},
	model.GAT:   {make: newAttention, bySource: true},
	model.RSAGE: {make: newRelational},
	model.RGCN:  {make: newRelational},
	model.RGAT:  {make: newRelationAttention, bySource: true},
}

// newConv makes a layer's convolution. The kind is one that Validate of the model accepts.
func newConv(k *layer) conv {
	if k.index == model.InputLayer {
		return newProjection(k)
	}
	kind := k.net.model.Kind
	c, ok := convolutions[kind]
	if !ok {
		panic(fmt.Sprintf("gpu: no layer of the kind %q", kind))
	}
	return c.make(k)
}

// eachBatchNorm calls f with the offsets of each batch norm's statistics among a batch's.
func (m *machine) eachBatchNorm(f func(o *norm, mean, variance int)) {
	for _, k := range m.layers {
		if o := k.tail.norm; o != nil && o.batch {
			mean, variance := m.layout.Statistics(k.index)
			f(o, mean, variance)
		}
	}
}

// loss computes the loss of the logits, and its gradient.
type loss struct {
	net       *network
	last      *layer
	smoothing float64

	grad                  cuda.Buffer
	rowLoss, right, score cuda.Buffer
}

// newLoss makes the loss of the last layer's output.
func newLoss(last *layer, smoothing float64) *loss {
	n := last.net
	o := &loss{net: n, last: last, smoothing: smoothing, grad: n.floats(last.rows() * last.width)}
	o.rowLoss, o.right, o.score = n.bytes(8*int64(last.rows())), n.floats(last.rows()), n.bytes(kernels.ScoreBytes)
	return o
}

func (o *loss) run() {
	n, f := o.net, o.net.frame
	a := kernels.CrossEntropy{G: o.grad, Z: o.last.data, Classes: o.last.width, Labels: f.labels.on(n.in.frame), Inverse: f.inverse.on(n.in.frame),
		Smoothing: o.smoothing, RowLoss: o.rowLoss, Right: o.right, Score: o.score, Rows: o.last.count()}
	if n.lossKind == model.Binary {
		n.try(kernels.Binary{CrossEntropy: a, Targets: f.targets.on(n.in.frame)}.Launch(n.stream))
		return
	}
	n.try(a.Launch(n.stream))
}
