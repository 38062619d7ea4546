package plain

import (
	"diskgnn/device/cuda"
	"diskgnn/internal/kernel"
)

// Dropout is dropout in a layer's rows; see cuda.Dropout.
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

// Tail finishes rows in place; see cuda.Tail.
func Tail(z []float32, width int, bias []float32, a cuda.Activation, d *Dropout, rows int) {
	for i := range rows {
		row := z[i*width:][:width]
		switch a {
		case cuda.ReLU:
			kernel.BiasReLU(row, bias, d.Rate, d.key(i))
		case cuda.ELU:
			kernel.BiasELU(row, bias, d.Rate, d.key(i))
		default:
			kernel.Add(row, bias)
		}
	}
}

// TailBackward takes gradients back through Tail in place, and returns their sums; see
// cuda.TailBackward.
func TailBackward(g, y []float32, width int, a cuda.Activation, d *Dropout, rows, most int) (dBias []float32) {
	sums := make([]float32, cuda.SumRows(most)*width)
	for group := range cuda.SumRows(most) {
		from, to := group*cuda.SumGroup, min((group+1)*cuda.SumGroup, rows)
		var parts [8][]float32
		for k := range parts {
			parts[k] = make([]float32, width)
			for i := from + k; i < to; i += len(parts) {
				row := g[i*width:][:width]
				switch a {
				case cuda.ReLU:
					kernel.ReLUBackward(row, y[i*width:][:width], parts[k], d.Rate.Scale())
				case cuda.ELU:
					kernel.ELUBackward(row, y[i*width:][:width], parts[k], d.Rate, d.key(i))
				default:
					kernel.Add(parts[k], row)
				}
			}
		}
		addUp(sums[group*width:][:width], parts[:])
	}
	var parts [32][]float32
	for k := range parts {
		parts[k] = make([]float32, width)
		for i := k; i < cuda.SumRows(most); i += len(parts) {
			kernel.Add(parts[k], sums[i*width:][:width])
		}
	}
	dBias = make([]float32, width)
	addUp(dBias, parts[:])
	return dBias
}

// addUp adds the parts in order.
func addUp(sum []float32, parts [][]float32) {
	copy(sum, parts[0])
	for _, p := range parts[1:] {
		kernel.Add(sum, p)
	}
}
