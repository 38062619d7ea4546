package inspection

import (
	"fmt"
	"html/template"

	"diskgnn/graph"
	"diskgnn/internal/chart"
	"diskgnn/internal/units"
)

// mostTypes is the largest number of types, or of relations, in a chart.
const mostTypes = 24

// types draws the shares of the nodes and of the training batches' rows by node type. inputs are the numbers of these
// rows.
func types(t *graph.Types, inputs []int64) chart.Figure {
	names, nodes := make([]string, len(t.Nodes)), make([]int64, len(t.Nodes))
	for i, k := range t.Nodes {
		names[i], nodes[i] = k.Name, k.Count
	}
	return shares(chart.Figure{ID: "types", Title: "Node types", X: "type"}, names, "nodes", nodes, "rows of training batches", inputs)
}

// relations draws the shares of the destinations and of the edges by relation. offsets are of the rows of the topology.
func relations(t *graph.Types, offsets *graph.Offsets) chart.Figure {
	names, nodes, edges := make([]string, len(t.Relations)), make([]int64, len(t.Relations)), make([]int64, len(t.Relations))
	for r := range names {
		names[r] = t.Triple(r)
	}
	for row := range offsets.NumNodes() {
		_, r := t.RowOf(int64(row))
		nodes[r]++
		edges[r] += int64(offsets.Degree(uint32(row)))
	}
	return shares(chart.Figure{ID: "relations", Title: "Relations", X: "relation"}, names, "nodes that they lead to", nodes, "edges", edges)
}

// shares draws two shares of each name. An empty list is left out.
func shares(f chart.Figure, names []string, first string, a []int64, second string, b []int64) chart.Figure {
	f.Unit = "percent"
	bars := make([]chart.Bar, min(len(names), mostTypes))
	for k, list := range [][]int64{a, b} {
		if len(list) != len(names) {
			continue
		}
		name, class := "share of the "+first, "plain"
		if k == 1 {
			name, class = "share of the "+second, "graphs"
		}
		all := int64(0)
		for _, n := range list {
			all += n
		}
		data := chart.Data{Name: name}
		for i, n := range list {
			data.Add(names[i], share(n, all))
			if i < len(bars) {
				bars[i].Name, bars[i].Says = names[i], units.Count(a[i])+" "+first
				bars[i].Bars = append(bars[i].Bars, []chart.Part{{Class: class, Value: share(n, all), Tell: fmt.Sprintf("%.2f\u00a0%%: %s", share(n, all), name)}})
			}
		}
		f.Series, f.Legend = append(f.Series, data), append(f.Legend, chart.Key{Class: class, Name: name})
	}
	if more := len(names) - len(bars); more > 0 {
		f.Note = fmt.Sprintf("The chart leaves out %s.", units.Of(more, "other"))
	}
	f.Charts = []template.HTML{chart.Bars(f.Title, 0, bars)}
	return f
}
