package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFigures: numbers as tables have them, by hand.
func TestFigures(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.123456: "0.1235", 9999.4: "9999", 10000: "10000", 1234567: "1234567", -1234567: "-1234567", 2.5e9: "2500000000"} {
		if got := figure(v); got != want {
			t.Errorf("%v is %s, not %s", v, got, want)
		}
	}
	for _, c := range []struct {
		v    any
		want string
	}{
		{7, "7"},
		{"x", "x"},
		{12345.6, "12346"},
		{[]float64{1, 2.55555}, "[1 2.556]"},
		{spread{2, 2, 2, 1}, "2"},
		{spread{2, 1, 3, 3}, "2 (1–3)"},
		{scores{0.5, 0.0123, nil}, "0.5 ± 0.012"},
	} {
		if got := cell(c.v); got != c.want {
			t.Errorf("%v is %s, not %s", c.v, got, c.want)
		}
	}
	r := row{{"a", 1}, {"b", int64(2)}, {"c", 2.5}, {"d", "x"}}
	if got := r.String(); got != "a 1, b 2, c 2.5, d x" {
		t.Error(got)
	}
	for name, want := range map[string]float64{"a": 1, "b": 2, "c": 2.5} {
		if v, ok := r.number(name); v != want || !ok {
			t.Errorf("%s is %v, %v", name, v, ok)
		}
	}
	for _, name := range []string{"d", "e"} {
		if v, ok := r.number(name); v != 0 || ok {
			t.Errorf("%s is %v, %v", name, v, ok)
		}
	}
	if _, err := (row{{"nan", math.NaN()}}).MarshalJSON(); err == nil || !strings.HasPrefix(err.Error(), "nan: ") {
		t.Error(err)
	}
}

// TestMedianAndScores: by hand; the sample's standard deviation of 1, 2 and 6 is √7.
func TestMedianAndScores(t *testing.T) {
	v := []float64{6, 1, 2}
	if m := median(v); m != 2 || !slices.Equal(v, []float64{6, 1, 2}) {
		t.Errorf("%v of %v", m, v)
	}
	if m := median([]float64{6, 1, 2, 4}); m != 3 {
		t.Error(m)
	}
	if s := scoresOf(v); s.Mean != 3 || math.Abs(s.SD-math.Sqrt(7)) > 1e-12 {
		t.Errorf("%+v", s)
	}
	if s := scoresOf([]float64{5}); s.Mean != 5 || s.SD != 0 {
		t.Errorf("%+v", s)
	}
	all := found{"a": {{{"n", 1}, {"m", 10}}, {{"n", 3}}}, "b": {{{"n", 7}}}}
	if n, m, b := all.median("a", "n"), all.median("a", "m"), all.median("b", "n"); n != 2 || m != 10 || b != 7 {
		t.Errorf("%v, %v, %v", n, m, b)
	}
	if sum := total([]epoch{{Seconds: 1, BytesRead: 10, UsefulBytes: 100}, {Seconds: 2, BytesRead: 20, UsefulBytes: 200}}); sum.Seconds != 3 || sum.BytesRead != 30 || sum.UsefulBytes != 300 {
		t.Errorf("%+v", sum)
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no room") }

// TestTableFails: a table that could not be written is an error, and the more of rows and fields are its
// lines.
func TestTableFails(t *testing.T) {
	rows := []row{{{"a", 1}, {"b", 2}}, {{"a", 3}, {"b", 4}}}
	if err := table(full{}, rows); err == nil {
		t.Error("nothing was written, and nothing said")
	}
	var out bytes.Buffer
	if err := table(&out, append(rows, row{{"c", 5}, {"d", 6}}, row{{"c", 7}, {"e", 8}})); err != nil || out.String() != "a  b\n1  2\n3  4\nc  5\nd  6\nc  7\ne  8\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestTurnsKeepTheirSides: the sides of whoever calls stay in their order, though odd rounds go
// backwards.
func TestTurnsKeepTheirSides(t *testing.T) {
	var sides []side
	for _, name := range []string{"a", "b", "c"} {
		sides = append(sides, side{name, func(context.Context, int) (row, error) { return row{{"n", 1}}, nil }})
	}
	h := &harness{out: &bytes.Buffer{}, json: true, rounds: 1, swap: true}
	if _, err := h.turns(t.Context(), sides...); err != nil || sides[0].name != "a" || sides[2].name != "c" {
		t.Errorf("%v: %s first", err, sides[0].name)
	}
}

// TestTurnsOfOne: without more flags a command has one side, and no ratio; one word is a command.
func TestTurnsOfOne(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "program")
	if err := os.WriteFile(name, []byte("#!/bin/sh\necho '{\"bytes\": 5, \"seconds\": 2}'\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	turns := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), append([]string{"turns", "-bin", name, "-rounds", "1", "-figures", "bytes,none"}, args...), &out)
		return out.String(), err
	}
	if out, err := turns("--", "version"); err != nil || out != "side    []\nrounds  1\nbytes   5\n" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := turns("-each", "-a", "-each", "-b", "--", "version"); err != nil || !strings.HasSuffix(out, "side   [-a]\nover   [-b]\nbytes  1\n") {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := turns(); err == nil || !strings.Contains(err.Error(), "usage: turns [flags] -- COMMAND") {
		t.Error(err)
	}
	if _, err := turns("-drop", filepath.Join(dir, "none"), "--", "version"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there is dropped: %v", err)
	}
	if _, err := turns("-drop", dir, "--", "version"); err != nil {
		t.Error(err)
	}
}
