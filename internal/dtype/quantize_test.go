package dtype

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestQuantizeByHand(t *testing.T) {
	row := bytes.Repeat([]byte{0xEE}, 12)
	if !QuantizeRow(row, Int8, []float32{-254, 1, 3, 5, 254}) {
		t.Fatal("refused")
	}
	// The scale is 2; 0.5 and 2.5 are ties and go to even, 1.5 goes up.
	want := []byte{0, 0, 0, 0x40, 0x81, 0, 2, 2, 127, 0, 0, 0}
	if !bytes.Equal(row, want) {
		t.Errorf("% x, want % x", row, want)
	}
	back := make([]float32, 5)
	DequantizeRow(back, row, Int8)
	if !slices.Equal(back, []float32{-254, 0, 4, 4, 254}) {
		t.Error(back)
	}
	if !QuantizeRow(row, Int8, make([]float32, 5)) || !bytes.Equal(row, make([]byte, 12)) {
		t.Errorf("zeros became % x", row)
	}
	kept := slices.Clone(row)
	for _, bad := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		if QuantizeRow(row, Int8, []float32{1, 2, 3, 4, float32(bad)}) || !bytes.Equal(row, kept) {
			t.Errorf("%g was taken: % x", bad, row)
		}
	}
}

// TestInt4ByHand: a row of two groups, of which the second is short.
func TestInt4ByHand(t *testing.T) {
	src := make([]float32, 35)
	copy(src, []float32{-14, 1, 3, 5, 14, -1, -3, 13})
	src[31] = 7
	copy(src[32:], []float32{-0.5, 3.5, 0.25})
	row := bytes.Repeat([]byte{0xEE}, 24)
	if len(row) != Int4.RowBytes(35) || !QuantizeRow(row, Int4, src) {
		t.Fatal("refused")
	}
	// The scales are 2 and 0.5. Halves of a scale go to even elements: 1 to 0, 3 to 4, 5 to 4, 13 to 6, 7 to 4, 0.25 to 0.
	want := []byte{0, 0x40, 0, 0x38, 0x09, 0x22, 0x07, 0x6E, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x7F, 0, 0, 0}
	if !bytes.Equal(row, want) {
		t.Errorf("% x, want % x", row, want)
	}
	back := make([]float32, 35)
	DequantizeRow(back, row, Int4)
	copy(src, []float32{-14, 0, 4, 4, 14, 0, -4, 12})
	src[31], src[34] = 8, 0
	if !slices.Equal(back, src) {
		t.Error(back)
	}
	if !QuantizeRow(row, Int4, make([]float32, 35)) || !bytes.Equal(row, make([]byte, 24)) {
		t.Errorf("zeros became % x", row)
	}
	for _, bad := range []float64{math.Inf(1), math.Inf(-1), math.NaN(), -458640, math.MaxFloat32} {
		for _, at := range []int{0, 31, 34} {
			clear(src)
			src[at] = float32(bad)
			if QuantizeRow(row, Int4, src) {
				t.Errorf("%g was taken: % x", bad, row)
			}
		}
	}
	// The largest that is taken comes back as 7 times the largest float16.
	if src[34] = 458639; !QuantizeRow(row, Int4, src) {
		t.Error("refused")
	}
	if DequantizeRow(back, row, Int4); back[34] != 7*65504 {
		t.Error(back[34])
	}
}

// TestInt4RowBytes: bytes of rows, by hand, and their part of float32's.
func TestInt4RowBytes(t *testing.T) {
	for dim, want := range map[int]int{1: 8, 8: 8, 9: 12, 32: 20, 33: 24, 64: 36, 100: 60, 128: 72, 256: 144, 500: 284, 767: 432, 768: 432} {
		if got := Int4.RowBytes(dim); got != want {
			t.Errorf("%d elements: %d bytes, want %d", dim, got, want)
		}
	}
	for dim := 32; dim <= 4096; dim += 32 {
		// 18 bytes for 32 elements, and up to 2 bytes behind an odd number of scales.
		if got := Int4.RowBytes(dim); got%4 != 0 || got > dim/32*18+2 || dim != 32 && dim != 96 && float64(got) > 0.145*float64(4*dim) {
			t.Errorf("%d elements: %d bytes", dim, got)
		}
	}
}

// TestInt4 checks the distance of values that come back, and that they are finite, in rows of any magnitude.
func TestInt4(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		largest := rapid.SampledFrom([]float32{1, 1e-3, 100, 458639, 7 * 0x1p-14, 7 * 0x1p-24, 7 * 0x1p-25, 1e-7, math.SmallestNonzeroFloat32}).Draw(t, "largest")
		src := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float32 {
			return rapid.Float32Range(-1, 1).Draw(t, "share") * largest
		}), 1, 70).Draw(t, "values")
		if rapid.Bool().Draw(t, "extreme") {
			src[0] = -largest
		}
		row := bytes.Repeat([]byte{0xEE}, Int4.RowBytes(len(src)))
		if !QuantizeRow(row, Int4, src) {
			t.Fatal("refused")
		}
		back := make([]float32, len(src))
		DequantizeRow(back, row, Int4)
		for i, v := range src {
			scale := float64(FromFloat16(binary.LittleEndian.Uint16(row[i/32*2:])))
			bound := scale / 2 * (1 + 1e-6)
			if scale < 0x1p-14 {
				bound += 7 * 0x1p-25
			}
			if d := math.Abs(float64(back[i]) - float64(v)); !(d <= bound) {
				t.Fatalf("%g came back as %g: scale %g", v, back[i], scale)
			}
		}
		rest := make([]float32, len(src))
		first := rapid.IntRange(0, len(src)).Draw(t, "first")
		scales, codes := Int4Parts(row, len(src))
		DequantizeInt4(rest, codes, scales, first)
		if !slices.Equal(rest[first:], back[first:]) || !slices.Equal(rest[:first], make([]float32, first)) {
			t.Fatalf("from %d on: %v, want %v", first, rest, back)
		}
	})
}

// TestQuantize checks that a value comes back within half a scale, and finite,
// for rows of any magnitude.
func TestQuantize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		largest := rapid.SampledFrom([]float32{1, 1e-3, 100, math.MaxFloat32, math.SmallestNonzeroFloat32 * 3, math.SmallestNonzeroFloat32 * 200, 1e-37}).Draw(t, "largest")
		src := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float32 {
			return rapid.Float32Range(-1, 1).Draw(t, "share") * largest
		}), 1, 20).Draw(t, "values")
		if rapid.Bool().Draw(t, "extreme") {
			src[0] = -largest
		}
		row := make([]byte, Int8.RowBytes(len(src)))
		if !QuantizeRow(row, Int8, src) {
			t.Fatal("refused")
		}
		back := make([]float32, len(src))
		DequantizeRow(back, row, Int8)
		scale := float64(Scale(row))
		for i, v := range src {
			// Near the smallest and the largest numbers the scale itself is rounded;
			// 64 of its steps are what that can cost.
			slack := 1e-5*math.Abs(float64(v)) + 64*math.SmallestNonzeroFloat32
			if d := math.Abs(float64(back[i]) - float64(v)); !(d <= scale/2+slack) {
				t.Fatalf("%g came back as %g: scale %g", v, back[i], scale)
			}
		}
	})
}
