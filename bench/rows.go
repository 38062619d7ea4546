package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// field is a named figure of a row.
type field struct {
	name  string
	value any
}

// row is a line of results.
type row []field

// MarshalJSON writes an object with the members in the order of the fields.
func (r row) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, f := range r {
		name, err := json.Marshal(f.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		b.Write(append(append(name, ':'), value...))
	}
	b.WriteString("}")
	return b.Bytes(), nil
}

// names returns the fields' names.
func (r row) names() (all []string) {
	for _, f := range r {
		all = append(all, f.name)
	}
	return all
}

// number returns a field that is a number.
func (r row) number(name string) (float64, bool) {
	for _, f := range r {
		if f.name != name {
			continue
		}
		switch v := f.value.(type) {
		case float64:
			return v, true
		case int64:
			return float64(v), true
		case int:
			return float64(v), true
		}
	}
	return 0, false
}

func (r row) String() string {
	var words []string
	for _, f := range r {
		words = append(words, f.name+" "+cell(f.value))
	}
	return strings.Join(words, ", ")
}

// figure formats a number for the table: with four significant digits, or all digits of a larger integer part.
func figure(v float64) string {
	if math.Abs(v) >= 1e4 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

// cell is a value in the table's format.
func cell(v any) string {
	switch v := v.(type) {
	case float64:
		return figure(v)
	case []float64:
		return fmt.Sprintf("%.4g", v)
	}
	return fmt.Sprint(v)
}

// progress prints the row of one round.
func (h *harness) progress(r row) error {
	if h.json {
		return h.line(r)
	}
	log.Print(r)
	return nil
}

// report prints a result.
func (h *harness) report(r row) error {
	if h.json {
		return h.line(r)
	}
	h.rows = append(h.rows, r)
	return nil
}

// line writes v as a line of JSON.
func (h *harness) line(v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintln(h.out, string(line))
	}
	return err
}

// table prints rows; consecutive rows with the same fields share a table. Its lines are the fields,
// or the rows if there are more of them.
func table(out io.Writer, rows []row) error {
	for len(rows) > 0 {
		names := rows[0].names()
		n := 1
		for n < len(rows) && slices.Equal(rows[n].names(), names) {
			n++
		}
		cells := [][]string{names}
		for _, r := range rows[:n] {
			var line []string
			for _, f := range r {
				line = append(line, cell(f.value))
			}
			cells = append(cells, line)
		}
		if len(names) > n {
			cells = transposed(cells)
		}
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		for _, line := range cells {
			if _, err := fmt.Fprintln(w, strings.Join(line, "\t")); err != nil {
				return err
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func transposed(cells [][]string) [][]string {
	out := make([][]string, len(cells[0]))
	for i := range out {
		for _, line := range cells {
			out[i] = append(out[i], line[i])
		}
	}
	return out
}

// spread summarises the rounds of one measurement.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Rounds int     `json:"rounds"`
}

// spreadOf returns the spread of the values; all NaN without any.
func spreadOf(v []float64) spread {
	if len(v) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN(), 0}
	}
	return spread{median(v), slices.Min(v), slices.Max(v), len(v)}
}

func (s spread) String() string {
	if s.Min == s.Max {
		return figure(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", figure(s.Median), figure(s.Min), figure(s.Max))
}

// scores summarise the scores of several seeds.
type scores struct {
	Mean   float64   `json:"mean"`
	SD     float64   `json:"sd"`
	Values []float64 `json:"values"`
}

func (s scores) String() string { return fmt.Sprintf("%s ± %.2g", figure(s.Mean), s.SD) }

// median returns the middle value, the mean of the two middle ones for an even
// number; NaN of nothing.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Clone(v)
	slices.Sort(s)
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// scoresOf returns the mean and the sample standard deviation, 0 for one value.
func scoresOf(v []float64) scores {
	s := scores{Values: v}
	for _, x := range v {
		s.Mean += x / float64(len(v))
	}
	if len(v) > 1 {
		sum := 0.0
		for _, x := range v {
			sum += (x - s.Mean) * (x - s.Mean) / float64(len(v)-1)
		}
		s.SD = math.Sqrt(sum)
	}
	return s
}
