// Package page shows a simulation of BeaconGNN on one page of HTML, with the pictures of its authors'
// slides: throughput, utilisation over time, time of batches and commands by part, bytes, energy, sweeps.
// The page contains its pictures, and needs no scripts and no network.
package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"diskgnn/internal/chart"
	"diskgnn/internal/units"
	"diskgnn/simulate/beacon"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// content is the data of the template.
type content struct {
	Style, Palette template.CSS
	Title          string
	Sentence       string
	How            string
	Tiles          []tile
	Parts          []part
	Tables         []table
}

type tile struct{ Name, Value string }

// part is a group of figures.
type part struct {
	Title, Says string
	Figures     []chart.Figure
}

type table struct {
	Title, Says string
	Open        bool
	Columns     []string
	Rows        [][]string
}

// Write writes the page of a result, with the figures of a run on this machine if m is not nil.
func Write(w io.Writer, r *beacon.Result, m *beacon.Measured) error {
	p := pager{r: r, measured: m, shown: shown(r)}
	c := content{
		Style: chart.Style(), Palette: chart.Palette(), Title: "BeaconGNN, simulated", Sentence: p.sentence(), How: p.how(), Tiles: p.tiles(),
		Parts: p.parts(), Tables: p.tables(),
	}
	return pageTemplate.Execute(w, c)
}

// pager turns a result into a page.
type pager struct {
	r        *beacon.Result
	measured *beacon.Measured
	shown    string // workload drawn in detail: the authors' slides have amazon's
}

func shown(r *beacon.Result) string {
	if slices.ContainsFunc(r.Rows, func(row beacon.Row) bool { return row.Workload == "amazon" }) || len(r.Rows) == 0 {
		return "amazon"
	}
	return r.Rows[0].Workload
}

// rows returns the rows of a mode and workload without a sweep's setting.
func (p *pager) rows(m beacon.Mode, workload string) (list []*beacon.Row) {
	for i := range p.r.Rows {
		if r := &p.r.Rows[i]; r.Mode == m && r.Workload == workload && r.Setting == "" {
			list = append(list, r)
		}
	}
	return list
}

// each returns the distinct values of rows, in order.
func (p *pager) each(of func(*beacon.Row) string) (list []string) {
	for i := range p.r.Rows {
		if v := of(&p.r.Rows[i]); !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

func (p *pager) modes() (modes []beacon.Mode) {
	for _, m := range p.each(func(r *beacon.Row) string { return string(r.Mode) }) {
		modes = append(modes, beacon.Mode(m))
	}
	return modes
}

// find returns the row of a platform; nil: it was not simulated.
func find(rows []*beacon.Row, platform string) *beacon.Row {
	if i := slices.IndexFunc(rows, func(r *beacon.Row) bool { return r.Platform == platform }); i >= 0 {
		return rows[i]
	}
	return nil
}

func (p *pager) sentence() string {
	var says []string
	for _, m := range p.modes() {
		rows := p.rows(m, p.shown)
		if len(rows) < 2 {
			continue
		}
		by := func(a, b *beacon.Row) int { return int(a.Seconds*1e12 - b.Seconds*1e12) }
		best, worst := slices.MinFunc(rows, by), slices.MaxFunc(rows, by)
		says = append(says, fmt.Sprintf("%s takes %s for a batch of %s, %s %.3g times as long (%s)", best.Platform, units.Seconds(best.Seconds), p.shown, worst.Platform, worst.Seconds/best.Seconds, m))
	}
	says = append(says, "No such drive exists: all figures of platforms are simulated")
	return strings.Join(says, ". ") + "."
}

func (p *pager) how() string {
	s := fmt.Sprintf("%s on each platform, each in an idle drive; seed %d.", units.Of(p.r.Batches, "batch"), p.r.Seed)
	if len(p.r.Set) > 0 {
		s += " Set: " + strings.Join(p.r.Set, ", ") + "."
	}
	return s + " Mode faithful has the rules of the authors' simulator; mode strict counts all transfers and waits."
}

func (p *pager) tiles() (list []tile) {
	for _, m := range p.modes() {
		if r := find(p.rows(m, p.shown), "BG-2"); r != nil {
			list = append(list, tile{"targets a second of BG-2, " + p.shown + ", " + string(m), units.Short(int64(r.Targets))})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.r.Inflation)) {
		list = append(list, tile{"inflation by DirectGraph, " + name, fmt.Sprintf("%.1f %%", 100*p.r.Inflation[name])})
	}
	return list
}

func (p *pager) parts() (list []part) {
	if p.measured != nil {
		list = append(list, part{"Here", "Assumed: " + beacon.Assumed + ".", []chart.Figure{p.here()}})
	}
	for _, m := range p.modes() {
		list = append(list, part{"Mode " + string(m), "", p.figures(m)})
	}
	if modes := p.modes(); len(modes) == 2 {
		list = append(list, part{"Differences between the modes", "", []chart.Figure{p.apart(modes)}})
	}
	for _, m := range p.modes() {
		if f := p.sweeps(m); len(f) > 0 {
			list = append(list, part{"Sweeps, mode " + string(m), "Targets a second of " + p.shown + ", one parameter changed at a time.", f})
		}
	}
	return list
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

func (p *pager) tables() (list []table) {
	if len(p.r.Claims) > 0 {
		t := table{
			Title: "Published figures", Open: true,
			Says:    "Means are over the five workloads. The figures of the authors' simulator are from separate runs with degree laws of this kind. σ is the deviation of the degree laws, in faithful mode.",
			Columns: []string{"", "paper", "authors' simulator", "faithful", "strict", "σ halved", "σ × 1.5", ""},
		}
		for i, c := range p.r.Claims {
			verdict := "no bound was set"
			switch {
			case c.Within > 0 && c.Holds():
				verdict = fmt.Sprintf("within ±%.0f %%", 100*c.Within)
			case c.Within > 0:
				verdict = fmt.Sprintf("misses ±%.0f %%", 100*c.Within)
			}
			row := []string{c.What, number(c.Paper), number(c.Authors), fmt.Sprintf("%.2f", c.Faithful), fmt.Sprintf("%.2f", c.Strict), "", "", verdict}
			if i < len(p.r.Doubts) {
				row[5], row[6] = fmt.Sprintf("%.2f", p.r.Doubts[i].Halved), fmt.Sprintf("%.2f", p.r.Doubts[i].More)
			}
			t.Rows = append(t.Rows, row)
		}
		list = append(list, t)
	}
	if len(p.r.EnergyDoubts) > 0 {
		t := table{
			Title: "Energy by other assumptions", Open: true,
			Says:    "For amazon, in faithful mode: targets a joule of BG-2 relative to CC and to BG-1, watts of BG-2, and shares of energy.",
			Columns: []string{"", "over CC", "over BG-1", "watts", "DRAM of BG-1", "PCIe and host memory of CC"},
		}
		for _, d := range p.r.EnergyDoubts {
			t.Rows = append(t.Rows, []string{d.What, fmt.Sprintf("%.2f", d.OverCC), fmt.Sprintf("%.2f", d.OverBG1), fmt.Sprintf("%.1f", d.Watts),
				fmt.Sprintf("%.0f %%", 100*d.DRAMShare), fmt.Sprintf("%.0f %%", 100*d.PCIeShare)})
		}
		list = append(list, t)
	}
	all := table{Title: "All figures", Columns: []string{"", "µs a batch", "targets/s", "batches/s", "commands", "round trips", "channel bytes", "PCIe bytes", "dies", "channels", "cores", "mJ", "W"}}
	for i := range p.r.Rows {
		r := &p.r.Rows[i]
		all.Rows = append(all.Rows, []string{
			strings.TrimSuffix(fmt.Sprintf("%s, %s, %s, %s", r.Platform, r.Workload, r.Mode, r.Setting), ", "),
			fmt.Sprintf("%.1f", 1e6*r.Seconds), units.Short(int64(r.Targets)), number(r.PerSecond), number(r.Commands), number(r.RoundTrips), number(r.ChannelBytes), number(r.PCIeBytes),
			fmt.Sprintf("%.1f", r.DiesBusy), fmt.Sprintf("%.1f", r.ChannelsBusy), fmt.Sprintf("%.1f", r.CoresBusy), fmt.Sprintf("%.3f", 1e3*r.Joules.Total()), fmt.Sprintf("%.1f", r.Watts),
		})
	}
	return append(list, all)
}
