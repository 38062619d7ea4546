package inspection

import (
	"fmt"
	"html/template"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/internal/chart"
	"diskgnn/internal/units"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
)

// hotPoints is the number of points of the curve of hotness after its beginning.
const hotPoints = 100

// Samples draws samples. It reads the hotness of every node, and holds 4 bytes for each.
func Samples(r *mbfile.Reader) (*Page, error) {
	hot, err := r.Hotness()
	if err != nil {
		return nil, err
	}
	hot = slices.Clone(hot)
	slices.Sort(hot)
	slices.Reverse(hot)
	f, p := r.Facts(), r.Params()
	lo, hi := r.Train()
	inputs := make([]float64, 0, hi-lo)
	for i := lo; i < hi; i++ {
		b := r.Info(i)
		inputs = append(inputs, float64(b.InputNodes()))
	}
	page := &Page{
		Title: "The samples " + filepath.Base(r.Dir()),
		Sentence: fmt.Sprintf("%s of %s, fanout %s; %s to train on, %s to validate, %s to test.", units.Of(p.Epochs, "sample epoch"), units.Of(f.Nodes, "node"), sampler.FormatFanout(p.Fanout),
			units.Of(f.TrainBatches, "batch"), units.Count(f.ValidBatches), units.Count(f.TestBatches)),
		Figures: []chart.Figure{
			files(r.Meta(), []kind{
				{"batches", "graphs", func(name string) bool { return strings.HasPrefix(name, "batches-") && strings.HasSuffix(name, ".bin") }},
				{"hotness", "ram", named("hotness.bin")}, {"index", "plain", named("index.bin")}}),
			hotness(hot), perBatch("inputs", "Input nodes of the training batches", "nodes", "graphs", inputs, 1, "")},
	}
	if f.Types != nil {
		page.Figures = append(page.Figures, types(f.Types, f.TypeInputs))
	}
	return page, nil
}

// hotness draws the share of the training batches' rows that belong to the hottest nodes. The
// argument has every node's number of batches, descending.
func hotness(hot []uint32) chart.Figure {
	total, touched := int64(0), int64(0)
	for _, n := range hot {
		if total += int64(n); n > 0 {
			touched++
		}
	}
	x, y := []float64{0}, []float64{0}
	sum, next := int64(0), 0
	for k := 1; k <= hotPoints; k++ {
		n := len(hot) * k / hotPoints
		for ; next < n; next++ {
			sum += int64(hot[next])
		}
		if at := share(int64(n), int64(len(hot))); at > x[len(x)-1] {
			x, y = append(x, at), append(y, share(sum, total))
		}
	}
	name := "rows of training batches that belong to these nodes"
	return chart.Figure{ID: "hotness", Title: "The hottest nodes", X: "percent of the nodes", Unit: "percent", Series: []chart.Data{{Name: name, X: x, Values: y}},
		Legend: []chart.Key{{Class: "ram line", Name: name}},
		Note:   fmt.Sprintf("%s of %s are an input node of any training batch.", units.Count(touched), units.Of(int64(len(hot)), "node")),
		Charts: []template.HTML{chart.Curves("rows of batches by the share of the hottest nodes", "hottest nodes, share of all", true,
			[]chart.Curve{{Class: "ram", X: x, Y: y}}, percent, percent)}}
}

// perBatch draws a value of every training batch, divided by the size of a unit; name is the unit's name.
func perBatch(id, title, unit, class string, values []float64, by float64, name string) chart.Figure {
	at, most := largest(values)
	drawn := make([]float64, len(most))
	for i := range most {
		drawn[i] = most[i] / by
	}
	f := chart.Figure{ID: id, Title: title, X: "batch", Unit: unit, Series: []chart.Data{{Name: title, X: at, Values: most}},
		Legend: []chart.Key{{Class: class + " line", Name: title}}}
	if n := len(values); n > len(most) {
		f.Note = fmt.Sprintf("Each point is the largest of %d batches.", (n+mostPoints-1)/mostPoints)
	}
	if len(values) > 0 {
		f.Charts = []template.HTML{chart.Curves(title, "batch, all sample epochs one after the other", true, []chart.Curve{{Class: class, X: at, Y: drawn}}, plain,
			func(v float64) string { return strings.TrimSpace(plain(v) + " " + name) })}
	}
	return f
}
