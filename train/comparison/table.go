package comparison

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/train/score"
)

// A column of the tables that people read.
type column struct {
	name string
	cell func(s *Store) string
}

// tables are the columns, divided into tables so that lines stay within 80 characters for names of
// up to 24.
var tables = [][]column{
	{
		{"first", func(s *Store) string { return show(s.FirstSeconds, units.Seconds) }},
		{"epoch", func(s *Store) string { return show(s.EpochSeconds, units.Seconds) }},
		{"spread", func(s *Store) string { return show(s.spread(), percent) }},
		{"bound by", func(s *Store) string { return s.bound() }},
	}, {
		{"read", func(s *Store) string { return show(s.BytesRead, size) }},
		{"useful", func(s *Store) string { return show(s.UsefulFraction, percent) }},
		{"requests", func(s *Store) string { return show(s.Requests, number) }},
		{"each", func(s *Store) string { return show(s.RequestBytes, size) }},
	}, {
		{"held", func(s *Store) string { return percent(s.CacheFraction) }},
		{"on GPU", func(s *Store) string { return show(s.GPUHitRatio, percent) }},
		{"in RAM", func(s *Store) string { return show(s.RAMHitRatio, percent) }},
		{"valid", func(s *Store) string { return show(s.Valid, percent) }},
	}, {
		{"effective", func(s *Store) string { return show(s.Effective, units.BytesPerSecond) }},
		{"device", func(s *Store) string { return show(s.Device, units.BytesPerSecond) }},
		{"drive", func(s *Store) string { return show(s.AtRequest, units.BytesPerSecond) }},
		{"of it", func(s *Store) string { return show(s.DeviceFraction, percent) }},
	}, {
		{"prepared", func(s *Store) string { return s.prepared(units.Seconds(s.Preparation.Seconds)) }},
		{"on disk", func(s *Store) string { return s.prepared(budget.FormatBytes(s.Preparation.DiskBytes)) }},
		{"packing pays", func(s *Store) string { return s.pays() }},
	},
}

// spread returns the difference of the slowest and the fastest round's epoch over the median, undefined of one
// round.
func (s *Store) spread() score.Score {
	if len(s.RoundSeconds) < 2 {
		return score.Undefined
	}
	return ratio(float64(slices.Max(s.RoundSeconds)-slices.Min(s.RoundSeconds)), float64(s.EpochSeconds))
}

// bound names the link that takes longest by itself.
func (s *Store) bound() string {
	if len(s.Links) == 0 {
		return "-"
	}
	return slices.MaxFunc(s.Links, func(a, b Link) int { return cmp.Compare(a.Seconds, b.Seconds) }).Name
}

// prepared returns the text for a preparation, if there was one.
func (s *Store) prepared(text string) string {
	if s.Preparation == (Preparation{}) {
		return "-"
	}
	return text
}

// pays returns the epoch from which packing has paid, against this store.
func (s *Store) pays() string {
	switch {
	case s.PackPays != nil:
		return "epoch " + strconv.Itoa(*s.PackPays)
	case s.PackUnclear:
		return "unclear"
	case s.PackSaves.Defined():
		return "never"
	}
	return "-"
}

func size(v float64) string    { return budget.FormatBytes(int64(v)) }
func percent(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }
func number(v float64) string  { return units.Short(int64(math.Round(v))) }

func show(v score.Score, format func(float64) string) string {
	if !v.Defined() {
		return "-"
	}
	return format(float64(v))
}

// Table is text in columns: a heading, and a line for each store, of the same length.
type Table struct {
	Heading string
	Lines   []string
}

// Tables returns the comparison for people. A store that has not run has the reason as its
// line of the first table, and none in the others: there its line is empty.
func (r *Result) Tables() []Table {
	list := make([]Table, len(tables))
	for i, columns := range tables {
		list[i] = r.table(columns)
		for k := range r.Stores {
			if why := r.Stores[k].Error; why != "" && i == 0 {
				list[i].Lines[k] = strings.TrimSpace(list[i].Lines[k] + "  failed: " + strings.ReplaceAll(why, "\n", "; "))
			}
		}
	}
	return list
}

func (r *Result) table(columns []column) Table {
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
	}
	return Table{text[0], text[1:]}
}
