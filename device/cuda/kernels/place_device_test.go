package kernels_test

import (
	"slices"
	"testing"

	"diskgnn/device/cuda/kernels"
)

// TestPlace: rows of all sizes go to their places on the device and in pinned host memory,
// and nothing else changes. The expectation is written out, so that a twin that is wrong in
// the same way as the kernel is noticed.
func TestPlace(t *testing.T) {
	byDefinition(t, func(g *gpu) {
		r := newRandom(1)
		const tableRows, near = 50, 20
		for _, rowBytes := range []int{2, 4, 6, 8, 40, 42, 512, 516, 4096 + 8, 4096 + 2} {
			for _, rows := range []int{0, 1, 7, tableRows} {
				g.reset()
				table, source := make([]byte, tableRows*rowBytes), make([]byte, rows*rowBytes)
				for _, b := range [][]byte{table, source} {
					for i := range b {
						b[i] = byte(r.Uint32())
					}
				}
				index := make([]uint32, rows)
				for i, at := range r.Perm(tableRows)[:rows] {
					index[i] = uint32(at)
				}
				want := slices.Clone(table)
				for i, at := range index {
					copy(want[int(at)*rowBytes:][:rowBytes], source[i*rowBytes:])
				}
				cut := near * rowBytes
				p, err := g.NewPinned(int64(len(table) - cut))
				check(g, err)
				copy(p.Bytes(), table[cut:])
				far, err := p.Buffer()
				check(g, err)
				count := most(g, rows)
				a := kernels.Place{Table: put(g, table[:cut]), Far: far, Near: near, Source: put(g, append(source, make([]byte, (count.Most-rows)*rowBytes)...)),
					RowBytes: rowBytes, Index: put(g, append(index, make([]uint32, count.Most-rows)...)), Rows: count}
				check(g, a.Launch(g.Stream))
				check(g, g.Synchronize())
				if got := append(get[byte](g, a.Table), p.Bytes()...); !slices.Equal(got, want) {
					g.Fatalf("%d rows of %d bytes are elsewhere", rows, rowBytes)
				}
				p.Free()
			}
		}
	})
}
