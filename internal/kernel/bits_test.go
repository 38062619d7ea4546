package kernel

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestAppendPacked: values by hand.
func TestAppendPacked(t *testing.T) {
	for _, c := range []struct {
		values []uint32
		width  int
		want   []byte
	}{
		{[]uint32{1, 2, 3}, 0, nil},
		{nil, 7, nil},
		{[]uint32{1, 0, 1, 1}, 1, []byte{0b1101}},
		{[]uint32{1, 2, 3, 4, 5, 6, 7, 0, 1}, 3, []byte{0b11_010_001, 0b0_101_100_0, 0b000_111_11, 0b001}},
		{[]uint32{9}, 3, []byte{1}}, // the low bits
		{[]uint32{0x12345678, 0xFFFFFFFF}, 32, []byte{0x78, 0x56, 0x34, 0x12, 0xFF, 0xFF, 0xFF, 0xFF}},
		{[]uint32{0x1ABCDEF0, 1}, 29, []byte{0xF0, 0xDE, 0xBC, 0b001_11010, 0, 0, 0, 0}},
	} {
		if got := AppendPacked([]byte{7}, c.values, c.width); !bytes.Equal(got[1:], c.want) || got[0] != 7 {
			t.Errorf("%d of %d bits: got %08b, want %08b", c.values, c.width, got[1:], c.want)
		}
	}
}

// TestUnpack: every width and length gives the values back, also if more bytes follow, and writes nothing else.
func TestUnpack(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			width := rapid.IntRange(0, MaxPacked).Draw(t, "width")
			want := rapid.SliceOfN(rapid.Uint32Range(0, uint32(uint64(1)<<width-1)), 0, 300).Draw(t, "values")
			packed := AppendPacked(nil, want, width)
			if len(packed) != PackedBytes(len(want), width) {
				t.Fatalf("%d values of %d bits take %d bytes, want %d", len(want), width, len(packed), PackedBytes(len(want), width))
			}
			for range rapid.IntRange(0, 40).Draw(t, "more bytes") {
				packed = append(packed, 0xFF)
			}
			all := slices.Repeat([]uint32{7}, len(want)+16)
			Unpack(all[8:8+len(want)], slices.Clip(slices.Clone(packed)), width)
			if got := all[8 : 8+len(want)]; !slices.Equal(got, want) {
				t.Fatalf("%d bits: got %d, want %d", width, got, want)
			}
			for i, v := range all {
				if (i < 8 || i >= 8+len(want)) && v != 7 {
					t.Fatalf("value %d is written", i-8)
				}
			}
		})
	})
}

// BenchmarkUnpack has the rate of values of a few widths, from and to caches.
func BenchmarkUnpack(b *testing.B) {
	for _, width := range []int{5, 13, 21, 27} {
		values := make([]uint32, 8192)
		for i := range values {
			values[i] = uint32(i*2654435761) & (1<<width - 1)
		}
		packed := AppendPacked(nil, values, width)
		for name, f := range map[string]func(){
			"plain": func() { unpackPlain(values, packed, width, 0) },
			"best":  func() { Unpack(values, packed, width) },
		} {
			b.Run(fmt.Sprintf("%d/%s", width, name), func(b *testing.B) {
				b.SetBytes(4 * int64(len(values)))
				for b.Loop() {
					f()
				}
			})
		}
		b.Run(fmt.Sprintf("%d/pack", width), func(b *testing.B) {
			b.SetBytes(4 * int64(len(values)))
			for b.Loop() {
				packed = AppendPacked(packed[:0], values, width)
			}
		})
	}
}
