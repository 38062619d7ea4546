package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"

	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/mapped"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Files of an interrupted run are kept if they match checksums that were computed in memory when they were
// written. They are read once and compared. Everything else is made again. The checksums are in the journal
// and, if they are many, in scratch files with a checksum of their own.

// keptFile is a file that an interrupted run left, and its expected content.
type keptFile struct {
	name string
	size int64
	// regions yields the parts with known checksums, in order. All bytes between them are zero.
	regions iter.Seq[region]
}

// region is a part of a file.
type region struct {
	off, size int64
	crc       uint32
	rewritten bool // it is written again, so it is not compared
}

// checkDepth is the number of files that are checked at a time.
const checkDepth = 4

// writeBuffer is the bytes that are checked at a time, or gathered for one write through the
// page cache.
const writeBuffer = 1 << 20

var zeros [binio.Page]byte

// checkKept reads files of the directory and compares them. Their expected content may come from the mapped
// files in from.
func checkKept(ctx context.Context, dir *stage.Dir, files []keptFile, from ...*mapped.File) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(checkDepth)
	for _, f := range files {
		g.Go(func() error { return mapped.Guard(func() error { return f.check(ctx, dir) }, from...) })
	}
	return g.Wait()
}

// check compares the file with its expected content.
func (k *keptFile) check(ctx context.Context, dir *stage.Dir) (err error) {
	f, err := openKept(dir, k.name, k.size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := keptReader{ctx: ctx, f: f, buf: make([]byte, writeBuffer)}
	at := int64(0)
	for p := range k.regions {
		if err := r.zeros(at, p.off); err != nil {
			return err
		}
		at = p.off + p.size
		if p.rewritten {
			continue
		}
		crc := uint32(0)
		if err := r.each(p.off, at, func(b []byte) error { crc = binio.UpdateCRC(crc, b); return nil }); err != nil {
			return err
		}
		if crc != p.crc {
			return touched(f.Name(), binio.BadRange(f.Name(), p.off, p.size))
		}
	}
	return r.zeros(at, k.size)
}

// openKept opens a file that an interrupted run left. Another size than the given one is an error.
func openKept(dir *stage.Dir, name string, size int64) (vfs.File, error) {
	name = dir.File(name)
	f, err := dir.FS().Open(name)
	if err != nil {
		return nil, touched(name, err)
	}
	st, err := f.Stat()
	if err == nil && st.Size() != size {
		err = touched(name, fmt.Errorf("it has %d bytes instead of %d", st.Size(), size))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// keptReader reads a file in pieces.
type keptReader struct {
	ctx context.Context
	f   vfs.File
	buf []byte
}

// each calls do with the bytes lo to hi-1, piece by piece.
func (r *keptReader) each(lo, hi int64, do func(b []byte) error) error {
	for lo < hi {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		b := r.buf[:min(int64(len(r.buf)), hi-lo)]
		if err := readKept(r.f, b, lo); err != nil {
			return err
		}
		if err := do(b); err != nil {
			return err
		}
		lo += int64(len(b))
	}
	return nil
}

// readKept fills b from byte off of a file on.
func readKept(f vfs.File, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return touched(f.Name(), errors.New("it was truncated"))
	}
	return fmt.Errorf("read %s: %w", f.Name(), err)
}

// zeros makes sure that the bytes lo to hi-1 are zero.
func (r *keptReader) zeros(lo, hi int64) error {
	at := lo
	return r.each(lo, hi, func(b []byte) error {
		for len(b) > 0 {
			n := min(len(b), len(zeros))
			if !bytes.Equal(b[:n], zeros[:n]) {
				return touched(r.f.Name(), fmt.Errorf("bytes %d to %d are not zero", at, at+int64(n)))
			}
			b, at = b[n:], at+int64(n)
		}
		return nil
	})
}

// sumRegions yields the granules of a table.
func sumRegions(s binio.Sums) iter.Seq[region] {
	return func(yield func(region) bool) {
		for i, crc := range s.CRC {
			off := int64(i) * s.Granule
			if !yield(region{off: off, size: min(s.Granule, s.Size-off), crc: crc}) {
				return
			}
		}
	}
}

// touched returns the error for a file that has changed since the interrupted run. The error names the
// remedy, since a resumed run would find the same change again.
func touched(name string, err error) error {
	return fault.New(fault.ErrCorrupt, "%s was touched since the interruption (%v): remove %s and run the command again", name, err, dirOf(name))
}

// dirOf returns the directory of a file of an interrupted run.
func dirOf(name string) string { return filepath.Dir(name) }
