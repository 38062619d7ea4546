package kernel

func dotHeadsPlain(dst, x []float32, d int, idx []uint32, v []float32, heads int) {
	for i, j := range idx {
		row := x[int(j)*d:][:d]
		for h := range heads {
			dst[i*heads+h] = dotPlain(row, v[h*d:][:d])
		}
	}
}

func dotPlain(x, v []float32) float32 {
	var s [16]float32
	c := 0
	for ; c+16 <= len(x); c += 16 {
		a, b := (*[16]float32)(x[c:]), (*[16]float32)(v[c:])
		for k := range s {
			s[k] += float32(a[k] * b[k])
		}
	}
	for ; c < len(x); c++ {
		s[c%16] += float32(x[c] * v[c])
	}
	for n := 8; n > 0; n /= 2 {
		for k := range n {
			s[k] += s[k+n]
		}
	}
	return s[0]
}

func gatherHeadsPlain(dst, x []float32, d int, idx []uint32, w []float32, heads int, add bool) {
	for h := range heads {
		for c := range d {
			sum := float32(0)
			for i, j := range idx {
				sum += float32(w[i*heads+h] * x[int(j)*d+c])
			}
			if add {
				sum += dst[h*d+c]
			}
			dst[h*d+c] = sum
		}
	}
}

func combineHeadsPlain(dst, y []float32, idx, edges []uint32, w []float32, heads int) {
	d := len(dst)
	clear(dst)
	for i, j := range idx {
		for h := range heads {
			f, row := w[int(edges[i])*heads+h], y[(int(j)*heads+h)*d:][:d]
			for c, v := range row {
				dst[c] += float32(f * v)
			}
		}
	}
}
