package plain

import "diskgnn/internal/kernel"

// Block has the edges of an Aggregate, and its weights. The fields are the fields of kernels.Aggregate; nil
// stands for a buffer that is not given.
type Block struct {
	Indptr, Indices   []uint32
	Outer, Inner, Own []float32
	OwnX              []float32
	Place             []uint32
	Gap               int // 0: the width of a row
	Transposed        bool
	Places            int
	Add, Beside       bool
}

// Aggregate sums rows of x, width elements each, over the edges in b, and stores rows sums in out at the
// given stride; see kernels.Aggregate. It leaves other rows of out unchanged.
func Aggregate(out []float32, stride int, x []float32, width int, b *Block, rows int) {
	gap, sum := b.Gap, make([]float32, width)
	if gap == 0 {
		gap = width
	}
	for i := range rows {
		clear(sum)
		for _, s := range b.Indices[b.Indptr[i]:b.Indptr[i+1]] {
			kernel.AddScaled(sum, x[int(s)*gap:][:width], at(b.Inner, int(s)))
		}
		scale, row := at(b.Outer, i), out[i*stride:][:width]
		for c := range sum {
			sum[c] *= scale
		}
		if b.Add {
			kernel.Add(sum, row)
		}
		copy(row, sum)
		if b.OwnX == nil {
			continue
		}
		if place, weight := b.own(i); place >= 0 {
			own := b.OwnX[place*gap:][:width]
			if b.Beside {
				copy(out[i*stride+width:][:width], own)
				continue
			}
			kernel.AddScaled(row, own, at(b.Own, weight))
		}
	}
}

// at returns weight i, 1 if there are no weights.
func at(weights []float32, i int) float32 {
	if weights == nil {
		return 1
	}
	return weights[i]
}

// own returns row i's own place and the index of its weight, or −1 for both.
func (b *Block) own(i int) (place, weight int) {
	switch {
	case !b.Transposed && b.Place != nil:
		return int(b.Place[i]), i
	case !b.Transposed:
		return i, i
	case b.Place != nil:
		place = int(b.Place[i]) - 1
	case i < b.Places:
		place = i
	default:
		place = -1
	}
	return place, place
}
