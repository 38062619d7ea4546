package inspection

import (
	"context"
	"fmt"
	"html/template"
	"path/filepath"
	"slices"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/chart"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
)

// mostClasses is the largest number of classes in the chart.
const mostClasses = 24

// Dataset draws a dataset. It reads the index pointers and the labels, and holds 4 bytes of each for
// every node. Progress goes to rep.
func Dataset(ctx context.Context, d *dataset.Dataset, rep progress.Reporter) (*Page, error) {
	f := d.Facts()
	p := &Page{
		Title: "The dataset " + filepath.Base(d.Dir()),
		Sentence: fmt.Sprintf("%s, %s; %d features of %s, %s a row, %s in all.", units.Of(f.Nodes, "node"), units.Of(f.Edges, "edge"),
			f.Dim, f.DType, budget.FormatBytes(int64(f.RowBytes())), budget.FormatBytes(f.FeatureRows()*int64(f.RowBytes()))),
		Figures: []chart.Figure{files(d.Meta(), []kind{
			{"features", "disk", named(f.FeaturesFile())}, {"edges", "graphs", named(dataset.IndicesFile)}, {"index pointers", "ram", named(dataset.IndptrFile)},
			{"labels", "train", named(dataset.LabelsFile, dataset.TargetsFile)}, {"splits", "valid", named("train.bin", "valid.bin", "test.bin")},
		})},
	}
	p.Figures = append(p.Figures, splits(&f))
	offsets, err := d.Offsets(ctx, rep)
	if err != nil {
		return nil, err
	}
	if f.Types != nil {
		p.Figures = append(p.Figures, relations(f.Types, offsets))
	} else {
		p.Figures = append(p.Figures, degrees(offsets))
	}
	if f.Classes > 0 && !f.MultiLabel() {
		labels, err := d.Labels()
		if err != nil {
			return nil, err
		}
		names, err := d.ClassNames()
		if err != nil {
			return nil, err
		}
		p.Figures = append(p.Figures, classes(labels, f.Classes, names))
	}
	return p, nil
}

// degrees draws the shares of the nodes and of the edges by the in-degree of the node, in ranges that
// double.
func degrees(o *graph.Offsets) chart.Figure {
	var nodes, edges [33]int64 // by the bits of the degree
	most := uint32(0)
	for v := range o.NumNodes() {
		d := o.Degree(uint32(v))
		most = max(most, d)
		k := 0
		for x := d; x > 0; x >>= 1 {
			k++
		}
		nodes[k]++
		edges[k] += int64(d)
	}
	f := chart.Figure{ID: "degrees", Title: "Degrees", X: "in-neighbours", Unit: "percent",
		Legend: []chart.Key{{Class: "plain", Name: "share of the nodes"}, {Class: "graphs", Name: "share of the edges"}},
		Note:   fmt.Sprintf("In-neighbours of a node: %.4g in the mean, %s at most.", float64(o.NumEdges())/float64(max(o.NumNodes(), 1)), units.Count(int64(most)))}
	ofNodes, ofEdges := chart.Data{Name: "share of the nodes"}, chart.Data{Name: "share of the edges"}
	var bars []chart.Bar
	for k := range nodes {
		if nodes[k] == 0 {
			continue
		}
		name := "0"
		if lo := int64(1) << max(k-1, 0); k > 1 {
			name = units.Count(lo) + " to " + units.Count(2*lo-1)
		} else if k == 1 {
			name = "1"
		}
		n, e := share(nodes[k], int64(o.NumNodes())), share(edges[k], o.NumEdges())
		ofNodes.Add(name, n)
		ofEdges.Add(name, e)
		bars = append(bars, chart.Bar{Name: name, Says: units.Of(nodes[k], "node"), Bars: [][]chart.Part{
			{{Class: "plain", Value: n, Tell: fmt.Sprintf("%.2f\u00a0%% of the nodes", n)}}, {{Class: "graphs", Value: e, Tell: fmt.Sprintf("%.2f\u00a0%% of the edges", e)}}}})
	}
	f.Series = []chart.Data{ofNodes, ofEdges}
	f.Charts = []template.HTML{chart.Bars("nodes and edges by in-degree", 0, bars)}
	return f
}

// classes draws the number of nodes of each class, the largest first. names are the classes', or nil.
func classes(labels []int32, n int, names []string) chart.Figure {
	count := make([]int64, n)
	labelled := int64(0)
	for _, y := range labels {
		if y >= 0 && int(y) < n {
			count[y]++
			labelled++
		}
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(min(max(count[b]-count[a], -1), 1)) })
	f := chart.Figure{ID: "classes", Title: "Classes", X: "class", Unit: "nodes"}
	data := chart.Data{Name: "nodes"}
	var bars []chart.Bar
	rest := int64(0)
	for i, c := range order {
		name := fmt.Sprintf("class %d", c)
		if names != nil {
			name = fmt.Sprintf("%d: %s", c, names[c])
			data.Add(name, float64(count[c]))
		} else {
			data.Add(fmt.Sprint(c), float64(count[c]))
		}
		if i >= mostClasses {
			rest += count[c]
			continue
		}
		bars = append(bars, chart.Bar{Name: name, Says: fmt.Sprintf("%s, %.3g\u00a0%%", units.Count(count[c]), share(count[c], labelled)),
			Bars: [][]chart.Part{{{Class: "train", Value: float64(count[c]), Tell: units.Of(count[c], "node")}}}})
	}
	if n > mostClasses {
		f.Note = fmt.Sprintf("The other %s have %s.", units.Of(n-mostClasses, "class"), units.Of(rest, "node"))
	}
	f.Series, f.Charts = []chart.Data{data}, []template.HTML{chart.Bars("nodes by class", 0, bars)}
	return f
}

// splits draws the sizes of the splits.
func splits(d *dataset.Facts) chart.Figure {
	f := chart.Figure{ID: "splits", Title: "Splits", X: "split", Unit: "nodes"}
	data := chart.Data{Name: "nodes"}
	var parts []chart.Part
	for _, s := range []struct {
		name, class string
		n           int64
	}{{"training", "train", d.Train}, {"validation", "valid", d.Valid}, {"test", "compute", d.Test}, {"in no split", "rest", d.Nodes - d.Train - d.Valid - d.Test}} {
		if s.n <= 0 {
			continue
		}
		text := fmt.Sprintf("%s: %s", s.name, units.Count(s.n))
		parts = append(parts, chart.Part{Class: s.class, Value: float64(s.n), Tell: text})
		f.Legend = append(f.Legend, chart.Key{Class: s.class, Name: text})
		data.Add(s.name, float64(s.n))
	}
	f.Series = []chart.Data{data}
	f.Charts = []template.HTML{chart.Bars("nodes by split", 0, []chart.Bar{{Name: "all nodes", Says: fmt.Sprintf("%s, %s without a label", units.Count(d.Nodes), units.Count(d.Unlabelled)), Bars: [][]chart.Part{parts}}})}
	return f
}
