// Package dtype names the element types of a feature row.
package dtype

import (
	"fmt"

	"diskgnn/internal/fault"
)

// Type is an element type. Its text form is what files and flags spell.
type Type string

// The element types that the formats know. Int8 rows carry a scale per row.
const (
	Float32  Type = "float32"
	Float16  Type = "float16"
	BFloat16 Type = "bfloat16"
	Int8     Type = "int8"
)

// Parse accepts a type's name and its usual short form.
func Parse(s string) (Type, error) {
	switch s {
	case "float32", "fp32", "f32":
		return Float32, nil
	case "float16", "fp16", "f16", "half":
		return Float16, nil
	case "bfloat16", "bf16":
		return BFloat16, nil
	case "int8", "i8":
		return Int8, nil
	}
	return "", fault.New(fault.ErrUsage, "unknown dtype %q (float32, float16, bfloat16, int8)", s)
}

// Size returns the bytes of one element.
func (t Type) Size() int {
	switch t {
	case Float32:
		return 4
	case Float16, BFloat16:
		return 2
	case Int8:
		return 1
	}
	panic(fmt.Sprintf("dtype: size of unknown type %q", string(t)))
}

// RowBytes returns the bytes of a row of dim elements in a pack. A row of int8 has a
// float32 scale before its elements, and zeros up to a multiple of four bytes.
func (t Type) RowBytes(dim int) int {
	if t == Int8 {
		return 4 + (dim+3)&^3
	}
	return dim * t.Size()
}

// Valid reports whether t is a type of this version.
func (t Type) Valid() bool { return t == Float32 || t == Float16 || t == BFloat16 || t == Int8 }
