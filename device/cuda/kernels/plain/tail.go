package plain

import (
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/kernel"
)

// Dropout has the rate and the random stream of a layer's dropout; see kernels.Dropout. IDs, if not nil,
// are the ids of the rows.
type Dropout struct {
	Rate   kernel.Dropout
	Stream kernel.Stream
	IDs    []uint32
}

func (d *Dropout) key(i int) uint64 {
	if d.IDs != nil {
		i = int(d.IDs[i])
	}
	return d.Stream.Row(i)
}

// Tail adds the bias to rows of width elements of z, applies the activation and the dropout, in place; see
// kernels.Tail.
func Tail(z []float32, width int, bias []float32, a kernels.Activation, d *Dropout, rows int) {
	for i := range rows {
		row := z[i*width:][:width]
		switch a {
		case kernels.ReLU:
			kernel.BiasReLU(row, bias, d.Rate, d.key(i))
		case kernels.ELU:
			kernel.BiasELU(row, bias, d.Rate, d.key(i))
		default:
			kernel.Add(row, bias)
		}
	}
}

// TailBackward replaces the gradients g of Tail's output y by the gradients of its input, and returns their
// sums by column: the gradient of the bias. See kernels.TailBackward. It computes the first
// rows rows; later ones stay unchanged. most is the largest possible number of rows, as for the kernel; the
// order of the sum follows from it.
func TailBackward(g, y []float32, width int, a kernels.Activation, d *Dropout, rows, most int) (dBias []float32) {
	return sumGroups(width, rows, most, func(sum []float32, i int) {
		row := g[i*width:][:width]
		switch a {
		case kernels.ReLU:
			kernel.ReLUBackward(row, y[i*width:][:width], sum, d.Rate.Scale())
		case kernels.ELU:
			kernel.ELUBackward(row, y[i*width:][:width], sum, d.Rate, d.key(i))
		default:
			kernel.Add(sum, row)
		}
	})
}

// sumGroups sums over rows, where add adds the term of row i to a row of sums: group by group, in
// the order that kernels.TailBackward states.
func sumGroups(width, rows, most int, add func(sum []float32, i int)) []float32 {
	size := kernels.SumGroup(most)
	groups := (most + size - 1) / size
	sums := make([]float32, groups*width)
	for group := range groups {
		from, to := group*size, min((group+1)*size, rows)
		sumStrided(sums[group*width:][:width], 8, from, to, add)
	}
	total := make([]float32, width)
	sumStrided(total, 32, 0, groups, func(sum []float32, i int) { kernel.Add(sum, sums[i*width:][:width]) })
	return total
}

// sumStrided sums rows in stride partial sums, one for the rows of each remainder by stride, and adds these
// in order.
func sumStrided(sum []float32, stride, from, to int, add func(sum []float32, i int)) {
	for k := range stride {
		part := make([]float32, len(sum))
		for i := from + k; i < to; i += stride {
			add(part, i)
		}
		kernel.Add(sum, part)
	}
}
