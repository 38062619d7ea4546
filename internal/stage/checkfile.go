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

// checkPiece is the bytes that CheckFile reads at a time.
const checkPiece = 1 << 20

// CheckFile reads a whole file, which must have size bytes, writes the bytes to the checker, and calls
// its End. It calls read, unless that is nil, with each piece; the piece is valid during the call. It
// holds 1 MiB. A mismatch is an error of kind fault.ErrCorrupt.
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

// damaged is an error about a finished directory, and the command that makes the directory again.
type damaged struct {
	err  error
	cure string
}

func (d *damaged) Error() string { return d.err.Error() + "; " + d.cure }
func (d *damaged) Unwrap() error { return d.err }

// Damaged adds a remedy to an error of kind fault.ErrCorrupt about a finished directory: the command
// that makes a directory of this format again. It returns other errors, and errors with such a remedy,
// unchanged. The zero Format stands for an unknown format.
func Damaged(err error, dir string, format Format) error {
	if !errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	if _, ok := errors.AsType[*damaged](err); ok {
		return err
	}
	return &damaged{err, fmt.Sprintf("%s is damaged: make it again, by %s with --force, or from a copy", dir, format.Maker())}
}

// plainly returns an error without the remedy that Damaged added.
func plainly(err error) error {
	if d, ok := errors.AsType[*damaged](err); ok && errors.Is(err, fault.ErrCorrupt) {
		return d.err
	}
	return err
}

// Maker names the commands that make directories of a format, as "its diskgnn pack".
func (f Format) Maker() string {
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
	case Prediction:
		return "its diskgnn predict" + part
	}
	return "the command that made it" + part
}
