package kernels_test

import (
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/device/cuda/kernels"
	"diskgnn/device/cuda/kernels/plain"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/kernel"
)

// share returns those of a table's first rows that are a device's.
func share(table []byte, rowBytes, near, devices, part int) []byte {
	var rows []byte
	for r := part; r < near; r += devices {
		rows = append(rows, table[r*rowBytes:][:rowBytes]...)
	}
	return append(rows, make([]byte, rowBytes)...) // as many on all devices
}

// TestGatherParts: a table whose near rows are divided, here among parts of one device's memory,
// and whose other rows lie in host memory, or that has no others.
func TestGatherParts(t *testing.T) {
	byDefinition(t, func(g *gpu) {
		shapes(g, func(r random, width, rows int) {
			for _, of := range dtypes {
				devices, near := 1+r.IntN(3), 20+30*r.IntN(2)
				g.reset()
				const tableRows = 50
				rowBytes := of.RowBytes(width)
				table, index := r.table(g, of, tableRows, width), r.indices(rows, tableRows)
				begin := make([]uint64, devices)
				var first cuda.Buffer
				for i := range devices {
					b := put(g, share(table, rowBytes, near, devices, i))
					if begin[i] = b.Address(); i == 0 {
						first = b
					}
				}
				p, err := g.NewPinned(int64((tableRows - near) * rowBytes))
				check(g, err)
				copy(p.Bytes(), table[near*rowBytes:])
				far, err := p.Buffer()
				check(g, err)
				a := kernels.Gather{Out: g.empty(4 * rows * width), Stride: width, Table: first, Far: far, Near: near, Parts: put(g, begin), Devices: devices,
					Type: of, Width: width, Index: put(g, index), Rows: kernels.Rows(rows)}
				check(g, a.Launch(g.Stream))
				want := nans(rows * width)
				for i, row := range index {
					kernel.Widen(want[i*width:][:width], table[int(row)*rowBytes:][:rowBytes], of, width)
				}
				same(g, "gather "+string(of), get[float32](g, a.Out), want)
				p.Free()
			}
		})
	})
}

// onPeers returns devices of one machine, of which each reaches the memory of all others: the
// machine's own, or emulated ones.
func onPeers(t *testing.T, test func(t *testing.T, devices []*cuda.Device)) {
	t.Run("emulated", func(t *testing.T) { test(t, cudatest.OpenMachine(t, 3, false)) })
	t.Run("gpu", func(t *testing.T) {
		infos, err := cuda.Devices()
		if err != nil || len(infos) < 2 {
			t.Skipf("%d GPUs (%v)", len(infos), err)
		}
		var devices []*cuda.Device
		for i := range infos {
			d, err := kernels.Open(i, cuda.Options{})
			check(t, err)
			t.Cleanup(d.Close)
			devices = append(devices, d)
		}
		test(t, devices)
	})
}

// on calls do with a stream of a device and memory of it, which stays until the test ends.
func on(t *testing.T, d *cuda.Device, do func(s *cuda.Stream, take func(bytes int64) cuda.Buffer)) {
	t.Helper()
	check(t, d.Attached(func() error {
		s, err := d.NewStream()
		check(t, err)
		defer s.Free()
		a, err := d.NewArena(1 << 20)
		check(t, err)
		t.Cleanup(func() { check(t, d.Attached(func() error { a.Free(); return nil })) })
		do(s, func(bytes int64) cuda.Buffer {
			b, err := a.Take(bytes)
			check(t, err)
			return b
		})
		return nil
	}))
}

// TestGatherFromPeers: each device gathers rows that it and the others have. Where the machine
// has no way between two of its devices, that is said.
func TestGatherFromPeers(t *testing.T) {
	onPeers(t, func(t *testing.T, devices []*cuda.Device) {
		const rows, width, rowBytes = 100, 8, 32
		r := newRandom(1)
		table := r.table(t, dtype.Float32, rows, width)
		index := r.indices(rows, rows)
		want := nans(rows * width)
		plain.Gather(want, width, table, nil, 0, dtype.Float32, width, index, rows)
		begin := make([]uint64, len(devices))
		shares := make([]cuda.Buffer, len(devices))
		for i, d := range devices {
			on(t, d, func(s *cuda.Stream, take func(bytes int64) cuda.Buffer) {
				for _, peer := range devices {
					if peer == d {
						continue
					}
					if can, err := d.Reach(peer); err != nil || !can {
						t.Skipf("GPU %d does not reach GPU %d (%v)", d.Index(), peer.Index(), err)
					}
				}
				b := share(table, rowBytes, rows, len(devices), i)
				shares[i] = take(int64(len(b)))
				begin[i] = shares[i].Address()
				check(t, s.CopyIn(shares[i], b))
			})
		}
		for i, d := range devices {
			on(t, d, func(s *cuda.Stream, take func(bytes int64) cuda.Buffer) {
				parts, ids, out := take(int64(8*len(devices))), take(4*rows), take(4*rows*width)
				check(t, s.CopyIn(parts, binio.Bytes(begin)))
				check(t, s.CopyIn(ids, binio.Bytes(index)))
				check(t, kernels.Gather{Out: out, Stride: width, Table: shares[i], Parts: parts, Devices: len(devices), Type: dtype.Float32, Width: width,
					Index: ids, Rows: kernels.Rows(rows)}.Launch(s))
				got := make([]float32, rows*width)
				check(t, s.CopyOut(binio.Bytes(got), out))
				check(t, s.Synchronize())
				same(t, "gather", got, want)
			})
		}
	})
}
