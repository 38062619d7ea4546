package driverate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

const (
	chunk = 1 << 20 // bytes of one write
	depth = 8       // writes under way
	page  = 4096

	// syncEvery is the number of bytes written through the page cache after which they are made
	// durable, so that a cancelled measurement ends within a second on any drive of today.
	syncEvery = 128 << 20
)

// Writes describes the load of a measurement: large writes to one file.
type Writes struct {
	Bytes int64 // of the file
	Load  Effort
	// Whole makes the file be written to its end even if the effort ends earlier. An effort of
	// one pass always writes it whole.
	Whole bool
}

// Write makes a file in large writes of bytes that no drive can compress, several at a time and past
// the page cache where that can be, and makes it durable. Where the effort lasts longer than the
// file, it is written again from its beginning: a cache that holds it may answer from then on. The
// rate is in bytes per second, the time until they are durable included. The caller removes the
// file, also after an error.
func Write(ctx context.Context, fsys vfs.FS, name string, o Writes) (r Rate, err error) {
	size := o.Bytes
	if size <= 0 {
		return r, fault.New(fault.ErrUsage, "write rate: a file of %d bytes cannot be written", size)
	}
	w := &writing{size: size, whole: o.Whole || o.Load.Once(), once: o.Load.Once()}
	if err := w.open(fsys, name); err != nil {
		return r, fmt.Errorf("write rate: %w", err)
	}
	defer func() {
		if closed := w.close(); closed != nil {
			r, err = Rate{}, errors.Join(err, fmt.Errorf("write rate: %w", closed))
		}
	}()
	if err := vfs.Reserve(w.file, size); err != nil {
		return r, fmt.Errorf("write rate: size %s: %w", name, err)
	}
	w.meter = NewMeter(o.Load)
	g, ctx := errgroup.WithContext(ctx)
	for k := range min(depth, w.pieces()) {
		g.Go(func() error { return w.run(ctx, byte(k)) })
	}
	if err := g.Wait(); err != nil {
		return r, fmt.Errorf("write rate: write %s: %w", name, err)
	}
	if err := w.file.Sync(); err != nil {
		return r, fmt.Errorf("write rate: sync %s: %w", name, err)
	}
	w.meter.Sync()
	return w.meter.Rate(), nil
}

// writing is a file under way.
type writing struct {
	size   int64
	file   vfs.File
	direct vfs.File // nil: all through the page cache
	next   atomic.Int64
	meter  *Meter

	whole, once bool // the file is written to its end, and no further
}

// pieces returns how many writes the whole file takes.
func (w *writing) pieces() int64 { return (w.size + chunk - 1) / chunk }

func (w *writing) open(fsys vfs.FS, name string) (err error) {
	if w.file, err = fsys.Create(name); err != nil {
		return err
	}
	w.direct, err = vfs.OpenDirect(fsys, name)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return errors.Join(err, w.file.Close())
	}
	return nil
}

func (w *writing) close() error {
	if w.direct != nil {
		return errors.Join(w.direct.Close(), w.file.Close())
	}
	return w.file.Close()
}

// run writes pieces until the file is whole and the effort over.
func (w *writing) run(ctx context.Context, seed byte) error {
	buf := aligned(chunk)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(buf)
	for {
		piece := w.next.Add(1) - 1
		if first := piece < w.pieces(); w.once && !first || !w.meter.More() && !(w.whole && first) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := 0; i < len(buf); i += page { // no two pages alike
			binary.LittleEndian.PutUint64(buf[i:], uint64(piece)*chunk+uint64(i))
		}
		at := piece % w.pieces() * chunk
		n := min(chunk, w.size-at)
		if err := w.write(buf[:n], at); err != nil {
			return err
		}
		w.meter.Done(n)
	}
}

func (w *writing) write(b []byte, at int64) error {
	if w.direct != nil && len(b) == chunk {
		_, err := w.direct.WriteAt(b, at)
		if !errors.Is(err, unix.EINVAL) { // pages of another size, or none at all
			return err
		}
	}
	if _, err := w.file.WriteAt(b, at); err != nil {
		return err
	}
	if (at+chunk)%syncEvery == 0 {
		return w.file.Sync()
	}
	return nil
}

// aligned returns n bytes that begin on a page.
func aligned(n int) []byte {
	b := make([]byte, n+page)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) % page
	return b[skip:][:n:n]
}
