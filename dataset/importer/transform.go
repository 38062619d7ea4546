package importer

import (
	"math"

	"diskgnn/dataset"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// transform checks whole feature rows, the first of them that of node first, and
// applies the options to them.
func (im *importing) transform(values []float32, first int64) error {
	dim := im.shape.Dim
	for v := first; len(values) > 0; v++ {
		row := values[:dim]
		values = values[dim:]
		if j := dataset.IndexNotFinite(binio.Bytes(row), dtype.Float32); j >= 0 {
			return fault.New(fault.ErrInput, "feature %d of node %d is %v: features must be finite", j, v, row[j])
		}
		if im.o.Binarize {
			binarize(row)
		}
		if im.o.RowNormalize && !normalize(row) {
			return fault.New(fault.ErrInput, "node %d has negative features: only rows without can be normalised", v)
		}
		if j := indexBeyond(row, im.o.DType); j >= 0 {
			wider := "float32"
			if im.o.DType == dtype.Float16 {
				wider = "bfloat16 or float32"
			}
			return fault.New(fault.ErrInput, "feature %d of node %d is %g, more than %s holds: use %s", j, v, row[j], im.o.DType, wider)
		}
	}
	return nil
}

// indexBeyond returns the first finite value that rounds to infinity as the given
// type, or -1.
func indexBeyond(row []float32, t dtype.Type) int {
	var least float32 // of those values
	switch t {
	case dtype.Float16:
		least = 65520
	case dtype.BFloat16:
		least = math.Float32frombits(0x7F7F8000)
	default:
		return -1
	}
	for j, x := range row {
		if x >= least || x <= -least {
			return j
		}
	}
	return -1
}

func binarize(row []float32) {
	for j, x := range row {
		row[j] = 0
		if x > 0 {
			row[j] = 1
		}
	}
}

// normalize scales the row to the sum 1. It reports false for rows with negative
// values, which have no such scale.
func normalize(row []float32) bool {
	var sum float64
	for _, x := range row {
		if x < 0 {
			return false
		}
		sum += float64(x)
	}
	if sum == 0 {
		return true
	}
	for j, x := range row {
		row[j] = float32(float64(x) / sum)
	}
	return true
}
