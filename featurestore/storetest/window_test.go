package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/featurestore/all"
	"diskgnn/featurestore/memory"
	"diskgnn/featurestore/presampled"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	"diskgnn/presample"
)

// ahead is how far the store of this test looks.
const ahead = 3

// looking is a store with a window: package memory's, with a policy that notes of each
// batch how many of its input nodes come again soon, in the order of the run.
type looking struct {
	featurestore.Candidate
	source featurestore.Source
}

func (c looking) InOrder() bool { return true }

func (c looking) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	window := c.source.WindowBytes(ahead)
	o.Memory -= window
	l, err := c.Candidate.Plan(o)
	l.Ahead, l.WindowBytes = ahead, window
	return l, err
}

func (c looking) Open(stack iostack.Stack, l featurestore.Layout) (_ featurestore.Store, err error) {
	s := &lookingStore{facts: c.Facts()}
	if s.Store, err = c.Candidate.Open(stack, l); err != nil {
		return nil, err
	}
	if s.loaders, err = c.source.Open(stack); err == nil {
		s.window, err = s.loaders.NewWindow(l.Ahead)
	}
	if err != nil {
		return nil, errors.Join(err, s.Store.Close())
	}
	return s, nil
}

type lookingStore struct {
	featurestore.Store
	facts   featurestore.Facts
	loaders featurestore.Loaders

	mu     sync.Mutex // holds the policy: batches come in any order
	window featurestore.Window
	soon   map[uint32]bool
	again  map[int]int         // by batch that was decided and not taken yet
	read   featurestore.Counts // by the window, and not counted yet
}

func (s *lookingStore) Fill(ctx context.Context, next int, rep progress.Reporter) (int64, error) {
	n, err := s.Store.Fill(ctx, next, rep)
	if err != nil {
		return 0, err
	}
	s.soon, s.again, s.read = map[uint32]bool{}, map[int]int{}, featurestore.Counts{}
	more, err := s.window.Seek(ctx, next)
	return n + more, err
}

func (s *lookingStore) Close() error {
	s.window.Free()
	return errors.Join(s.loaders.Close(), s.Store.Close())
}

// decide decides a batch, and those before it that nobody came for yet.
func (s *lookingStore) decide(ctx context.Context, batch int) (again int, read featurestore.Counts, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if n, ok := s.again[batch]; ok {
			read, s.read = s.read, featurestore.Counts{}
			delete(s.again, batch)
			return n, read, nil
		}
		clear(s.soon)
		for k := 1; k <= ahead; k++ {
			for _, v := range s.window.Inputs(k) {
				s.soon[v] = true
			}
		}
		n := 0
		for _, v := range s.window.Inputs(0) {
			if s.soon[v] {
				n++
			}
		}
		s.again[s.window.First()] = n
		more, err := s.window.Advance(ctx)
		if err != nil {
			return 0, read, err
		}
		if more > 0 {
			s.read.Add(featurestore.Counts{BytesRead: more, GraphRead: more, Requests: 1})
		}
	}
}

func (s *lookingStore) View(i int) featurestore.View { return lookingView{s.Store.View(i), s} }

type lookingView struct {
	featurestore.View
	store *lookingStore
}

func (v lookingView) NewSlot(eval bool) (featurestore.Slot, error) {
	sl, err := v.View.NewSlot(eval)
	if err != nil {
		return nil, err
	}
	return &lookingSlot{Slot: sl, store: v.store}, nil
}

type lookingSlot struct {
	featurestore.Slot
	store *lookingStore
	ref   featurestore.Ref
	read  featurestore.Counts
}

func (sl *lookingSlot) Start(r featurestore.Ref) error {
	sl.ref = r
	return sl.Slot.Start(r)
}

func (sl *lookingSlot) LoadGraph(ctx context.Context) (err error) {
	if err := sl.Slot.LoadGraph(ctx); err != nil || sl.ref.Split != featurestore.Train {
		sl.read = featurestore.Counts{}
		return err
	}
	again, read, err := sl.store.decide(ctx, sl.ref.Index)
	if sl.read = read; err == nil && again > len(sl.Batch().Input) {
		err = fault.New(fault.ErrCorrupt, "%d of %d input nodes come again", again, len(sl.Batch().Input))
	}
	if err != nil {
		return fmt.Errorf("batch %d: %w", sl.ref.Index, err)
	}
	return nil
}

func (sl *lookingSlot) Counts() featurestore.Counts {
	c := sl.Slot.Counts()
	c.Add(sl.read)
	return c
}

// The suite takes a store that has a window and decides as package featurestore says.
func TestStoreWithWindow(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, func(dataset, out string, p storetest.Params) error {
		_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
			BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout}, progress.Discard)
		return err
	})
	storetest.Run(t, w, func(t testing.TB, w *storetest.World) featurestore.Candidate {
		inner, _, err := all.Builtin().Find(storetest.Disk, memory.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
		if err != nil {
			t.Fatal(err)
		}
		source, err := presampled.Find(storetest.Disk, w.Dataset, w.Samples)
		if err != nil {
			t.Fatal(err)
		}
		return looking{inner, source}
	})
}
