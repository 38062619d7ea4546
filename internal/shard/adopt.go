package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Source is a finished directory's file, to become part of another directory.
type Source struct {
	Dir  string     // that it lies in
	File stage.File // its name, here and there, and its size
}

// Adopted says how files came into a directory, in bytes.
type Adopted struct {
	Linked int64 // that have two names now
	Copied int64 // by this run
}

// copyBytes is copied at a time.
const copyBytes = 1 << 20

// Adopt takes files into a directory that is being written: by a second name for
// the same bytes where the file system can give one, else as copies, for which
// there must be room. It may be interrupted anywhere and called again. Files
// adopted have their names in two directories, so nobody may write to them.
func Adopt(ctx context.Context, dir *stage.Dir, files []Source, rep progress.Reporter) (Adopted, error) {
	var a Adopted
	var rest []Source // to be copied
	var need int64
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return a, err
		}
		done, err := link(dir, f)
		switch {
		case err != nil:
			return a, fmt.Errorf("adopt %s: %w", f.path(), err)
		case done:
			a.Linked += f.File.Size
		default:
			rest, need = append(rest, f), need+f.File.Size
		}
	}
	if need == 0 {
		return a, nil
	}
	if err := dir.CheckFree(need); err != nil {
		return a, err
	}
	task := rep.Task("copy", need, progress.Bytes)
	defer task.Done()
	buf := make([]byte, copyBytes)
	for _, f := range rest {
		if err := duplicate(ctx, dir, f, buf, task); err != nil {
			return a, fmt.Errorf("copy %s: %w", f.path(), err)
		}
		a.Copied += f.File.Size
	}
	return a, nil
}

func (f Source) path() string { return filepath.Join(f.Dir, f.File.Name) }

// link gives a file its second name, unless an earlier run has adopted it
// already. It reports false where only a copy is possible.
func link(dir *stage.Dir, f Source) (bool, error) {
	to := dir.File(f.File.Name)
	if st, err := dir.FS().Stat(to); err == nil {
		// Copies get their names when they are whole.
		if st.Mode().IsRegular() && st.Size() == f.File.Size {
			return true, nil
		}
		if err := dir.FS().RemoveAll(to); err != nil {
			return false, err
		}
	}
	err := dir.FS().Link(f.path(), to)
	if vfs.CannotLink(err) {
		return false, nil
	}
	return err == nil, err
}

// duplicate copies a file so that it has its name only when it is whole.
func duplicate(ctx context.Context, dir *stage.Dir, f Source, buf []byte, task progress.Task) error {
	to := dir.File(f.File.Name)
	src, err := dir.FS().Open(f.path())
	if err != nil {
		return err
	}
	defer src.Close()
	if err := write(ctx, dir.FS(), to+vfs.TempSuffix, src, f.File.Size, buf, task); err != nil {
		return err
	}
	return dir.FS().Rename(to+vfs.TempSuffix, to)
}

// write makes a durable file of what src has.
func write(ctx context.Context, fsys vfs.FS, name string, src io.Reader, size int64, buf []byte, task progress.Task) (err error) {
	dst, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	var done int64
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(src, buf)
		if _, err := dst.Write(buf[:n]); err != nil {
			return err
		}
		task.Add(int64(n))
		done += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		} else if err != nil {
			return err
		}
	}
	if done != size {
		return fault.New(fault.ErrCorrupt, "has %d bytes instead of %d", done, size)
	}
	return dst.Sync()
}
