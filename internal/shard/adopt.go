package shard

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Source is a finished directory's file, to become part of another directory.
type Source struct {
	Dir  string     // that it lies in
	File stage.File // its name, here and there, and its size
	// Check returns a checker of the file's bytes, which goes by the shard's checksums;
	// name is the file's, for its errors.
	Check func(name string) (binio.Checker, error)
}

// Adopted says how files came into a directory, in bytes.
type Adopted struct {
	Linked int64 // that have two names now
	Copied int64 // by this run
}

// Adopt takes files into a directory that is being written: by a second name for the same bytes
// where the file system can give one, else as copies, for which there must be room. Every byte
// is checked against the shard's checksums on the way, also of files that an earlier run has
// adopted: those that are not what they were are adopted anew. It may be interrupted anywhere
// and called again. Files adopted have their names in two directories, so they must not be
// written to.
func Adopt(ctx context.Context, dir *stage.Dir, files []Source, rep progress.Reporter) (Adopted, error) {
	a := adoption{dir: dir, fs: dir.FS()}
	var total int64
	for _, f := range files {
		total += f.File.Size
	}
	a.task = rep.Task("check and take files", total, progress.Bytes)
	defer a.task.Done()
	var rest []Source // to be copied
	var need int64
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return a.Adopted, err
		}
		done, err := a.link(ctx, f)
		switch {
		case err != nil:
			return a.Adopted, a.failed("take", f, err)
		case done:
			a.Linked += f.File.Size
		default:
			rest, need = append(rest, f), need+f.File.Size
		}
	}
	if need == 0 {
		return a.Adopted, nil
	}
	if err := dir.CheckFree(need); err != nil {
		return a.Adopted, err
	}
	for i, f := range rest {
		if err := a.duplicate(ctx, f); err != nil {
			return a.Adopted, a.failed("copy", f, err)
		}
		a.Copied += f.File.Size
		if i == 0 { // something is there that another command must not discard unasked
			if err := dir.SaveProgress(true); err != nil {
				return a.Adopted, err
			}
		}
	}
	return a.Adopted, nil
}

// adoption is one call of Adopt.
type adoption struct {
	Adopted
	dir  *stage.Dir
	fs   vfs.FS
	task progress.Task
}

func (f Source) path() string { return filepath.Join(f.Dir, f.File.Name) }

// failed names the file. What is wrong with a shard's bytes is mended by making the
// shard again.
func (a *adoption) failed(what string, f Source, err error) error {
	return stage.Damaged(fmt.Errorf("%s %s: %w", what, f.path(), err), f.Dir, a.dir.Format().Shard())
}

// link gives a file its second name, unless an earlier run has adopted it
// already. It reports false where only a copy is possible.
func (a *adoption) link(ctx context.Context, f Source) (bool, error) {
	to := a.dir.File(f.File.Name)
	if ok, err := vfs.Exists(a.fs, to); err != nil {
		return false, err
	} else if ok {
		err := a.check(ctx, f, to, nil)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrInput) {
			return false, err
		}
		// It may be the shard's own file, which is looked at below.
		if err := a.fs.RemoveAll(to); err != nil {
			return false, err
		}
	}
	err := a.fs.Link(f.path(), to)
	if vfs.CannotLink(err) {
		return false, nil
	}
	if err == nil {
		err = a.check(ctx, f, f.path(), nil)
	}
	return err == nil, err
}

// check reads a file that must have the source's bytes, and calls read, unless that is
// nil, with each piece.
func (a *adoption) check(ctx context.Context, f Source, name string, read func([]byte) error) error {
	c, err := f.Check(name)
	if err != nil {
		return err
	}
	return stage.CheckFile(ctx, a.fs, name, f.File.Size, c, func(piece []byte) error {
		a.task.Add(int64(len(piece)))
		if read == nil {
			return nil
		}
		return read(piece)
	})
}

// duplicate makes a durable copy of a file, which has its name only when it is whole.
func (a *adoption) duplicate(ctx context.Context, f Source) (err error) {
	to := a.dir.File(f.File.Name)
	dst, err := a.fs.Create(to + vfs.TempSuffix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	err = a.check(ctx, f, f.path(), func(piece []byte) error {
		_, err := dst.Write(piece)
		return err
	})
	if err != nil {
		return err
	}
	if err := dst.Sync(); err != nil {
		return err
	}
	return a.fs.Rename(to+vfs.TempSuffix, to)
}
