// Package slice copies the part of a pack that one rank of a training needs, so that machines without a
// common disk each have their part:
//
//	        ┌► slice of rank 0 of 2:  chunks and graphs of batches 0, 2, 4 …; hot rows; evaluation
//	PACK ───┤
//	        └► slice of rank 1 of 2:  chunks and graphs of batches 1, 3, 5 …; hot rows; evaluation
//
// A slice has the pack's files, in their lengths, and its meta.json: it is the same pack by its
// fingerprint, and everything lies where the index says. Bytes that the rank does not need are holes.
// packfile.Share gives the needed bytes, packfile.Slice the batches.
package slice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"time"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
)

// Options are the options of Run: paths and rank.
type Options struct {
	Pack, Out string
	packfile.Slice
	Force bool // replace another slice
}

// Result is the outcome of Run. The JSON keys are stable.
type Result struct {
	Out         string `json:"out"`
	Fingerprint string `json:"fingerprint"` // fingerprint of the pack
	State       string `json:"state"`       // new, resumed, or done: nothing had to be done

	Rank       int `json:"rank"`
	World      int `json:"world"`
	Accumulate int `json:"accumulate"`

	Batches     int     `json:"batches"`      // training batches of the slice
	PackBatches int     `json:"pack_batches"` // training batches of the pack
	SliceBytes  int64   `json:"slice_bytes"`  // bytes of all files, without the holes
	PackBytes   int64   `json:"pack_bytes"`
	Copied      int64   `json:"bytes_written"` // bytes copied by this run
	Seconds     float64 `json:"seconds"`
}

// runFacts is the content of run.json.
type runFacts struct {
	Started string  `json:"started"`
	Slice   string  `json:"slice"`
	Seconds float64 `json:"seconds"`

	Preprocessing json.RawMessage `json:"preprocessing,omitempty"` // the pack's
	ClassNames    json.RawMessage `json:"class_names,omitempty"`   // the pack's
}

// Run makes a slice. It resumes an interrupted run, does nothing if the slice exists, and refuses to
// replace another slice unless o.Force is set. Every byte is checked on the way. A pack of policy min is
// only for a single rank, since its cache must see all batches.
func Run(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (Result, error) {
	start := time.Now()
	if err := o.Slice.Validate(); err != nil {
		return Result{}, err
	}
	r, err := packfile.Open(fsys, o.Pack)
	if err != nil {
		return Result{}, err
	}
	if r.Params().Policy == packfile.PolicyMin && o.World > 1 {
		return Result{}, fault.New(fault.ErrUsage, "%s has the policy min, where the cache follows all batches in order: it cannot be divided among %d ranks; pack with --policy static", o.Pack, o.World)
	}
	if err := o.refuse(fsys, r); err != nil {
		return Result{}, err
	}
	share, err := r.Share(ctx, fsys, o.Slice)
	if err != nil {
		return Result{}, err
	}
	res := Result{Out: o.Out, Fingerprint: r.Meta().Fingerprint, Rank: o.Rank, World: o.World, Accumulate: o.Accumulate,
		Batches: share.Batches(), PackBatches: r.Facts().Train}
	if res.SliceBytes, err = share.Bytes(); err != nil {
		return Result{}, err
	}
	for _, f := range share.Files() {
		res.PackBytes += f.Size
	}
	m := r.Meta()
	spec := stage.Spec{Format: m.Format, Params: m.Params, Parents: m.Parents, By: o.way(), Beside: []string{packfile.SliceFile},
		Check: func(dir string, _ *stage.Meta, look stage.Look) error {
			return packfile.CheckSlice(ctx, fsys, dir, o.Slice, look)
		}}
	dir, state, err := stage.Begin(fsys, o.Out, spec, o.Force)
	if err != nil {
		return Result{}, err
	}
	res.State = state.String()
	if state == stage.StateDone {
		rep.Logf("%s is finished already: nothing to do", o.Out)
	} else {
		if note := dir.Note(); note != "" {
			rep.Logf("%s", note)
		}
		c := copying{r: r, share: share, dir: dir, fs: fsys}
		err := c.all(ctx, res.SliceBytes, rep)
		if err == nil {
			err = packfile.WriteSlice(dir, m, o.Slice)
		}
		if err == nil {
			_, err = dir.Commit(m.Files, m.Facts, runFacts{start.UTC().Format(time.RFC3339), o.Slice.String(), time.Since(start).Seconds(), stage.RunFact(fsys, o.Pack, stage.PreprocessingFact), stage.RunFact(fsys, o.Pack, stage.ClassNamesFact)})
		}
		if err := dir.End(err); err != nil {
			return Result{}, fmt.Errorf("slice into %s: %w", o.Out, err)
		}
		res.Copied = c.copied
	}
	res.Seconds = time.Since(start).Seconds()
	return res, nil
}

// way names the command that makes this slice, and no other.
func (o *Options) way() string {
	return fmt.Sprintf("slice --rank %d/%d --accumulate %d", o.Rank, o.World, o.Accumulate)
}

// refuse returns an error if the output directory is a whole pack or, without Force, another slice.
func (o *Options) refuse(fsys vfs.FS, r *packfile.Reader) error {
	m, err := stage.ReadMeta(fsys, o.Out, "directory")
	if err != nil || m.Format != r.Meta().Format {
		return nil // Begin refuses other content
	}
	have, err := packfile.ReadSlice(fsys, o.Out, m)
	switch {
	case err != nil && !o.Force:
		return err
	case err != nil:
		return nil
	case have == nil:
		return fault.New(fault.ErrExists, "%s is a whole pack, which a slice never replaces: remove it or choose another name", o.Out)
	case *have != o.Slice && m.Fingerprint == r.Meta().Fingerprint && !o.Force:
		return fault.New(fault.ErrExists, "%s is %s; use --force to replace it, or another name", o.Out, have)
	}
	return nil
}

// copying copies a pack's files into a slice.
type copying struct {
	r      *packfile.Reader
	share  *packfile.Share
	dir    *stage.Dir
	fs     vfs.FS
	buf    []byte
	task   progress.Task
	copied int64
}

// piece is the number of bytes that are read and written at a time.
const piece = 1 << 20

// all copies every file into the directory and makes it durable. Files of an interrupted run are checked,
// and copied again if they are damaged.
func (c *copying) all(ctx context.Context, total int64, rep progress.Reporter) error {
	c.buf = make([]byte, piece)
	c.task = rep.Task("copy the slice", total, progress.Bytes)
	defer c.task.Done()
	var rest []stage.File
	var need int64
	for _, f := range c.share.Files() {
		n, err := c.bytes(f)
		if err != nil {
			return err
		}
		done, err := c.have(ctx, f)
		if err != nil {
			return err
		}
		if done {
			c.task.Add(n)
			continue
		}
		rest, need = append(rest, f), need+n
	}
	if err := c.dir.CheckFree(need); err != nil {
		return err
	}
	for i, f := range rest {
		if err := c.file(ctx, f); err != nil {
			return stage.Damaged(fmt.Errorf("copy %s: %w", c.r.Path(f.Name), err), c.r.Dir(), c.r.Meta().Format)
		}
		if i == 0 { // something is there that another command must not discard unasked
			if err := c.dir.SaveProgress(true); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *copying) bytes(f stage.File) (n int64, err error) {
	ranges, err := c.share.Ranges(f)
	if err != nil {
		return 0, err
	}
	for r := range ranges {
		n += r.Len
	}
	return n, nil
}

// have reports whether an interrupted run has copied a file without damage. A damaged copy is removed.
func (c *copying) have(ctx context.Context, f stage.File) (bool, error) {
	name := c.dir.File(f.Name)
	if ok, err := vfs.Exists(c.fs, name); err != nil || !ok {
		return false, err
	}
	check, err := c.share.Checker(name, f)
	if err != nil {
		return false, err
	}
	err = stage.CheckFile(ctx, c.fs, name, f.Size, check, nil)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrInput) {
		return false, err
	}
	return false, c.fs.RemoveAll(name)
}

// file makes a durable copy of a file. The copy gets its name when it is complete.
func (c *copying) file(ctx context.Context, f stage.File) (err error) {
	to := c.dir.File(f.Name)
	dst, err := c.fs.Create(to + vfs.TempSuffix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if err := dst.Truncate(f.Size); err != nil {
		return err
	}
	if err := c.ranges(ctx, f, dst); err != nil {
		return err
	}
	if err := dst.Sync(); err != nil {
		return err
	}
	return c.fs.Rename(to+vfs.TempSuffix, to)
}

// ranges copies the ranges of a file that the slice has. It checks them as a whole file with zeros in all
// other ranges.
func (c *copying) ranges(ctx context.Context, f stage.File, dst vfs.File) (err error) {
	src, err := c.fs.Open(c.r.Path(f.Name))
	if err != nil {
		return err
	}
	defer src.Close() // only read from
	ranges, err := c.share.Ranges(f)
	if err != nil {
		return err
	}
	check, err := c.share.Checker(src.Name(), f)
	if err != nil {
		return err
	}
	at := int64(0) // that the checker has seen
	for run := range runs(ranges) {
		if err = skip(check, run.Offset-at); err != nil {
			break
		}
		if err = c.copy(ctx, src, dst, run.Offset, run.Len, check.Write); err != nil {
			break
		}
		at = run.Offset + run.Len
	}
	if end := check.End(); err == nil {
		err = end
	}
	return err
}

// runs joins ranges that follow each other without a gap.
func runs(ranges iter.Seq[binio.Range]) iter.Seq[binio.Range] {
	return func(yield func(binio.Range) bool) {
		var run binio.Range
		for r := range ranges {
			if r.Offset == run.Offset+run.Len {
				run.Len += r.Len
				continue
			}
			if run.Len > 0 && !yield(run) {
				return
			}
			run = r
		}
		if run.Len > 0 {
			yield(run)
		}
	}
}

// zeros stand for the bytes between parts.
var zeros [4 << 10]byte

// skip gives a checker the zeros between two ranges, which are not read.
func skip(check interface{ Write([]byte) (int, error) }, n int64) error {
	for n > 0 {
		k, err := check.Write(zeros[:min(n, int64(len(zeros)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

// copy copies bytes from one file to the same place of another, and calls see with each piece.
func (c *copying) copy(ctx context.Context, src, dst vfs.File, off, n int64, see func([]byte) (int, error)) error {
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := c.buf[:min(n, int64(len(c.buf)))]
		if k, err := src.ReadAt(b, off); k < len(b) {
			return fault.New(fault.ErrCorrupt, "%s: ends before byte %d (%v)", filepath.Base(src.Name()), off+int64(len(b)), err)
		}
		if _, err := see(b); err != nil {
			return err
		}
		if _, err := dst.WriteAt(b, off); err != nil {
			return err
		}
		c.task.Add(int64(len(b)))
		c.copied += int64(len(b))
		off, n = off+int64(len(b)), n-int64(len(b))
	}
	return nil
}
