package plain

import "diskgnn/internal/kernel"

// Block is the edges that Aggregate sums over; see kernels.Aggregate for the fields.
type Block struct {
	Indptr, Indices   []uint32
	Outer, Inner, Own []float32
	OwnX              []float32
	Place             []uint32
	Gap               int // 0: as wide as rows are
	Transposed        bool
	Places            int
	Add, Beside       bool
}

// Aggregate sums rows of x over edges; see kernels.Aggregate. Zeros beyond the count are
// ZeroPadding's.
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

// at returns a weight: one, of none.
func at(weights []float32, i int) float32 {
	if weights == nil {
		return 1
	}
	return weights[i]
}

// own returns row i's own place and where its weight lies, or −1.
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
