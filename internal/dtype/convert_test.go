package dtype

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestFloat16All checks every half against its definition, and that narrowing
// it again gives the same bits.
func TestFloat16All(t *testing.T) {
	for i := 0; i <= math.MaxUint16; i++ {
		h := uint16(i)
		got := FromFloat16(h)
		exp, frac := int(h>>10&0x1F), float64(h&0x3FF)
		want := math.Ldexp(1+frac/1024, exp-15)
		switch {
		case exp == 0:
			want = math.Ldexp(frac, -24)
		case exp == 31 && frac == 0:
			want = math.Inf(1)
		case exp == 31:
			if got == got {
				t.Fatalf("%#04x: %v, want NaN", h, got)
			}
			if back := ToFloat16(got); back&0x7C00 != 0x7C00 || back&0x3FF == 0 {
				t.Fatalf("%#04x: NaN became %#04x", h, back)
			}
			continue
		}
		if h&0x8000 != 0 {
			want = -want
		}
		if float64(got) != want || math.Signbit(float64(got)) != (h&0x8000 != 0) {
			t.Fatalf("%#04x: %v, want %v", h, got, want)
		}
		if back := ToFloat16(got); back != h {
			t.Fatalf("%#04x: back as %#04x", h, back)
		}
	}
}

// TestNearest checks that no neighbour is nearer, and that ties go to even.
func TestNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
		if v != v || math.IsInf(float64(v), 0) {
			return
		}
		nearest(t, "bfloat16", v, ToBFloat16(v), func(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) })
		if math.Abs(float64(v)) < 65504 {
			nearest(t, "float16", v, ToFloat16(v), FromFloat16)
		}
	})
}

func nearest(t *rapid.T, name string, v float32, h uint16, widen func(uint16) float32) {
	dist := func(h uint16) float64 { return math.Abs(float64(widen(h)) - float64(v)) }
	if math.IsInf(float64(widen(h)), 0) {
		return // rounded up beyond the largest bfloat16
	}
	for _, o := range []uint16{h - 1, h + 1} {
		if widen(o) != widen(o) || o&0x8000 != h&0x8000 {
			continue
		}
		if dist(o) < dist(h) || dist(o) == dist(h) && h&1 == 1 && o&1 == 0 {
			t.Fatalf("%s: %v became %v, %v is nearer or even", name, v, widen(h), widen(o))
		}
	}
}
