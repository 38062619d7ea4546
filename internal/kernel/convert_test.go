package kernel

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
)

// Every half-precision number, at both parities of its address, becomes the value
// that dtype says; signalling NaNs become quiet.
func TestFloat16(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		for _, offset := range []int{0, 1} {
			src, dst := make([]byte, offset+2<<16), make([]float32, 1<<16)
			for h := range 1 << 16 {
				binary.LittleEndian.PutUint16(src[offset+2*h:], uint16(h))
			}
			Float16ToFloat32(dst, src[offset:])
			for h, v := range dst {
				want := math.Float32bits(dtype.FromFloat16(uint16(h)))
				if h&0x7c00 == 0x7c00 && h&0x3ff != 0 {
					want |= 0x400000
				}
				if math.Float32bits(v) != want {
					t.Fatalf("%#04x became %v", h, v)
				}
			}
		}
	})
}

func TestBFloat16(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		src, dst := make([]byte, 2<<16), make([]float32, 1<<16)
		for h := range 1 << 16 {
			binary.LittleEndian.PutUint16(src[2*h:], uint16(h))
		}
		BFloat16ToFloat32(dst[:len(dst)-3], src)
		BFloat16ToFloat32(dst[len(dst)-3:], src[len(src)-6:])
		for h, v := range dst {
			if math.Float32bits(v) != uint32(h)<<16 {
				t.Fatalf("%#04x became %v", h, v)
			}
		}
	})
}

// corners are the float32s at which conversions change their mind, and their
// neighbours, with both signs.
func corners() []float32 {
	var c []float32
	for _, b := range []uint32{
		0, 1, 0x007FFFFF, 0x00800000, // the subnormal float32s
		0x33000000, 0x33800000, 0x387FC000, 0x38800000, 0x38801000, // the subnormal halves, ties
		0x3F800000, 0x3F801000, 0x3F803000, 0x3F808000, 0x3F818000, // ties around one
		beyondInt4, 0x48DFE400, 0x39E00000, 0x34600000, 0x34E00000, // 7 × the least halves, normal or not
		beyondHalf, 0x477FE000, 0x47800000, beyondBF16, 0x7F7F0000, 0x7F7FFFFF, infinity,
		0x7F800001, 0x7F802000, 0x7FA00000, 0x7FC00000, 0x7FFFFFFF, // NaN, signalling and quiet
	} {
		for _, d := range []uint32{b - 1, b, b + 1} {
			c = append(c, math.Float32frombits(d), math.Float32frombits(d^1<<31))
		}
	}
	return c
}

// TestNarrowHalves compares both 16-bit types with dtype, for every upper half of a
// float32 with lower halves on either side of a tie, and for all corners.
func TestNarrowHalves(t *testing.T) {
	src := corners()
	rng := rand.New(rand.NewPCG(1, 2))
	for h := range uint32(1 << 16) {
		for _, low := range []uint32{0, 0x7FFF, 0x8000, 0x8001, rng.Uint32() & 0xFFFF} {
			src = append(src, math.Float32frombits(h<<16|low))
		}
	}
	wantHalf, wantBF16 := make([]uint16, len(src)), make([]uint16, len(src))
	dtype.Convert(binio.Bytes(wantHalf), dtype.Float16, binio.Bytes(src), dtype.Float32)
	dtype.Convert(binio.Bytes(wantBF16), dtype.BFloat16, binio.Bytes(src), dtype.Float32)
	eachKind(t, func(t *testing.T) {
		got := make([]uint16, len(src))
		if Float32ToFloat16(binio.Bytes(got), src) {
			t.Error("float16: all finite")
		}
		compareHalves(t, src, got, wantHalf)
		if Float32ToBFloat16(binio.Bytes(got), src) {
			t.Error("bfloat16: all finite")
		}
		compareHalves(t, src, got, wantBF16)
	})
}

func compareHalves(t *testing.T, src []float32, got, want []uint16) {
	t.Helper()
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%g (%#08x) became %#04x, want %#04x", src[i], math.Float32bits(src[i]), got[i], want[i])
		}
	}
}

// TestWidenPast: rows of any length, at any place, are widened as Widen does, and nothing else is written.
func TestWidenPast(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			s := newSource(t)
			dim, rows := widths.Draw(t, "dim"), rapid.IntRange(0, 5).Draw(t, "rows")
			if rapid.Bool().Draw(t, "whole vectors") {
				dim = dim &^ 15
			}
			from := rapid.SampledFrom([]dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8, dtype.Int4}).Draw(t, "from")
			src := make([]byte, rows*from.RowBytes(dim))
			if !Narrow(src, from, s.floats(dim*rows), dim) {
				t.Skip("not finite")
			}
			const margin = 32
			all := make([]float32, 3*margin+dim*rows)
			for i := range all {
				all[i] = 7
			}
			at := rapid.IntRange(0, margin).Draw(t, "place")
			if rapid.Bool().Draw(t, "aligned") {
				at = int(-uintptr(unsafe.Pointer(&all[0])) % 64 / 4)
			}
			got, want := all[at:at+dim*rows], make([]float32, dim*rows)
			WidenPast(got, src, from, dim)
			Widen(want, src, from, dim)
			if !bytes.Equal(binio.Bytes(got), binio.Bytes(want)) {
				t.Fatalf("%s: %v, want %v", from, got, want)
			}
			for i, x := range all {
				if (i < at || i >= at+len(got)) && x != 7 {
					t.Fatalf("number %d is written, %d before the rows", i, at-i)
				}
			}
		})
	})
}

// TestNarrow checks every type against its reference, for rows of any length with
// an extreme value here and there, and that only those which stay finite pass.
func TestNarrow(t *testing.T) {
	extremes := corners()
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			s := newSource(t)
			dim, rows := widths.Draw(t, "dim"), rapid.IntRange(0, 5).Draw(t, "rows")
			to := rapid.SampledFrom([]dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8, dtype.Int4}).Draw(t, "to")
			src := s.floats(dim * rows)
			if len(src) > 0 && rapid.Bool().Draw(t, "extreme") {
				src[s.rng.IntN(len(src))] = rapid.SampledFrom(extremes).Draw(t, "value")
			}
			size := to.RowBytes(dim)
			want, ok := make([]byte, rows*size), true
			for i := range rows {
				row := src[i*dim : (i+1)*dim]
				if to.Quantized() {
					ok = dtype.QuantizeRow(want[i*size:(i+1)*size], to, row) && ok
				} else {
					dtype.Convert(want[i*size:(i+1)*size], to, binio.Bytes(row), dtype.Float32)
				}
			}
			back, wantBack := s.floats(len(src)), make([]float32, len(src))
			for i := range rows {
				row := want[i*size : (i+1)*size]
				if to.Quantized() {
					dtype.DequantizeRow(wantBack[i*dim:(i+1)*dim], row, to)
				} else {
					dtype.Convert(binio.Bytes(wantBack[i*dim:(i+1)*dim]), dtype.Float32, row, to)
				}
			}
			if !to.Quantized() {
				for _, v := range wantBack {
					ok = ok && !math.IsInf(float64(v), 0) && v == v
				}
			}
			const margin = 20
			from := rapid.IntRange(0, margin).Draw(t, "alignment")
			all := bytes.Repeat([]byte{0xEE}, from+len(want)+margin)
			got := all[from : from+len(want)]
			if finite := Narrow(got, to, src, dim); finite != ok {
				t.Fatalf("%s: finite: %t, want %t", to, finite, ok)
			}
			if !bytes.Equal(all[:from], slices.Repeat([]byte{0xEE}, from)) || !bytes.Equal(all[from+len(want):], slices.Repeat([]byte{0xEE}, margin)) {
				t.Fatal("wrote outside dst")
			}
			if ok && !bytes.Equal(got, want) {
				t.Fatalf("%s: %v became\n% x, want\n% x", to, src, got, want)
			}
			if ok {
				Widen(back, got, to, dim)
				equal(t, string(to), back, wantBack)
			}
			s.intact()
		})
	})
}

func TestConversionsAllocateNothing(t *testing.T) {
	const dim, rows = 100, 7
	src := make([]float32, dim*rows)
	dst := make([]byte, 4*dim*rows)
	eachKind(t, func(t *testing.T) {
		for _, to := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8, dtype.Int4} {
			if n := testing.AllocsPerRun(10, func() {
				Narrow(dst, to, src, dim)
				Widen(src, dst, to, dim)
			}); n > 0 {
				t.Errorf("%s: %v allocations", to, n)
			}
		}
	})
}
