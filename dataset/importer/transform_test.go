package importer

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// TestTransform changes two rows of three features, of nodes 10 and 11.
func TestTransform(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	half, brain := math.Nextafter32(65520, 0), math.Nextafter32(math.Float32frombits(0x7F7F8000), 0)
	for _, c := range []struct {
		o        Options
		in, want []float32
		says     string
	}{
		{Options{}, []float32{1, -2, 3, 4, 5, math.MaxFloat32}, []float32{1, -2, 3, 4, 5, math.MaxFloat32}, ""},
		{Options{Binarize: true}, []float32{1, -2, 0, 0.5, 5, 0}, []float32{1, 0, 0, 1, 1, 0}, ""},
		{Options{RowNormalize: true}, []float32{1, 2, 1, 0, 0, 0}, []float32{0.25, 0.5, 0.25, 0, 0, 0}, ""},
		{Options{Binarize: true, RowNormalize: true}, []float32{-1, 2, 3, 0, 9, 0}, []float32{0, 0.5, 0.5, 0, 1, 0}, ""},
		{Options{RowNormalize: true}, []float32{1, 2, 1, 0, -1, 0}, nil, "--row-normalize: node 11 has a negative feature"},
		{Options{}, []float32{1, 2, inf, 0, 0, 0}, nil, "feature 2 of node 10 is +Inf: features must be finite"},
		{Options{Binarize: true}, []float32{1, 2, 3, nan, 0, 0}, nil, "feature 0 of node 11 is NaN"},
		{Options{DType: dtype.Float16}, []float32{half, -half, 0, 0, 0, 0}, []float32{half, -half, 0, 0, 0, 0}, ""},
		{Options{DType: dtype.Float16}, []float32{1, 65520, 0, 0, 0, 0}, nil, "feature 1 of node 10 is 65520, too large for float16: give --dtype bfloat16 or --dtype float32"},
		{Options{DType: dtype.Float16}, []float32{1, 0, 0, 0, 0, -65520}, nil, "feature 2 of node 11 is -65520, too large for"},
		{Options{DType: dtype.BFloat16}, []float32{brain, -brain, 65520, 0, 0, 0}, []float32{brain, -brain, 65520, 0, 0, 0}, ""},
		{Options{DType: dtype.BFloat16}, []float32{math.MaxFloat32, 0, 0, 0, 0, 0}, nil, "feature 0 of node 10 is 3.4028235e+38, too large for bfloat16: give --dtype float32"},
	} {
		if c.o.DType == "" {
			c.o.DType = dtype.Float32
		}
		im := &importing{shape: Shape{Dim: 3}, o: c.o}
		err := im.transform(c.in, 10)
		if c.says == "" && (err != nil || !slices.Equal(c.in, c.want)) || c.says != "" && (!errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v, %v; want %v %q", c.o, c.in, err, c.want, c.says)
		}
	}
}
