package plain

import "diskgnn/internal/kernel"

// Block is what Aggregate sums over; see cuda.Aggregate for the fields.
type Block struct {
	Indptr, Indices   []uint32
	Outer, Inner, Own []float32
	OwnX              []float32
	Place             []uint32
	Transposed        bool
	Places            int
	Add               bool
}

// Aggregate sums rows of x over edges; see cuda.Aggregate.
func Aggregate(out []float32, stride int, x []float32, width int, b *Block, rows int) {
	for i := range rows {
		row, scale := out[i*stride:][:width], float32(1)
		if b.Outer != nil {
			scale = b.Outer[i]
		}
		kernel.GatherSum(row, x, b.Indices[b.Indptr[i]:b.Indptr[i+1]], b.Inner, scale, b.Add)
		if b.OwnX == nil {
			continue
		}
		if place, weight := b.own(i); place >= 0 {
			factor := float32(1)
			if b.Own != nil {
				factor = b.Own[weight]
			}
			kernel.AddScaled(row, b.OwnX[place*width:][:width], factor)
		}
	}
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
