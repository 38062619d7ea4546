package stage

import (
	"context"
	"errors"
	"fmt"
	"io"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// checkPiece is read at a time by CheckFile.
const checkPiece = 1 << 20

// CheckFile reads a whole file, which must have size bytes, gives them to the checker, and calls its
// End. read, unless nil, is called with the bytes of each piece. It holds 1 MiB.
func CheckFile(ctx context.Context, fsys vfs.FS, name string, size int64, c binio.Checker, read func(piece []byte) error) (err error) {
	defer func() {
		if end := c.End(); err == nil {
			err = end
		}
	}()
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, min(size+1, checkPiece))
	var at int64
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, rerr := io.ReadFull(f, buf)
		at += int64(n)
		if rerr != nil && !errors.Is(rerr, io.EOF) && !errors.Is(rerr, io.ErrUnexpectedEOF) {
			return fmt.Errorf("read %s: %w", name, rerr)
		}
		if at > size || rerr != nil && at != size {
			return fault.New(fault.ErrCorrupt, "%s does not have its %d bytes", name, size)
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return err
		}
		if read != nil {
			if err := read(buf[:n]); err != nil {
				return err
			}
		}
		if rerr != nil {
			return nil
		}
	}
}

// damaged is an error about a finished directory, with the command that makes it again.
type damaged struct {
	err  error
	cure string
}

func (d *damaged) Error() string { return d.err.Error() + "; " + d.cure }
func (d *damaged) Unwrap() error { return d.err }

// Damaged adds to an error of kind fault.ErrCorrupt on a finished directory of the given
// format how the directory is made again. Other errors, and those that say it already,
// it returns as they are; the zero Format stands for one that is not known.
func Damaged(err error, dir string, format Format) error {
	if !errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	if _, ok := errors.AsType[*damaged](err); ok {
		return err
	}
	return &damaged{err, fmt.Sprintf("%s is damaged: make it again, by %s with --force, or from a copy", dir, format.maker())}
}

// plainly returns an error without the addition of Damaged.
func plainly(err error) error {
	if d, ok := errors.AsType[*damaged](err); ok && errors.Is(err, fault.ErrCorrupt) {
		return d.err
	}
	return err
}

// maker names the commands that make directories of a format.
func (f Format) maker() string {
	name, part := f, ""
	if whole, ok := f.Whole(); ok {
		name, part = whole, " --shard"
	}
	switch name.kind() {
	case RoleDataset:
		return "its diskgnn generate or import" + part
	case RoleSamples:
		return "its diskgnn presample" + part
	case RolePack:
		return "its diskgnn pack" + part
	}
	return "the command that made it"
}
