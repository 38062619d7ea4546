package dtype

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestQuantizeByHand(t *testing.T) {
	row := bytes.Repeat([]byte{0xEE}, 12)
	if !QuantizeRow(row, []float32{-254, 1, 3, 5, 254}) {
		t.Fatal("refused")
	}
	// The scale is 2; 0.5 and 2.5 are ties and go to even, 1.5 goes up.
	want := []byte{0, 0, 0, 0x40, 0x81, 0, 2, 2, 127, 0, 0, 0}
	if !bytes.Equal(row, want) {
		t.Errorf("% x, want % x", row, want)
	}
	back := make([]float32, 5)
	DequantizeRow(back, row)
	if !slices.Equal(back, []float32{-254, 0, 4, 4, 254}) {
		t.Error(back)
	}
	if !QuantizeRow(row, make([]float32, 5)) || !bytes.Equal(row, make([]byte, 12)) {
		t.Errorf("zeros became % x", row)
	}
	kept := slices.Clone(row)
	for _, bad := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		if QuantizeRow(row, []float32{1, 2, 3, 4, float32(bad)}) || !bytes.Equal(row, kept) {
			t.Errorf("%g was taken: % x", bad, row)
		}
	}
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
		if !QuantizeRow(row, src) {
			t.Fatal("refused")
		}
		back := make([]float32, len(src))
		DequantizeRow(back, row)
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
