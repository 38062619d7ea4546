package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"diskgnn/train/cpu/blas"
)

func TestParseProduct(t *testing.T) {
	for shape, want := range map[string]blas.Product{
		"nn3x4x5":          {M: 3, N: 4, K: 5, LDA: 5, LDB: 4, LDC: 4},
		"tn3x4x5":          {TransA: true, M: 3, N: 4, K: 5, LDA: 3, LDB: 4, LDC: 4},
		"nt3x4x5":          {TransB: true, M: 3, N: 4, K: 5, LDA: 5, LDB: 5, LDC: 4},
		"tt3x4x5/30/50/40": {TransA: true, TransB: true, M: 3, N: 4, K: 5, LDA: 30, LDB: 50, LDC: 40},
	} {
		if got, err := parseProduct(shape); err != nil || got != want {
			t.Errorf("%s: %+v, %v", shape, got, err)
		}
	}
	for _, shape := range []string{"", "3x4x5", "nn3x4", "nn3x4x5/1"} {
		if got, err := parseProduct(shape); err == nil {
			t.Errorf("%q: %+v", shape, got)
		}
	}
	for _, shape := range shapes {
		if _, err := parseProduct(shape); err != nil {
			t.Error(err)
		}
	}
}

// A worker names its library, and answers each request with a rate.
func TestMeasureAll(t *testing.T) {
	var in, out bytes.Buffer
	for _, r := range []request{{"nn3x4x5", 1, 1e-4}, {"tt30x4x50/31/51/5", 2, 1e-4}} {
		if err := json.NewEncoder(&in).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := measureAll(blas.Gonum, &in, &out); err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(&out)
	var name string
	if err := answers.Decode(&name); err != nil || name != "gonum" {
		t.Errorf("%q, %v", name, err)
	}
	for range 2 {
		var rate float64
		if err := answers.Decode(&rate); err != nil || rate <= 0 {
			t.Errorf("%v, %v", rate, err)
		}
	}
	if err := measureAll(blas.Gonum, strings.NewReader(`{"Shape": "round"}`), &out); err == nil {
		t.Error("a shape of no kind was measured")
	}
}
