package page

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"diskgnn/internal/budget"
	"diskgnn/internal/chart"
	"diskgnn/internal/units"
	"diskgnn/simulate/beacon"
)

// classes are the platforms' colours.
var classes = map[string]string{
	"CC": "c4", "GLIST": "c8", "SmartSAGE": "c7", "BG-1": "c6", "BG-DG": "c5", "BG-SP": "c2", "BG-DGSP": "c3", "BG-2": "c1",
}

func legend(rows []*beacon.Row) (list []chart.Key) {
	for _, r := range rows {
		list = append(list, chart.Key{Class: classes[r.Platform], Name: r.Platform})
	}
	return list
}

func micros(seconds float64) string { return fmt.Sprintf("%.4g µs", 1e6*seconds) }

// figures returns the figures of a mode.
func (p *pager) figures(m beacon.Mode) (list []chart.Figure) {
	rows := p.rows(m, p.shown)
	list = append(list, p.throughput(m))
	list = append(list, timelines(rows)...)
	for _, f := range []func([]*beacon.Row) chart.Figure{batchLatency, commandLatency, hops, usefulBytes, roundTrips, coresAndDies, energy, efficiency} {
		list = append(list, f(rows))
	}
	for i := range list[1:] {
		list[1+i].Title += ", " + p.shown
	}
	return list
}

// throughput draws a group of bars for each workload, relative to the bar of CC if CC was simulated.
func (p *pager) throughput(m beacon.Mode) chart.Figure {
	f := chart.Figure{Title: "Targets a second", Legend: legend(p.rows(m, p.shown))}
	var list []chart.Bar
	for _, w := range p.each(func(r *beacon.Row) string { return r.Workload }) {
		rows := p.rows(m, w)
		cc, best := find(rows, "CC"), slices.MaxFunc(rows, func(a, b *beacon.Row) int { return int(a.Targets - b.Targets) })
		b := chart.Bar{Name: w, Says: fmt.Sprintf("%s: %s/s", best.Platform, units.Short(int64(best.Targets)))}
		if cc != nil {
			b.Says += fmt.Sprintf(", %.1f × CC", best.Targets/cc.Targets)
		}
		for _, r := range rows {
			value, tell := r.Targets, fmt.Sprintf("%s: %s targets/s", r.Platform, units.Short(int64(r.Targets)))
			if cc != nil {
				value /= cc.Targets
				tell += fmt.Sprintf(", %.2f × CC", value)
			}
			b.Bars = append(b.Bars, []chart.Part{{Class: classes[r.Platform], Value: value, Tell: tell}})
		}
		list = append(list, b)
		if cc != nil {
			f.Note = "Bars are relative to the bar of CC."
		}
	}
	f.Charts = []template.HTML{chart.Bars(f.Title, 0, list)}
	return f
}

// mostPoints bounds the points of a line over time. For more bins, each point is the mean of several bins.
const mostPoints = 200

// curve returns the number of busy units over time, in µs.
func curve(r *beacon.Row, busy []float64) chart.Curve {
	c := chart.Curve{Class: classes[r.Platform]}
	group := (len(busy) + mostPoints - 1) / mostPoints
	for at := 0; at < len(busy); at += group {
		bins, sum := busy[at:min(at+group, len(busy))], 0.0
		for _, b := range bins {
			sum += b
		}
		c.X = append(c.X, 1e6*r.BinSeconds*(float64(at)+float64(len(bins))/2))
		c.Y = append(c.Y, sum/float64(len(bins)))
	}
	return c
}

// timelines draws the busy dies and the busy channels over time. Platforms with dies that sample have a
// chart of their own, since they take a tenth of the time.
func timelines(rows []*beacon.Row) (list []chart.Figure) {
	for _, of := range []struct {
		title string
		all   func(*beacon.Row) int
		busy  func(*beacon.Row) []float64
	}{
		{"Busy dies over time", func(r *beacon.Row) int { return r.Dies }, func(r *beacon.Row) []float64 { return r.DieTimeline }},
		{"Busy channels over time", func(r *beacon.Row) int { return r.Channels }, func(r *beacon.Row) []float64 { return r.ChannelTimeline }},
	} {
		f := chart.Figure{Title: of.title, Legend: legend(rows)}
		for _, whole := range []bool{true, false} {
			var curves []chart.Curve
			for _, r := range rows {
				if pf, err := beacon.FindPlatforms(r.Platform); err == nil && pf[0].WholePages == whole {
					curves = append(curves, curve(r, of.busy(r)))
				}
				f.Note = fmt.Sprintf("Out of %d, while the first batch is read.", of.all(r))
			}
			if len(curves) > 0 {
				label := map[bool]string{true: ", whole pages", false: ", sampled in dies"}[whole]
				f.Charts = append(f.Charts, chart.Curves(of.title+label, "µs"+label, true, curves, number, number))
			}
		}
		if len(f.Charts) == 2 {
			f.Note += " Above: platforms that send whole pages. Below: platforms that sample in dies. Lines of platforms with the same reads coincide."
		}
		list = append(list, f)
	}
	return list
}

// piece is one part of every bar of a figure.
type piece struct {
	class, name string
	of          func(*beacon.Row) float64
}

// stacked draws a bar of pieces for each platform.
func stacked(title string, rows []*beacon.Row, pieces []piece, says func(*beacon.Row) string, format func(float64) string) chart.Figure {
	f := chart.Figure{Title: title}
	var list []chart.Bar
	for _, r := range rows {
		b := chart.Bar{Name: r.Platform, Says: says(r), Bars: [][]chart.Part{nil}}
		for _, q := range pieces {
			v := q.of(r)
			b.Bars[0] = append(b.Bars[0], chart.Part{Class: q.class, Value: v, Tell: q.name + ": " + format(v)})
		}
		list = append(list, b)
	}
	for _, q := range pieces {
		if slices.ContainsFunc(rows, func(r *beacon.Row) bool { return q.of(r) > 0 }) {
			f.Legend = append(f.Legend, chart.Key{Class: q.class, Name: q.name})
		}
	}
	f.Charts = []template.HTML{chart.Bars(title, 0, list)}
	return f
}

func batchLatency(rows []*beacon.Row) chart.Figure {
	f := stacked("Where a batch's time goes", rows, []piece{
		{"c2", "round trips and sampling of the host", func(r *beacon.Row) float64 { return r.Latency.Host }},
		{"c6", "PCIe, alone", func(r *beacon.Row) float64 { return r.Latency.PCIe }},
		{"c1", "flash", func(r *beacon.Row) float64 { return r.Latency.Flash }},
		{"c3", "DNN", func(r *beacon.Row) float64 { return r.Latency.DNN }},
	}, func(r *beacon.Row) string { return micros(r.Preparation + r.Compute) }, micros)
	f.Note = "PCIe transfers that overlap reads of flash count as flash."
	return f
}

func commandLatency(rows []*beacon.Row) chart.Figure {
	return stacked("Where a command's time goes", rows, []piece{
		{"c8", "core or router, command bytes", func(r *beacon.Row) float64 { return r.Command.Dispatch }},
		{"c2", "waits for its die", func(r *beacon.Row) float64 { return r.Command.Wait }},
		{"c1", "sensing", func(r *beacon.Row) float64 { return r.Command.Sense }},
		{"c3", "sampling in the die", func(r *beacon.Row) float64 { return r.Command.Sample }},
		{"c7", "waits for its channel", func(r *beacon.Row) float64 { return r.Command.Held }},
		{"c5", "transfer", func(r *beacon.Row) float64 { return r.Command.Transfer }},
		{"c4", "DRAM and PCIe", func(r *beacon.Row) float64 { return r.Command.Behind }},
	}, func(r *beacon.Row) string {
		c := &r.Command
		return micros(c.Dispatch + c.Wait + c.Sense + c.Sample + c.Held + c.Transfer + c.Behind)
	}, micros)
}

// hopClasses are the colours of hops, from the targets.
var hopClasses = []string{"c1", "c3", "c2", "c5", "c6", "c7", "c8", "c4"}

// hops draws the span of each hop's commands, relative to the span of the first batch's reads.
func hops(rows []*beacon.Row) chart.Figure {
	f := chart.Figure{Title: "Spans of hops", Note: "From the first command of a hop to the end of its last command, in the first batch. The reads of each platform take the whole width."}
	var list []chart.Bar
	for _, r := range rows {
		end := 0.0
		for _, h := range r.Hops {
			end = max(end, h.End)
		}
		b := chart.Bar{Name: r.Platform, Says: micros(end)}
		for i, h := range r.Hops {
			class := hopClasses[i%len(hopClasses)]
			tell := fmt.Sprintf("hop %d: %s to %s, %s", i, micros(h.Start), micros(h.End), units.Of(int(h.Commands), "command"))
			b.Bars = append(b.Bars, []chart.Part{{Class: "gap", Value: h.Start / end}, {Class: class, Value: (h.End - h.Start) / end, Tell: tell}})
			if len(f.Legend) <= i {
				name := fmt.Sprintf("hop %d", i)
				if i == 0 {
					name = "targets"
				}
				f.Legend = append(f.Legend, chart.Key{Class: class, Name: name})
			}
		}
		list = append(list, b)
	}
	f.Charts = []template.HTML{chart.Bars(f.Title, 1, list)}
	return f
}

func bytes(v float64) string { return budget.FormatBytes(int64(v)) }

// share writes a ratio: percent up to 100.
func share(v float64) string {
	if v <= 1 {
		return fmt.Sprintf("%.3g %%", 100*v)
	}
	return fmt.Sprintf("%.3g ×", v)
}

func usefulBytes(rows []*beacon.Row) chart.Figure {
	f := chart.Figure{Title: "Bytes of a batch", Legend: []chart.Key{
		{Class: "c1", Name: "useful, on channels"}, {Class: "c1 pale", Name: "other, on channels"}, {Class: "c2", Name: "on PCIe"},
	}, Note: "Useful bytes are vectors, and an address for each child. On the right: useful bytes ÷ channel bytes, and useful bytes ÷ PCIe bytes if PCIe is used."}
	var list []chart.Bar
	for _, r := range rows {
		b := chart.Bar{Name: r.Platform, Says: share(r.UsefulBytes / r.ChannelBytes), Bars: [][]chart.Part{
			{{Class: "c1", Value: r.UsefulBytes, Tell: "useful: " + bytes(r.UsefulBytes)}, {Class: "c1 pale", Value: r.ChannelBytes - r.UsefulBytes, Tell: "of " + bytes(r.ChannelBytes)}},
			{{Class: "c2", Value: r.PCIeBytes, Tell: "PCIe: " + bytes(r.PCIeBytes)}},
		}}
		if r.PCIeBytes > 0 {
			b.Says += " | " + share(r.UsefulBytes/r.PCIeBytes)
		}
		list = append(list, b)
	}
	f.Charts = []template.HTML{chart.Bars(f.Title, 0, list)}
	return f
}

func roundTrips(rows []*beacon.Row) chart.Figure {
	trips := func(r *beacon.Row) float64 { return r.RoundTrips }
	f := stacked("Round trips through the host", rows, []piece{{"c2", "round trips", trips}}, func(r *beacon.Row) string { return number(trips(r)) }, number)
	f.Legend = nil
	return f
}

func coresAndDies(rows []*beacon.Row) chart.Figure {
	f := chart.Figure{Title: "Busy firmware cores against busy dies", Legend: []chart.Key{{Class: "c2", Name: "of the cores"}, {Class: "c1", Name: "of the dies"}}, Note: "On average, while a batch is read."}
	var list []chart.Bar
	for _, r := range rows {
		cores, dies := fmt.Sprintf("%.2g of %s", r.CoresBusy, units.Of(r.Cores, "core")), fmt.Sprintf("%.3g of %s", r.DiesBusy, units.Of(r.Dies, "die"))
		list = append(list, chart.Bar{Name: r.Platform, Says: cores + ", " + dies, Bars: [][]chart.Part{
			{{Class: "c2", Value: r.CoresBusy / float64(r.Cores), Tell: cores}}, {{Class: "c1", Value: r.DiesBusy / float64(r.Dies), Tell: dies}},
		}})
	}
	f.Charts = []template.HTML{chart.Bars(f.Title, 1, list)}
	return f
}

func energy(rows []*beacon.Row) chart.Figure {
	joules := func(v float64) string { return fmt.Sprintf("%.3g mJ", 1e3*v) }
	return stacked("Energy of a batch", rows, []piece{
		{"c1", "sensing", func(r *beacon.Row) float64 { return r.Joules.Sensing }},
		{"c3", "channels", func(r *beacon.Row) float64 { return r.Joules.Channels }},
		{"c2", "DRAM of the drive", func(r *beacon.Row) float64 { return r.Joules.DRAM }},
		{"c7", "memory of the host", func(r *beacon.Row) float64 { return r.Joules.HostDRAM }},
		{"c6", "PCIe", func(r *beacon.Row) float64 { return r.Joules.PCIe }},
		{"c5", "accelerator", func(r *beacon.Row) float64 { return r.Joules.Accelerator }},
		{"c8", "firmware cores", func(r *beacon.Row) float64 { return r.Joules.Cores }},
		{"c4", "samplers", func(r *beacon.Row) float64 { return r.Joules.Samplers }},
		{"c1 pale", "router", func(r *beacon.Row) float64 { return r.Joules.Router }},
	}, func(r *beacon.Row) string { return joules(r.Joules.Total()) }, joules)
}

func efficiency(rows []*beacon.Row) chart.Figure {
	of := func(r *beacon.Row) float64 { return r.Targets / r.Watts }
	f := stacked("Targets a joule", rows, []piece{{"c3", "targets a joule", of}}, func(r *beacon.Row) string { return fmt.Sprintf("%s, %.1f W", units.Short(int64(of(r))), r.Watts) }, number)
	f.Legend = nil
	return f
}

// apart draws the time of a batch in two modes.
func (p *pager) apart(modes []beacon.Mode) chart.Figure {
	f := chart.Figure{Title: "Time between batches, " + p.shown, Legend: []chart.Key{{Class: "c1", Name: string(modes[0])}, {Class: "c2", Name: string(modes[1])}},
		Note: "In mode strict, command bytes and whole pages cross channels, results wait for DRAM and the router, a node's primary page is always read, and PCIe transfers overlap reads."}
	other := p.rows(modes[1], p.shown)
	var list []chart.Bar
	for _, r := range p.rows(modes[0], p.shown) {
		s := find(other, r.Platform)
		list = append(list, chart.Bar{Name: r.Platform, Says: fmt.Sprintf("%s, %+.1f %%", micros(s.Seconds), 100*(s.Seconds/r.Seconds-1)), Bars: [][]chart.Part{
			{{Class: "c1", Value: r.Seconds, Tell: micros(r.Seconds)}}, {{Class: "c2", Value: s.Seconds, Tell: micros(s.Seconds)}},
		}})
	}
	f.Charts = []template.HTML{chart.Bars(f.Title, 0, list)}
	return f
}

// here draws batches a second of a run on this machine, and of each platform.
func (p *pager) here() chart.Figure {
	m := p.measured
	says := fmt.Sprintf("%.4g/s", m.PerSecond)
	list := []chart.Bar{{Name: "measured: " + m.Store + ", engine " + m.Engine, Says: says, Bars: [][]chart.Part{{{Class: "c3", Value: m.PerSecond, Tell: says}}}}}
	f := chart.Figure{Title: "Batches a second", Legend: []chart.Key{{Class: "c3", Name: "measured here: " + m.Run}}}
	modes := p.modes()
	for i, mode := range modes {
		f.Legend = append(f.Legend, chart.Key{Class: []string{"c1", "c2"}[i], Name: "simulated, " + string(mode)})
	}
	for _, r := range p.rows(modes[0], p.shown) {
		b := chart.Bar{Name: r.Platform}
		var says []string
		for i, mode := range modes {
			s := find(p.rows(mode, p.shown), r.Platform)
			text := fmt.Sprintf("%.4g/s, %.3g ×", s.PerSecond, s.PerSecond/m.PerSecond)
			says = append(says, text)
			b.Bars = append(b.Bars, []chart.Part{{Class: []string{"c1", "c2"}[i], Value: s.PerSecond, Tell: text}})
		}
		b.Says = strings.Join(says, " | ")
		list = append(list, b)
	}
	f.Charts = []template.HTML{chart.Bars(f.Title, 0, list)}
	return f
}

// sweeps draws a figure for each swept parameter: lines if its values are numbers, otherwise bars.
func (p *pager) sweeps(m beacon.Mode) (list []chart.Figure) {
	var names []string
	swept := map[string][]*beacon.Row{}
	for i := range p.r.Rows {
		r := &p.r.Rows[i]
		if name, _, found := strings.Cut(r.Setting, "="); found && r.Mode == m && r.Workload == p.shown {
			if swept[name] == nil {
				names = append(names, name)
			}
			swept[name] = append(swept[name], r)
		}
	}
	for _, name := range names {
		list = append(list, sweep(name, swept[name]))
	}
	return list
}

func sweep(name string, rows []*beacon.Row) chart.Figure {
	f := chart.Figure{Title: name}
	q, err := beacon.FindParameter(name)
	if err != nil {
		return f // never: the row was simulated with this parameter
	}
	lines := map[string]*chart.Curve{}
	var order []string
	var bars []chart.Bar
	numbers := true
	for _, r := range rows {
		_, value, _ := strings.Cut(r.Setting, "=")
		x, isNumber := q.Number(value)
		numbers = numbers && isNumber
		l := lines[r.Platform]
		if l == nil {
			l = &chart.Curve{Class: classes[r.Platform]}
			lines[r.Platform] = l
			order = append(order, r.Platform)
			f.Legend = append(f.Legend, chart.Key{Class: l.Class, Name: r.Platform})
		}
		l.X, l.Y = append(l.X, x), append(l.Y, r.Targets)
		if len(bars) == 0 || bars[len(bars)-1].Name != value {
			bars = append(bars, chart.Bar{Name: value})
		}
		b := &bars[len(bars)-1]
		b.Bars = append(b.Bars, []chart.Part{{Class: l.Class, Value: r.Targets, Tell: r.Platform + ": " + units.Short(int64(r.Targets))}})
	}
	if !numbers || len(bars) < 2 {
		f.Charts = []template.HTML{chart.Bars(name, 0, bars)}
		return f
	}
	var curves []chart.Curve
	for _, platform := range order {
		curves = append(curves, *lines[platform])
	}
	below, x := q.About, number
	switch q.Unit {
	case "time":
		below += ", µs"
	case "per second":
		below += ", M a second"
		x = func(v float64) string { return number(v / 1e6) }
	}
	f.Charts = []template.HTML{chart.Curves(name, below, true, curves, x, func(v float64) string { return units.Short(int64(v)) })}
	return f
}
