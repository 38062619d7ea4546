package cpu

import (
	"diskgnn/graph"
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// output is the output rows of a layer, and the layer's place in the network. The rows are the
// destinations of its block; the input projection's are the input nodes.
type output struct {
	net   *network
	index int // of the model's layers, or model.InputLayer
	width int // of a row
	rows  int // at most
	data  []float32
}

func newOutput(n *network, index int) output {
	o := output{net: n, index: index, width: n.model.Out(index), rows: n.rows(index)}
	o.data = n.floats(o.rows * o.width)
	return o
}

// param returns the values of the layer's parameter with this role and, in training, the slice of
// its gradient; nil if it has none.
func (o *output) param(r model.Role) (values, grads []float32) { return o.params(r, r) }

// params does the same for the parameters with the roles from to to, as one slice.
func (o *output) params(from, to model.Role) (values, grads []float32) {
	n := o.net
	values = n.span(n.weights, o.index, from, to)
	if to <= model.LastTrained {
		grads = n.span(n.grads, o.index, from, to)
	}
	return values, grads
}

// block returns the batch's block for this layer and the data derived from it.
func (o *output) block() (*graph.Block, *prepare.Block) {
	p, i := o.net.in.Prepared, max(0, o.index-o.net.first)
	return &p.Batch().Blocks[i], &p.Blocks[i]
}

// count returns the number of rows in the batch.
func (o *output) count() int {
	b, _ := o.block()
	if o.index == model.InputLayer {
		return b.NumSrc
	}
	return b.NumDst
}

// activation is the tail of a layer without a norm, and the common part of a tail with one: the
// bias and, in hidden layers, activation and dropout.
type activation struct {
	*output
	hidden bool // activation and dropout follow
	unit   model.Activation
	stream kernel.Stream

	bias, dBias  []float32
	extra, dMore []float32 // the residual's bias and its gradient
	both         []float32 // the sum of the biases, where there are two
	biasSums     []float32 // column sums of the gradient of the sums, by chunk
}

func newActivation(k *output) *activation {
	n := k.net
	a := &activation{output: k, hidden: k.index < n.model.Layers()-1, unit: n.model.Unit()}
	if k.index == model.InputLayer {
		a.unit = model.ReLU
	}
	a.bias, a.dBias = k.param(model.Bias)
	if n.model.Residual && k.index != model.InputLayer {
		a.extra, a.dMore = k.param(model.ResidualBias)
		a.both = n.floats(k.width)
	}
	if n.training {
		a.biasSums = n.floats(divUp(k.rows, chunkRows) * k.width)
	}
	return a
}

func (a *activation) begin() {
	n := a.net
	stream := a.index
	if stream == model.InputLayer {
		stream = n.model.Layers()
	}
	a.stream = kernel.NewStream(n.seed, n.at.Epoch, n.at.Batch, stream)
	if a.both != nil {
		copy(a.both, a.bias)
		kernel.Add(a.both, a.extra)
	}
}

// sumBias returns the bias for every row of sums.
func (a *activation) sumBias() []float32 {
	if a.both != nil {
		return a.both
	}
	return a.bias
}

// key returns row i's key for dropout beside the batch. Input nodes use their ids, since their
// positions depend on the cache's size.
func (a *activation) key(i int) uint64 {
	if a.index == model.InputLayer && a.net.training {
		i = int(a.net.in.Batch().Input[i])
	}
	return a.stream.Row(i)
}

// activate adds a bias to row i and applies activation and dropout.
func (a *activation) activate(row, bias []float32, i int) {
	switch {
	case !a.hidden:
		kernel.Add(row, bias)
	case a.unit == model.ELU:
		kernel.BiasELU(row, bias, a.net.dropout, a.key(i))
	default:
		kernel.BiasReLU(row, bias, a.net.dropout, a.key(i))
	}
}

// deactivate propagates the gradient of row i back through dropout and activation, and adds it to
// the column sums.
func (a *activation) deactivate(g []float32, i int, sums []float32) {
	d, drop := len(g), a.net.dropout
	switch {
	case !a.hidden:
		kernel.Add(sums, g)
	case a.unit == model.ELU:
		kernel.ELUBackward(g, a.data[i*d:(i+1)*d], sums, drop, a.key(i))
	default:
		kernel.ReLUBackward(g, a.data[i*d:(i+1)*d], sums, drop.Scale())
	}
}

func (a *activation) finish(lo, hi int) {
	d := a.width
	for i := lo; i < hi; i++ {
		a.activate(a.data[i*d:(i+1)*d], a.sumBias(), i)
	}
}

func (a *activation) complete() error { return nil }

func (a *activation) backward(g []float32, lo, hi int) {
	d := a.width
	sums := chunkOf(a.biasSums, lo, d)
	for i := lo; i < hi; i++ {
		a.deactivate(g[i*d:(i+1)*d], i, sums)
	}
}

func (a *activation) completeBackward([]float32) error {
	a.addChunks(a.dBias, a.biasSums)
	copy(a.dMore, a.dBias)
	return nil
}

// addChunks adds the chunks' sums in order.
func (a *activation) addChunks(sum, chunks []float32) {
	clear(sum)
	for c := range divUp(a.count(), chunkRows) {
		kernel.Add(sum, chunks[c*len(sum):(c+1)*len(sum)])
	}
}

// chunkOf returns the sums, with d elements, of the chunk that begins at row lo, cleared.
func chunkOf(sums []float32, lo, d int) []float32 {
	s := sums[lo/chunkRows*d:][:d]
	clear(s)
	return s
}
