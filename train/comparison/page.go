package comparison

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"diskgnn/internal/budget"
	"diskgnn/internal/chart"
	"diskgnn/internal/units"
	"diskgnn/train/score"
)

//go:embed page.html
var pageText string

var pageTemplate = chart.Template(pageText)

// pageContent is the template's data.
type pageContent struct {
	Style    template.CSS
	Palette  template.CSS
	Title    string
	Sentence string
	How      string
	Tiles    []tile
	Figures  []chart.Figure
	Columns  []string
	Rows     []pageRow
	Failed   []tile
}

type tile struct{ Name, Value string }

type pageRow struct {
	Name  string
	Cells []string
}

// write writes the comparison as a self-contained page of HTML: it includes its pictures, and uses
// neither scripts nor the network.
func (r *Result) write(w io.Writer) error {
	p := pageContent{Style: chart.Style(), Palette: chart.Palette(), Title: "Stores compared on " + filepath.Base(r.Dataset), Sentence: r.sentence(), How: r.how(), Tiles: r.tiles()}
	ran := r.ran()
	if len(ran) > 0 {
		p.Figures = figures(r, ran)
	}
	for _, columns := range append([][]column{more}, tables...) {
		for _, c := range columns {
			p.Columns = append(p.Columns, c.name)
		}
	}
	for _, s := range ran {
		row := pageRow{Name: s.Label()}
		for _, columns := range append([][]column{more}, tables...) {
			for _, c := range columns {
				row.Cells = append(row.Cells, c.cell(s))
			}
		}
		p.Rows = append(p.Rows, row)
	}
	for i := range r.Stores {
		if s := &r.Stores[i]; s.Error != "" {
			p.Failed = append(p.Failed, tile{s.Name(), s.Error})
		}
	}
	return pageTemplate.Execute(w, p)
}

// more are columns that only the page has.
var more = []column{
	{"read into caches", func(s *Store) string { return budget.FormatBytes(s.PreloadBytes) }},
	{"memory held", func(s *Store) string { return budget.FormatBytes(s.PeakAnon) }},
	{"engine", func(s *Store) string { return s.Engine }},
	{"test", func(s *Store) string { return show(s.Test, percent) }},
}

func (r *Result) sentence() string {
	shortest, longest := r.ends()
	switch {
	case shortest == nil:
		return "No store has run."
	case r.Fastest == "":
		return "No store is called the fastest: " + r.Undecided + "."
	}
	return fmt.Sprintf("The store %s is the fastest: an epoch takes %s; with %s, the slowest, it takes %s, %.3g times as long.",
		r.Fastest, show(shortest.EpochSeconds, units.Seconds), longest.Name(), show(longest.EpochSeconds, units.Seconds), float64(longest.EpochSeconds/shortest.EpochSeconds))
}

func (r *Result) how() string {
	s := fmt.Sprintf("%s of %s each, within %s of memory, on the same mini-batches", units.Of(r.Rounds, "round"), units.Of(r.Epochs, "epoch"), budget.FormatBytes(r.Memory))
	if r.Live {
		s += ", drawn while training"
	}
	if s += "."; r.Epochs > 1 {
		s += " A run's first epoch, which fills the caches, is not compared."
	}
	if r.Warm != "" {
		return s + " The page cache was not dropped: " + r.Warm + "."
	}
	return s + " The files were dropped from the page cache ahead of each run."
}

func (r *Result) tiles() []tile {
	var list []tile
	if fastest, _ := r.ends(); r.Fastest != "" {
		list = append(list, tile{"the fastest store", r.Fastest}, tile{"an epoch with it", show(fastest.EpochSeconds, units.Seconds)})
	}
	for _, s := range r.ran() {
		if s.packed && s.Ablation == "" {
			list = append(list, tile{"packing", units.Seconds(s.Preparation.Seconds)})
		}
	}
	list = append(list, tile{"the drive in sequence", units.BytesPerSecond(r.Drive.Sequential)})
	if r.Drive.Random > 0 {
		list = append(list, tile{"4 KiB reads at random", units.PerSecond(r.Drive.Random)})
	}
	return list
}

// float returns a value to draw: NaN if unknown.
func float(v score.Score) float64 { return float64(v) }

func figures(r *Result, ran []*Store) []chart.Figure {
	list := []chart.Figure{epochFigure(ran), linkFigure(ran), bytesFigure(ran), requestFigure(ran), rateFigure(r, ran), levelFigure(ran)}
	for _, f := range []func([]*Store) (chart.Figure, bool){scoreFigure, preparationFigure, paysFigure} {
		if f, ok := f(ran); ok {
			list = append(list, f)
		}
	}
	return list
}

// bars makes a figure of one bar chart.
func bars(title string, to float64, ran []*Store, bar func(s *Store) chart.Bar, marks ...chart.Part) chart.Figure {
	var list []chart.Bar
	for _, s := range ran {
		b := bar(s)
		b.Name = s.Name()
		list = append(list, b)
	}
	return chart.Figure{Title: title, Charts: []template.HTML{chart.Bars(title, to, list, marks...)}}
}

func epochFigure(ran []*Store) chart.Figure {
	f := bars("Seconds of an epoch", 0, ran, func(s *Store) chart.Bar {
		rounds := make([]string, len(s.RoundSeconds))
		for i, v := range s.RoundSeconds {
			rounds[i] = show(v, units.Seconds)
		}
		return chart.Bar{Says: show(s.EpochSeconds, units.Seconds), Bars: [][]chart.Part{
			{{Class: "c1", Value: float(s.EpochSeconds), Tell: "by round: " + strings.Join(rounds, ", ")}},
			{{Class: "c4", Value: float(s.FirstSeconds), Tell: "the first: " + show(s.FirstSeconds, units.Seconds)}},
		}}
	})
	f.Legend = []chart.Key{{Class: "c1", Name: "an epoch, median"}, {Class: "c4", Name: "the first, with filling the caches"}}
	return f
}

// linkClasses are the colours of the links, in the order of the pipeline.
var linkClasses = []string{"c3", "c1", "c4", "c2", "c5", "c6", "c7", "c8"}

func linkFigure(ran []*Store) chart.Figure {
	var names []string
	for _, s := range ran {
		for _, l := range s.Links {
			if !slices.Contains(names, l.Name) {
				names = append(names, l.Name)
			}
		}
	}
	class := func(name string) string { return linkClasses[slices.Index(names, name)%len(linkClasses)] }
	f := bars("Seconds of each link, alone", 0, ran, func(s *Store) chart.Bar {
		b := chart.Bar{Says: "bound by " + s.bound()}
		for _, l := range s.Links {
			b.Bars = append(b.Bars, []chart.Part{{Class: class(l.Name), Value: l.Seconds, Tell: l.Name + ": " + units.Seconds(l.Seconds)}})
		}
		return b
	})
	for _, n := range names {
		f.Legend = append(f.Legend, chart.Key{Class: class(n), Name: n})
	}
	f.Note = "Links of the pipeline work at the same time: an epoch waits for the longest."
	return f
}

func bytesFigure(ran []*Store) chart.Figure {
	f := bars("Bytes read in an epoch", 0, ran, func(s *Store) chart.Bar {
		says := show(s.BytesRead, size)
		if s.UsefulFraction.Defined() {
			says += ", " + show(s.UsefulFraction, percent) + " useful"
		}
		return chart.Bar{Says: says, Bars: [][]chart.Part{{
			{Class: "c1", Value: float(s.UsefulBytes), Tell: "useful: " + show(s.UsefulBytes, size)},
			{Class: "c1 pale", Value: float(s.BytesRead - s.UsefulBytes), Tell: "other bytes: " + show(s.BytesRead-s.UsefulBytes, size)},
		}}}
	})
	f.Legend = []chart.Key{{Class: "c1", Name: "rows and graphs that batches used"}, {Class: "c1 pale", Name: "other bytes read with them"}}
	return f
}

func requestFigure(ran []*Store) chart.Figure {
	f := bars("Requests in an epoch", 0, ran, func(s *Store) chart.Bar {
		says := show(s.Requests, number)
		if s.Requests > 0 {
			says += " of " + size(float64(s.BytesRead/s.Requests))
		}
		return chart.Bar{Says: says, Bars: [][]chart.Part{{{Class: "c1", Value: float(s.Requests), Tell: show(s.Requests, number)}}}}
	})
	f.Note = "Reads that stores submit, and their mean size; for mmap, pages that the kernel read."
	return f
}

func rateFigure(r *Result, ran []*Store) chart.Figure {
	drive := units.BytesPerSecond(r.Drive.Sequential)
	f := bars("Bytes a second", 0, ran, func(s *Store) chart.Bar {
		effective, device := show(s.Effective, units.BytesPerSecond), show(s.Device, units.BytesPerSecond)
		return chart.Bar{Says: effective + " | " + device, Bars: [][]chart.Part{
			{{Class: "c3", Value: float(s.Effective), Tell: "effective: " + effective}},
			{{Class: "c1", Value: float(s.Device), Tell: "of the device: " + device}},
		}}
	}, chart.Part{Class: "c2", Value: r.Drive.Sequential, Tell: "the drive in sequence: " + drive})
	f.Legend = []chart.Key{{Class: "c3", Name: "effective: all rows of the batches, over the epoch"}, {Class: "c1", Name: "of the device: bytes read, while a read is in flight"}, {Class: "c2", Name: "the drive in sequence: " + drive}}
	return f
}

func levelFigure(ran []*Store) chart.Figure {
	f := bars("Where the rows came from", 1, ran, func(s *Store) chart.Bar {
		part := func(class, name string, v score.Score) chart.Part {
			return chart.Part{Class: class, Value: float(v), Tell: name + ": " + show(v, percent)}
		}
		return chart.Bar{Says: show(s.HitRatio, percent) + " hits", Bars: [][]chart.Part{{
			part("c3", "GPU", s.GPUHitRatio), part("c2", "RAM", s.RAMHitRatio), part("c4", "drive", 1-s.HitRatio),
		}}}
	})
	f.Legend = []chart.Key{{Class: "c3", Name: "the GPU's memory"}, {Class: "c2", Name: "RAM"}, {Class: "c4", Name: "the drive"}}
	return f
}

// lineClasses are the colours of stores in line charts: beyond them, lines are dashed.
var lineClasses = []string{"c1", "c2", "c3", "c5", "c6", "c7", "c8"}

func lineClass(i int) string {
	class := lineClasses[i%len(lineClasses)]
	if i/len(lineClasses)%2 > 0 {
		class += " dashed"
	}
	return class
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

func scoreFigure(ran []*Store) (chart.Figure, bool) {
	f := chart.Figure{Title: "Validation score against seconds", Note: "The first round; the seconds count training and validation."}
	var list []chart.Curve
	for _, s := range ran {
		if len(s.Scores) == 0 || s.Ablation != "" && !strings.Contains(s.Ablation, "layers-") { // the ablation does not change the training
			continue
		}
		c := chart.Curve{Class: lineClass(len(list))}
		for _, p := range s.Scores {
			c.X, c.Y = append(c.X, p.Seconds), append(c.Y, 100*float(p.Valid))
		}
		list = append(list, c)
		f.Legend = append(f.Legend, chart.Key{Class: c.Class, Name: s.Name()})
	}
	f.Charts = []template.HTML{chart.Curves(f.Title, "seconds", false, list, short, func(v float64) string { return short(v) + " %" })}
	return f, len(list) > 0
}

func preparationFigure(ran []*Store) (chart.Figure, bool) {
	seen := map[Preparation]bool{{}: true}
	ran = slices.DeleteFunc(slices.Clone(ran), func(s *Store) bool {
		shown := seen[s.Preparation] // also of rows that share a pack
		seen[s.Preparation] = true
		return shown
	})
	if len(ran) == 0 {
		return chart.Figure{}, false
	}
	f := bars("Preparation", 0, ran, func(s *Store) chart.Bar {
		says := units.Seconds(s.Preparation.Seconds)
		return chart.Bar{Says: says, Bars: [][]chart.Part{{{Class: "c1", Value: s.Preparation.Seconds, Tell: says}}}}
	})
	disk := bars("Preparation", 0, ran, func(s *Store) chart.Bar {
		says := budget.FormatBytes(s.Preparation.DiskBytes)
		return chart.Bar{Says: says, Bars: [][]chart.Part{{{Class: "c2", Value: float64(s.Preparation.DiskBytes), Tell: says}}}}
	})
	f.Charts = append(f.Charts, disk.Charts...)
	f.Legend = []chart.Key{{Class: "c1", Name: "seconds"}, {Class: "c2", Name: "bytes on disk"}}
	return f, true
}

// paysFigure draws the seconds after each number of epochs. The packed store's line includes
// packing: where another line crosses it, packing has paid.
func paysFigure(ran []*Store) (chart.Figure, bool) {
	ran = slices.DeleteFunc(slices.Clone(ran), func(s *Store) bool { return s.Ablation != "" })
	i := slices.IndexFunc(ran, func(s *Store) bool { return s.packed })
	if i < 0 || len(ran) < 2 {
		return chart.Figure{}, false
	}
	last := 10.0
	for _, s := range ran {
		if s.PackPays != nil {
			last = max(last, 1.5*float64(*s.PackPays))
		}
	}
	f := chart.Figure{Title: "Epochs until packing pays"}
	var list []chart.Curve
	for k, s := range ran {
		after := func(n float64) float64 {
			return s.Preparation.Seconds + float(s.FirstSeconds) + (n-1)*float(s.EpochSeconds)
		}
		c := chart.Curve{Class: lineClass(k), X: []float64{0, 1, last}, Y: []float64{s.Preparation.Seconds, after(1), after(last)}}
		list = append(list, c)
		name := s.Name()
		if k != i {
			name += ": " + s.pays()
		}
		f.Legend = append(f.Legend, chart.Key{Class: c.Class, Name: name})
	}
	f.Note = "Seconds of preparing and of training, by the number of epochs. Packing has paid off where a store's line is above the line of " + ran[i].Name() + "."
	f.Charts = []template.HTML{chart.Curves(f.Title, "epochs", true, list, short, func(v float64) string { return short(v) + " s" })}
	return f, true
}
