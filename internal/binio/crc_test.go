package binio

import (
	"fmt"
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"
)

// TestCRC: the CRC of any bytes is the library's, whole and in parts. By hand: RFC 3720, B.4, of 32 zeros.
func TestCRC(t *testing.T) {
	if got := CRC(make([]byte, 32)); got != 0x8a9136aa {
		t.Errorf("CRC of 32 zeros: %#x", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		b := make([]byte, rapid.IntRange(0, 4*ahead).Draw(t, "bytes"))
		for i := range b {
			b[i] = byte(i * i)
		}
		cut := rapid.IntRange(0, len(b)).Draw(t, "cut")
		if got, want := UpdateCRC(CRC(b[:cut]), b[cut:]), crc32.Checksum(b, castagnoli); got != want {
			t.Errorf("CRC of %d and %d bytes: %#x, want %#x", cut, len(b)-cut, got, want)
		}
	})
}

// BenchmarkCRC is CRC beside the library, of bytes in the caches, in memory, and in pieces of a chunk.
//
//	go test -run '^$' -bench CRC ./internal/binio
func BenchmarkCRC(b *testing.B) {
	for _, c := range []struct{ bytes, piece int }{{256, 256}, {4 << 10, 4 << 10}, {64 << 10, 64 << 10}, {128 << 20, 256 << 10}, {128 << 20, 128 << 20}} {
		memory := make([]byte, c.bytes)
		for i := range memory {
			memory[i] = byte(i)
		}
		sum := uint32(0)
		for _, way := range []struct {
			name string
			crc  func([]byte) uint32
		}{{"library", func(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }}, {"here", CRC}} {
			b.Run(fmt.Sprintf("%d of %d bytes/%s", c.piece, c.bytes, way.name), func(b *testing.B) {
				b.SetBytes(int64(c.bytes))
				for b.Loop() {
					for at := 0; at < c.bytes; at += c.piece {
						sum ^= way.crc(memory[at : at+c.piece])
					}
				}
			})
		}
	}
}
