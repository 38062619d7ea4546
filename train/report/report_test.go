package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/graph"
	"diskgnn/internal/chart"
	"diskgnn/internal/chart/charttest"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/pipeline"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

func tiny(t testing.TB) *Run {
	t.Helper()
	r, err := Read(vfs.OS, "testdata/tiny")
	if err != nil {
		t.Fatal(err)
	}
	r.Dir = "run"
	return r
}

func render(t testing.TB, r *Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// contains checks for texts as a reader would see them.
func contains(t *testing.T, what, page string, wants ...string) {
	t.Helper()
	page = strings.ReplaceAll(page, "\u00a0", " ")
	for _, want := range wants {
		if !strings.Contains(page, want) {
			t.Errorf("%s: the page lacks %q", what, want)
		}
	}
}

// TestGolden: the page, and what it says as data.
func TestGolden(t *testing.T) {
	r := tiny(t)
	r.DriveRate = 400e6
	data, err := json.MarshalIndent(r.Document(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	charttest.SameAs(t, "testdata/tiny.html", render(t, r))
	charttest.SameAs(t, "testdata/tiny.json", string(data)+"\n")
}

// The page and the data have the same figures, findings and words: every one of the data has its
// element on the page and the page none besides, and whatever a legend names is a series.
func TestPageHasTheData(t *testing.T) {
	r := tiny(t)
	r.Epochs[1].RAMBytes, r.Epochs[1].GPUServedBytes, r.Setup.GPUCacheRows, r.Setup.GPUBytes = 4096, 1024, 40, 1<<20
	page, d := strings.ReplaceAll(render(t, r), "\u00a0", " "), r.Document()
	if len(d.Figures) != 10 || len(d.Verdict) == 0 || d.Command == "" {
		t.Errorf("%d figures, %d findings, command %q", len(d.Figures), len(d.Verdict), d.Command)
	}
	charttest.Figures(t, page, d.Figures)
	for _, f := range d.Figures {
		if f.ID == "layout" || f.ID == "stages" || f.ID == "timeline" { // whose legends are of parts
			continue
		}
		for _, k := range f.Legend {
			if !slices.ContainsFunc(f.Series, func(s chart.Data) bool { return s.Name == k.Name }) {
				t.Errorf("the figure %s has no series %q", f.ID, k.Name)
			}
		}
	}
	for _, f := range d.Verdict {
		contains(t, "verdict", page, `<p id="verdict-`+f.ID+`">`+html.EscapeString(strings.ReplaceAll(f.Text, "\u00a0", " ")))
	}
	for _, tile := range d.Tiles {
		contains(t, "tiles", page, "<b>"+strings.ReplaceAll(tile.Value, "\u00a0", " ")+"</b><span>"+tile.Name)
	}
}

// A class of the page has a colour.
func TestEveryThingHasItsColour(t *testing.T) {
	for _, page := range []string{render(t, tiny(t)), render(t, judged(3, links(0.9, 0.5)))} {
		charttest.Styled(t, page)
	}
}

// The axis of scores shows the plateau: it leaves out the steep beginning, and only that.
func TestPlateau(t *testing.T) {
	none := math.NaN()
	for what, c := range map[string]struct {
		lists [][]float64
		from  float64
		cut   bool
	}{
		"a plateau":       {[][]float64{{0, 40, 80, 80, 84, 84}}, 79, true},
		"two lines":       {[][]float64{{0, 40, 80, 80, 84, 84}, {10, 40, 76, 80, 84, 84}}, 74, true},
		"a steady rise":   {[][]float64{{0, 10, 20, 30, 40, 50}}, 0, false},
		"few epochs":      {[][]float64{{0, 80, 80, 84, 84}}, 0, false},
		"flat":            {[][]float64{{80, 80, 80, 80, 80, 80}}, 80, false},
		"it falls":        {[][]float64{{80, 80, 80, 40, 20, 0}}, 0, false},
		"none is known":   {[][]float64{{none, none, none, none, none, none}}, math.Inf(1), false},
		"some are known":  {[][]float64{{0, none, 80, none, 84, 84}}, 79, true},
		"the least stays": {[][]float64{{78, 79, 100, 90, 90, 90}}, 78, false},
	} {
		if from, cut := plateau(c.lists...); from != c.from || cut != c.cut {
			t.Errorf("%s: %g, %t, want %g, %t", what, from, cut, c.from, c.cut)
		}
	}
}

// Lanes are drawn as batches go through the links.
func TestLanesInOrder(t *testing.T) {
	r := tiny(t)
	spans := r.Timeline.Spans
	r.Timeline.Spans = append([]rundir.TimelineSpan{{Lane: "GPU compute"}, {Lane: "compute"}, {Lane: "read features 10"}, {Lane: "read features 2"}}, spans[:1]...)
	r.Epochs[1].Links = append([]pipeline.LinkTime{{Link: "load graph", Workers: 2}}, r.Epochs[1].Links...)
	var got []string
	for _, s := range r.timelineFigure().Series {
		got = append(got, s.Name)
	}
	if want := "load graph 1, read features 2, read features 10, compute, GPU compute"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %s", got, want)
	}
}

func TestCommand(t *testing.T) {
	for want, words := range map[string][]string{
		"":                               nil,
		"diskgnn train --pack p -q":      {"/opt/bin/diskgnn", "train", "--pack", "p", "-q"},
		"diskgnn train --pack 'a b' --x": {"diskgnn", "train", "--pack", "a b", "--x"},
		"diskgnn train --pack='a b'":     {"diskgnn", "train", "--pack=a b"},
		"diskgnn train -- -p":            {"diskgnn", "train", "--", "-p"},
	} {
		r := tiny(t)
		if r.Command = words; r.command() != want {
			t.Errorf("%q: %s", words, r.command())
		}
	}
}

// The page fetches nothing and runs nothing, and every drawing is well-formed XML.
func TestStandsAlone(t *testing.T) {
	page := render(t, tiny(t))
	charttest.StandsAlone(t, page)
	drawings(t, "tiny", page)
}

// A page that is served while the run trains loads itself again; a file does not.
func TestRefresh(t *testing.T) {
	r := tiny(t)
	if page := render(t, r); strings.Contains(page, "http-equiv") {
		t.Error("a file loads itself again")
	}
	r.Refresh = 5
	contains(t, "served", render(t, r), `<meta http-equiv="refresh" content="5">`)
}

// drawings checks that each is XML, and how many there are.
func drawings(t *testing.T, what, page string) (n int) {
	t.Helper()
	for rest := page; ; n++ {
		lo := strings.Index(rest, "<svg")
		if lo < 0 {
			return n
		}
		hi := strings.Index(rest, "</svg>") + len("</svg>")
		d := xml.NewDecoder(strings.NewReader(rest[lo:hi]))
		for {
			_, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: drawing %d: %v", what, n, err)
			}
		}
		if strings.Contains(rest[lo:hi], "NaN") || strings.Contains(rest[lo:hi], "Inf") {
			t.Errorf("%s: drawing %d has coordinates that are none", what, n)
		}
		rest = rest[hi:]
	}
}

func epochs(n int) []rundir.Epoch {
	list := make([]rundir.Epoch, n)
	for i := range list {
		list[i] = rundir.Epoch{Epoch: i, Seconds: 1, Loss: score.Score(1 / float64(i+1)), TrainAccuracy: 0.5, ValidAccuracy: 0.4,
			BytesRead: 1 << 30, GraphBytesRead: 1 << 20, SSDBytesRead: 1 << 28, RAMBytes: 1 << 29, ReadRate: 1e9,
			Links: []pipeline.LinkTime{{Link: "read features", Workers: 1, Busy: 1}, {Link: "compute", Workers: 1, Busy: 0.5, Blocked: 0.5}}}
	}
	return list
}

func TestEveryKindOfRun(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*Run)
		charts int
		wants  []string
	}{
		"one epoch":   {func(r *Run) { r.Epochs = r.Epochs[:1] }, 11, []string{"Finished 1 epoch."}},
		"many epochs": {func(r *Run) { r.Epochs = epochs(1000) }, 11, []string{"Each bar is the mean of 17 epochs", "epochs 0 to 16", "The last 100; metrics.jsonl has all"}},
		"no epochs":   {func(r *Run) { r.Epochs, r.State, r.Result = nil, rundir.StateRunning, nil }, 3, []string{"Running: 0 of 2 epochs so far.", "No epoch has ended yet."}},
		"nothing":     {func(r *Run) { *r = Run{} }, 0, nil},
		"running":     {func(r *Run) { r.State, r.Result, r.Ended = rundir.StateRunning, nil, nil }, 11, []string{"Best validation accuracy 75.00 %, at epoch 1."}},
		"killed":      {func(r *Run) { r.State = Killed }, 11, []string{"Ended without an error message after 2 of 2 epochs."}},
		"interrupted": {func(r *Run) { r.State, r.Error = "interrupted", "interrupted after" }, 11, []string{"Interrupted after 2 of 2 epochs. Test"}},
		"failed":      {func(r *Run) { r.State, r.Error = "failed", "the loss is NaN" }, 11, []string{"Failed after 2 of 2 epochs: the loss is NaN."}},
		"no losses":   {func(r *Run) { r.Epochs[0].Loss, r.Epochs[1].Loss = score.Undefined, score.Undefined }, 11, []string{"<td>–</td>"}},
		"a hole": {func(r *Run) {
			r.Epochs = epochs(5)
			r.Epochs[2].Loss, r.Epochs[3].Loss = score.Undefined, score.Score(math.NaN())
		}, 11,
			[]string{`<circle class="train"`}}, // the last epoch stands alone
		"no validation": {func(r *Run) {
			r.Result.TestAccuracy = score.Undefined
			for i := range r.Epochs {
				r.Epochs[i].ValidAccuracy = score.Undefined
			}
		}, 11, []string{"The loss came to 1; nothing was validated."}},
		"engine none": {func(r *Run) {
			r.Setup.Engine = "none"
			for i := range r.Epochs {
				e := &r.Epochs[i]
				e.Loss, e.TrainAccuracy, e.ValidAccuracy = score.Undefined, score.Undefined, score.Undefined
			}
		}, 9, []string{"nothing was computed"}},
		"no links":    {func(r *Run) { r.Epochs[0].Links, r.Epochs[1].Links = nil, nil }, 9, nil},
		"other links": {func(r *Run) { r.Epochs[1].Links = r.Epochs[1].Links[1:] }, 10, nil},
		"area":        {func(r *Run) { r.Params.Metric = "auc" }, 11, []string{"Test AUC 0.7500"}},
		"beyond reason": {func(r *Run) {
			r.Epochs[0].Loss, r.Epochs[0].Seconds, r.Epochs[1].Seconds = 1e308, 0, -1e308
		}, 11, nil},
		"a falling rate": {func(r *Run) { r.Epochs[0].LR, r.Epochs[1].LR = 0.01, 0.005 }, 12, []string{"Learning rate", "0.005<"}},
		"equal rates":    {func(r *Run) { r.Epochs[0].LR, r.Epochs[1].LR = 0.01, 0.01 }, 11, nil},
		"absurd rates":   {func(r *Run) { r.Epochs[0].LR, r.Epochs[1].LR = -1e308, 1e308 }, 12, nil},
		"stopped early": {func(r *Run) { r.Params.Epochs, r.Result.StoppedEarly = 9, true }, 11,
			[]string{"Stopped early, after 2 of 9 epochs: the scores no longer improved. Test"}},
		"no timeline": {func(r *Run) { r.Timeline = nil }, 10, nil},
		"a forged timeline": {func(r *Run) {
			r.Timeline = &rundir.Timeline{Spans: slices.Repeat([]rundir.TimelineSpan{{Begin: math.Inf(1)}, {Seconds: -1}, {Begin: 1e308, Seconds: 1e308}, {Lane: "a"}}, 5000)}
		}, 11, nil},
		"equal losses": {func(r *Run) { r.Epochs[0].Loss = r.Epochs[1].Loss }, 11, nil},
	} {
		r := tiny(t)
		c.change(r)
		page := render(t, r)
		if n := drawings(t, what, page); n != c.charts {
			t.Errorf("%s: %d drawings, want %d", what, n, c.charts)
		}
		contains(t, what, page, c.wants...)
	}
}

// A run with a GPU shows what that holds and serves, and calls nothing RAM's that is not.
func TestGPUCache(t *testing.T) {
	for what, c := range map[string]struct {
		ram, gpu    int64 // rows
		wants, lack []string
	}{
		"in RAM alone": {100, 0, []string{">of rows from RAM<", ">from RAM<", "rows in RAM, not read", "cached in RAM</th><td>100 rows, 10 %"}, []string{"the GPU", "GPU memory"}},
		"on both": {60, 40, []string{"<b>25 %</b><span>of rows from the GPU<", "<b>75 %</b><span>of rows from RAM<", "rows in RAM, not read", "rows on the GPU, not read", "cached in RAM</th><td>60 rows, 6 %", "cached on the GPU</th><td>40 rows, 4 %, 5.0 KiB",
			"<td>800 B</td><td>2.3 KiB</td>", "on the GPU: 4 % of the rows", "of it: the GPU&#39;s cache"}, nil},
		"on the device": {0, 100, []string{"<b>100 %</b><span>of rows from the GPU<", "rows on the GPU, not read", "cached in RAM</th><td>0 rows, 0 %", "GPU memory</th><td>6.00 GiB", "GPU</th><td>H200", "<td>3.1 KiB</td><td>0 B</td>"}, []string{"of rows from RAM", "rows in RAM"}},
	} {
		r := tiny(t)
		e := &r.Epochs[len(r.Epochs)-1]
		r.Epochs[0].RAMBytes, e.RAMBytes, e.InputNodes = 0, 3200, 100
		switch {
		case c.ram == 0:
			e.GPUServedBytes = 3200
		case c.gpu > 0:
			e.GPUServedBytes = 800
		}
		r.Setup.CacheRows, r.Setup.GPUCacheRows = c.ram+c.gpu, c.gpu
		if c.gpu > 0 {
			r.Setup.Engine, r.Setup.Device, r.Setup.GPUCacheSize, r.Setup.GPUBytes = "gpu", "H200", 5<<10, 6<<30
		}
		page := strings.ReplaceAll(render(t, r), "\u00a0", " ")
		contains(t, what, page, c.wants...)
		for _, no := range c.lack {
			if strings.Contains(page, no) {
				t.Errorf("%s: the page has %q", what, no)
			}
		}
	}
}

// The best epoch is the first one with the best validation score, wherever it is, and named
// by its number alike in the summary, the table and the chart.
func TestBestEpoch(t *testing.T) {
	for what, c := range map[string]struct {
		scores []score.Score
		best   int
	}{
		"the first":       {[]score.Score{0.5, 0.25, 0.125}, 0},
		"the last":        {[]score.Score{0.125, 0.25, 0.5}, 2},
		"between":         {[]score.Score{0.125, 0.5, 0.25}, 1},
		"of equals":       {[]score.Score{0.125, 0.5, 0.5, 0.25}, 1},
		"after none":      {[]score.Score{score.Undefined, 0.25, score.Undefined, 0.5, score.Undefined}, 3},
		"none better":     {[]score.Score{0, 0}, 0},
		"below its first": {[]score.Score{score.Undefined, 0.5, 0.25, score.Undefined}, 1},
	} {
		r := tiny(t)
		r.Epochs = epochs(len(c.scores))
		for i := range r.Epochs {
			r.Epochs[i].Epoch, r.Epochs[i].ValidAccuracy = 10+i, c.scores[i]
		}
		text := strings.ReplaceAll(r.score(c.scores[c.best]), "\u00a0", " ")
		page := render(t, r)
		contains(t, what, page, fmt.Sprintf("with the weights of epoch %d, the best in validation (%s).", 10+c.best, text),
			fmt.Sprintf("best: epoch %d, %s", 10+c.best, text))
		r.Result.TestAccuracy = score.Undefined
		contains(t, what, render(t, r), fmt.Sprintf("Best validation accuracy %s, at epoch %d.", text, 10+c.best))
		if row := fmt.Sprintf(`<tr class="chosen"><td>%d</td>`, 10+c.best); strings.Count(page, row) != 1 || strings.Count(page, `<tr class="chosen">`) != 1 {
			t.Errorf("%s: the page lacks %s, or marks another row", what, row)
		}
	}
}

// The configuration has what was chosen, and nothing of other models.
func TestConfiguration(t *testing.T) {
	for want, p := range map[string]recipe.Recipe{
		"model sage; widths 4 → 2; aggregator mean; dropout 0.5; epochs 9; optimizer adam; learning rate 0.01; metric f1; layer order auto; seed 3; order of batches as sampled": {
			Model: "sage", Heads: 8, Aggregator: "mean", GCNNorm: "graph", Norm: "none", Activation: "auto", Optimizer: "adam",
			Schedule: "constant", PlateauFactor: 0.5, PlateauPatience: 10},
		"model gcn; widths 4 → 2; edges weighed by degrees in the block; norm batch; activation elu; residual yes; input projection yes; " +
			"dropout 0.5; epochs 9; early stopping after 1 epoch without a better validation score; optimizer adamw; learning rate 0.01; warm-up 2 epochs; schedule cosine, down to 1e-05; " +
			"weight decay 0.1; label smoothing 0.2; metric f1; layer order auto; seed 3; order of batches shuffled": {
			Model: "gcn", Heads: 8, Aggregator: "mean", GCNNorm: "block", Norm: "batch", Activation: "elu", Residual: true, InputProjection: true,
			Optimizer: "adamw", WeightDecay: 0.1, LabelSmoothing: 0.2, Schedule: "cosine", Warmup: 2, MinLR: 1e-5, Patience: 1, ShuffleBatches: true},
		"model gat; widths 4 → 2; heads 8; dropout 0.5; epochs 9; optimizer adam; learning rate 0.01; schedule times 0.5 after more than 10 epochs without a better score, down to 0; " +
			"loss binary; metric f1; layer order auto; seed 3; order of batches as sampled": {
			Model: "gat", Heads: 8, Aggregator: "mean", Loss: "binary", Optimizer: "adam", Schedule: "plateau", PlateauFactor: 0.5, PlateauPatience: 10},
	} {
		p.Dims, p.Dropout, p.Epochs, p.LR, p.Metric, p.LayerOrder, p.Seed = []int{4, 2}, 0.5, 9, 0.01, "f1", "auto", 3
		var got []string
		for _, row := range (&Run{File: rundir.File{Params: rundir.Params{Recipe: p}}}).configuration().Rows {
			got = append(got, row.Name+" "+row.Value)
		}
		if d := cmp.Diff(strings.Split(want, "; "), got); d != "" {
			t.Errorf("%s: %s", p.Model, d)
		}
	}
}

// Whatever a run's files say, it stays text.
func TestEscapes(t *testing.T) {
	const evil = `"><script>alert(1)</script>&`
	r := tiny(t)
	r.State, r.Error, r.Dir, r.Version, r.Pack, r.PackFacts.Dir = "failed", evil, evil, evil, evil, evil
	r.Params.Metric, r.Params.Model, r.Setup.BLAS, r.PackFacts.Policy = evil, evil, evil, evil
	for i := range r.Epochs {
		r.Epochs[i].Links[0].Link = evil
	}
	page := render(t, r)
	if strings.Contains(strings.ToLower(page), "<script") {
		t.Error("the page runs what the files say")
	}
	drawings(t, "evil", page)
}

func TestReadRefuses(t *testing.T) {
	good, err := os.ReadFile("testdata/tiny/run.json")
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		run, metrics string
		epochs       int
		kind         error
	}{
		"nothing trained":   {string(good), "", 0, nil},
		"a torn last line":  {string(good), `{"epoch":0}` + "\n" + `{"epoch":1,"sec`, 1, nil},
		"a torn first line": {string(good), `{"epoch":0,"sec` + "\n" + `{"epoch":1}` + "\n", 0, fault.ErrCorrupt},
		"epochs backwards":  {string(good), `{"epoch":1}` + "\n" + `{"epoch":0}` + "\n", 0, fault.ErrCorrupt},
		"no JSON":           {"{", "", 0, fault.ErrCorrupt},
		"another version":   {strings.Replace(string(good), `"version": 2`, `"version": 4`, 1), "", 0, fault.ErrVersion},
		"no checksum":       {strings.Replace(string(good), `"version": 2`, `"version": 3`, 1), "", 0, fault.ErrCorrupt},
		"something else":    {`{"format":{"name":"diskgnn.pack","version":2}}`, "", 0, fault.ErrInput},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"run.json": c.run, "metrics.jsonl": c.metrics} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Read(vfs.OS, dir)
		if !errors.Is(err, c.kind) || err == nil && len(r.Epochs) != c.epochs {
			t.Errorf("%s: %v, %v", what, r, err)
		}
	}
	if _, err := Read(vfs.OS, t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty directory: %v", err)
	}
}

// Any files make an error or a page, in little time.
func FuzzReport(f *testing.F) {
	run, err := os.ReadFile("testdata/tiny/run.json")
	if err != nil {
		f.Fatal(err)
	}
	metrics, err := os.ReadFile("testdata/tiny/metrics.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(run, metrics)
	f.Add([]byte(`{"format":{"name":"diskgnn.run","version":2}}`), []byte(`{"epoch":2147483647,"loss":1e308,"seconds":-1e-320,"stages":[{"workers":-1}]}`+"\n"))
	f.Fuzz(func(t *testing.T, run, metrics []byte) {
		dir := t.TempDir()
		for name, b := range map[string][]byte{"run.json": run, "metrics.jsonl": metrics} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Read(vfs.OS, dir)
		if err != nil {
			return
		}
		if err := Write(io.Discard, r); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTypeRows: papers are three quarters of the rows of batches, two relations lead to them, and none to places.
func TestTypeRows(t *testing.T) {
	types := &graph.Types{
		Nodes: []graph.NodeType{{Name: "paper", Count: 5, Features: true}, {Name: "author", Count: 1, Features: true}, {Name: "place", Count: 2000}},
		Relations: []graph.Relation{{Source: 0, Name: "cites", Destination: 0}, {Source: 1, Name: "writes", Destination: 0},
			{Source: 2, Name: "employs", Destination: 1}},
	}
	if err := types.Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		inputs []int64
		shares []string
	}{{[]int64{6, 1, 1}, []string{", 75.0 % of the rows of training batches", ", 12.5 % of the rows of training batches", ", 12.5 % of the rows of training batches"}},
		{nil, []string{"", "", ""}}} {
		want := []Row{{"paper", "5 nodes" + c.shares[0] + "; paper:cites:paper, author:writes:paper"},
			{"author", "1 node" + c.shares[1] + "; place:employs:author"}, {"place", "2,000 nodes without features" + c.shares[2]}}
		if d := cmp.Diff(want, TypeRows(types, c.inputs)); d != "" {
			t.Error(d)
		}
	}
	if rows := TypeRows(nil, nil); rows != nil {
		t.Error(rows)
	}
}
