package kernels_test

import (
	"slices"
	"testing"

	"diskgnn/device/cuda/kernels"
)

// TestExtract: rows of all sizes are taken from where they lie, at multiples of any step, and
// nothing behind them is written. The expectation is written out.
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
					out := make([]byte, count.Most*rowBytes)
					for i := range out {
						out[i] = 0xEE
					}
					want = append(want, out[len(want):]...)
					a := kernels.Extract{Out: put(g, out), Source: put(g, source), RowBytes: rowBytes, From: put(g, from), Step: step, Rows: count}
					check(g, a.Launch(g.Stream))
					check(g, g.Synchronize())
					if got := get[byte](g, a.Out); !slices.Equal(got, want) {
						g.Fatalf("%d rows of %d bytes, at multiples of %d, are others", rows, rowBytes, step)
					}
				}
			}
		}
	})
}
