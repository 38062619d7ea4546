package plain

import "diskgnn/internal/kernel"

// Maximum takes the largest of every column over edges; see kernels.Maximum.
func Maximum(out []float32, stride int, chosen []uint32, x []float32, width int, indptr, indices []uint32, rows int) {
	for i := range rows {
		var who []uint32
		if chosen != nil {
			who = chosen[i*width:][:width]
		}
		kernel.GatherMax(out[i*stride:][:width], who, x, indices[indptr[i]:indptr[i+1]])
	}
}

// MaximumBackward takes gradients back through Maximum; see kernels.MaximumBackward.
func MaximumBackward(out, g []float32, chosen []uint32, width int, indptr, indices []uint32, add bool, rows int) {
	for i := range rows {
		row := out[i*width:][:width]
		if !add {
			clear(row)
		}
		kernel.ScatterMax(row, g, chosen, indices[indptr[i]:indptr[i+1]], uint32(i))
	}
}
