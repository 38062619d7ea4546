package plain

import "diskgnn/internal/kernel"

// Maximum stores in out, for every destination, the maximum of each column over its sources' rows of x, and
// in chosen the source of each maximum; see kernels.Maximum.
func Maximum(out []float32, stride int, chosen []uint32, x []float32, width int, indptr, indices []uint32, rows int) {
	for i := range rows {
		var who []uint32
		if chosen != nil {
			who = chosen[i*width:][:width]
		}
		kernel.GatherMax(out[i*stride:][:width], who, x, indices[indptr[i]:indptr[i+1]])
	}
}

// MaximumBackward stores in out the gradients of Maximum's input, given the gradients g of its output, or
// adds them if add is set; see kernels.MaximumBackward.
func MaximumBackward(out, g []float32, chosen []uint32, width int, indptr, indices []uint32, add bool, rows int) {
	for i := range rows {
		row := out[i*width:][:width]
		if !add {
			clear(row)
		}
		kernel.ScatterMax(row, g, chosen, indices[indptr[i]:indptr[i+1]], uint32(i))
	}
}
