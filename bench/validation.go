package main

import (
	"context"
	"errors"
	"flag"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"diskgnn/featurestore"
	"diskgnn/featurestore/packed"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
)

// validationCommand compares the loading of validation and test batches with the loading of training
// batches, one batch at a time and without a model: rows, requests and bytes by file, and seconds by
// link, of a batch and of a row. -hold lists memories for rows that the store holds for evaluation, as
// train has it left:
//
//	go run ./bench validation -pack PACK -cache 5% -hold 0,16MiB,64MiB,1GiB
//
// The row "first validation" includes the reading of held rows; its time is their share of the bytes of
// filling. "over" rows are ratios to training, for an input row.
func validationCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	h.need(f, "pack")
	cache := f.String("cache", "", "--ram-cache; empty: the smallest cache of the pack")
	hold := f.String("hold", "0", "memory for rows of evaluation batches; a comma separates several")
	most := f.Int("batches", 40, "batches of each split that are measured")
	return func(ctx context.Context, _ []string) (err error) {
		c, err := packed.Find(vfs.OS, h.inputs["pack"])
		if err != nil {
			return err
		}
		o := featurestore.PlanOptions{Memory: 1 << 40, Slots: 1, EvalSlots: 1, MostSlots: 1, Least: *cache == ""}
		if *cache != "" {
			size, err := budget.ParseSize(*cache)
			if err != nil {
				return err
			}
			o.Cache = &size
		}
		stack, _, err := all.Open(h.io, iostack.Options{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stack.Close()) }()
		for _, text := range strings.Split(*hold, ",") {
			memory, err := budget.ParseSize(text, budget.UnitBytes)
			if err != nil {
				return err
			}
			o.Hold = featurestore.Hold{Memory: int64(memory.Value), Validations: 2}
			v := &loading{stack: &byFile{Stack: stack}, facts: c.Facts(), most: *most, hold: text}
			if err := v.holding(ctx, h, c, o); err != nil {
				return err
			}
		}
		return nil
	}
}

// holding compares the loading by the candidate with the given options.
func (v *loading) holding(ctx context.Context, h *harness, c featurestore.Candidate, o featurestore.PlanOptions) error {
	l, err := c.Plan(o)
	if err != nil {
		return err
	}
	if v.store, err = c.Open(v.stack, l); err != nil {
		return err
	}
	return errors.Join(v.compare(ctx, h, l), v.store.Close())
}

// byFile counts requests by file.
type byFile struct {
	iostack.Stack
	mu     sync.Mutex
	counts map[string]*fileCount
}

type fileCount struct{ requests, bytes int64 }

func (s *byFile) Submit(g *iostack.Group, reqs []iostack.Request) error {
	s.mu.Lock()
	for i := range reqs {
		name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(reqs[i].File.Name()), ".bin"), "-0")
		if s.counts[name] == nil {
			s.counts[name] = new(fileCount)
		}
		s.counts[name].requests++
		s.counts[name].bytes += int64(reqs[i].Len())
	}
	s.mu.Unlock()
	return s.Stack.Submit(g, reqs)
}

// loading loads batches and measures them: the first two of a slot are not counted, as its memory is allocated
// and registered then, and batches of a split come again until there are most.
type loading struct {
	stack *byFile
	store featurestore.Store
	facts featurestore.Facts
	most  int
	hold  string // the memory for held rows
}

// warming is the number of batches that a slot loads before it is measured.
const warming = 2

// loaded has the sums over some batches.
type loaded struct {
	batches int
	rows    int64
	seconds [4]float64 // by link: graph, read, assemble, all
	files   map[string]*fileCount
}

func (l *loaded) bytes() (n int64) {
	for _, c := range l.files {
		n += c.bytes
	}
	return n
}

// compare measures all splits, training first and last, and reports their rows.
func (v *loading) compare(ctx context.Context, h *harness, l featurestore.Layout) error {
	v.stack.counts = map[string]*fileCount{}
	began := time.Now()
	filled, err := v.store.Fill(ctx, 0, progress.Discard)
	if err != nil {
		return err
	}
	fill := time.Since(began).Seconds()
	if err := h.report(row{{"memory to hold", v.hold}, {"batches of", "(filling)"}, {"read bytes", filled}, {"seconds", fill}, {"held bytes", l.HeldBytes}}); err != nil {
		return err
	}
	splits := []struct {
		name string
		of   featurestore.Split
	}{{"(warm-up)", featurestore.Train}, {"training", featurestore.Train}, {"validation", featurestore.Valid}, {"test", featurestore.Test}}
	sums := map[string]*loaded{}
	for _, s := range splits {
		if sums[s.name], err = v.load(ctx, s.of); err != nil {
			return err
		}
	}
	train := sums["training"]
	for _, s := range splits[1:] {
		if sums[s.name].batches == 0 {
			continue
		}
		if err := h.report(sums[s.name].row(v.hold, s.name, train, 0, 0)); err != nil {
			return err
		}
	}
	if first := sums["validation"]; first.batches > 0 && l.HeldBytes > 0 {
		of := float64(first.batches) / float64(v.facts.Valid) // a validation
		share := float64(l.HeldBytes) / float64(max(filled, 1))
		return h.report(first.row(v.hold, "first validation", train, int64(of*float64(l.HeldBytes)), of*fill*share))
	}
	return nil
}

// load loads batches of a split.
func (v *loading) load(ctx context.Context, split featurestore.Split) (l *loaded, err error) {
	sl, err := v.store.View(0).NewSlot(split != featurestore.Train)
	if err != nil {
		return nil, err
	}
	defer sl.Free()
	l = &loaded{files: map[string]*fileCount{}}
	v.stack.counts = l.files
	batches := v.facts.Batches(split)
	for k := range v.most + warming {
		if batches == 0 {
			break
		}
		if k == warming {
			*l = loaded{files: map[string]*fileCount{}}
			v.stack.counts = l.files
		}
		i := k % batches
		began := time.Now()
		var at [3]time.Time
		err := sl.Start(featurestore.Ref{Split: split, Index: i})
		if err == nil {
			err = sl.LoadGraph(ctx)
		}
		at[0] = time.Now()
		err = errors.Join(err, sl.Wait(ctx))
		at[1] = time.Now()
		if err == nil {
			err = sl.Assemble(ctx)
		}
		at[2] = time.Now()
		if err != nil {
			return nil, err
		}
		for link, from := range [...]time.Time{began, at[0], at[1], began} {
			l.seconds[link] += at[min(link, 2)].Sub(from).Seconds()
		}
		l.batches++
		l.rows += int64(len(sl.Batch().Input))
	}
	return l, nil
}

// row returns the figures of a batch, and their ratios to training for an input row. bytes and seconds were
// spent before, for all these batches together.
func (l *loaded) row(hold, name string, train *loaded, bytes int64, seconds float64) row {
	n := float64(l.batches)
	ratio := func(a, b float64) float64 { return a / float64(l.rows) / (b / float64(train.rows)) }
	r := row{{"memory to hold", hold}, {"batches of", name}, {"batches", l.batches}, {"rows", float64(l.rows) / n},
		{"read bytes", (float64(l.bytes()) + float64(bytes)) / n}, {"seconds", (l.seconds[3] + seconds) / n},
		{"load graph", l.seconds[0] / n}, {"read features", l.seconds[1] / n}, {"assemble", l.seconds[2] / n},
		{"bytes over", ratio(float64(l.bytes()+bytes), float64(train.bytes()))}, {"seconds over", ratio(l.seconds[3]+seconds, train.seconds[3])}}
	var files []string
	for f := range l.files {
		files = append(files, f)
	}
	sort.Strings(files)
	for _, f := range files {
		r = append(r, field{"requests " + f, float64(l.files[f].requests) / n}, field{"bytes " + f, float64(l.files[f].bytes) / n})
	}
	return r
}
