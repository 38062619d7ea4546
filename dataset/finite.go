package dataset

import (
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// IndexNotFinite returns the first of the elements that is an infinity or NaN, or -1.
func IndexNotFinite(b []byte, t dtype.Type) int {
	switch t {
	case dtype.Float32:
		return indexExponent(binio.View[uint32](b), 0x7F800000)
	case dtype.Float16:
		return indexExponent(binio.View[uint16](b), 0x7C00)
	default: // bfloat16: no other type is one of features
		return indexExponent(binio.View[uint16](b), 0x7F80)
	}
}

// indexExponent returns the first element that has all bits of the exponent, or -1.
func indexExponent[T uint16 | uint32](elements []T, exponent T) int {
	for i, x := range elements {
		if x&exponent == exponent {
			return i
		}
	}
	return -1
}

// notFinite is the error for an element of a feature table, counted through all rows.
func notFinite(kind error, file string, element int64, dim int) error {
	return fault.New(kind, "%s: feature %d of node %d is infinite or not a number: features must be finite", file, element%int64(dim), element/int64(dim))
}
