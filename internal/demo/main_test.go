package main

import "testing"

// OpenBLAS is recommended where it makes a difference: not beside the program's own products.
func TestAdvice(t *testing.T) {
	for blas, any := range map[string]bool{"openblas 0.3.21 (Haswell)": false, "builtin 1": false, "gonum": true} {
		if got := advice(blas); (got != "") != any {
			t.Errorf("%s: %q", blas, got)
		}
	}
}
