package ranks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/job"
	"diskgnn/internal/progress"
	"diskgnn/internal/secret"
	"diskgnn/train/collective"
	"diskgnn/train/decide"
	"diskgnn/train/rundir"
)

var atEase = collective.Limits{Join: time.Minute, Greeting: time.Minute, Silence: time.Minute, Step: time.Minute, Factor: 20, Beat: 10 * time.Millisecond, Drain: 2 * time.Second}

// together runs f on each of so many ranks, and closes their groups.
func together(world int, f func(g *collective.Group)) {
	var wg sync.WaitGroup
	for _, g := range collective.Local(world, atEase) {
		wg.Go(func() {
			defer g.Close()
			f(g)
		})
	}
	wg.Wait()
}

// TestTalk: rank 0's value reaches all, and all values reach rank 0, by rank; alone, nothing is said.
func TestTalk(t *testing.T) {
	for _, world := range []int{1, 2, 3} {
		together(world, func(g *collective.Group) {
			v := struct{ N int }{100 + g.Rank()}
			if err := Broadcast(g, &v, MostTold); err != nil || v.N != 100 {
				t.Errorf("rank %d of %d: %+v, %v", g.Rank(), world, v, err)
			}
			all, err := Gather(g, 10*g.Rank(), MostTold)
			if err != nil || (g.Rank() > 0) != (all == nil) {
				t.Errorf("rank %d of %d: %v, %v", g.Rank(), world, all, err)
			}
			for rank, n := range all {
				if len(all) != world || n != 10*rank {
					t.Errorf("%v", all)
				}
			}
			if err := Together(g); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOwnValue: rank 0 keeps its value as it is, with what JSON would change.
func TestOwnValue(t *testing.T) {
	together(2, func(g *collective.Group) {
		v := any(g.Rank())
		if err := Broadcast(g, &v, MostTold); err != nil {
			t.Error(err)
		}
		if want := []any{0, 0.0}[g.Rank()]; v != want {
			t.Errorf("rank %d: %T %v", g.Rank(), v, v)
		}
	})
}

// TestTogether: no rank goes on before rank 0 is there.
func TestTogether(t *testing.T) {
	var there atomic.Bool
	together(3, func(g *collective.Group) {
		if g.Rank() == 0 {
			for range 1000 {
				runtime.Gosched()
			}
			there.Store(true)
		}
		if err := Together(g); err != nil || !there.Load() {
			t.Errorf("rank %d goes on by itself: %v", g.Rank(), err)
		}
	})
}

// TestTrusts: who may take part is said, or ranks that other hosts reach are refused.
func TestTrusts(t *testing.T) {
	given, err := secret.New(strings.Repeat("0123456789abcdef", 4), "a test")
	if err != nil {
		t.Fatal(err)
	}
	here, there := job.Place{Count: 2, Host: "127.0.0.1"}, job.Place{Count: 2, Host: "n1"}
	for name, c := range map[string]struct {
		m       Membership
		says    string
		refused bool
	}{
		"here":             {m: Membership{Job: here}},
		"here, insecure":   {m: Membership{Job: here, Insecure: true}},
		"there":            {m: Membership{Job: there}, refused: true},
		"there, insecure":  {m: Membership{Job: there, Insecure: true}, says: "--insecure: whoever reaches n1 can take part"},
		"there, by secret": {m: Membership{Job: there, Secret: given}, says: "only ranks with the secret take part"},
	} {
		var said lines
		err := c.m.Trusts(&said)
		if errors.Is(err, fault.ErrUsage) != c.refused || err != nil != c.refused || (c.says == "") != (len(said) == 0) || c.says != "" && !strings.Contains(said[0], c.says) {
			t.Errorf("%s: %q, %v", name, said, err)
		}
	}
	if g, err := Join(t.Context(), &Membership{Job: job.Place{Count: 1, Host: "n1"}}, progress.Discard); err != nil || g.World() != 1 {
		t.Errorf("alone: %v", err)
	}
	if _, err := Join(t.Context(), &Membership{Job: there}, progress.Discard); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("joined: %v", err)
	}
}

// lines keeps what is reported.
type lines []string

func (l *lines) Logf(format string, args ...any) { *l = append(*l, fmt.Sprintf(format, args...)) }
func (l *lines) Task(name string, total int64, unit progress.Unit) progress.Task {
	return progress.Discard.Task(name, total, unit)
}

// TestNonsense: a message that is no JSON of the type is corrupt, and names its rank.
func TestNonsense(t *testing.T) {
	together(2, func(g *collective.Group) {
		if g.Rank() == 0 {
			if _, err := g.Broadcast([]byte(`"text"`), MostTold); err != nil {
				t.Error(err)
			}
			if _, err := Gather(g, 0, MostTold); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "rank 1") {
				t.Error(err)
			}
			return
		}
		n := 0
		if err := Broadcast(g, &n, MostTold); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "rank 0") {
			t.Error(err)
		}
		if _, err := g.Gather([]byte(`"text"`), MostTold); err != nil {
			t.Error(err)
		}
	})
}

// TestShareEarlier: all ranks know of the run that goes on, or that is finished; its epochs stay with
// rank 0, whose own values do not change.
func TestShareEarlier(t *testing.T) {
	// Its epochs have more bytes than the message, and its command more than others have.
	one, err := json.Marshal(rundir.Epoch{})
	if err != nil {
		t.Fatal(err)
	}
	epochs := MostEarlier/len(one) + 1
	result := &rundir.Result{BestEpoch: 3, Epochs: make([]rundir.Epoch, epochs)}
	was := &rundir.File{Dataset: "d", Result: result, Command: []string{strings.Repeat("x", MostTold)}}
	for _, c := range []struct {
		mine      Earlier
		was, done bool
	}{
		{Earlier{}, false, false},
		{Earlier{Resume: true, Was: was}, true, false},
		{Earlier{Resume: true, Was: was, Done: result}, true, true},
	} {
		together(2, func(g *collective.Group) {
			e := Earlier{Resume: g.Rank() > 0}
			if g.Rank() == 0 {
				e = c.mine
			}
			if err := e.Share(g); err != nil {
				t.Error(err)
				return
			}
			if e.Resume != c.mine.Resume || (e.Was != nil) != c.was || (e.Done != nil) != c.done || c.was && (e.Was.Dataset != "d" || e.Was.Result != nil) {
				t.Errorf("rank %d, goes on %t, was done %t: resumes %t", g.Rank(), c.was, c.done, e.Resume)
			}
			if c.done && (e.Done.BestEpoch != 3 || (len(e.Done.Epochs) == epochs) != (g.Rank() == 0)) {
				t.Errorf("rank %d: the best epoch is %d, of %d", g.Rank(), e.Done.BestEpoch, len(e.Done.Epochs))
			}
		})
	}
	if was.Result != result || len(result.Epochs) != epochs {
		t.Error("rank 0's file changed")
	}
}

// TestAgree: ranks that train on something else end together, for rank 0's reason.
func TestAgree(t *testing.T) {
	for _, other := range []string{"d", "another"} {
		together(3, func(g *collective.Group) {
			mine := decide.Identity{Dataset: "d"}
			switch g.Rank() {
			case 1:
				mine.Dataset = other
			case 2:
				if other != "d" {
					mine.Dataset = "a third"
				}
			}
			err := Agree(g, mine)
			switch {
			case other == "d" && err != nil:
				t.Error(err)
			case other != "d" && (!errors.Is(err, ErrAgreed) || !errors.Is(err, fault.ErrLineage) || err.Error() != "rank 1 cannot train with rank 0: its dataset is another…, rank 0's is d…"):
				t.Errorf("rank %d: %v", g.Rank(), err)
			}
		})
	}
}

// TestAsLost: a run ends for the reason of its group where it ends for that, or was cancelled by it.
func TestAsLost(t *testing.T) {
	together(2, func(g *collective.Group) {
		if lost, is := AsLost(g, context.Canceled); lost != nil || is {
			t.Errorf("a group that is whole: %v", lost)
		}
		if _, is := AsLost(g, nil); is {
			t.Error("no error is taken for a loss")
		}
		if err := Together(g); err != nil {
			t.Error(err)
		}
		if g.Rank() == 0 {
			g.Fail(errors.New("out of paper"))
			return
		}
		<-g.Context().Done()
		for err, want := range map[error]bool{context.Canceled: true, g.Lost(): true, &collective.Lost{Why: "another"}: true, errors.New("own"): false} {
			if lost, is := AsLost(g, err); is != want || !strings.Contains(lost.Error(), "out of paper") {
				t.Errorf("%v: %t, %v", err, is, lost)
			}
		}
	})
}
