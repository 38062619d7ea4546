package collective

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

var ctx = context.Background()

// quick are limits of tests in which nobody is to be lost.
var quick = Limits{Join: time.Minute, Greeting: time.Minute, Silence: time.Minute, Step: time.Minute, Factor: 20, Beat: 5 * time.Millisecond, Drain: 2 * time.Second}

// adder is an engine that knows its contributions ahead, and keeps the sums that it takes.
type adder struct {
	engine.Engine
	contributions [][]float32 // of the batches to come
	sums          []string
}

func (a *adder) Contribution(dst []float32) error {
	copy(dst, a.contributions[0])
	a.contributions = a.contributions[1:]
	return nil
}

func (a *adder) ApplySum(s *engine.Sum) error {
	a.sums = append(a.sums, fmt.Sprint(s.Gradients, s.Statistics, s.Labelled, s.Batches))
	return nil
}

func (a *adder) Apply() error { panic("the engine has a part only") }

// join connects ranks over TCP.
func join(t testing.TB, world int, change func(*Member)) []*Group {
	t.Helper()
	groups, errs := tryJoin(t, world, change)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return groups
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func tryJoin(t testing.TB, world int, change func(*Member)) ([]*Group, []error) {
	t.Helper()
	l := listen(t)
	groups, errs := make([]*Group, world), make([]error, world)
	var wg sync.WaitGroup
	for rank := range world {
		m := Member{Rank: rank, World: world, Run: "run", Program: "1", Limits: quick}
		if change != nil {
			change(&m)
		}
		wg.Go(func() {
			if rank == 0 {
				groups[0], errs[0] = Listen(ctx, m, l)
			} else {
				groups[rank], errs[rank] = Dial(ctx, m, []string{l.Addr().String()})
			}
		})
	}
	wg.Wait()
	return groups, errs
}

// each calls f for every rank at the same time, and returns their errors.
func each(groups []*Group, f func(g *Group) error) []error {
	errs := make([]error, len(groups))
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() { errs[i] = f(g) })
	}
	wg.Wait()
	return errs
}

func closeAll(groups []*Group) {
	each(groups, func(g *Group) error { g.Close(); return nil })
}

var layouts = map[string]model.Layout{
	"plain": (&model.Model{Kind: model.SAGE, Dims: []int{5, 4, 3}}).Layout(),
	"batch": (&model.Model{Kind: model.SAGE, Dims: []int{5, 4, 3}, Norm: model.BatchNorm}).Layout(),
}

// Sums over ranks have the bits of one loop over all batches, whatever number of ranks divides
// them, also in an epoch's last step, and over processes as within one.
func TestOrderedSum(t *testing.T) {
	const batches = 6
	for name, l := range layouts {
		rng := rand.New(rand.NewPCG(1, 2))
		var steps [][][]float32 // by step and batch
		for _, n := range []int{batches, batches, 4, 1} {
			var step [][]float32
			for range n {
				c := make([]float32, l.Count())
				for i := range c {
					c[i] = rng.Float32()*2 - 1
				}
				step = append(step, c)
			}
			steps = append(steps, step)
		}
		var want []string
		for _, step := range steps { // written differently: element by element
			gradients, statistics, labelled := make([]float32, l.Trained), []float32{}, 0
			for b, c := range step {
				for i := range gradients {
					if b == 0 {
						gradients[i] = c[i]
					} else {
						gradients[i] += c[i]
					}
				}
				statistics = append(statistics, c[l.Trained:]...)
				labelled += b + 1
			}
			want = append(want, fmt.Sprint(gradients, statistics, labelled, len(step)))
		}
		for _, world := range []int{2, 3, 6} {
			for _, local := range []bool{false, true} {
				var groups []*Group
				if local {
					groups = Local(world, quick)
				} else {
					groups = join(t, world, nil)
				}
				each1 := batches / world
				ready := make(chan struct{})
				errs := each(groups, func(g *Group) error {
					r := NewOrdered(g, &l, batches, each1)
					if g.Rank() == 0 {
						close(ready)
					}
					<-ready
					g.Steps(true)
					a := new(adder)
					for k, step := range steps {
						lo, hi := min(g.Rank()*each1, len(step)), min((g.Rank()+1)*each1, len(step))
						for b := lo; b < hi; b++ {
							a.contributions = append(a.contributions, step[b])
							if err := r.Add(a, b+1); err != nil {
								return err
							}
						}
						ask := Signals(0)
						if k == 2 && g.Rank() == 1 {
							ask = Stop
						}
						if got, err := r.Step(a, ask); err != nil || got != map[bool]Signals{true: Stop}[k == 2] {
							return fmt.Errorf("step %d: signals %d, %w", k, got, err)
						}
					}
					if !slices.Equal(a.sums, want) {
						return fmt.Errorf("rank %d: %v, want %v", g.Rank(), a.sums, want)
					}
					return nil
				})
				closeAll(groups)
				if err := errors.Join(errs...); err != nil {
					t.Errorf("%s, %d ranks, local %t: %v", name, world, local, err)
				}
			}
		}
	}
}

func TestGatherAndBroadcast(t *testing.T) {
	groups := join(t, 3, nil)
	defer closeAll(groups)
	big := strings.Repeat("x", 1<<20)
	errs := each(groups, func(g *Group) error {
		for range 3 {
			all, err := g.Gather([]byte(fmt.Sprint("of ", g.Rank(), big)), 4+1<<20)
			if err != nil {
				return err
			}
			if g.Rank() == 0 && (len(all) != 3 || string(all[2]) != "of 2"+big) {
				return fmt.Errorf("gathered %d", len(all))
			}
			b, err := g.Broadcast([]byte(fmt.Sprint("from ", g.Rank())), 6)
			if err != nil || string(b) != "from 0" {
				return fmt.Errorf("%q, %w", b, err)
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestAgree(t *testing.T) {
	groups := join(t, 3, nil)
	defer closeAll(groups)
	for _, g := range groups {
		g.prepareAgreement(8)
	}
	errs := each(groups, func(g *Group) error {
		for range 2 {
			got, err := g.agree(agreement{Signals(g.Rank() & 1), int64(10 + g.Rank()), 2})
			if err != nil || got != (agreement{Stop, 33, 6}) {
				return fmt.Errorf("%+v, %w", got, err)
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Whatever ends a rank, all others end with one message that names it.
func TestLostRank(t *testing.T) {
	for what, c := range map[string]struct {
		rank int
		end  func(g *Group)
		want string // of the others
	}{
		"killed": {2, func(g *Group) { g.peers[0].conn.Close() }, "is lost: its connection closed without notice"},
		"root": {0, func(g *Group) {
			g.once.Do(func() { g.cancel(errDone) }) // a process that is killed does nothing
			for _, p := range g.peers {
				p.conn.Close()
			}
		}, "rank 0 of 3"},
		"fails":   {1, func(g *Group) { g.Fail(errors.New("the disk is full")); g.Close() }, "is lost: the disk is full"},
		"rootful": {0, func(g *Group) { g.Fail(errors.New("the disk is full")); g.Close() }, "rank 0 of 3 is lost: the disk is full"},
		"leaves":  {1, func(g *Group) { g.Close() }, "it ended before the run did"},
		"garbage": {2, func(g *Group) { g.peers[0].conn.Write([]byte(strings.Repeat("garbage ", 9))) }, "does not begin a frame of this version"},
		"astray":  {1, func(g *Group) { g.number = 7; g.Gather(nil, 0) }, "it takes part in another call"},
	} {
		groups := join(t, 3, nil)
		errs := each(groups, func(g *Group) error {
			if g.Rank() == c.rank {
				c.end(g)
				return nil
			}
			_, err := g.Gather(nil, 0)
			if err == nil {
				_, err = g.Broadcast(nil, 0)
			}
			return err
		})
		closeAll(groups)
		for rank, err := range errs {
			if rank == c.rank {
				continue
			}
			if !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(fmt.Sprint(err), c.want) || !strings.HasPrefix(fmt.Sprint(err), fmt.Sprintf("rank %d of 3", c.rank)) {
				t.Errorf("%s: rank %d: %v", what, rank, err)
			}
		}
	}
}
