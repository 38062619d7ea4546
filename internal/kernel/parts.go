package kernel

// Where the columns of a row are divided among heads, each has a part of its own, d
// wide; parts lie next to each other, and what follows them up to the stride is not
// looked at. Weights and products are head-minor.

// DotParts multiplies the parts of rows of x with those of v:
//
//	dst[i·heads + h] = Σ_c x[idx[i]·stride + h·d + c]·v[h·d + c]
//
// It sums as DotHeads does, and takes the same hint.
func DotParts(dst, x []float32, d, stride int, idx []uint32, v []float32, heads int) {
	if len(idx) == 0 {
		return
	}
	dst, v = dst[:len(idx)*heads], v[:heads*d]
	if level == plain {
		dotPartsPlain(dst, x, d, stride, idx, v, heads)
		return
	}
	dotPartsSIMD(dst, x, d, stride, idx, v, heads)
}

// GatherParts sums rows of x, every part weighted by its head:
//
//	dst[h·d + c] = Σ_i w[i·heads + h]·x[idx[i]·stride + h·d + c]
//
// With add the terms are added to what dst holds. They are added in the order of idx.
// It takes the same hint as DotHeads.
func GatherParts(dst, x []float32, d, stride int, idx []uint32, w []float32, heads int, add bool) {
	dst, w = dst[:heads*d], w[:len(idx)*heads]
	if !add {
		clear(dst)
	}
	if len(idx) == 0 {
		return
	}
	if level == plain {
		gatherPartsPlain(dst, x, d, stride, idx, w, heads)
		return
	}
	gatherPartsSIMD(dst, x, d, stride, idx, w, heads)
}

func dotPartsPlain(dst, x []float32, d, stride int, idx []uint32, v []float32, heads int) {
	for i, j := range idx {
		for h := range heads {
			dst[i*heads+h] = dotPlain(x[int(j)*stride+h*d:][:d], v[h*d:][:d])
		}
	}
}

func gatherPartsPlain(dst, x []float32, d, stride int, idx []uint32, w []float32, heads int) {
	for i, j := range idx {
		for h := range heads {
			f, row := w[i*heads+h], x[int(j)*stride+h*d:][:d]
			for c, v := range row {
				dst[h*d+c] += float32(f * v)
			}
		}
	}
}
