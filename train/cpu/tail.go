package cpu

import (
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
)

// tail is what follows the sums z of a layer, in place and row by row:
//
//	dropout(activation(norm(z + b)))        hidden layers
//	z + b                                   the last layer
//
// Forward, the convolution brackets its work by begin and complete, and calls finish
// for every chunk of rows in between. Backward, whoever computes the gradient of the
// layer's output calls backward for every chunk of rows, which turns it into that of
// the sums; the layer's own backward pass begins with completeBackward. Chunks are
// those of chunkRows rows, in any order, on any goroutine; what is summed over rows
// is summed chunk by chunk and added in the order of the chunks.
type tail struct {
	layer      *layer
	hidden     bool // norm, activation and dropout follow
	activation model.Activation
	norm       *norm // nil: none
	stream     kernel.Stream

	bias, dBias  []float32
	extra, dMore []float32 // the residual's bias and its gradient
	both         []float32 // the sum of the biases, where there are two
	biasSums     []float32 // column sums of the gradient of z, by chunk
}

func (t *tail) make(k *layer) {
	n := k.net
	t.layer = k
	t.hidden = k.index < n.model.Layers()-1
	if t.activation = n.model.Unit(); k.index == model.InputLayer {
		t.activation = model.ReLU
	}
	t.bias, t.dBias = k.param(model.Bias)
	if n.model.Residual && k.index != model.InputLayer {
		t.extra, t.dMore = k.param(model.ResidualBias)
		t.both = n.floats(k.width)
	}
	if n.training {
		t.biasSums = n.floats(divUp(k.rows, chunkRows) * k.width)
	}
	if n.model.HasNorm(k.index) {
		t.norm = newNorm(k)
	}
}

// begin prepares for a batch.
func (t *tail) begin() {
	n := t.layer.net
	stream := t.layer.index
	if stream == model.InputLayer {
		stream = n.model.Layers()
	}
	t.stream = kernel.NewStream(n.seed, n.at.Epoch, n.at.Batch, stream)
	if t.both != nil {
		copy(t.both, t.bias)
		kernel.Add(t.both, t.extra)
	}
	if t.norm != nil {
		t.norm.begin()
	}
}

// sumBias returns what is added to every row of sums.
func (t *tail) sumBias() []float32 {
	if t.both != nil {
		return t.both
	}
	return t.bias
}

// key returns what row i's dropout depends on besides the batch. Input nodes have
// their identity for it, since their positions follow from the cache's size.
func (t *tail) key(i int) uint64 {
	if t.layer.index == model.InputLayer {
		i = int(t.layer.net.in.Batch().Input[i])
	}
	return t.stream.Row(i)
}

// finish turns the sums of rows lo to hi into the layer's output, or does what a
// batch norm can do before it has seen all rows.
func (t *tail) finish(lo, hi int) {
	if t.norm != nil {
		t.norm.finish(lo, hi)
		return
	}
	d := t.layer.width
	for i := lo; i < hi; i++ {
		t.activate(t.layer.data[i*d:(i+1)*d], t.sumBias(), i)
	}
}

// complete does what had to wait for all rows.
func (t *tail) complete() error {
	if t.norm != nil {
		return t.norm.complete()
	}
	return nil
}

// activate adds a bias to row i and applies activation and dropout.
func (t *tail) activate(row, bias []float32, i int) {
	switch {
	case !t.hidden:
		kernel.Add(row, bias)
	case t.activation == model.ELU:
		kernel.BiasELU(row, bias, t.layer.net.dropout, t.key(i))
	default:
		kernel.BiasReLU(row, bias, t.layer.net.dropout, t.key(i))
	}
}

// backward takes rows lo to hi of g from gradients of the output to gradients of the
// sums, in place; where there is a batch norm, to those of its own output.
func (t *tail) backward(g []float32, lo, hi int) {
	if t.norm != nil {
		t.norm.backward(g, lo, hi)
		return
	}
	d := t.layer.width
	sums := chunkOf(t.biasSums, lo, d)
	for i := lo; i < hi; i++ {
		t.deactivate(g[i*d:(i+1)*d], i, sums)
	}
}

// deactivate takes the gradient of row i back through dropout and activation, and
// adds it to the column sums.
func (t *tail) deactivate(g []float32, i int, sums []float32) {
	d, drop := len(g), t.layer.net.dropout
	switch {
	case !t.hidden:
		kernel.Add(sums, g)
	case t.activation == model.ELU:
		kernel.ELUBackward(g, t.layer.data[i*d:(i+1)*d], sums, drop, t.key(i))
	default:
		kernel.ReLUBackward(g, t.layer.data[i*d:(i+1)*d], sums, drop.Scale())
	}
}

// completeBackward does what had to wait for all rows, and computes the gradients of
// the tail's parameters.
func (t *tail) completeBackward(dz []float32) error {
	if t.norm != nil {
		if err := t.norm.completeBackward(dz); err != nil {
			return err
		}
	}
	t.addChunks(t.dBias, t.biasSums)
	copy(t.dMore, t.dBias)
	return nil
}

// addChunks adds the chunks' sums in order.
func (t *tail) addChunks(sum, chunks []float32) {
	clear(sum)
	for c := range divUp(t.layer.count(), chunkRows) {
		kernel.Add(sum, chunks[c*len(sum):(c+1)*len(sum)])
	}
}

// chunkOf returns the sums, d wide, of the chunk that begins at row lo, cleared.
func chunkOf(sums []float32, lo, d int) []float32 {
	s := sums[lo/chunkRows*d:][:d]
	clear(s)
	return s
}
