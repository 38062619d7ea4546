package tables_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/tables"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// TestFeatures looks at features of several tables, and reads them side by side.
func TestFeatures(t *testing.T) {
	dir, npy := t.TempDir(), importertest.NPY
	save := func(name string, content []byte) tables.Table { return table(t, dir, name, content) }
	wide := save("wide.npy", npy("(3, 2)", []float32{1, 2, 3, 4, 5, 6}))
	narrow := save("narrow.txt", []byte("7\n8\n9\n"))
	halves, more := save("halves.npy", npy("(3, 1)", []uint16{0x3c00, 0x4000, 0x4200})), save("more.npy", npy("(3,)", []uint16{0x3c00, 0, 0}))
	for _, c := range []struct {
		features tables.Features
		dtype    dtype.Type
		rows     string // from the second on
	}{
		{tables.Features{wide}, dtype.Float32, "[3 4 5 6]"},
		{tables.Features{wide, narrow}, dtype.Float32, "[3 4 8 5 6 9]"},
		{tables.Features{narrow, wide, narrow}, dtype.Float32, "[8 3 4 8 9 5 6 9]"},
		{tables.Features{halves, more}, dtype.Float16, "[2 0 3 0]"},
		{tables.Features{halves, wide}, dtype.Float32, "[2 3 4 3 5 6]"},
		{tables.Features{wide, halves}, dtype.Float32, "[3 4 2 5 6 3]"},
		{tables.Features{halves, narrow, more}, dtype.Float32, "[2 8 0 3 9 0]"},
	} {
		sh := importer.Shape{Dim: 70, Nodes: 3}
		if err := c.features.LookAt(&sh); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range c.features {
			names = append(names, filepath.Join(dir, f.Name))
		}
		rows, err := c.features.Rows(3, 1)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, 2*sh.Dim)
		if err := errors.Join(rows.Next(got), rows.Close()); err != nil || fmt.Sprint(got) != c.rows || sh.DType != c.dtype || sh.Features != strings.Join(names, ", ") {
			t.Errorf("%v of %+v, %v; want %s", got, sh, err, c.rows)
		}
		allClosed(t)
	}
	sh := importer.Shape{}
	if err := (tables.Features{wide, narrow}).LookAt(&sh); err != nil || sh.Nodes != 3 || sh.Dim != 3 {
		t.Errorf("%+v, %v", sh, err)
	}
	full := save("full.npy", npy("(1, 16777216)", make([]uint8, 1<<24)))
	one := save("one.npy", npy("(1, 1)", []float32{1}))
	gone := tables.Table{Name: "gone", Open: func() (matrix.Matrix, error) { return nil, fault.New(fault.ErrInput, "it is gone") }}
	for says, f := range map[string]tables.Features{
		"more.npy: there are features of 3 nodes, but the graph has 1 nodes":    {one, more},
		"none.npy: there are features of 0 nodes, but the graph has 1 nodes":    {one, save("none.npy", npy("(0, 1)", []float32{}))},
		"one.npy: feature rows have 16777217 elements instead of 1 to 16777216": {full, one},
		"it is gone":      {one, gone},
		"none is missing": {{Name: "none"}},
	} {
		sh := importer.Shape{}
		if err := f.LookAt(&sh); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
		allClosed(t)
	}
	if err := (tables.Features{full}).LookAt(&sh); err == nil { // of three nodes
		t.Error("a row for one of three nodes")
	}
	if err := (tables.Features{full}).LookAt(&importer.Shape{}); err != nil {
		t.Error(err)
	}
	if _, err := (tables.Features{wide, halves, gone}).Rows(3, 0); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "it is gone") {
		t.Error(err)
	}
	allClosed(t)
}
