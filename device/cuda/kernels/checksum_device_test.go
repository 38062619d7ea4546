package kernels_test

import (
	"fmt"
	"testing"

	"diskgnn/device/cuda/kernels"
	"diskgnn/device/cuda/kernels/plain"
)

func TestChecksumOnDevice(t *testing.T) { checksums(newGPU(t, testMemory)) }

// TestChecksumEmulated: the arguments' order is the twin's.
func TestChecksumEmulated(t *testing.T) {
	checksums(emulatedGPU(t))
}

// checksums compares checksums of ranges that begin and end anywhere: shorter than what
// a thread reads at once, than a warp's, than a block's, and longer.
func checksums(g *gpu) {
	r := newRandom(1)
	data := make([]byte, 3<<20+5)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	var ranges []uint64
	for from := range 18 {
		for bytes := range 50 {
			ranges = append(ranges, uint64(from), uint64(bytes))
		}
	}
	for _, bytes := range []int{511, 512, 4095, 4096, 4097, 4111, 4112, 8192, 12289, 65536, 1 << 20, 1<<20 + 3} {
		for range 8 {
			from := r.IntN(len(data) - bytes)
			ranges = append(ranges, uint64(from), uint64(bytes), uint64(from&^4095), uint64(bytes))
		}
	}
	ranges = append(ranges, 0, uint64(len(data)))
	rows := len(ranges) / 2
	count := most(g, rows)
	a := kernels.Checksum{Sums: g.empty(4 * count.Most), Data: put(g, data), Ranges: put(g, append(ranges, make([]uint64, 2*(count.Most-rows))...)), Rows: count}
	check(g, a.Launch(g.Stream))
	want := make([]uint32, rows)
	plain.Checksum(want, data, ranges, rows)
	got := get[uint32](g, a.Sums)
	for i, sum := range want {
		if got[i] != sum {
			g.Fatalf("%d bytes from %d: %#08x, want %#08x", ranges[2*i+1], ranges[2*i], got[i], sum)
		}
	}
	for i, sum := range got[rows:] {
		if sum != ^uint32(0) {
			g.Fatalf("the checksum of range %d, of %d, was written", rows+i, rows)
		}
	}
}

// BenchmarkChecksum checks 64 MiB as a batch's chunk is checked, in ranges of one size.
func BenchmarkChecksum(b *testing.B) {
	const bytes = 64 << 20
	for _, each := range []int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 1<<20 - 20} {
		b.Run(fmt.Sprint(each), func(b *testing.B) {
			g := newGPU(b, benchMemory)
			var ranges []uint64
			for from := 0; from+each <= bytes; from += each {
				ranges = append(ranges, uint64(from), uint64(each))
			}
			rows := len(ranges) / 2
			data, at := g.empty(16*bytes), int64(0) // far beyond the device's cache
			a := kernels.Checksum{Sums: g.empty(4 * rows), Ranges: put(g, ranges), Rows: kernels.Rows(rows)}
			g.rate(b, rows*each, func() error {
				a.Data, at = data.Slice(at, bytes), (at+bytes)%data.Bytes()
				return a.Launch(g.Stream)
			})
		})
	}
}
