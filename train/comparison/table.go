package comparison

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/train/score"
)

// columns are those of the table that people read.
var columns = []struct {
	name string
	cell func(s *Store) string
}{
	{"epoch", func(s *Store) string { return show(s.EpochSeconds, units.Seconds) }},
	{"read", func(s *Store) string { return show(s.BytesRead, size) }},
	{"useful", func(s *Store) string { return show(s.UsefulFraction, percent) }},
	{"hits", func(s *Store) string { return show(s.HitRatio, percent) }},
	{"effective", func(s *Store) string { return show(s.Effective, units.BytesPerSecond) }},
	{"device", func(s *Store) string { return show(s.Device, units.BytesPerSecond) }},
	{"validation", func(s *Store) string { return show(s.Valid, percent) }},
	{"prepared", func(s *Store) string {
		if s.Preparation == (Preparation{}) {
			return "-"
		}
		return units.Seconds(s.Preparation.Seconds) + ", " + budget.FormatBytes(s.Preparation.DiskBytes)
	}},
	{"packing pays", func(s *Store) string {
		switch {
		case s.PackPays != nil:
			return "from epoch " + strconv.Itoa(*s.PackPays)
		case s.PackSaves.Defined():
			return "never"
		}
		return "-"
	}},
}

func size(v float64) string    { return budget.FormatBytes(int64(v)) }
func percent(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }

func show(v score.Score, format func(float64) string) string {
	if !v.Defined() {
		return "-"
	}
	return format(float64(v))
}

// Table returns a heading, and a line for each store under its name: the columns, aligned, or
// why the store has not run.
func (r *Result) Table() (heading string, lines []string) {
	rows := make([][]string, 1+len(r.Stores))
	widths := make([]int, len(columns))
	for c, column := range columns {
		rows[0] = append(rows[0], column.name)
		for i := range r.Stores {
			if r.Stores[i].Rounds > 0 {
				rows[1+i] = append(rows[1+i], column.cell(&r.Stores[i]))
			}
		}
		for _, row := range rows {
			if len(row) > c {
				widths[c] = max(widths[c], utf8.RuneCountInString(row[c]))
			}
		}
	}
	text := make([]string, len(rows))
	for i, row := range rows {
		var b strings.Builder
		for c, cell := range row {
			fmt.Fprintf(&b, "%*s  ", widths[c], cell)
		}
		text[i] = strings.TrimRight(b.String(), " ")
		if i > 0 && r.Stores[i-1].Error != "" {
			text[i] = strings.TrimSpace(text[i] + "  failed: " + strings.ReplaceAll(r.Stores[i-1].Error, "\n", "; "))
		}
	}
	return text[0], text[1:]
}
