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

// CheckFile reads a whole file, which must have so many bytes, and gives them to the
// checker, whose End it calls. read, unless nil, is called with the bytes of each piece.
// It holds 1 MiB.
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
			return fault.New(fault.ErrCorrupt, "%s has other than its %d bytes", name, size)
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
