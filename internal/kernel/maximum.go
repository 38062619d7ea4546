package kernel

// GatherMax stores in dst, for every column, the largest element of the rows of x that idx lists, or zero if
// idx is empty. Unless chosen is nil, it stores the row of each element there. Of equal elements the first
// is chosen. A NaN is chosen only if it is in the first row.
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

// RaiseRows raises dst, for every column, to the largest element of the rows of x that idx lists. It continues
// a GatherMax: of equal elements the first stays, and a NaN that is not in dst is never chosen.
func RaiseRows(dst, x []float32, idx []uint32) {
	d := len(dst)
	for _, j := range idx {
		for c, v := range x[int(j)*d:][:d] {
			if v > dst[c] {
				dst[c] = v
			}
		}
	}
}

// none marks a column without a chosen row.
const none = 1<<32 - 1

// ScatterMax adds the gradient of row i through GatherMax to dst. For each row of g that idx lists, in
// ascending order, it adds the columns for which chosen has row i. chosen has the shape of g. A row that
// idx repeats counts once.
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
