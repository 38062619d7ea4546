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

	// syncEvery is the number of bytes between syncs of writes through the page cache, so that a
	// cancelled measurement ends within a second on any present drive.
	syncEvery = 128 << 20
)

// Writes describes the load of a measurement: large writes to one file.
type Writes struct {
	Bytes int64 // of the file
	Load  Effort
	// Whole has the file written to its end even if the effort ends earlier. An effort of one pass
	// always does.
	Whole bool
}

// Write makes a file by large writes of incompressible bytes, several at a time, and makes it durable. It
// bypasses the page cache if possible. If the effort lasts longer than one pass, it writes the file again
// from the beginning; a cache that holds the whole file may then speed up the writes. The rate is in
// bytes per second, and includes the time of the last sync. The caller must remove the file, also after
// an error.
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

	whole, once bool // write the file to its end; write it only once
}

// pieces returns the number of writes of one pass.
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

// run writes pieces until the effort is over and, if required, the file is complete.
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
		if !errors.Is(err, unix.EINVAL) { // EINVAL: direct writes need other pages, or are not supported
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
