package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/internal/chart"
	"diskgnn/internal/chart/charttest"
	"diskgnn/internal/fault"
	"diskgnn/internal/program"
	"diskgnn/pipeline"
)

// two are the tiny run, and one with another recipe and cache, twice as fast, that ends worse.
func two(t *testing.T) []*Run {
	a, b := tiny(t), tiny(t)
	a.Dir, b.Dir = "runs/a/run", "runs/b/run"
	b.Params.LR, b.Params.Model, b.Setup.CacheRows, b.Setup.Threads = 0.01, "gcn", 500, 8
	b.Epochs = slices.Clone(b.Epochs)
	for i := range b.Epochs {
		b.Epochs[i].Seconds /= 2
		b.Epochs[i].ValidAccuracy /= 2
	}
	return []*Run{a, b}
}

func TestCompareGolden(t *testing.T) {
	c, err := Compare(two(t))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := c.Write(&page); err != nil {
		t.Fatal(err)
	}
	charttest.SameAs(t, "testdata/compared.json", string(data)+"\n")
	charttest.SameAs(t, "testdata/compared.html", page.String())
	charttest.StandsAlone(t, page.String())
	for _, f := range c.Figures {
		contains(t, "compared", page.String(), `<figure id="figure-`+f.ID+`">`)
	}
	if n := drawings(t, "compared", page.String()); n != len(c.Figures) || n != 5 {
		t.Errorf("%d drawings of %d figures", n, len(c.Figures))
	}
}

// TestCompare: what differs is named, with all values, and nothing else is; what the runs came to
// by hand.
func TestCompare(t *testing.T) {
	runs := append(two(t), tiny(t))
	runs[2].Dir, runs[2].Params.Model, runs[2].Host = "c", "gat", &program.Host{Name: "other", Processors: 1, System: "linux"}
	c, err := Compare(runs)
	if err != nil {
		t.Fatal(err)
	}
	want := []Difference{
		{"--model", true, []string{"sage", "gcn", "gat"}}, {"--lr", true, []string{"0.003", "0.01", "0.003"}},
		{"cache", false, []string{"10\u00a0% of the rows", "50\u00a0% of the rows", "10\u00a0% of the rows"}}, {"threads", false, []string{"2", "8", "2"}},
		{"host", false, []string{runs[0].host(), runs[0].host(), "other, 1 processor, linux"}},
	}
	if d := cmp.Diff(want, c.Differences); d != "" {
		t.Error(d)
	}
	v := c.Runs[1]
	if v.Name != "b/run" || v.Valid != 0.375 || v.BestEpoch != 1 || v.Test != 0.75 || v.EpochSeconds != 0.5 || v.ReadBytes != 40960 || v.Hits != 0.25 || v.Seconds != 6.5 || v.MemoryBytes != 33554432 {
		t.Errorf("%+v", v)
	}
	if s := strings.ReplaceAll(c.Sentence(), "\u00a0", " "); s != "a/run scores best in validation: accuracy 75.00 %, at epoch 1, and 75.00 % in test. b/run is the fastest: an epoch takes 500 ms; of a/run, 2 times as long." {
		t.Error(s)
	}
}

func TestCompareEnds(t *testing.T) {
	r := tiny(t)
	for n, runs := range [][]*Run{nil, {r}, slices.Repeat([]*Run{r}, MostCompared+1)} {
		if _, err := Compare(runs); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%d: %d runs: %v", n, len(runs), err)
		}
	}
	same, err := Compare([]*Run{r, r})
	if err != nil || len(same.Differences) != 0 || same.Differences != nil || !strings.Contains(same.Sentence(), "The recipes are the same.") {
		t.Errorf("one run twice: %+v, %v", same, err)
	}
	other := tiny(t)
	other.Params.Metric = "auc"
	if c, err := Compare([]*Run{r, other}); err != nil || !strings.Contains(c.Sentence(), "different metrics") {
		t.Errorf("two metrics: %v", err)
	}
	begun, none := tiny(t), &Run{}
	begun.Epochs, begun.Result = nil, nil
	c, err := Compare([]*Run{begun, none})
	if err != nil || len(c.Figures) != 0 && c.Figures[0].ID == "score" {
		t.Errorf("nothing trained: %+v, %v", c, err)
	}
	if err := c.Write(new(bytes.Buffer)); err != nil {
		t.Error(err)
	}
	for _, v := range c.Runs {
		if v.Valid.Defined() || v.EpochSeconds.Defined() || v.Hits.Defined() || v.BestEpoch != -1 {
			t.Errorf("nothing trained: %+v", v)
		}
	}
	if _, err := json.Marshal(c); err != nil {
		t.Error(err)
	}
}

// No two entries of the legend look the same: stages of one colour share an entry.
func TestStagesOfOneColour(t *testing.T) {
	cpu, gpu := judged(2, links(0.5, 0.9)), judged(2, links(0.5, 0.4, pipeline.LinkTime{Link: "GPU copy", Workers: 1, Busy: 0.3}))
	gpu.Setup.Device = "H200"
	for i, c := range []struct {
		runs   []*Run
		legend []chart.Key
		noted  bool
	}{
		{[]*Run{cpu, cpu}, []chart.Key{{Class: "rest", Name: "an epoch"}, {Class: "graphs", Name: "load graph"}, {Class: "disk", Name: "read features"}, {Class: "ram", Name: "assemble"}, {Class: "compute", Name: "compute"}}, false},
		{[]*Run{gpu, gpu}, []chart.Key{{Class: "rest", Name: "an epoch"}, {Class: "graphs", Name: "load graph"}, {Class: "disk", Name: "read features"}, {Class: "ram", Name: "assemble"}, {Class: "gpu", Name: "compute, GPU copy"}}, true},
	} {
		f := (&overlay{c.runs, shortNames(c.runs)}).stages()
		if d := cmp.Diff(c.legend, f.Legend); d != "" || (f.Note != "") != c.noted {
			t.Errorf("%d: %q, %s", i, f.Note, d)
		}
	}
}

func TestShortNames(t *testing.T) {
	for want, dirs := range map[string][]string{
		"a b":         {"x/a", "/y/b/"},
		"x/a y/a":     {"x/a", "/z/y/a"},
		"a b/a":       {"a", "b/a"},
		"a a":         {"a", "a"},
		"1/x/r 2/x/r": {"1/x/r", "2/x/r"},
	} {
		var runs []*Run
		for _, d := range dirs {
			runs = append(runs, &Run{Dir: d})
		}
		if got := strings.Join(shortNames(runs), " "); got != want {
			t.Errorf("%v: %s, want %s", dirs, got, want)
		}
	}
}

func TestThin(t *testing.T) {
	x := make([]float64, 2*mostPoints+1)
	for i := range x {
		x[i] = float64(i)
	}
	few, _ := thin(x, x)
	if len(few) > mostPoints || few[len(few)-1] != x[len(x)-1] || few[1]-few[0] != 3 {
		t.Errorf("%d points, from %v to %v", len(few), few[:2], few[len(few)-1])
	}
}
