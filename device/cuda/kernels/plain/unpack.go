package plain

import (
	"math"
	"slices"
	"sort"

	"diskgnn/device/cuda/kernels"
)

// Bits returns value i of an array of values of the given width in bits.
func Bits(words []uint32, i, width int) uint32 {
	bit := i * width
	pair := uint64(words[bit/32]) | uint64(words[bit/32+1])<<32
	return uint32(pair >> (bit % 32) & (1<<width - 1))
}

// array returns value i of one of the arrays of a shape: the counts, the sources or the positions.
func array(words, shape []uint32, which, i int) uint32 {
	return Bits(words[shape[kernels.ShapeCountsAt+which]:], i, int(shape[kernels.ShapeCountBits+which]))
}

// Arrays of a shape, in the order of its widths.
const (
	ofCounts = iota
	ofSources
	ofPlaces
)

// UnpackIndptr stores the index pointers of a block, and the means, unless they are nil. See kernels.Unpack.
func UnpackIndptr(indptr []uint32, means []float32, words, shape []uint32, rows int) {
	sum, edges := uint64(0), uint64(shape[kernels.ShapeEdges])
	indptr[0] = 0
	for i := range rows {
		n := array(words, shape, ofCounts, i)
		sum += uint64(n)
		indptr[i+1] = uint32(min(sum, edges))
		if means != nil {
			if means[i] = 0; n > 0 {
				means[i] = 1 / float32(n)
			}
		}
	}
	if sum != edges {
		shape[kernels.ShapeWrong] |= kernels.WrongCounts
	}
}

// UnpackSources stores the sources of a block's edges.
func UnpackSources(indices, words, shape []uint32, rows int) {
	for e := range rows {
		indices[e] = within(array(words, shape, ofSources, e), shape, kernels.WrongSource)
	}
}

// within returns a source, or 0 and a fault if there is no such source.
func within(s uint32, shape []uint32, fault uint32) uint32 {
	if s < shape[kernels.ShapeSources] {
		return s
	}
	shape[kernels.ShapeWrong] |= fault
	return 0
}

// UnpackPlaces stores the positions of a block's destinations, and their places, unless these are nil; they must be zero.
func UnpackPlaces(positions, places, words, shape []uint32, rows int) {
	for i := range rows {
		s := uint32(i)
		if shape[kernels.ShapePlaceBits] > 0 {
			s = within(array(words, shape, ofPlaces, i), shape, kernels.WrongPlace)
		}
		positions[i] = s
		if places == nil {
			continue
		}
		if places[s] != 0 {
			shape[kernels.ShapeWrong] |= kernels.WrongTwice
		}
		places[s] = uint32(i) + 1
	}
}

// WeighSources stores the weights of a block's sources; see kernels.Weigh. Without positions, degrees is by source.
func WeighSources(weights []float32, degrees, positions []uint32, rows int) {
	for s := range rows {
		at := uint32(s)
		if positions != nil {
			at = positions[s]
		}
		weights[s] = float32(1 / root(degrees[at]))
	}
}

func root(degree uint32) float64 { return math.Sqrt(float64(degree) + 1) }

// WeighDestinations stores the weights of a block's destinations; see kernels.Weigh.
func WeighDestinations(sums, owns []float32, indptr, degrees, positions []uint32, rows int) {
	for i := range rows {
		d := degrees[positions[i]]
		sums[i] = float32(float64(d) / (float64(max(1, indptr[i+1]-indptr[i])) * root(d)))
		owns[i] = float32(1 / (float64(d) + 1))
	}
}

// Loop stores the edges of each destination that are not loops, and then one loop; see kernels.Loop. starts has the number of
// the first of these edges. Without positions, destinations are the first sources.
func Loop(looped, starts, indptr, indices, positions []uint32, rows int) {
	for i := range rows {
		out := starts[i]
		self := eachOther(i, indptr, indices, positions, func(s uint32) {
			looped[out] = s
			out++
		})
		looped[out] = self
	}
}

// LoopCounts stores the number of edges that Loop stores for each destination.
func LoopCounts(counts, indptr, indices, positions []uint32, rows int) {
	for i := range rows {
		counts[i] = 1
		eachOther(i, indptr, indices, positions, func(uint32) { counts[i]++ })
	}
}

// eachOther calls f for each edge of a destination that is no loop, and returns the position of the destination.
func eachOther(i int, indptr, indices, positions []uint32, f func(source uint32)) (self uint32) {
	self = uint32(i)
	if positions != nil {
		self = positions[i]
	}
	for _, s := range indices[indptr[i]:indptr[i+1]] {
		if s != self {
			f(s)
		}
	}
	return self
}

// Scan stores the sum of the values before each of the rows, and before the end, and returns the sum of all.
func Scan(out, values []uint32, rows int) (total uint32) {
	for i := range rows {
		out[i], total = total, total+values[i]
	}
	out[rows] = total
	return total
}

// CountSources counts the edges of each source, from counts of zero, and stores the count before each edge.
func CountSources(counts, arrivals, indices []uint32, rows int) {
	for e, s := range indices[:rows] {
		arrivals[e] = counts[s]
		counts[s]++
	}
}

// FillSlots collects the edges of each source in the order of their arrival.
func FillSlots(slots, tindptr, arrivals, indices []uint32, rows int) {
	for e, s := range indices[:rows] {
		slots[tindptr[s]+arrivals[e]] = uint32(e)
	}
}

// RankSlots sorts the edges of each source, and stores their destinations, and the edges, unless tedges is nil.
func RankSlots(tindices, tedges, slots, tindptr, indices, indptr []uint32, destinations, rows int) {
	var edges []uint32
	for from := 0; from < rows; {
		s := indices[slots[from]]
		edges = append(edges[:0], slots[from:tindptr[s+1]]...)
		slices.Sort(edges)
		for _, e := range edges {
			after := sort.Search(destinations, func(i int) bool { return indptr[i] > e })
			tindices[from] = uint32(max(after, 1) - 1)
			if tedges != nil {
				tedges[from] = e
			}
			from++
		}
	}
}
