// Package comparison trains one model with several stores, on the same mini-batches, and compares
// their reads and times. Every run is a process of its own, so that none inherits the memory, the
// caches or the garbage of another:
//
//	drive measured ─► samples ─► pack ─► round 1: store a, store b … ─► round 2 … ─► Result
//	                                     each: page cache dropped, diskgnn train
//
// Its directory:
//
//	comparison.json  the compared options: a comparison of others is refused here
//	samples/         SAMPLES, unless they were given, or batches are drawn while training
//	pack/            PACK, if a store needs one
//	checksums.json   the time of making the dataset's table of checksums of pages
//	STORE-N/         RUN of a store in round N
//	report.html      all of it on a page
//	lock             held meanwhile
//
// With ablations (Options.Ablations), runs are STORE.PART-N, and samples.PART and pack.PART are the
// directories that differ.
//
// Finished parts are not made again: an interrupted comparison resumes, and a repetition with more
// rounds or stores runs only the new ones. A run that did not finish starts anew: resumed, its times
// would mix two processes.
package comparison

import (
	stdbytes "bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
)

// Run compares the stores. If a store fails, its row has the error, and the others run; only if
// none has run does Run return an error, the first store's. When ctx ends, finished parts stay for
// the next call with the same options.
func Run(ctx context.Context, fsys vfs.FS, o Options, program Program, rep progress.Reporter) (r Result, err error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return r, err
	}
	c := &comparison{fs: fsys, o: o, program: program, rep: rep}
	if c.data, err = dataset.OpenLabelled(fsys, o.Dataset); err != nil {
		return r, err
	}
	if err := c.data.CheckUntyped(); err != nil {
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
	defer func() {
		if err != nil && !fault.EndedBy(ctx, err) {
			_ = c.leave() // files that remain are files that an interrupted comparison leaves
		}
		err = errors.Join(err, lock.Close())
	}()
	return c.run(ctx)
}

func (c *comparison) run(ctx context.Context) (Result, error) {
	began := time.Now()
	c.prepared, c.broken, c.random = map[string]Preparation{}, map[string]error{}, map[int64]float64{}
	var err error
	if c.variants, err = c.o.variants(); err != nil {
		return Result{}, err
	}
	for _, v := range c.variants {
		for _, name := range c.o.Stores {
			c.rows = append(c.rows, &row{store: name, of: v, packed: c.o.needsPack(name)})
		}
	}
	r := &c.result
	r.Out, r.Dataset, r.Live, r.Memory = c.o.Out, c.o.Dataset, c.o.Live, c.o.Train.Memory
	r.Epochs, r.Rounds = c.o.Train.Epochs, c.o.Rounds
	if err := c.measureDrive(ctx); err != nil {
		return *r, err
	}
	for _, v := range c.variants {
		if err := c.sample(ctx, v); err != nil {
			return *r, err
		}
		if v.w, err = c.workload(v); err != nil {
			return *r, err
		}
	}
	r.Samples = c.variants[0].samples
	if !c.o.Live {
		r.Sampling = c.prepared[r.Samples]
	}
	w := &c.variants[0].w
	r.Seeds, r.SeedFraction, r.Batches = w.seeds, float64(w.seeds*w.rowBytes)/float64(w.tableBytes), w.batches
	c.estimate()
	if err := c.checksum(ctx); err != nil {
		return *r, err
	}
	for _, v := range c.variants {
		if err := c.pack(ctx, v); err != nil {
			return *r, err
		}
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
	if err := c.conclude(ctx); err != nil {
		return *r, err
	}
	r.Seconds = time.Since(began).Seconds()
	return *r, c.writePage()
}

// conclude makes the stores' rows of the result from their runs.
func (c *comparison) conclude(ctx context.Context) error {
	r := &c.result
	for _, row := range c.rows {
		s := summarize(row)
		switch {
		case row.packed:
			s.Preparation = row.of.preparation
		case c.o.readsRows(row.store):
			s.Preparation = r.Checksums
		}
		s.EstimatedSeconds = r.estimates[row.name()]
		r.Stores = append(r.Stores, s)
	}
	if err := c.besideDrive(ctx); err != nil {
		return err
	}
	payback(r.Stores)
	r.judge()
	return nil
}

// failure returns why no store has run, or nil if one has.
func (c *comparison) failure() error {
	if slices.ContainsFunc(c.rows, func(r *row) bool { return len(r.runs) > 0 }) {
		return nil
	}
	return fmt.Errorf("training failed with every store; the first failure: %s: %w", c.rows[0].name(), c.rows[0].failed)
}

// packs reports whether some store needs a pack.
func (c *comparison) packs() bool {
	return slices.ContainsFunc(c.o.Stores, c.o.needsPack)
}

// sample draws a variant's samples, unless they were given or another variant has them, or no store
// needs them.
func (c *comparison) sample(ctx context.Context, v *variant) (err error) {
	switch {
	case c.o.Samples != "":
		v.samples = c.o.Samples
		return nil
	case c.o.Live && !c.packs():
		return nil
	}
	v.samples = filepath.Join(c.o.Out, samplesDir+v.suffix(false))
	if _, ok := c.prepared[v.samples]; ok {
		return nil
	}
	c.rep.Logf("drawing the mini-batches into %s", v.samples)
	if _, err := c.program(ctx, v.o.samplingArgs(v.samples)); err != nil {
		return err
	}
	c.prepared[v.samples], err = c.made(v.samples)
	return err
}

// checksum makes the table of the checksums of single pages, which the first store of single rows would make
// in its first epoch, or finds the table that is there. An earlier call of the same comparison left the time
// of making it.
func (c *comparison) checksum(ctx context.Context) error {
	if !slices.ContainsFunc(c.o.Stores, c.o.readsRows) || c.data.RowsReadable() != nil {
		return nil
	}
	p, name := &c.result.Checksums, filepath.Join(c.o.Out, sumsFile)
	b, err := vfs.ReadSmall(c.fs, name, mostFact)
	if err == nil && json.Unmarshal(b, p) == nil {
		return nil
	}
	began := time.Now()
	if _, _, err := c.data.PageSums(ctx, c.rep); err != nil {
		return err
	}
	*p = Preparation{time.Since(began).Seconds(), c.data.PageSumsBytes()}
	if b, err = json.Marshal(p); err != nil {
		return err
	}
	return vfs.ReplaceFile(c.fs, name, b)
}

// pack makes the pack that some store needs, unless another variant has the same. If that fails,
// the stores that need it fail.
func (c *comparison) pack(ctx context.Context, v *variant) error {
	if !c.packs() {
		return nil
	}
	if v.drawn {
		c.fail(v, errors.New("it trains on a pack, and draws nothing"))
		return nil
	}
	v.pack = filepath.Join(c.o.Out, packDir+v.suffix(v.bare))
	if _, ok := c.prepared[v.pack]; !ok && c.broken[v.pack] == nil {
		c.rep.Logf("packing into %s", v.pack)
		_, err := c.program(ctx, v.packArgs())
		if err == nil {
			c.prepared[v.pack], err = c.made(v.pack)
		}
		if ctx.Err() != nil {
			return err
		}
		c.broken[v.pack] = err
	}
	v.preparation = c.prepared[v.pack]
	if c.o.Live { // nobody else needs the samples
		s := c.prepared[v.samples]
		v.preparation.Seconds += s.Seconds
		v.preparation.DiskBytes += s.DiskBytes
	}
	if err := c.broken[v.pack]; err != nil {
		c.fail(v, err)
	}
	return nil
}

// fail sets the error of a variant's rows that need a pack.
func (c *comparison) fail(v *variant, err error) {
	for _, row := range c.rows {
		if row.packed && row.of == v {
			row.failed = err
			c.rep.Logf("%s failed: %v", row.name(), err)
		}
	}
}

// train runs a store in a round, unless that was done or the store has failed. It returns an error
// of the comparison: a store's own is in its row.
func (c *comparison) train(ctx context.Context, row *row, round int) error {
	dir := filepath.Join(c.o.Out, fmt.Sprintf("%s-%d", row.name(), round+1))
	if row.failed != nil {
		return nil
	}
	run, err := c.finished(dir)
	if run != nil || err != nil {
		row.runs = append(row.runs, run)
		return err
	}
	if err := c.chill(row.of); err != nil {
		return err
	}
	c.rep.Logf("round %d of %d: training with %s into %s", round+1, c.o.Rounds, row.name(), dir)
	_, err = c.program(ctx, row.trainArgs(dir))
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
		c.rep.Logf("%s failed: %v", row.name(), err)
		return nil
	}
	row.runs = append(row.runs, run)
	c.rep.Logf("%s: %s an epoch", row.name(), units.Seconds(median(epochSeconds(run))))
	return nil
}

// chill drops the files of the dataset, and of a variant's samples and pack, from the page cache,
// except for files mapped by a process, so that every run finds them on the drive. If the system
// has no such call, the result says so.
func (c *comparison) chill(v *variant) error {
	for _, dir := range []string{c.o.Dataset, v.samples, v.pack} {
		if dir == "" || c.broken[dir] != nil {
			continue
		}
		err := c.files(dir, func(name string, _ int64) error { return uncache(name) })
		if errors.Is(err, errors.ErrUnsupported) {
			c.result.Warm = "this system does not drop files from the page cache"
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writePage writes the page beside the runs.
func (c *comparison) writePage() error {
	var b stdbytes.Buffer
	if err := c.result.write(&b); err != nil {
		return err
	}
	c.result.Page = filepath.Join(c.o.Out, pageFile)
	return vfs.ReplaceFile(c.fs, c.result.Page, b.Bytes())
}

const pageFile = "report.html"
