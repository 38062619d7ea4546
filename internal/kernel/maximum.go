package kernel

// GatherMax stores the largest of some rows of x, column by column, in dst, zeros if
// there are none, and in chosen, unless it is nil, which row each is from. The first
// of equals counts; so does a NaN that comes first, and no other.
func GatherMax(dst []float32, chosen []uint32, x []float32, idx []uint32) {
	d := len(dst)
	if len(idx) == 0 {
		clear(dst)
		for c := range chosen {
			chosen[c] = none
		}
		return
	}
	copy(dst, x[int(idx[0])*d:][:d])
	for c := range chosen {
		chosen[c] = idx[0]
	}
	for _, j := range idx[1:] {
		row := x[int(j)*d:][:d]
		if chosen == nil {
			for c, v := range row {
				if v > dst[c] {
					dst[c] = v
				}
			}
			continue
		}
		chosen := chosen[:d]
		for c, v := range row {
			if v > dst[c] {
				dst[c], chosen[c] = v, j
			}
		}
	}
}

// none is no row.
const none = 1<<32 - 1

// ScatterMax adds to dst the gradient of row i through GatherMax: from the rows of g that idx names,
// ascending, the columns with a maximum chosen from row i. chosen has the same shape as g; a row
// that idx repeats counts once.
func ScatterMax(dst, g []float32, chosen, idx []uint32, i uint32) {
	d, last := len(dst), uint32(none)
	for _, j := range idx {
		if j == last {
			continue
		}
		last = j
		from, values := chosen[int(j)*d:][:d], g[int(j)*d:][:d]
		for c, s := range from {
			if s == i {
				dst[c] += values[c]
			}
		}
	}
}
