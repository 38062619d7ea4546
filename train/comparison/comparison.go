// Package comparison trains one model with several stores, on the same mini-batches, and
// compares what each reads and takes. Every run is a process of its own, so that none has
// the memory, the caches or the garbage of another:
//
//	drive measured ─► samples ─► pack ─► round 1: store a, store b … ─► round 2 … ─► Result
//	                                     each: page cache dropped, diskgnn train
//
// Its directory:
//
//	comparison.json  what is compared: another comparison may not go on here
//	samples/         SAMPLES, unless they were given
//	pack/            PACK, if a store needs one
//	STORE-N/         RUN of a store in round N
//	lock             held meanwhile
//
// Whatever is finished there is not made again: a comparison that was interrupted goes on,
// and one that is repeated with more rounds or stores runs those alone. A run that did not
// finish starts anew, as its times would be those of two processes.
package comparison

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"diskgnn/dataset"
	stores "diskgnn/featurestore/all"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
	"diskgnn/train/rundir"
)

const (
	samplesDir = "samples"
	packDir    = "pack"
)

// Run compares the stores. A store that fails has its error in its row, and the others go
// on; only if none has run is there an error, which is the first store's. When ctx ends, what
// is finished stays for the next call with the same options.
func Run(ctx context.Context, fsys vfs.FS, o Options, program Program, rep progress.Reporter) (r Result, err error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return r, err
	}
	c := &comparison{fs: fsys, o: o, program: program, rep: rep}
	if c.data, err = dataset.Open(fsys, o.Dataset); err != nil {
		return r, err
	}
	if o.Samples != "" {
		if c.samples, err = mbfile.Open(fsys, o.Samples); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, c.samples.Close()) }()
	}
	lock, err := c.begin()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return c.run(ctx)
}

// comparison is one under way.
type comparison struct {
	fs      vfs.FS
	o       Options
	program Program
	rep     progress.Reporter
	data    *dataset.Dataset
	samples *mbfile.Reader // given ones; nil: drawn here

	result Result
	rows   []*row
}

// row is what is known of a store.
type row struct {
	store  string
	packed bool // it needs a pack
	failed error
	runs   []*rundir.Result // finished, by round
}

func (c *comparison) run(ctx context.Context) (Result, error) {
	began := time.Now()
	for _, name := range c.o.Stores {
		c.rows = append(c.rows, &row{store: name, packed: needsPack(name)})
	}
	r := &c.result
	r.Out, r.Dataset, r.Memory = c.o.Out, c.o.Dataset, c.o.Train.Memory
	r.Epochs, r.Rounds = c.o.Train.Epochs, c.o.Rounds
	var err error
	if r.Drive, err = c.measureDrive(ctx); err != nil {
		return *r, err
	}
	if err := c.sample(ctx); err != nil {
		return *r, err
	}
	w, err := c.workload()
	if err != nil {
		return *r, err
	}
	c.estimate(w)
	packing, err := c.pack(ctx)
	if err != nil {
		return *r, err
	}
	for round := range c.o.Rounds {
		for _, row := range c.rows {
			if err := c.train(ctx, row, round); err != nil {
				return *r, err
			}
		}
	}
	if err := c.failure(); err != nil {
		return *r, err
	}
	for _, row := range c.rows {
		s := summarize(row, w)
		if row.packed {
			s.Preparation = packing
		}
		s.EstimatedSeconds = r.estimates[row.store]
		r.Stores = append(r.Stores, s)
	}
	payback(r.Stores)
	r.Seconds = time.Since(began).Seconds()
	return *r, nil
}

// failure returns why no store has run, or nil if one has.
func (c *comparison) failure() error {
	if slices.ContainsFunc(c.rows, func(r *row) bool { return len(r.runs) > 0 }) {
		return nil
	}
	return fmt.Errorf("no store could be trained with: %s: %w", c.rows[0].store, c.rows[0].failed)
}

func needsPack(store string) bool {
	_, err := stores.Choose(store, stores.Places{Pack: packDir})
	return err == nil
}

// sample draws the samples, unless they were given.
func (c *comparison) sample(ctx context.Context) (err error) {
	dir := c.o.Samples
	if dir == "" {
		dir = filepath.Join(c.o.Out, samplesDir)
		c.rep.Logf("drawing the mini-batches, into %s", dir)
		if _, err := c.program(ctx, c.o.samplingArgs(dir)); err != nil {
			return err
		}
		if c.result.Sampling, err = c.made(dir); err != nil {
			return err
		}
	}
	c.result.Samples = dir
	return nil
}

// pack makes the pack that some store needs. If that fails, these stores do.
func (c *comparison) pack(ctx context.Context) (Preparation, error) {
	if !slices.ContainsFunc(c.rows, func(r *row) bool { return r.packed }) {
		return Preparation{}, nil
	}
	dir := filepath.Join(c.o.Out, packDir)
	c.rep.Logf("packing, into %s", dir)
	_, err := c.program(ctx, c.o.packArgs(c.result.Samples, dir))
	var p Preparation
	if err == nil {
		p, err = c.made(dir)
	}
	if err == nil || ctx.Err() != nil {
		return p, err
	}
	for _, row := range c.rows {
		if row.packed {
			row.failed = err
			c.rep.Logf("%s failed: %v", row.store, err)
		}
	}
	return Preparation{}, nil
}

// train runs a store in a round, unless that was done or the store has failed. The error is
// that of the comparison: a store's own is in its row.
func (c *comparison) train(ctx context.Context, row *row, round int) error {
	dir := filepath.Join(c.o.Out, fmt.Sprintf("%s-%d", row.store, round+1))
	if row.failed != nil {
		return nil
	}
	run, err := c.finished(dir)
	if run != nil || err != nil {
		row.runs = append(row.runs, run)
		return err
	}
	if err := c.chill(); err != nil {
		return err
	}
	c.rep.Logf("round %d of %d: training with %s, into %s", round+1, c.o.Rounds, row.store, dir)
	_, err = c.program(ctx, c.o.trainArgs(row, c.result.Samples, filepath.Join(c.o.Out, packDir), dir))
	if err == nil {
		run, err = c.finished(dir)
	}
	if err == nil && run == nil {
		err = fmt.Errorf("%s is not finished, though its process ended without an error", dir)
	}
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		row.failed = err
		c.rep.Logf("%s failed: %v", row.store, err)
		return nil
	}
	row.runs = append(row.runs, run)
	c.rep.Logf("%s: %s an epoch", row.store, units.Seconds(median(epochSeconds(run))))
	return nil
}

// finished returns the result of the run in a directory, nil if there is none that finished.
func (c *comparison) finished(dir string) (*rundir.Result, error) {
	if ok, err := vfs.Exists(c.fs, dir); !ok || err != nil {
		return nil, err
	}
	if ok, err := vfs.Exists(c.fs, filepath.Join(dir, runFile)); !ok || err != nil {
		return nil, err // its process was killed before it began
	}
	f, err := rundir.Read(c.fs, dir)
	if errors.Is(err, fault.ErrVersion) {
		return nil, nil // it is made again
	}
	if err != nil || f.State != rundir.StateFinished || f.Result == nil || len(f.Result.Epochs) == 0 {
		return nil, err
	}
	return f.Result, nil
}
