package chart

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
)

// TestScale: ticks are round, and cover all values.
func TestScale(t *testing.T) {
	for _, c := range []struct {
		fromZero bool
		values   []float64
		want     string
	}{
		{false, []float64{1.19, 3.4}, "[1 1.5 2 2.5 3 3.5]"},
		{false, []float64{0.25, 0.851}, "[0.2 0.4 0.6 0.8 1]"},
		{true, []float64{46.7}, "[0 10 20 30 40 50]"},
		{true, []float64{0, 0}, "[0 0.2 0.4 0.6 0.8 1]"},
		{false, []float64{math.NaN()}, "[0 0.2 0.4 0.6 0.8 1]"},
		{false, []float64{-3, 3}, "[-4 -2 0 2 4]"},
	} {
		s := NewScale(c.fromZero, 5, c.values)
		var ticks []string
		for _, v := range s.ticks {
			ticks = append(ticks, fmt.Sprintf("%.6g", v))
		}
		if got := fmt.Sprint(ticks); got != c.want {
			t.Errorf("%v: ticks %v, want %s", c.values, got, c.want)
		}
	}
}

// TestCutOff: a line comes up to the scale's edge and goes below it where it would.
func TestCutOff(t *testing.T) {
	none := math.NaN()
	for _, c := range []struct{ at, values, wantAt, want []float64 }{
		{[]float64{0, 1, 2}, []float64{5, 6, 7}, []float64{0, 1, 2}, []float64{5, 6, 7}},
		{[]float64{0, 1, 2}, []float64{0, 8, 7}, []float64{0, 0.5, 1, 2}, []float64{none, 4, 8, 7}},
		{[]float64{0, 2, 4}, []float64{5, 3, 7}, []float64{0, 1, 2, 2.5, 4}, []float64{5, 4, none, 4, 7}},
		{[]float64{0, 1, 2}, []float64{0, none, 7}, []float64{0, 1, 2}, []float64{none, none, 7}},
		{[]float64{0, 1}, []float64{0, 1}, []float64{0, 1}, []float64{none, none}},
		{[]float64{0, 1}, []float64{4, 5}, []float64{0, 1}, []float64{4, 5}},
		{nil, nil, nil, nil},
	} {
		at, values := CutOff(c.at, c.values, 4)
		if fmt.Sprint(at, values) != fmt.Sprint(c.wantAt, c.want) {
			t.Errorf("%v %v: %v %v, want %v %v", c.at, c.values, at, values, c.wantAt, c.want)
		}
	}
}

// TestNumbers: what cannot be drawn is null in JSON, which has no numbers for it.
func TestNumbers(t *testing.T) {
	d := Data{Name: "a", Values: Numbers{1, math.NaN(), 0.5, math.Inf(1), -1e200}}
	d.Add("b", 2)
	if b, err := json.Marshal(d); err != nil || string(b) != `{"name":"a","names":["b"],"values":[1,null,0.5,null,null,2]}` {
		t.Errorf("%s, %v", b, err)
	}
	if b, err := json.Marshal(Numbers{}); err != nil || string(b) != "[]" {
		t.Errorf("%s, %v", b, err)
	}
}
