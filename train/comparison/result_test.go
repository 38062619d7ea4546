package comparison

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"diskgnn/pipeline"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// epoch returns one that read 4096 bytes, 1024 of them useful, at 8192 bytes a second in 16
// requests, and had 300 bytes of rows from RAM, 100 of them on the GPU, of 100 rows or, with an
// odd number, 50.
func epoch(n int, seconds float64, valid score.Score) rundir.Epoch {
	return rundir.Epoch{Epoch: n, Seconds: seconds, ValidAccuracy: valid, BytesRead: 4096, UsefulBytes: 1024, ReadRate: 8192, RAMBytes: 300, GPUServedBytes: 100, Requests: 16, Batches: 20,
		InputNodes:   []int64{100, 50}[n%2],
		ValidSeconds: 0.5, Links: []pipeline.LinkTime{{Link: "read features", Workers: 2, Busy: seconds}, {Link: "compute", Workers: 1, Busy: 0.25}}}
}

// run returns a run whose epochs took so many seconds.
func run(seconds ...float64) *rundir.Result {
	r := &rundir.Result{Setup: rundir.Setup{Engine: "cpu", CacheRows: 5}, PreloadBytes: 7, ValidAccuracy: 0.75, TestAccuracy: 0.5, PeakAnonBytes: int64(seconds[0])}
	for i, s := range seconds {
		valid := score.Score(0.25 * float64(i+1))
		if i == 1 {
			valid = score.Undefined // not validated
		}
		r.Epochs = append(r.Epochs, epoch(i, s, valid))
	}
	return r
}

// small is a variant whose rows have 10 bytes.
var small = &variant{w: workload{rowBytes: 10, tableBytes: 1000}}

func close(a score.Score, b float64) bool { return math.Abs(float64(a)-b) <= 1e-12*math.Abs(b) }

// TestSummarize: the first epoch of each run, of 9 and 11 seconds, counts for itself alone.
func TestSummarize(t *testing.T) {
	s := summarize(&row{store: "rows", of: small, runs: []*rundir.Result{run(9, 2, 4), run(11, 1, 3)}})
	// Epochs 1 and 2 of both runs take 2·(50 + 100) rows of 10 bytes, 3000 in 10 seconds.
	for what, v := range map[string]struct {
		got  score.Score
		want float64
	}{
		"first":     {s.FirstSeconds, 10},
		"epoch":     {s.EpochSeconds, 2.5},
		"read":      {s.BytesRead, 4096},
		"useful":    {s.UsefulBytes, 1024},
		"fraction":  {s.UsefulFraction, 0.25},
		"requests":  {s.Requests, 16},
		"hits":      {s.HitRatio, 4 * 300. / 3000},
		"on GPU":    {s.GPUHitRatio, 4 * 100. / 3000},
		"in RAM":    {s.RAMHitRatio, 4 * 200. / 3000},
		"effective": {s.Effective, 300},
		"device":    {s.Device, 8192},
		"valid":     {s.Valid, 0.75},
		"test":      {s.Test, 0.5},
		"held":      {score.Score(s.CacheFraction), 0.05}, // 5 of 100 rows
	} {
		if !close(v.got, v.want) {
			t.Errorf("%s: %v, want %v", what, v.got, v.want)
		}
	}
	if !slices.Equal(s.RoundSeconds, []score.Score{3, 2}) || s.Rounds != 2 || s.PeakAnon != 11 || s.PreloadBytes != 7 || s.Engine != "cpu" {
		t.Errorf("%+v", s)
	}
	if want := []Link{{"read features", 1.25}, {"compute", 0.25}}; !slices.Equal(s.Links, want) {
		t.Errorf("links %v, want %v", s.Links, want)
	}
	// Training and validation of the first run: 9.5, 12, 16.5 seconds.
	if want := []Scored{{0, 9.5, 0.25}, {2, 16.5, 0.75}}; !slices.Equal(s.Scores, want) {
		t.Errorf("scores %v, want %v", s.Scores, want)
	}
}

// TestOneEpoch: the only epoch of a run counts; of a store that reads nothing there is no
// fraction, and no rate.
func TestOneEpoch(t *testing.T) {
	r := run(3)
	r.Epochs[0].BytesRead, r.Epochs[0].ReadRate, r.Epochs[0].InputNodes = 0, score.Undefined, 30
	s := summarize(&row{store: "memory", of: small, runs: []*rundir.Result{r}})
	if s.EpochSeconds != 3 || s.FirstSeconds != 3 || s.UsefulFraction.Defined() || s.Device.Defined() || s.HitRatio != 1 {
		t.Errorf("%+v", s)
	}
}

// TestPayback: what the pack took to make is compared with what it saves.
func TestPayback(t *testing.T) {
	list := []Store{
		{Store: "packed", packed: true, Rounds: 1, Preparation: Preparation{Seconds: 10}, FirstSeconds: 3, EpochSeconds: 1},
		{Store: "rows", Rounds: 1, FirstSeconds: 6, EpochSeconds: 4},    // 7 behind, 3 an epoch: after 1 + 3
		{Store: "even", Rounds: 1, FirstSeconds: 7, EpochSeconds: 4},    // 6 behind: after 1 + 2
		{Store: "memory", Rounds: 1, FirstSeconds: 5, EpochSeconds: 1},  // nothing is saved
		{Store: "slow", Rounds: 1, FirstSeconds: 13, EpochSeconds: 0.5}, // by the first epoch
		{Store: "failed", EpochSeconds: score.Undefined, PackSaves: score.Undefined},
		{Store: "rows", Ablation: "no-pipeline", Rounds: 1, FirstSeconds: 6, EpochSeconds: 4}, // its pack has not run
		{Store: "rows", Ablation: "layers-2", Rounds: 1, FirstSeconds: 6, EpochSeconds: 4},    // against its own: 1 behind
		{Store: "packed", packed: true, Ablation: "layers-2", Rounds: 1, Preparation: Preparation{Seconds: 4}, FirstSeconds: 3, EpochSeconds: 1},
		{Store: "sums", Rounds: 1, Preparation: Preparation{Seconds: 3}, FirstSeconds: 6, EpochSeconds: 4}, // 4 behind: after 1 + 2
	}
	payback(list)
	for i, want := range []int{0, 4, 3, 0, 1, 0, 0, 2, 0, 3} {
		got := 0
		if p := list[i].PackPays; p != nil {
			got = *p
		}
		if got != want {
			t.Errorf("%s: %d epochs, want %d", list[i].Store, got, want)
		}
	}
	if list[1].PackSaves != 3 || list[5].PackSaves.Defined() {
		t.Errorf("saves %v and %v", list[1].PackSaves, list[5].PackSaves)
	}
}

// TestPaybackIsUnclear where rounds overlap in time, unless the first epochs decide.
func TestPaybackIsUnclear(t *testing.T) {
	store := func(prepared, first float64, rounds ...score.Score) Store {
		return Store{Rounds: len(rounds), Preparation: Preparation{Seconds: prepared}, FirstSeconds: score.Score(first), EpochSeconds: rounds[0], RoundSeconds: rounds}
	}
	packed := store(10, 3, 1, 2)
	packed.packed = true
	for name, c := range map[string]struct {
		s       Store
		unclear bool
		pays    int // 0: null
		says    string
	}{
		"apart":          {store(0, 6, 4, 2.5), false, 4, "epoch 4"},
		"overlapping":    {store(0, 6, 4, 1.5), true, 0, "unclear"},
		"touching":       {store(0, 6, 4, 2), true, 0, "unclear"},
		"slower":         {store(0, 6, 0.5, 0.75), false, 0, "never"},
		"slower first":   {store(0, 13, 1.5, 1), false, 1, "epoch 1"},
		"of one round":   {store(0, 6, 4), false, 4, "epoch 4"},
		"longer to make": {store(9, 6, 4, 3), false, 1, "epoch 1"},
	} {
		list := []Store{packed, c.s}
		payback(list)
		got := 0
		if list[1].PackPays != nil {
			got = *list[1].PackPays
		}
		if list[1].PackUnclear != c.unclear || got != c.pays || list[1].pays() != c.says {
			t.Errorf("%s: unclear %t, %d epochs, %q", name, list[1].PackUnclear, got, list[1].pays())
		}
	}
}

// TestRequestBytes: the reads of rows are those that are not of graphs, one for each batch.
func TestRequestBytes(t *testing.T) {
	r := run(9, 1, 1)
	for i := range r.Epochs {
		e := &r.Epochs[i]
		e.BytesRead, e.GraphBytesRead, e.Batches, e.Requests = 100_000+int64(i)*4096, 10_000, 20, 40+int64(i)
	}
	s := summarize(&row{store: "rows", of: small, runs: []*rundir.Result{r}})
	// Epochs 1 and 2 read 94,096 and 98,192 bytes of rows by 21 and 22 requests.
	if !close(s.RequestBytes, (94_096.+98_192)/43) {
		t.Errorf("%v", s.RequestBytes)
	}
	for i := range r.Epochs {
		r.Epochs[i].GraphBytesRead = r.Epochs[i].BytesRead
	}
	if s := summarize(&row{store: "memory", of: small, runs: []*rundir.Result{r}}); s.RequestBytes.Defined() {
		t.Errorf("of no rows: %v", s.RequestBytes)
	}
}

// TestPageCache: the label has the method that bounds a page cache, the directory has not.
func TestPageCache(t *testing.T) {
	r := run(9, 1)
	r.PageCache = "drop"
	s := summarize(&row{store: "mmap", of: small, runs: []*rundir.Result{r}})
	if s.Label() != "mmap (drop)" || s.Name() != "mmap" || s.PageCache != "drop" {
		t.Errorf("%q, %q", s.Label(), s.Name())
	}
	if text := show3(t, &Result{Stores: []Store{s}}); !strings.Contains(text, "<tr><td>mmap (drop)</td>") {
		t.Error("the page does not say how the page cache is bounded")
	}
}

// TestPaybackIsLeast counts epochs one by one.
func TestPaybackIsLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, least int) float64 { return float64(rapid.IntRange(least, 40).Draw(t, name)) }
		p := Store{Store: "packed", packed: true, Rounds: 1, Preparation: Preparation{Seconds: draw("packing", 0)}, FirstSeconds: score.Score(draw("first packed", 1)), EpochSeconds: score.Score(draw("packed", 1))}
		s := Store{Store: "rows", Rounds: 1, FirstSeconds: score.Score(draw("first", 1)), EpochSeconds: score.Score(draw("epoch", 1))}
		want := 0
		a, b := p.Preparation.Seconds+float64(p.FirstSeconds), float64(s.FirstSeconds)
		for n := 1; n < 200 && want == 0; n++ {
			if a <= b {
				want = n
			}
			a, b = a+float64(p.EpochSeconds), b+float64(s.EpochSeconds)
		}
		list := []Store{s, p}
		payback(list)
		if got := list[0].PackPays; (got == nil) != (want == 0) || got != nil && *got != want {
			t.Fatalf("%v, want %d", got, want)
		}
	})
}

// three are stores of which one failed, and one that has a part taken away.
func three() *Result {
	cut := &variant{name: "no-pipeline", w: small.w}
	r := &Result{Dataset: "data/g", Out: "out", Epochs: 2, Rounds: 2, Memory: 1 << 30, Drive: Drive{Sequential: 1 << 30, Random: 250_000}, Stores: []Store{
		summarize(&row{store: "packed", packed: true, of: small, runs: []*rundir.Result{run(9, 1), run(9, 1)}}),
		summarize(&row{store: "rows", of: small, runs: []*rundir.Result{run(20, 29), run(20, 31)}}),
		summarize(&row{store: "memory", of: small, failed: errors.New("too\nlittle")}),
		summarize(&row{store: "rows", of: cut, runs: []*rundir.Result{run(20, 40)}}),
	}}
	r.Stores[1].RequestBytes, r.Stores[1].AtRequest, r.Stores[1].DeviceFraction = 1024, 9216, 8./9
	r.Stores[0].Preparation = Preparation{Seconds: 40, DiskBytes: 3 << 20}
	payback(r.Stores)
	r.judge()
	return r
}

// TestTables: the tables of stores, of which one failed.
func TestTables(t *testing.T) {
	r := three()
	var got []string
	for _, table := range r.Tables() {
		got = append(append(got, table.Heading), table.Lines...)
	}
	const want = `
 first   epoch  spread       bound by
9.00 s  1.00 s    0.0%  read features
20.0 s  30.0 s    6.7%  read features
failed: too; little
20.0 s  40.0 s       -  read features
   read  useful  requests     each
4.0 KiB   25.0%        16        -
4.0 KiB   25.0%        16  1.0 KiB

4.0 KiB   25.0%        16        -
held  on GPU  in RAM  valid
5.0%   20.0%   40.0%  75.0%
5.0%   20.0%   40.0%  75.0%

5.0%   20.0%   40.0%  75.0%
effective     device      drive  of it
  500 B/s  8.0 KiB/s          -      -
   16 B/s  8.0 KiB/s  9.0 KiB/s  88.9%

   12 B/s  8.0 KiB/s          -      -
prepared  on disk  packing pays
  40.0 s  3.0 MiB             -
       -        -       epoch 2

       -        -             -`
	if got := "\n" + strings.Join(got, "\n"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if b, err := json.Marshal(r); err != nil || !strings.Contains(string(b), `"epochs_until_packing_pays":2`) || !strings.Contains(string(b), `"epoch_seconds":null`) {
		t.Errorf("%s, %v", b, err)
	}
}

// TestTablesAreNarrow: with the widest cells, a line has 80 characters at most.
func TestTablesAreNarrow(t *testing.T) {
	s := Store{Store: "gnndrive", Ablation: "of-15-character", Rounds: 2, FirstSeconds: 3599, EpochSeconds: 3599, RoundSeconds: []score.Score{3598, 3599}, Effective: 1023 << 20, Device: 1023 << 20,
		RequestBytes: 1023 << 10, AtRequest: 1023 << 20, DeviceFraction: 9.999, CacheFraction: 1, PackUnclear: false, Links: []Link{{Name: "read features"}},
		BytesRead: 1023 << 20, UsefulFraction: 1, Requests: 9_999_999, GPUHitRatio: 1, RAMHitRatio: 1, Valid: 1, Preparation: Preparation{3599, 1023 << 20}, PackPays: new(1 << 20)}
	for _, table := range (&Result{Stores: []Store{s}}).Tables() {
		for _, text := range append(table.Lines, table.Heading) {
			if n := utf8.RuneCountInString(s.Name()) + 2 + utf8.RuneCountInString(text); n > 80 {
				t.Errorf("%d characters: %s", n, text)
			}
		}
	}
}
