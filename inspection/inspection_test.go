package inspection

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/chart"
	"diskgnn/internal/chart/charttest"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
)

// world makes a small dataset, samples and packs, and returns their directory.
func world(t *testing.T) string {
	t.Helper()
	dir, ctx := t.TempDir(), context.Background()
	datasettest.Create(t, dir, datasettest.Params{Nodes: 200, AvgDegree: 5, Dim: 6, Classes: 3, Seed: 1}.Raw())
	data, samples := filepath.Join(dir, "dataset"), filepath.Join(dir, "samples")
	if _, err := presample.Run(ctx, vfs.OS, presample.Options{Dataset: data, Out: samples, BatchSize: 16, Fanout: []int{3, 3}, Epochs: 2}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	for _, policy := range []string{"static", "min"} {
		o := pack.Options{Dataset: data, Samples: samples, Out: filepath.Join(dir, policy), Cache: &budget.Size{Value: 5, Unit: budget.UnitPercent}, Policy: policy}
		if policy == "static" {
			o.Bands = pack.DefaultBands()
		}
		if _, err := pack.Run(ctx, vfs.OS, o, progress.Discard); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPages: each page's data is what it was, and its figures are on the page; it fetches nothing
// and runs nothing, and every class has a colour.
func TestPages(t *testing.T) {
	dir, ctx := world(t), context.Background()
	pages := map[string]*Page{}
	d, err := dataset.Open(vfs.OS, filepath.Join(dir, "dataset"))
	if err == nil {
		pages["dataset"], err = Dataset(ctx, d, progress.Discard)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := mbfile.Open(vfs.OS, filepath.Join(dir, "samples"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if pages["samples"], err = Samples(s); err != nil {
		t.Fatal(err)
	}
	for _, policy := range []string{"static", "min"} {
		p, err := packfile.Open(vfs.OS, filepath.Join(dir, policy))
		if err != nil {
			t.Fatal(err)
		}
		pages[policy] = Pack(p)
	}
	for name, p := range pages {
		data, err := json.MarshalIndent(p, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		charttest.SameAs(t, filepath.Join("testdata", name+".json"), string(data)+"\n")
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		charttest.StandsAlone(t, page)
		if len(p.Figures) < 3 {
			t.Errorf("%s: %d figures", name, len(p.Figures))
		}
		charttest.Figures(t, page, p.Figures)
		charttest.Styled(t, page)
	}
}

// values writes a series as "name=value".
func values(d chart.Data) string {
	var parts []string
	for i, n := range d.Names {
		parts = append(parts, fmt.Sprintf("%s=%.4g", n, d.Values[i]))
	}
	return strings.Join(parts, " ")
}

// TestDegrees by hand: degrees 0, 1, 2, 3, 4 and 10, of 20 edges.
func TestDegrees(t *testing.T) {
	o := graph.NewOffsets(6)
	if err := o.Append([]int64{0, 0, 1, 3, 6, 10, 20}); err != nil {
		t.Fatal(err)
	}
	f := degrees(o)
	if got := values(f.Series[0]); got != "0=16.67 1=16.67 2 to 3=33.33 4 to 7=16.67 8 to 15=16.67" {
		t.Errorf("nodes: %s", got)
	}
	if got := values(f.Series[1]); got != "0=0 1=5 2 to 3=25 4 to 7=20 8 to 15=50" {
		t.Errorf("edges: %s", got)
	}
	if f.Note != "In-neighbours of a node: 3.333 in the mean, 10 at most." {
		t.Error(f.Note)
	}
}

func TestClasses(t *testing.T) {
	f := classes([]int32{2, 2, 0, graph.Unlabelled, 2, 0, 1}, 4, nil)
	if got := values(f.Series[0]); got != "2=3 0=2 1=1 3=0" {
		t.Error(got)
	}
	if svg := string(f.Charts[0]); !strings.Contains(svg, "3, 50\u00a0%") || !strings.Contains(svg, "class 2") {
		t.Error(svg)
	}
	f = classes([]int32{2, 2, 0, graph.Unlabelled, 2, 0, 1}, 3, []string{"ant", "<bee>", "crow"})
	if got := values(f.Series[0]); got != "2: crow=3 0: ant=2 1: <bee>=1" {
		t.Error(got)
	}
	if svg := string(f.Charts[0]); !strings.Contains(svg, "1: &lt;bee&gt;") || strings.Contains(svg, "<bee>") || strings.Contains(svg, "class 2") {
		t.Error(svg)
	}
	many := make([]int32, 0, 60)
	for c := range int32(30) {
		many = append(many, c)
	}
	if f := classes(many, 30, nil); len(f.Series[0].Values) != 30 || strings.Count(string(f.Charts[0]), "<rect") != mostClasses || f.Note != "The other 6 classes have 6 nodes." {
		t.Errorf("%d drawn: %s", strings.Count(string(f.Charts[0]), "<rect"), f.Note)
	}
}

// TestHotness by hand: of four nodes one has half of the rows, one none.
func TestHotness(t *testing.T) {
	d := hotness([]uint32{4, 2, 2, 0}).Series[0]
	if !slices.Equal(d.X, []float64{0, 25, 50, 75, 100}) || !slices.Equal(d.Values, []float64{0, 50, 75, 100, 100}) {
		t.Errorf("%v %v", d.X, d.Values)
	}
	if d := hotness(nil).Series[0]; len(d.X) != 1 {
		t.Errorf("of nothing: %v", d)
	}
	hot := make([]uint32, 1000)
	for i := range hot {
		hot[i] = 1
	}
	if d := hotness(hot).Series[0]; len(d.X) != hotPoints+1 || d.X[7] != 7 || d.Values[7] != 7 {
		t.Errorf("alike: %v %v", d.X, d.Values)
	}
}

func TestLargest(t *testing.T) {
	list := make([]float64, 2*mostPoints-1)
	list[3], list[len(list)-1] = 5, 7
	at, most := largest(list)
	if len(at) != mostPoints || at[1] != 2 || most[0] != 0 || most[1] != 5 || most[len(most)-1] != 7 {
		t.Errorf("%d points, %v %v", len(at), at[:2], most[:2])
	}
	if at, _ := largest(nil); at != nil {
		t.Error(at)
	}
}

// TestWhere: shares of the nodes and of the rows add up to all of them.
func TestWhere(t *testing.T) {
	d := packfile.Description{Policy: "static", Caches: []packfile.Cache{{Share: 0.05, Hits: 0.25}, {Share: 0.5, Hits: 0.75}}}
	f := where(&d)
	if got := strings.ReplaceAll(values(f.Series[0]), "\u00a0", ""); got != "0 to 5%=5 5 to 50%=45 50 to 100%=50" {
		t.Error(got)
	}
	if got := strings.ReplaceAll(values(f.Series[1]), "\u00a0", ""); got != "0 to 5%=25 5 to 50%=50 50 to 100%=25" {
		t.Error(got)
	}
}

// TestTypes by hand: three papers, of which relation cites has two edges and writes none, and an author with two.
func TestTypes(t *testing.T) {
	g := &graph.Types{Nodes: []graph.NodeType{{Name: "paper", Count: 3, Features: true}, {Name: "author", Count: 1}},
		Relations: []graph.Relation{{Source: 0, Name: "cites", Destination: 0}, {Source: 1, Name: "writes", Destination: 0}, {Source: 0, Name: "by", Destination: 1}}}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	f := types(g, []int64{9, 1})
	if a, b := values(f.Series[0]), values(f.Series[1]); a != "paper=75 author=25" || b != "paper=90 author=10" {
		t.Errorf("%s; %s", a, b)
	}
	if f := types(g, nil); len(f.Series) != 1 || !strings.Contains(string(f.Charts[0]), "3 nodes") {
		t.Errorf("without counts: %+v", f)
	}
	o := graph.NewOffsets(7) // rows of the three papers, and of the author
	if err := o.Append([]int64{0, 1, 1, 2, 2, 2, 2, 4}); err != nil {
		t.Fatal(err)
	}
	f = relations(g, o)
	if a, b := values(f.Series[0]), values(f.Series[1]); a != "paper:cites:paper=42.86 author:writes:paper=42.86 paper:by:author=14.29" || b != "paper:cites:paper=50 author:writes:paper=0 paper:by:author=50" {
		t.Errorf("%s; %s", a, b)
	}
	many := &graph.Types{Nodes: make([]graph.NodeType, mostTypes+1)}
	if f := types(many, nil); len(f.Series[0].Values) != mostTypes+1 || f.Note != "The chart leaves out 1 other." {
		t.Error(f.Note)
	}
}
