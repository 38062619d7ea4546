package cpu

import (
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
)

// kinds are the rows of a layer by node type. Destinations are ordered by type, and each has a row of the block for
// every relation into its type.
type kinds struct {
	*output
	alive     []bool // types with rows in the output; other destinations have rows of zeros
	takesPart []bool // relations
	into      []span // the relations into each type

	// Of the batch under way.
	begins []int // the first destination of each type
	first  []int // its first row
}

// span is n things from the one numbered lo on.
type span struct{ lo, n int }

func newKinds(k *output) *kinds {
	m := k.net.model
	o := &kinds{output: k, alive: m.Alive(k.index + 1), takesPart: m.TakesPart(k.index)}
	for kind := range m.Types.Nodes {
		lo, n := m.Types.Into(kind)
		o.into = append(o.into, span{lo, n})
	}
	o.begins, o.first = make([]int, len(o.into)), make([]int, len(o.into))
	return o
}

// begin finds the batch's rows.
func (o *kinds) begin() {
	_, p := o.block()
	from, row := 0, 0
	for kind, end := range p.Ends {
		o.begins[kind], o.first[kind] = from, row
		row += (int(end) - from) * o.into[kind].n
		from = int(end)
	}
}

// count returns the number of destinations of a type.
func (o *kinds) count(kind int) int {
	_, p := o.block()
	return int(p.Ends[kind]) - o.begins[kind]
}

// row returns the first row of destination i, which has the type.
func (o *kinds) row(kind, i int) int { return o.first[kind] + (i-o.begins[kind])*o.into[kind].n }

// each calls f for the part of the destinations lo to hi of every type that has any.
func (o *kinds) each(lo, hi int, f func(kind, lo, hi int)) {
	_, p := o.block()
	for kind, end := range p.Ends {
		from, to := max(lo, o.begins[kind]), min(hi, int(end))
		if from < to {
			f(kind, from, to)
		}
	}
}

// typedTail is the tail of a layer with a bias for each node type, which the convolution makes of its parameters.
// Rows of types that have none in the output are zeros.
type typedTail struct {
	*activation
	kinds           *kinds
	biases, dBiases []float32 // of a type after the other
}

func newTypedTail(k *output) *typedTail {
	n, types := k.net, len(k.net.model.Types.Nodes)
	t := &typedTail{activation: &activation{output: k, hidden: k.index < n.model.Layers()-1, unit: n.model.Unit()}, kinds: newKinds(k)}
	t.biases = n.floats(types * k.width)
	if n.training {
		t.dBiases = n.floats(types * k.width)
		// Of successive parts, a later chunk or a later type: see sums.
		t.biasSums = n.floats((divUp(k.rows, chunkRows) + types) * k.width)
	}
	return t
}

// of returns the part of a type.
func (t *typedTail) of(all []float32, kind int) []float32 {
	return all[kind*t.width : (kind+1)*t.width]
}

// sums returns the column sums of a type's rows in the chunk of row i.
func (t *typedTail) sums(kind, i int) []float32 { return t.of(t.biasSums, i/chunkRows+kind) }

func (t *typedTail) begin() {
	t.activation.begin()
	t.kinds.begin()
}

func (t *typedTail) finish(lo, hi int) {
	d := t.width
	t.kinds.each(lo, hi, func(kind, lo, hi int) {
		if !t.kinds.alive[kind] {
			clear(t.data[lo*d : hi*d])
			return
		}
		t.finishKind(kind, lo, hi)
	})
}

// finishKind is finish for rows of one type, which has rows in the output.
func (t *typedTail) finishKind(kind, lo, hi int) {
	bias, d := t.of(t.biases, kind), t.width
	for i := lo; i < hi; i++ {
		t.activate(t.data[i*d:(i+1)*d], bias, i)
	}
}

func (t *typedTail) backward(g []float32, lo, hi int) {
	d := t.width
	t.kinds.each(lo, hi, func(kind, lo, hi int) {
		if !t.kinds.alive[kind] {
			return // no gradient is read
		}
		sums := t.sums(kind, lo)
		clear(sums)
		for i := lo; i < hi; i++ {
			t.deactivate(g[i*d:(i+1)*d], i, sums)
		}
	})
}

func (t *typedTail) completeBackward([]float32) error {
	clear(t.dBiases)
	for kind, begin := range t.kinds.begins {
		n := t.kinds.count(kind)
		if n == 0 || !t.kinds.alive[kind] {
			continue
		}
		sum := t.of(t.dBiases, kind)
		for i := begin; i < begin+n; i = (i/chunkRows + 1) * chunkRows {
			kernel.Add(sum, t.sums(kind, i))
		}
	}
	return nil
}

// foldBiases makes each type's bias: the sum of the biases of the relations that take part, or the only bias.
func (t *typedTail) foldBiases() {
	values, _ := t.param(model.Bias)
	for kind, into := range t.kinds.into {
		bias := t.of(t.biases, kind)
		if len(values) == t.width {
			copy(bias, values)
			continue
		}
		clear(bias)
		for r := into.lo; r < into.lo+into.n; r++ {
			if t.kinds.takesPart[r] {
				kernel.Add(bias, t.of(values, r))
			}
		}
	}
}

// unfoldBiases makes the parameters' gradients of the types'.
func (t *typedTail) unfoldBiases() {
	_, grads := t.param(model.Bias)
	clear(grads)
	for kind, into := range t.kinds.into {
		d := t.of(t.dBiases, kind)
		if len(grads) == t.width {
			kernel.Add(grads, d)
			continue
		}
		for r := into.lo; r < into.lo+into.n; r++ {
			if t.kinds.takesPart[r] {
				copy(t.of(grads, r), d)
			}
		}
	}
}
