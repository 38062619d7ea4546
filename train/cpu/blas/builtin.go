package blas

import (
	"errors"

	"diskgnn/train/cpu/sgemm"
)

// builtinName identifies the kernels of package sgemm and the order of their sums: its number rises
// when the bits of results change. The bits do not depend on the instructions in use.
const builtinName = Builtin + " 1"

// openBuiltin fails where the processor has none of the instructions.
func openBuiltin() (*Library, error) {
	if sgemm.Kind() == "" {
		return nil, errors.New("no built-in matrix products here: they need amd64 with AVX2 and FMA, and DISKGNN_SIMD other than plain")
	}
	return &Library{kind: Builtin, name: builtinName, sgemm: sgemm.Multiply, bytes: sgemm.SpaceBytes}, nil
}
