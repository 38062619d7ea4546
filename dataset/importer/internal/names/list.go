package names

import (
	"context"
	"errors"
	"fmt"
	"io"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// listBlock is how many numbers a block of a List has.
const listBlock = 1 << 15

// List is a list of node numbers in a scratch file, which has no name any more. It is written once:
// Add, then Done. Blocks are checked when they are read. After Done, Each may be called several times,
// also concurrently.
type List struct {
	f    vfs.File
	name string
	buf  []uint32
	crcs []uint32
	n    int64
}

// NewList returns an empty list. scratch is the path at which it creates, and removes, the scratch
// file.
func NewList(fsys vfs.FS, scratch string) (*List, error) {
	f, err := fsys.Create(scratch)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", scratch, err)
	}
	if err := fsys.Remove(scratch); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &List{f: f, name: scratch, buf: make([]uint32, 0, listBlock)}, nil
}

// Len returns the number of entries.
func (l *List) Len() int64 { return l.n }

// Add appends a number.
func (l *List) Add(number uint32) error {
	l.n++
	if l.buf = append(l.buf, number); len(l.buf) == cap(l.buf) {
		return l.write()
	}
	return nil
}

func (l *List) write() error {
	if len(l.buf) == 0 {
		return nil
	}
	raw := binio.Bytes(l.buf)
	if _, err := l.f.Write(raw); err != nil {
		return fmt.Errorf("write %s: %w", l.name, err)
	}
	l.crcs = append(l.crcs, binio.CRC(raw))
	l.buf = l.buf[:0]
	return nil
}

// Done writes the rest of the list. It comes after the last Add and before Each.
func (l *List) Done() error {
	err := l.write()
	l.buf = nil
	return err
}

// Each calls see for consecutive pieces of the list. All pieces but the last have an even length. The
// slice is valid during the call.
func (l *List) Each(ctx context.Context, see func(numbers []uint32) error) error {
	buf := make([]uint32, min(l.n, listBlock))
	for i, crc := range l.crcs {
		if err := ctx.Err(); err != nil {
			return err
		}
		first := int64(i) * listBlock
		some := buf[:min(l.n-first, listBlock)]
		raw := binio.Bytes(some)
		if n, err := l.f.ReadAt(raw, 4*first); n < len(raw) {
			if errors.Is(err, io.EOF) {
				err = fault.New(fault.ErrCorrupt, "the file shrank")
			}
			return fmt.Errorf("read %s: bytes %d to %d: %w", l.name, 4*first, 4*first+int64(len(raw)), err)
		}
		if binio.CRC(raw) != crc {
			return binio.BadRange(l.name, 4*first, int64(len(raw)))
		}
		if err := see(some); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the scratch file, which frees its disk space.
func (l *List) Close() error { return l.f.Close() }
