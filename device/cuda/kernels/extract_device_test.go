package kernels_test

import (
	"slices"
	"testing"

	"diskgnn/device/cuda/kernels"
)

// TestExtract: rows of all sizes are taken from where they lie, at multiples of any step, and
// to the next places or to any, and
// nothing else is written. The expectation is written out.
func TestExtract(t *testing.T) {
	byDefinition(t, func(g *gpu) {
		r := newRandom(2)
		for _, rowBytes := range []int{2, 6, 8, 40, 42, 400, 512, 4096 + 2} {
			for _, step := range []int{0, 2, 8, 16} {
				for _, rows := range []int{0, 1, 9, 70} {
					g.reset()
					const places = 50
					unit := max(step, 2)
					source := make([]byte, places*unit+rowBytes)
					for i := range source {
						source[i] = byte(r.Uint32())
					}
					count := most(g, rows)
					from := make([]uint64, count.Most)
					want := make([]byte, 0, rows*rowBytes)
					for i := range rows {
						from[i] = uint64(r.IntN(places) * unit)
						want = append(want, source[from[i]:][:rowBytes]...)
					}
					out := make([]byte, (count.Most+3)*rowBytes)
					for i := range out {
						out[i] = 0xEE
					}
					a := kernels.Extract{Out: put(g, out), Source: put(g, source), RowBytes: rowBytes, From: put(g, from), Step: step, Rows: count}
					check(g, a.Launch(g.Stream))
					check(g, g.Synchronize())
					if got := get[byte](g, a.Out); !slices.Equal(got, append(slices.Clone(want), out[len(want):]...)) {
						g.Fatalf("%d rows of %d bytes, at multiples of %d, are others", rows, rowBytes, step)
					}
					to := make([]uint32, count.Most)
					there := slices.Clone(out)
					for i, k := range r.Perm(count.Most + 3)[:rows] {
						to[i] = uint32(k)
						copy(there[k*rowBytes:][:rowBytes], want[i*rowBytes:])
					}
					a.Out, a.To = put(g, out), put(g, to)
					check(g, a.Launch(g.Stream))
					check(g, g.Synchronize())
					if got := get[byte](g, a.Out); !slices.Equal(got, there) {
						g.Fatalf("%d rows of %d bytes, at multiples of %d, are elsewhere", rows, rowBytes, step)
					}
				}
			}
		}
	})
}
