package inspection

import (
	"fmt"
	"html/template"
	"path/filepath"

	"diskgnn/internal/budget"
	"diskgnn/internal/chart"
	"diskgnn/internal/units"
	"diskgnn/pack/packfile"
)

// Pack draws a pack, a slice of one, or a shard, from its metadata and its index.
func Pack(r *packfile.Reader) *Page {
	d, f := r.Describe(), r.Facts()
	p := &Page{
		Title: "The pack " + filepath.Base(r.Dir()),
		Sentence: fmt.Sprintf("%s, policy %s; rows of %s, %s each, chunks compressed: %s; %.2f times the features.",
			units.Of(d.Batches, "batch"), d.Policy, d.DType, budget.FormatBytes(int64(d.RowBytes)), d.Codec, d.Blowup),
	}
	levels := make([]Level, len(d.Levels))
	for i, l := range d.Levels {
		levels[i] = Level(l)
	}
	p.Figures = []chart.Figure{Layout(levels, f.TableBytes), where(&d), caches(&d), reads(&d)}
	var chunks []float64
	most := 0.0
	for i := range r.Index().Train {
		n := float64(r.Index().Train[i].ChunkBytes)
		chunks, most = append(chunks, n), max(most, n)
	}
	unit, name := chart.ByteUnit(most)
	p.Figures = append(p.Figures, perBatch("chunks", "Chunks of the training batches", "bytes", "disk", chunks, unit, name))
	if f.Types != nil {
		p.Figures = append(p.Figures, types(f.Types, f.TypeInputs))
	}
	return p
}

// where draws the places of the rows of training batches by the rank of their nodes: for the ranks
// between each two sizes of cache, their share of the nodes and of the batches' rows.
func where(d *packfile.Description) chart.Figure {
	f := chart.Figure{ID: "where", Title: "Places of the rows, by hotness", X: "ranks, percent of the nodes", Unit: "percent",
		Legend: []chart.Key{{Class: "rest", Name: "share of the nodes"}, {Class: "ram", Name: "share of the rows: always in memory"}, {Class: "disk", Name: "share of the rows: in memory or on disk, depending on the cache"}}}
	nodes, rows := chart.Data{Name: "share of the nodes"}, chart.Data{Name: "share of the rows"}
	var bars []chart.Bar
	from, had := 0.0, 0.0
	add := func(to, hits float64, class, what string) {
		name := fmt.Sprintf("%.3g to %.3g\u00a0%%", 100*from, 100*to)
		nodes.Add(name, 100*(to-from))
		rows.Add(name, 100*(hits-had))
		bars = append(bars, chart.Bar{Name: name + " of the nodes", Says: fmt.Sprintf("%.1f\u00a0%% of the rows: %s", 100*(hits-had), what), Bars: [][]chart.Part{
			{{Class: "rest", Value: 100 * (to - from), Tell: fmt.Sprintf("%.3g\u00a0%% of the nodes", 100*(to-from))}},
			{{Class: class, Value: 100 * (hits - had), Tell: fmt.Sprintf("%.3g\u00a0%% of the rows", 100*(hits-had))}}}})
		from, had = to, hits
	}
	for i, c := range d.Caches {
		if i == 0 {
			add(c.Share, c.Hits, "ram", "hot")
			continue
		}
		add(c.Share, c.Hits, "disk", "hot and cold")
	}
	if from < 1 {
		add(1, 1, "disk", "cold")
	}
	f.Series, f.Charts = []chart.Data{nodes, rows}, []template.HTML{chart.Bars("nodes and rows by rank", 0, bars)}
	if d.Policy == packfile.PolicyMin {
		f.Note = "Under policy min, any node's row may be in the cache: the ranks are entries of the cache."
	}
	return f
}

// caches draws the share of the rows that caches of different sizes serve.
func caches(d *packfile.Description) chart.Figure {
	x, y := []float64{0}, []float64{0}
	var marks []chart.Mark
	for _, c := range d.Caches {
		x, y = append(x, 100*c.Share), append(y, 100*c.Hits)
		marks = append(marks, chart.Mark{Class: "ram", X: 100 * c.Share, Y: 100 * c.Hits, Radius: 3,
			Tell: fmt.Sprintf("%.3g\u00a0%% of the rows, %s, serve %.1f\u00a0%%", 100*c.Share, budget.FormatBytes(c.Bytes), 100*c.Hits)})
	}
	name := "rows of batches that a cache serves, in percent"
	return chart.Figure{ID: "cache", Title: "Hits, by the size of the cache", X: "percent of the rows", Unit: "percent", Series: []chart.Data{{Name: name, X: x, Values: y}},
		Legend: []chart.Key{{Class: "ram line", Name: name}},
		Charts: []template.HTML{chart.Curves("rows served by size of the cache", "cache, share of the rows", true, []chart.Curve{{Class: "ram", X: x, Y: y}}, percent, percent, marks...)}}
}

// reads draws the reads of the batches of all sample epochs, by the cache of the trainer.
func reads(d *packfile.Description) chart.Figure {
	f := chart.Figure{ID: "reads", Title: "Bytes that a round of epochs reads, by the cache", X: "cache", Unit: "bytes"}
	data := []chart.Data{{Name: "graphs"}, {Name: "shared rows"}, {Name: "cold rows"}}
	classes := []string{"graphs", "shared", "disk"}
	var bars []chart.Bar
	var sums [3]int64
	for _, c := range d.Caches {
		name := fmt.Sprintf("%.3g\u00a0%% of the rows, %s", 100*c.Share, budget.FormatBytes(c.Bytes))
		bar := chart.Bar{Name: name, Says: budget.FormatBytes(c.ColdBytes + c.SSDBytes + c.GraphBytes), Bars: [][]chart.Part{nil}}
		for k, n := range []int64{c.GraphBytes, c.SSDBytes, c.ColdBytes} {
			data[k].Add(name, float64(n))
			sums[k] += n
			bar.Bars[0] = append(bar.Bars[0], chart.Part{Class: classes[k], Value: float64(n), Tell: data[k].Name + ": " + budget.FormatBytes(n)})
		}
		bars = append(bars, bar)
	}
	for k := range data {
		if sums[k] > 0 {
			f.Series = append(f.Series, data[k])
			f.Legend = append(f.Legend, chart.Key{Class: classes[k], Name: data[k].Name})
		}
	}
	f.Charts = []template.HTML{chart.Bars("bytes read by cache and level", 0, bars)}
	return f
}
