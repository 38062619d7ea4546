package epoch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"diskgnn/internal/fault"
	"diskgnn/train/collective"
	"diskgnn/train/ranks"
	"diskgnn/train/rundir"
)

var atEase = collective.Limits{Join: time.Minute, Greeting: time.Minute, Silence: time.Minute, Step: time.Minute, Factor: 20, Beat: 10 * time.Millisecond, Drain: 2 * time.Second}

// together runs f for each of several ranks, on a goroutine of its own; a rank that fails ends all.
func together(world int, f func(rank int, g *collective.Group) error) []error {
	errs := make([]error, world)
	var wg sync.WaitGroup
	for rank, g := range collective.Local(world, atEase) {
		wg.Go(func() {
			defer g.Close()
			if errs[rank] = f(rank, g); errs[rank] != nil && !errors.Is(errs[rank], ranks.ErrStopped) {
				g.Fail(errs[rank])
			}
		})
	}
	wg.Wait()
	return errs
}

// newRanks returns the worlds of two ranks, whose steps have two batches.
func newRanks(t *testing.T, change func(rank int, w *world)) []*world {
	var list []*world
	for rank := range 2 {
		w := newWorld(t)
		w.plan.Accumulate = 2
		if change != nil {
			change(rank, w)
		}
		list = append(list, w)
	}
	list[0].begin()
	return list
}

func train(list []*world, ctx func(rank int) context.Context, from func(rank int) *Point) []error {
	return together(2, func(rank int, g *collective.Group) error {
		c := context.Background()
		if ctx != nil {
			c = ctx(rank)
		}
		return list[rank].run(c, g, from(rank))
	})
}

func beginning(int) *Point { return nil }

// TestRanksByHand: two ranks, of which one has no batch in the last step, come to what one does, and
// both know it.
func TestRanksByHand(t *testing.T) {
	for best, scores := range [][]int{{5, 4}, {4, 5}} {
		late := best == 1
		alone := newWorld(t)
		alone.late, alone.plan.Accumulate, alone.scores = late, 2, scores
		alone.must()
		list := newRanks(t, func(_ int, w *world) { w.late, w.scores = late, alone.scores })
		if errs := train(list, nil, beginning); errors.Join(errs...) != nil {
			t.Fatal(errs)
		}
		for rank, w := range list {
			if w.engine.weight != 6 || w.result.BestEpoch != best || w.result.ValidAccuracy != 0.625 || len(w.result.Epochs) != 2 {
				t.Errorf("rank %d: %+v", rank, w.result)
				continue
			}
			for i, e := range w.result.Epochs {
				want := alone.result.Epochs[i]
				if e.Epoch != i || e.LR != want.LR || e.Loss != want.Loss || e.TrainAccuracy != want.TrainAccuracy || e.BytesRead != 303 || e.InputNodes != 18 || e.Batches != 3 || e.RankBytes <= 0 {
					t.Errorf("rank %d: %+v, want %+v", rank, e, want)
				}
			}
		}
		if !slices.Equal(list[0].added, []int{1, 3, 1, 3}) || !slices.Equal(list[1].added, []int{2, 2}) {
			t.Errorf("labelled seed nodes: %v and %v", list[0].added, list[1].added)
		}
		if list[0].result.TestAccuracy != alone.result.TestAccuracy || list[1].store.made != 2 {
			t.Errorf("test accuracy %v; rank 1 has %d slots", list[0].result.TestAccuracy, list[1].store.made)
		}
		for _, e := range []string{"validating", "testing", "judged 0, true"} {
			if slices.Contains(list[1].events, e) {
				t.Errorf("rank 1: %s", e)
			}
		}
	}
}

// TestRankBytes: an epoch counts the bytes between ranks since the one before. The clock stands still while
// ranks work, so that no beat is counted.
func TestRankBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := newRanks(t, func(_ int, w *world) { w.recipe.Epochs, w.plan.Epochs = 3, 3 })
		if errs := train(list, nil, beginning); errors.Join(errs...) != nil {
			t.Fatal(errs)
		}
		// What is said of an epoch counts in the next.
		if e := list[0].result.Epochs; e[1].RankBytes < e[0].RankBytes || e[2].RankBytes > e[1].RankBytes+300 {
			t.Errorf("%d, %d and %d bytes", e[0].RankBytes, e[1].RankBytes, e[2].RankBytes)
		}
	})
}

// TestRanksCheckpoint: the checkpoints of two ranks are those of one, and both go on from any.
func TestRanksCheckpoint(t *testing.T) {
	alone := newWorld(t)
	alone.plan.Accumulate, alone.every, alone.late = 2, rundir.Interval{Batches: 1}, true
	alone.must()
	list := newRanks(t, func(_ int, w *world) { w.every, w.late = alone.every, true })
	if errs := train(list, nil, beginning); errors.Join(errs...) != nil {
		t.Fatal(errs)
	}
	want, got := alone.checkpoints(), list[0].checkpoints()
	if d := cmp.Diff([][2]int{{0, 2}, {0, 3}, {1, 2}, {1, 3}}, stands(got)); d != "" {
		t.Fatal(d)
	}
	for i, c := range got {
		if c.At.Loss != want[i].At.Loss || c.At.SeedNodes != want[i].At.SeedNodes || c.At.Sums.BytesRead != want[i].At.Sums.BytesRead || c.At.BestEpoch != want[i].At.BestEpoch {
			t.Errorf("%+v, want %+v", c.At, want[i].At)
		}
		if d := cmp.Diff(want[i].Sections, c.Sections); d != "" {
			t.Error(d)
		}
		again := newRanks(t, func(_ int, w *world) {
			w.result.BestEpoch, w.result.ValidAccuracy = c.At.BestEpoch, c.At.ValidAccuracy
			w.result.Epochs = slices.Clone(alone.result.Epochs[:c.At.Epoch])
			w.scores = alone.scores[c.At.Epoch:]
		})
		limits := Limits{PerEpoch: 3, Accumulate: 2, Seeds: 100, Sections: 100}
		c.Epochs = alone.result.Epochs[:c.At.Epoch]
		errs := together(2, func(rank int, g *collective.Group) error {
			var from *Point
			if rank == 0 {
				from = c
			}
			from, err := ShareStand(g, from, 2, 1<<20, limits)
			if err != nil {
				return err
			}
			if rank == 1 && (from == c || from.At.Epoch != c.At.Epoch || from.At.Batch != c.At.Batch || len(from.Epochs) != c.At.Epoch || len(from.Sections) != 2) {
				t.Errorf("rank 1 goes on from %+v", from)
			}
			return again[rank].run(context.Background(), g, from)
		})
		if errors.Join(errs...) != nil {
			t.Fatal(errs)
		}
		for rank, w := range again {
			if last, of := w.result.Epochs[1], alone.result.Epochs[1]; w.engine.weight != 6 || last.Loss != of.Loss || last.BytesRead != of.BytesRead || last.TrainAccuracy != of.TrainAccuracy {
				t.Errorf("%s: rank %d: weight %v, %+v", c.Name, rank, w.engine.weight, last)
			}
			if c.At.Epoch == 0 && w.result.Epochs[0].Loss != alone.result.Epochs[0].Loss {
				t.Errorf("%s: rank %d: loss %v", c.Name, rank, w.result.Epochs[0].Loss)
			}
		}
	}
}

// TestShareStand: ranks of a run that begins have no checkpoint; one that cannot be is refused.
func TestShareStand(t *testing.T) {
	limits := Limits{PerEpoch: 3, Accumulate: 2, Seeds: 100}
	errs := together(2, func(_ int, g *collective.Group) error {
		from, err := ShareStand(g, nil, 2, 1000, limits)
		if from != nil {
			t.Errorf("%+v", from)
		}
		return err
	})
	if errors.Join(errs...) != nil {
		t.Error(errs)
	}
	errs = together(2, func(rank int, g *collective.Group) error {
		var from *Point
		if rank == 0 {
			from = &Point{At: Position{Batch: 1}}
		}
		_, err := ShareStand(g, from, 2, 1000, limits)
		return err
	})
	if !errors.Is(errs[1], fault.ErrCorrupt) || !strings.Contains(errs[1].Error(), "the checkpoint of rank 0: its position, batch 1, is within a step of 2") {
		t.Error(errs)
	}
	big := make([]byte, ranks.MostTold+10)
	errs = together(2, func(rank int, g *collective.Group) error {
		var from *Point
		if rank == 0 {
			from = &Point{At: Position{BestEpoch: -1, Sums: rundir.Epoch{Batches: 3}}, Sections: map[string][]byte{"engine/a": big}}
		}
		l := limits
		l.Sections = 10
		from, err := ShareStand(g, from, 2, 10000, l)
		if err == nil && len(from.Sections["engine/a"]) != len(big) {
			t.Errorf("%d bytes", len(from.Sections["engine/a"]))
		}
		return err
	})
	if errors.Join(errs...) != nil {
		t.Error(errs)
	}
}

// TestRanksStop: whichever rank is interrupted, and when, all stop, and rank 0 leaves a checkpoint.
func TestRanksStop(t *testing.T) {
	for _, c := range []struct {
		rank  int
		event string
		want  [][2]int
	}{
		{0, "outcome 0 of 1", [][2]int{{0, 2}}},
		{1, "outcome 1 of 2", [][2]int{{0, 2}}},
		{1, "step 2", [][2]int{{0, 3}}},
		{0, "validating", [][2]int{{0, 3}}},
		{0, "judged 0, true", [][2]int{{1, 2}}},
		{1, "step 3", [][2]int{{1, 2}}},
	} {
		list := newRanks(t, func(_ int, w *world) { w.every = rundir.Interval{Time: time.Hour} })
		ctx, cancel := context.WithCancel(context.Background())
		seen := false
		list[c.rank].on = func(s string) {
			if s == c.event && !seen {
				seen = true
				cancel()
			}
		}
		errs := train(list, func(rank int) context.Context {
			if rank == c.rank {
				return ctx
			}
			return context.Background()
		}, beginning)
		cancel()
		if !errors.Is(errs[0], ranks.ErrStopped) || !errors.Is(errs[1], ranks.ErrStopped) {
			t.Errorf("rank %d, %s: %v", c.rank, c.event, errs)
		}
		if d := cmp.Diff(c.want, stands(list[0].checkpoints())); d != "" {
			t.Errorf("rank %d, %s: %s", c.rank, c.event, d)
		}
	}
}

// TestRankFails: what ends a rank ends the other, wherever it is, and rank 0 leaves no checkpoint of
// sums that it does not have.
func TestRankFails(t *testing.T) {
	for _, what := range []string{"Start", "Backward", "Apply", "Finish", "SetLR", "State", "Infer", "Snapshot", "judged 0, true", "NewSlot 1"} {
		for failing := range 2 {
			if failing == 1 && slices.Contains([]string{"Infer", "Snapshot", "judged 0, true"}, what) {
				continue // which rank 0 does
			}
			list := newRanks(t, func(rank int, w *world) {
				if w.every = (rundir.Interval{Time: time.Hour}); rank == failing {
					w.fails = what
				}
			})
			errs := train(list, nil, beginning)
			other := errs[1-failing]
			if _, lost := errors.AsType[*collective.Lost](other); !errors.Is(errs[failing], errBroken) || !lost && !errors.Is(other, context.Canceled) {
				t.Errorf("%s of rank %d: %v", what, failing, errs)
			}
			if at := stands(list[0].checkpoints()); len(at) > 1 {
				t.Errorf("%s of rank %d: %v", what, failing, at)
			}
		}
	}
}

// TestLostAmidSteps: when a rank is lost after steps whose sums rank 0 lacks, rank 0 writes no
// checkpoint.
func TestLostAmidSteps(t *testing.T) {
	list := newRanks(t, func(_ int, w *world) { w.every = rundir.Interval{Time: time.Hour} })
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	errs := together(2, func(rank int, g *collective.Group) error {
		w := list[rank]
		if rank == 0 {
			w.on = func(s string) {
				if s == "step 3" {
					<-g.Context().Done()
					cancel(g.Lost())
				}
			}
			return w.run(ctx, g, nil)
		}
		w.on = func(s string) {
			if s == "step 3" {
				g.Fail(errBroken)
			}
		}
		return w.run(context.Background(), g, nil)
	})
	if errs[0] == nil || errs[1] == nil {
		t.Error(errs)
	}
	if at := stands(list[0].checkpoints()); at != nil {
		t.Errorf("checkpoints at %v", at)
	}
}

// TestWrongRank: the weights of ranks are compared after every epoch, and so is what they say.
func TestWrongRank(t *testing.T) {
	list := newRanks(t, nil)
	errs := together(2, func(rank int, g *collective.Group) error {
		w := list[rank]
		if rank == 1 {
			w.on = func(s string) {
				if s == "step 3" {
					w.engine.wrong = 1
				}
			}
		}
		return w.run(context.Background(), g, nil)
	})
	if !errors.Is(errs[0], fault.ErrDevice) || !strings.Contains(errs[0].Error(), "the weights of rank 1 differ from rank 0's after epoch 0") {
		t.Error(errs)
	}
	tr := &Trainer{Replica: &Replica{Engine: &fakeEngine{}}, done: 2, schedule: newSchedule(newRanks(t, nil)[0].plan)}
	tr.schedule.World = 2
	if err := tr.sumShares([]share{{Found: []Found{{1, 2}}}, {}}, 0); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "batch 1") {
		t.Error(err)
	}
}

// TestLostWhileJudging: rank 0, which has all sums of the epoch, keeps it when a rank is lost before it
// is judged, and says nothing more to the others.
func TestLostWhileJudging(t *testing.T) {
	list := newRanks(t, func(_ int, w *world) { w.every = rundir.Interval{Time: time.Hour} })
	other := make(chan *collective.Group, 1)
	errs := together(2, func(rank int, g *collective.Group) error {
		w := list[rank]
		if rank == 1 {
			other <- g
			return w.run(context.Background(), g, nil)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		w.on = func(s string) {
			if s == "validating" {
				(<-other).Fail(errBroken)
				<-g.Context().Done()
				cancel(g.Lost())
			}
		}
		return w.run(ctx, g, nil)
	})
	if _, lost := errors.AsType[*collective.Lost](errs[0]); !lost || errors.Is(errs[0], ranks.ErrStopped) {
		t.Error(errs)
	}
	if d := cmp.Diff([][2]int{{0, 3}}, stands(list[0].checkpoints())); d != "" {
		t.Error(d)
	}
}

// TestFollowsAnew: another rank than 0 counts the times of an epoch anew, too.
func TestFollowsAnew(t *testing.T) {
	list := newRanks(t, nil)
	errs := together(2, func(rank int, g *collective.Group) error {
		tr, err := list[rank].trainer(g, nil)
		if err != nil {
			return err
		}
		defer tr.Close()
		tr.now.Seconds, tr.preload = 1000, 5000
		if err := tr.Start(context.Background(), list[rank].slots); err != nil {
			return err
		}
		err = tr.Run(context.Background())
		if tr.preload != 0 || tr.table.Seconds >= 1000 {
			t.Errorf("rank %d: %v seconds after %v", rank, tr.table.Seconds, tr.preload)
		}
		return err
	})
	if errors.Join(errs...) != nil {
		t.Error(errs)
	}
}

// TestRanksDivide: with several batches of a step on each rank, the losses are summed in the batches'
// order.
func TestRanksDivide(t *testing.T) {
	plan := func(w *world) {
		w.facts.Train, w.facts.BatchesPerEpoch = 7, 7
		w.plan.PerEpoch, w.plan.Accumulate = 7, 4
	}
	alone := newWorld(t)
	plan(alone)
	alone.must()
	list := newRanks(t, func(_ int, w *world) { plan(w) })
	if errs := train(list, nil, beginning); errors.Join(errs...) != nil {
		t.Fatal(errs)
	}
	for i, e := range list[0].result.Epochs {
		if want := alone.result.Epochs[i]; e.Loss != want.Loss || e.TrainAccuracy != want.TrainAccuracy || e.BytesRead != want.BytesRead {
			t.Errorf("%+v, want %+v", e, want)
		}
	}
}

// TestRootSaves: rank 0 alone says when a checkpoint is due.
func TestRootSaves(t *testing.T) {
	list := newRanks(t, func(rank int, w *world) {
		w.every = rundir.Interval{Time: time.Hour}
		if rank == 1 {
			w.every = rundir.Interval{Batches: 1}
		}
	})
	if errs := train(list, nil, beginning); errors.Join(errs...) != nil {
		t.Fatal(errs)
	}
	if d := cmp.Diff([][2]int{{1, 3}}, stands(list[0].checkpoints())); d != "" {
		t.Error(d)
	}
}
