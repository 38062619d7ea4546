package epoch

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"diskgnn/featurestore"
	"diskgnn/internal/fault"
	"diskgnn/pipeline"
	"diskgnn/train/collective"
	"diskgnn/train/engine"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// TestReads: every count of a batch goes where it belongs, and batches add up.
func TestReads(t *testing.T) {
	var a account
	a.reset(3, 4)
	c := featurestore.Counts{BytesRead: 1, UsefulBytes: 2, GraphRead: 3, SSDRead: 4, SSDUseful: 5, TopologyRead: 6, TopologyRequests: 7,
		RAMRows: 8, GPURows: 9, Requests: 10, BufferRows: 11, PageMisses: 12, PageHits: 13}
	a.read(c, 14, 100)
	a.read(c, 14, 100)
	want := rundir.Epoch{Epoch: 3, Batches: 4, BytesRead: 2, UsefulBytes: 4, GraphBytesRead: 6, SSDBytesRead: 8, SSDUsefulBytes: 10, TopologyBytesRead: 12, TopologyRequests: 14,
		RAMBytes: 1600, GPUServedBytes: 1800, Requests: 20, BufferBytes: 2200, PageMisses: 24, PageHits: 26, InputNodes: 28}
	got := a.now
	for _, s := range []*score.Score{&got.LR, &got.Loss, &got.TrainAccuracy, &got.ValidAccuracy} {
		if s.Defined() {
			t.Errorf("%+v", got)
		}
		*s = 0
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	a.sum(Found{Loss: 2, Seeds: 1})
	if a.meanLoss() != 2 {
		t.Errorf("the loss is %v", a.meanLoss())
	}
	a.sum(Found{Loss: 5, Seeds: 2})
	if a.meanLoss() != 4 {
		t.Errorf("the loss is %v", a.meanLoss())
	}
	if a.reset(0, 1); a.meanLoss().Defined() || a.now.BytesRead != 0 {
		t.Error("something is left")
	}
}

// TestAccountTimes: where the times of an epoch come from.
func TestAccountTimes(t *testing.T) {
	links := func() []pipeline.LinkTime {
		return []pipeline.LinkTime{{Link: LinkLoad, Workers: 4}, {Link: LinkRead, Workers: 1}, {Link: LinkCompute, Workers: 1}}
	}
	a := account{table: pipeline.Table{Links: links()}, preload: 1000}
	was := links()
	for i := range was {
		was[i].Busy, was[i].Blocked = float64(12-i), float64(20+i)
	}
	slices.Reverse(was) // whatever their order
	a.inherit(&rundir.Epoch{Seconds: 50, Links: append(was, pipeline.LinkTime{Link: LinkLaunch, Busy: 99})})
	if e := a.soFar(); e.Seconds != 50 || len(e.Links) != 3 || e.Links[0].Busy != 12 || e.Links[1].Blocked != 21 {
		t.Errorf("%+v", e)
	}
	a.running = time.Now().Add(-time.Hour)
	if e := a.soFar(); e.Seconds < 3650 || e.Seconds > 3650+3600 {
		t.Errorf("after an hour: %v", e.Seconds)
	}
	a.finish()
	if e := a.now; e.Seconds != 1050 || e.ReadSeconds != 11 || e.ComputeSeconds != 10 || e.BoundLink != LinkRead || e.BoundSeconds != 11 || len(e.Links) != 3 {
		t.Errorf("%+v", e)
	}
	a.table.Links[0].Busy = 80 // of four workers
	if a.finish(); a.now.BoundLink != LinkLoad || a.now.BoundSeconds != 20 {
		t.Errorf("%+v", a.now)
	}
}

// TestTally: the last link went on after the batches; what was tallied before stays, until restart.
func TestTally(t *testing.T) {
	w := newWorld(t)
	tr, err := w.trainer(collective.One(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if err := tr.Start(context.Background(), w.slots); err != nil {
		t.Fatal(err)
	}
	tr.tally(tr.batches, 10*time.Second)
	tr.tally(tr.batches, 5*time.Second)
	if l := tr.table.Links; tr.table.Seconds != 15 || l[3].Busy != 15 || l[2].Busy != 0 {
		t.Errorf("%+v", tr.table)
	}
	if tr.restart(tr.batches); tr.table.Seconds != 0 || tr.table.Links[3].Busy != 0 {
		t.Errorf("%+v", tr.table)
	}
}

// TestSums: a subscriber sees the loss so far, and the times at most as often as TimesEvery.
func TestSums(t *testing.T) {
	w := newWorld(t)
	tr, err := w.trainer(collective.One(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if err := tr.Start(context.Background(), w.slots); err != nil {
		t.Fatal(err)
	}
	tr.sum(Found{Loss: 3, Seeds: 2})
	tr.looked = time.Now().Add(time.Hour)
	before := tr.looked
	if e := tr.taken.Sums(); e.Loss != 3 || tr.looked != before {
		t.Errorf("%+v, looked at %v", e, tr.looked)
	}
	tr.looked = time.Time{}
	if tr.sums(); tr.looked.IsZero() {
		t.Error("the times are not looked at")
	}
	if r := tr.readRate(); r != 1000./3 || tr.readRate() != 200 {
		t.Errorf("%v bytes per second", r)
	}
	stack := tr.Stack.(*fakeStack)
	stack.asked--
	stack.more = time.Second
	if r := tr.readRate(); r.Defined() {
		t.Errorf("%v bytes per second of nothing", r)
	}
}

// TestGPUTimes: the device's streams are links; the last link, which waits for them, works that much
// less, as far as it has left its batches.
func TestGPUTimes(t *testing.T) {
	recorder := pipeline.NewRecorder(100)
	g := newGPUTimes(recorder)
	period := func(s int) engine.Period {
		return engine.Period{Began: time.Now(), Took: time.Duration(s) * time.Second}
	}
	for range 2 {
		g.take(&engine.Times{Copy: period(1), Gather: engine.Period{}, Compute: period(3), Waited: 2 * time.Second})
	}
	table := func(busy float64) pipeline.Table {
		return pipeline.Table{Seconds: 10, Links: []pipeline.LinkTime{{Link: LinkRead, Workers: 1}, {Link: LinkLaunch, Workers: 1, Busy: busy, Blocked: 1}}}
	}
	want := func(got pipeline.Table, launch, blocked, copied, computed float64) {
		t.Helper()
		links := []pipeline.LinkTime{{Link: LinkRead, Workers: 1}, {Link: LinkLaunch, Workers: 1, Busy: launch, Blocked: blocked}, {Link: LinkCopy, Workers: 1, Busy: copied},
			{Link: LinkGather, Workers: 1}, {Link: LinkCompute, Workers: 1, Busy: computed}}
		if d := cmp.Diff(links, got.Links); d != "" {
			t.Error(d)
		}
	}
	want(g.add(table(3)), 0, 4, 2, 6)
	next := g.add(table(5)) // of which it waited the second that is left
	want(next, 4, 2, 0, 0)
	next.Links[4].Busy = 4
	next.Links[3].Busy = 20
	g.idle(next, 10)
	if l := next.Links; l[1].Blocked != 2 || l[2].Blocked != 10 || l[3].Blocked != 0 || l[4].Blocked != 6 {
		t.Errorf("%+v", l)
	}
	var items []int
	for _, s := range recorder.Latest(100) {
		if s.Lane == LinkGather {
			t.Errorf("%+v", s)
		}
		items = append(items, s.Item)
	}
	if slices.Sort(items); !slices.Equal(items, []int{0, 0, 1, 1}) {
		t.Errorf("spans of steps %v", items)
	}
	var none *gpuTimes
	none.take(&engine.Times{Waited: time.Second})
	if none.idle(table(1), 1); len(none.add(table(1)).Links) != 2 {
		t.Error("links of no device")
	}
}

// TestSample: a first batch is trained on, and the next ones are measured, by parts of epochs.
func TestSample(t *testing.T) {
	for _, c := range []struct{ epochs, per, n, measured, computed int }{{2, 3, 3, 3, 4}, {2, 3, 9, 5, 6}, {1, 3, 1, 1, 2}, {1, 3, 9, 2, 3}, {1, 1, 3, 1, 1}} {
		w := newWorld(t)
		w.plan.PerEpoch = c.per
		w.late, w.recipe.Epochs, w.plan.Epochs = true, c.epochs, c.epochs
		w.slots.Few = 3
		w.facts.Valid = 2
		tr, err := w.trainer(collective.One(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Start(context.Background(), w.slots); err != nil {
			t.Fatal(err)
		}
		tr.table.Seconds = 1000
		n, sums, table, err := tr.Sample(context.Background(), c.n)
		if err != nil || n != c.measured {
			t.Fatalf("%+v: %d measured: %v", c, n, err)
		}
		computed := 0
		for _, e := range w.events {
			if strings.HasPrefix(e, "computed") {
				computed++
			}
		}
		bytes := int64(0)
		for i := 1; i <= n; i++ {
			bytes += int64(100 + (i+c.computed-n-1)%3)
		}
		if computed != c.computed || sums.BytesRead != bytes || len(table.Links) != 4 || table.Seconds <= 0 || table.Links[3].Busy <= 0 || tr.seeds == 0 || table.Seconds > 600 || tr.batches.Table().Seconds != 0 {
			t.Errorf("%+v: %d computed, %+v, %+v", c, computed, sums, table)
		}
		want := "started train on a few batches: " + string(rune('0'+c.computed)) + ", false, 0"
		if !slices.Contains(w.events, want) || w.events[len(w.events)-1] != "ended" || !strings.HasPrefix(w.events[len(w.events)-2], "outcome ") {
			t.Errorf("%q", w.events)
		}
		if k, seconds, err := tr.SampleValidation(t.Context()); k != 2 || seconds <= 0 || err != nil {
			t.Errorf("%d validated, in %v: %v", k, seconds, err)
		}
		tr.Close()
		if w.open != 0 {
			t.Errorf("%d slots and works are not freed", w.open)
		}
	}
}

// TestSampleFails: what fails, or is interrupted, is the sample's error.
func TestSampleFails(t *testing.T) {
	start := func(w *world, ctx context.Context) *Trainer {
		t.Helper()
		tr, err := w.trainer(collective.One(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Start(ctx, w.slots); err != nil {
			t.Fatal(err)
		}
		return tr
	}
	for _, what := range []string{"SetLR", "Start", "Finish", "Backward"} {
		w := newWorld(t)
		w.fails = what
		tr := start(w, context.Background())
		if _, _, _, err := tr.Sample(context.Background(), 2); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", what, err)
		}
		tr.Close()
	}
	// Interrupted, whole steps are over first, and nothing is written: a plan has no directory.
	for _, c := range []struct {
		n          int
		event      string
		accumulate int
		per        int
	}{{1, "outcome 0 of 1", 2, 3}, {1, "outcome 1 of 2", 2, 3}, {4, "outcome 0 of 1", 2, 3}, {4, "step 2", 2, 3}, {1, "outcome 1 of 2", 3, 3}, {1, "outcome 0 of 1", 2, 1}} {
		w := newWorld(t)
		w.plan.Accumulate, w.plan.PerEpoch = c.accumulate, c.per
		ctx, cancel := context.WithCancel(context.Background())
		w.on = func(s string) {
			if s == c.event {
				cancel()
			}
		}
		tr := start(w, ctx)
		tr.Dir = nil
		if _, _, _, err := tr.Sample(ctx, c.n); err != context.Canceled {
			t.Errorf("%d batches, interrupted at %s: %v", c.n, c.event, err)
		}
		if tr.Close(); len(w.checkpoints()) > 0 {
			t.Error("a plan leaves a checkpoint")
		}
	}
	w := newWorld(t)
	w.fails, w.slots.Few = "Infer", 1
	tr := start(w, context.Background())
	defer tr.Close()
	if _, _, err := tr.SampleValidation(t.Context()); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	w = newWorld(t)
	w.slots.Few, w.facts.Valid = 1, 2
	few := start(w, context.Background())
	defer few.Close()
	if n, _, err := few.SampleValidation(t.Context()); n != 1 || err != nil {
		t.Errorf("%d validated: %v", n, err)
	}
	w = newWorld(t)
	w.slots.Few, w.facts.Valid = 1, 0
	none := start(w, context.Background())
	defer none.Close()
	if n, seconds, err := none.SampleValidation(t.Context()); n != 0 || seconds != 0 || err != nil {
		t.Errorf("%d, %v, %v", n, seconds, err)
	}
	w.slots.Eval = 0
	none = start(w, context.Background())
	defer none.Close()
	if n, _, err := none.SampleValidation(t.Context()); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// TestEvaluationItems: the validation batches come round, up to those that were asked for, and then
// the test batches.
func TestEvaluationItems(t *testing.T) {
	v := &evaluation{valid: 3, tests: 2, rounds: 4}
	v.asked.Store(6)
	v.epoch.Store(5)
	var got []string
	for item := range 8 {
		got = append(got, v.ref(item).String()+"; "+v.label(item))
	}
	want := []string{"validation batch 0; epoch 5, validation batch 0", "validation batch 1; epoch 5, validation batch 1", "validation batch 2; epoch 5, validation batch 2",
		"validation batch 0; epoch 5, validation batch 0", "validation batch 1; epoch 5, validation batch 1", "validation batch 2; epoch 5, validation batch 2",
		"test batch 0; test batch 0", "test batch 1; test batch 1"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestEvaluate: an engine's weights on a store's batches, once.
func TestEvaluate(t *testing.T) {
	for _, fails := range []string{"", "Infer", "NewSlot 1", "NewWork true", "logits"} {
		w := newWorld(t)
		w.facts.Valid, w.fails, w.scores = 2, fails, []int{6}
		w.store, w.engine = &fakeStore{world: w}, &fakeEngine{world: w, weight: 3}
		rep := &Replica{View: w.store, Engine: w.engine}
		valid, test, bytes, err := rep.Evaluate(context.Background(), &w.facts, "accuracy", 1, nil, Stream{w}, func(what string) error { return errors.New(what) })
		switch {
		case fails == "" && (err != nil || valid != 0.75 || test != 0.375 || bytes != 100+101+100+101):
			t.Errorf("%v, %v, %d bytes: %v", valid, test, bytes, err)
		case fails == "logits" && (err == nil || !strings.Contains(err.Error(), "the logits are not finite")):
			t.Error(err)
		case fails != "" && fails != "logits" && !errors.Is(err, errBroken):
			t.Errorf("%s: %v", fails, err)
		}
		if w.open != 0 {
			t.Errorf("%s: %d slots and works are not freed", fails, w.open)
		}
	}
	f := featurestore.Facts{TargetBytes: 1, Classes: 5, EpochSeeds: 6, EvalSeeds: 7}
	if a, b := TrainJudging("m", &f), EvalJudging("m", &f); a != (score.Options{Metric: "m", MultiLabel: true, Classes: 5, Rows: 6}) || b != (score.Options{Metric: "m", MultiLabel: true, Classes: 5, Rows: 7}) {
		t.Errorf("%+v, %+v", a, b)
	}
}

// TestPositionCheck: positions that no run can be at, and those at the bounds.
func TestPositionCheck(t *testing.T) {
	l := Limits{PerEpoch: 5, Accumulate: 2, Seeds: 10}
	at := func(epoch, batch, best int) Position {
		return Position{Epoch: epoch, Batch: batch, BestEpoch: best, Sums: rundir.Epoch{Epoch: epoch, Batches: 5}, SeedNodes: 10}
	}
	for _, p := range []Position{at(0, 0, -1), at(0, 5, -1), at(2, 4, 1), at(3, 0, 2), at(1, 2, 0)} {
		if err := p.Check(3, l); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
	with := func(change func(p *Position)) Position {
		p := at(1, 2, 0)
		change(&p)
		return p
	}
	for says, list := range map[string][]Position{
		"is outside 3 epochs of 5 batches": {at(-1, 0, -1), at(4, 0, 0), at(0, -2, -1), at(0, 6, -1), at(3, 2, 0)},
		"is within a step of 2":            {at(0, 1, -1), at(0, 3, -1)},
		"its sums are of epoch":            {with(func(p *Position) { p.Sums.Epoch = 0 }), with(func(p *Position) { p.Sums.Batches = 4 })},
		"in an epoch of at most 10":        {with(func(p *Position) { p.SeedNodes = 11 }), with(func(p *Position) { p.SeedNodes = -1 })},
		"its best epoch is":                {at(1, 2, 1), at(0, 0, 0), at(1, 0, -2)},
		"times are impossible": {with(func(p *Position) { p.Seconds = 1e9 }), with(func(p *Position) { p.Seconds = math.NaN() }), with(func(p *Position) { p.PreloadSeconds = -1 }),
			with(func(p *Position) { p.Sums.Seconds = 1e9 })},
		"numbers of bytes are impossible": {with(func(p *Position) { p.PreloadBytes = -1 }), with(func(p *Position) { p.Sums.BufferBytes = 1 << 61 }), with(func(p *Position) { p.Sums.TopologyRequests = -1 })},
		"rows or requests are impossible": {with(func(p *Position) { p.Sums.InputNodes = -1 }), with(func(p *Position) { p.Sums.Requests = 1 << 61 })},
		"page accesses are impossible":    {with(func(p *Position) { p.Sums.PageHits = -1 }), with(func(p *Position) { p.Sums.PageMisses = -1 })},
	} {
		for _, p := range list {
			if err := p.Check(3, l); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%+v: %v, want %q", p, err, says)
			}
		}
	}
	for what, c := range map[string]struct {
		best     int
		sections []string
		ok       bool
	}{
		"beginning":      {-1, []string{"scorer", "engine/a", "store/b"}, true},
		"first best":     {0, []string{"scorer", "best"}, true},
		"no best":        {0, []string{"scorer"}, false},
		"best too early": {-1, []string{"scorer", "best"}, false},
		"no scorer":      {-1, []string{"engine/a"}, false},
		"unknown":        {-1, []string{"scorer", "x"}, false},
	} {
		sections := make(map[string][]byte)
		for _, s := range c.sections {
			sections[s] = nil
		}
		if err := (&Position{BestEpoch: c.best}).CheckSections(sections); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestOfPack: of an error of what reads a store, that it is damaged is the pack's.
func TestOfPack(t *testing.T) {
	damaged := OfPack(fault.New(fault.ErrCorrupt, "no"))
	if _, is := errors.AsType[*DamagedPack](damaged); !is || !errors.Is(damaged, fault.ErrCorrupt) || OfPack(errBroken) != errBroken || OfPack(nil) != nil {
		t.Error(damaged)
	}
	for _, where := range []string{"Fill", "Start", "LoadGraph", "Wait", "Assemble"} {
		w := newWorld(t)
		w.fails, w.kind = where, fault.ErrCorrupt
		err := w.run(context.Background(), collective.One(), nil)
		if where == "Fill" {
			tr, _ := w.trainer(collective.One(), nil)
			_, err = tr.Fill(context.Background(), nil)
		}
		if _, is := errors.AsType[*DamagedPack](err); !is {
			t.Errorf("%s: %v", where, err)
		}
	}
}

// TestStanding: how far a run came, in words.
func TestStanding(t *testing.T) {
	for want, s := range map[string]Standing{"after 3 of 10 epochs": {3, 0, 10, 20}, "after 0 of 10 epochs and 1 of 20 batches": {0, 1, 10, 20}} {
		if s.String() != want {
			t.Errorf("%q, want %q", s, want)
		}
	}
}

// TestWhole: steps of several batches outlive the run's context, until the trainer is closed, or a
// rank is lost, for its reason.
func TestWhole(t *testing.T) {
	groups := collective.Local(2, atEase)
	tr := &Trainer{Replica: &Replica{Group: groups[0]}, schedule: newSchedule(newWorld(t).plan)}
	ctx, cancel := context.WithCancel(context.Background())
	if tr.whole(ctx) != ctx || tr.ended != nil {
		t.Error("steps of one batch have a context of their own")
	}
	tr.schedule.Accumulate = 2
	whole := tr.whole(ctx)
	if cancel(); whole.Err() != nil || tr.ended() == nil {
		t.Error("a step ends with the run")
	}
	if tr.Close(); whole.Err() == nil {
		t.Error("it does not end with the trainer")
	}
	whole = tr.whole(ctx)
	defer tr.Close()
	groups[1].Fail(errBroken)
	<-whole.Done()
	if cause := context.Cause(whole); cause == nil || cause != groups[0].Lost() {
		t.Errorf("ended by %v", cause)
	}
	for _, g := range groups {
		g.Close()
	}
}

// TestSampleByEpochs: no batch is begun before those of the epoch before are computed, of which it may
// be one.
func TestSampleByEpochs(t *testing.T) {
	w := newWorld(t)
	w.plan.PerEpoch, w.plan.Epochs, w.slots = 2, 4, Slots{Train: 4}
	w.begun = true
	w.on = func(string) { // a batch that may begin does so, while this one is computed
		for range 1000 {
			runtime.Gosched()
		}
	}
	tr, err := w.trainer(collective.One(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if err := tr.Start(context.Background(), w.slots); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := tr.Sample(context.Background(), 7); err != nil {
		t.Fatal(err)
	}
	computed := 0
	begun := 0
	for _, e := range w.events {
		if strings.HasPrefix(e, "computed") {
			computed++
		}
		if strings.HasPrefix(e, "begun") {
			if begun++; computed < (begun-1)/2*2 {
				t.Errorf("%d batches are begun, %d computed: %q", begun, computed, w.events)
			}
		}
	}
	if begun != 8 || computed != 8 {
		t.Errorf("%d batches are begun, %d computed", begun, computed)
	}
}
