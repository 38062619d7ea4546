package pack

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/pack/cut"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/packfile"
)

// Run packs samples. It resumes an interrupted run, and does nothing if the pack exists. A pack with other
// parameters is an error of kind fault.ErrExists, unless o.Force is set. After a cancellation by ctx, a
// later Run resumes from the files.
func Run(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (Result, error) {
	r, err := open(ctx, fsys, o, rep)
	if err != nil {
		return Result{}, err
	}
	defer r.close()
	res, err := r.run(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("pack: %w", err)
	}
	return res, nil
}

func (r *request) run(ctx context.Context) (_ Result, err error) {
	p, err := r.begin(ctx)
	if err != nil {
		return Result{}, err
	}
	if p == nil {
		r.rep.Logf("%s is finished already: nothing to do", r.out)
		return r.describe("done", work{})
	}
	defer func() { err = p.end(err) }()
	d, err := p.Decide(ctx)
	if err != nil {
		return Result{}, err
	}
	return p.Write(ctx, d)
}

// begin opens the transaction for the directory. It returns nil if that is finished.
func (r *request) begin(ctx context.Context) (_ *Packing, err error) {
	spec, err := r.part(ctx)
	if err != nil {
		return nil, err
	}
	dir, state, err := stage.Begin(r.fs, r.out, spec, r.o.Force)
	if err != nil || state == stage.StateDone {
		return nil, err
	}
	if n := dir.Note(); n != "" {
		r.rep.Logf("%s", n)
	}
	p := &Packing{request: r, dir: dir, state: state, files: rowfile.NewSet(dir, r.o.openFiles)}
	if p.kept, err = loadFirstPass(dir, r.rawForm()); err != nil {
		return nil, p.end(err)
	}
	return p, nil
}

// part returns the specification of the directory to make: the pack, or a shard of it.
func (r *request) part(ctx context.Context) (stage.Spec, error) {
	spec, err := r.o.Shard.Spec(r.spec())
	spec.Words = words
	spec.Check = func(dir string, m *stage.Meta, look stage.Look) error {
		return packfile.Check(ctx, r.fs, dir, m, look)
	}
	return spec, err
}

// words names a content parameter and its value as the user gives them: the flag and its text.
func words(param string, value json.RawMessage) (name, text string) {
	name, text = stage.Plain(param, value)
	switch param {
	case "cache_rows":
		return "--cache", text + " rows"
	case "max_disk":
		if len(value) == 0 || text == "0" {
			return name, "unlimited"
		}
		return name, text + " bytes"
	case "codec":
		return "--compress-chunks", text
	}
	return name, text
}

// Decide settles the parameters that determine the pack's content. If an interrupted run has packed the
// graphs, that run's decision stands. Under policy min it simulates the cache; the records go to scratch
// files and refill.bin in the directory.
func (p *Packing) Decide(ctx context.Context) (cut.Decision, error) {
	if k := p.kept; k != nil {
		return cut.Again(ctx, p.cutRequest(), k.facts, k.index.Edges, k.index.Bands)
	}
	c, err := cut.Count(ctx, p.cutRequest())
	if err != nil {
		return cut.Decision{}, err
	}
	if p.params.Policy != packfile.PolicyMin {
		return c.Decide(ctx)
	}
	least, err := c.Least()
	if err != nil {
		return least, err
	}
	if _, err := p.allot(&least); err != nil {
		return least, err
	}
	rec := newRecorder(p, &least)
	defer rec.close()
	return c.Simulate(ctx, p.fs, p.dir.Path(), 2*rowfile.Buffer, rec)
}

// Write makes the directory of the decision, and publishes it.
func (p *Packing) Write(ctx context.Context, d cut.Decision) (Result, error) {
	w, err := p.write(ctx, &d)
	if err != nil {
		return Result{}, err
	}
	name := "new"
	if p.state == stage.StateResumed {
		name = "resumed"
	}
	return p.describe(name, w)
}

func (p *Packing) write(ctx context.Context, d *cut.Decision) (w work, err error) {
	w.decideSeconds = time.Since(p.start).Seconds()
	began := time.Now()
	m, err := p.allot(d)
	if err != nil {
		return w, err
	}
	defer budget.LimitHeap(p.o.Memory, m.outside)()
	first, err := p.graphs(ctx, d, m)
	if err != nil {
		return w, err
	}
	w.graphSeconds = time.Since(began).Seconds()
	p.rep.Logf("I/O: %s", p.how)
	debug.FreeOSMemory() // the first pass's buffers make room for the ranges
	files := first.files
	if d.Part.Lo < d.Part.Hi || d.Part.Common { // else there are more shards than groups
		rows, err := p.rows(ctx, d, m, first, &w)
		if err != nil {
			return w, err
		}
		files = append(files, rows...)
		chunks, err := p.evalChunks(ctx, d, m, first, rows)
		if err != nil {
			return w, fmt.Errorf("chunks of validation batches: %w", err)
		}
		if len(chunks) > 0 {
			f := &first.facts
			w.again = (f.EvalRows + f.HotRows - d.Edges[len(d.Edges)-1]) * int64(f.RowBytes)
		}
		files = append(files, chunks...)
		if w.scratch, err = p.compress(ctx, d, first); err != nil {
			return w, err
		}
	}
	if c := &d.Record.Codes; c.Name != "" {
		lo, hi := d.Part.Batches(&d.Facts)
		w.scratch += 8*d.Cache.Accesses + 4*(c.Start[hi]-c.Start[lo])
	}
	if m.spill {
		w.scratch += d.Facts.HotRows * int64(d.Facts.RowBytes+4)
	}
	return w, p.commit(first, files, &w)
}

// commit writes the index and publishes the directory.
func (p *Packing) commit(first *firstPass, files []stage.File, w *work) error {
	for g := range first.facts.Groups() {
		lo, hi := first.facts.GroupSpan(g)
		size := coldSize(first.index.Train[lo:hi])
		if size == 0 {
			continue
		}
		var sums []uint32
		for i := lo; i < hi; i++ {
			sums = append(sums, first.index.Train[i].Sums...)
		}
		files = append(files, stage.File{Name: packfile.ColdFile(g), Size: size, Checksum: binio.HashSums(sums)})
	}
	b, err := first.index.Encode()
	if err != nil {
		return err
	}
	if err := vfs.WriteFile(p.fs, p.dir.File(packfile.IndexFile), b); err != nil {
		return fmt.Errorf("write %s: %w", packfile.IndexFile, err)
	}
	files = append(files, stage.File{Name: packfile.IndexFile, Size: int64(len(b)), Checksum: binio.Hash(b)})
	host, _ := os.Hostname()
	run := map[string]any{
		"host": host, "finished": time.Now().UTC().Format(time.RFC3339), "seconds": time.Since(p.start).Seconds(),
		"workers": p.o.Workers, "memory_bytes": p.o.Memory, "ranges": w.ranges,
	}
	if run[stage.PreprocessingFact], err = p.ds.Preprocessing(); err != nil {
		return err
	}
	names, err := p.ds.CarriedClassNames()
	if err != nil {
		return err
	}
	if names != nil {
		run[stage.ClassNamesFact] = names
	}
	_, err = p.dir.Commit(files, first.facts, run)
	return err
}
