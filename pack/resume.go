package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/mapped"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
)

// Scratch files that a resumed packing starts from.
const (
	partFile  = "index.tmp"  // the first pass's index, without chunk checksums
	stateFile = "ranges.tmp" // rangeState after the last durable range
)

// journal is the progress that the directory's journal holds.
type journal struct {
	// Graphs: the first pass is durable, and this is what it found.
	Graphs bool            `json:"graphs"`
	Facts  *packfile.Facts `json:"facts,omitempty"`
	Files  []stage.File    `json:"files,omitempty"`
	// Requests and SSDRequests are the CRC-32C of the scratch lists of rows.
	Requests    uint32 `json:"requests_crc,omitempty"`
	SSDRequests uint32 `json:"ssd_requests_crc,omitempty"`
	// Slots is the CRC-32C of the list of the cache's first content under policy min.
	Slots uint32 `json:"slots_crc,omitempty"`
}

// saveFirstPass makes the end of the first pass durable.
func (p *Packing) saveFirstPass(f *firstPass) error {
	form := p.rawForm()
	f.index.SharePieces(form, make([]uint32, pieces(f.index, form)), nil)
	b, err := f.index.Encode()
	if err != nil {
		return err
	}
	if err := vfs.WriteFile(p.fs, p.dir.File(partFile), b); err != nil {
		return err
	}
	if err := p.fs.SyncDir(p.dir.Path()); err != nil {
		return err
	}
	return p.dir.SaveProgress(journal{Graphs: true, Facts: &f.facts, Files: f.files, Requests: f.requests, SSDRequests: f.ssdRequests, Slots: f.entries})
}

// loadFirstPass returns what an interrupted run's first pass left, or nil.
func (p *Packing) loadFirstPass() (*firstPass, error) {
	var j journal
	if _, err := p.dir.Progress(&j); err != nil || !j.Graphs || j.Facts == nil {
		return nil, err
	}
	b, err := vfs.ReadFile(p.fs, p.dir.File(partFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the run before was about to publish what it made: all is made again
	}
	if err != nil {
		return nil, err
	}
	x, err := packfile.DecodeIndex(b, p.rawForm())
	if err != nil {
		return nil, touched(p.dir.File(partFile), err)
	}
	return &firstPass{facts: *j.Facts, index: x, files: j.Files, requests: j.Requests, ssdRequests: j.SSDRequests, entries: j.Slots}, nil
}

// What an interrupted run left is believed only as far as it matches checksums that were
// made of the bytes in memory, when they were written: whatever is kept is read once and
// compared, the rest is made again. The checksums lie in the journal and, where they
// are many, in scratch files that carry one of their own.

// keptFile is a file that an interrupted run left, and what it must contain.
type keptFile struct {
	name string
	size int64
	// regions yields the parts that are known, in order; what lies between them is zero.
	regions iter.Seq[region]
}

// region is a part of a file.
type region struct {
	off, size int64
	crc       uint32
	rewritten bool // it is written again, whatever is there
}

// checkDepth is the number of files that are checked at a time, each by pieces of
// writeBuffer bytes.
const checkDepth = 4

// checkKept reads files of the directory and compares them. What they must contain may
// come from mapped files.
func checkKept(ctx context.Context, dir *stage.Dir, files []keptFile, from ...*mapped.File) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(checkDepth)
	for _, f := range files {
		g.Go(func() error { return mapped.Guard(func() error { return f.check(ctx, dir) }, from...) })
	}
	return g.Wait()
}

// check compares the file with what it must contain.
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

// openKept opens a file that an interrupted run left, which must have its size.
func openKept(dir *stage.Dir, name string, size int64) (vfs.File, error) {
	name = dir.File(name)
	f, err := dir.FS().Open(name)
	if err != nil {
		return nil, touched(name, err)
	}
	st, err := f.Stat()
	if err == nil && st.Size() != size {
		err = touched(name, fmt.Errorf("%d bytes instead of %d", st.Size(), size))
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
		if n, err := r.f.ReadAt(b, lo); n < len(b) {
			if errors.Is(err, io.EOF) {
				return touched(r.f.Name(), errors.New("it was cut"))
			}
			return fmt.Errorf("read %s: %w", r.f.Name(), err)
		}
		if err := do(b); err != nil {
			return err
		}
		lo += int64(len(b))
	}
	return nil
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

// checkFirstPass makes sure of the files that an interrupted run's first pass finished:
// graphs and, under policy min, the refill records.
func (p *Packing) checkFirstPass(ctx context.Context, part packfile.Part, kept *firstPass) error {
	size := map[string]int64{}
	sums := map[string]string{}
	for _, f := range kept.files {
		size[f.Name], sums[f.Name] = f.Size, f.Checksum
	}
	var files []keptFile
	for g := part.Lo; g < part.Hi; g++ {
		lo, hi := kept.facts.GroupSpan(g)
		name := packfile.GraphFile(g)
		files = append(files, keptFile{name, size[name], func(yield func(region) bool) {
			for i := lo; i < hi; i++ {
				t := &kept.index.Train[i]
				if !yield(region{off: t.GraphOffset, size: int64(t.GraphBytes), crc: t.GraphCRC}) {
					return
				}
			}
		}})
	}
	if part.Common {
		files = append(files, keptFile{packfile.EvalGraphFile, size[packfile.EvalGraphFile], func(yield func(region) bool) {
			for _, e := range slices.Concat(kept.index.Valid, kept.index.Test) {
				if !yield(region{off: e.GraphOffset, size: int64(e.GraphBytes), crc: e.GraphCRC}) {
					return
				}
			}
		}})
	}
	if n, ok := size[packfile.RefillFile]; ok {
		table, err := p.refillSums(size[packfile.RefillSums], sums[packfile.RefillSums])
		if err != nil {
			return err
		}
		files = append(files, keptFile{packfile.RefillFile, n, sumRegions(table)})
	}
	return checkKept(ctx, p.dir, files)
}

// refillSums reads the table of refill.bin, which has the given size and checksum.
func (p *Packing) refillSums(size int64, checksum string) (s binio.Sums, err error) {
	f, err := openKept(p.dir, packfile.RefillSums, size)
	if err != nil {
		return s, err
	}
	b := make([]byte, size)
	_, err = io.ReadFull(f, b)
	if err = errors.Join(err, f.Close()); err != nil {
		return s, err
	}
	if binio.Hash(b) != checksum {
		return s, touched(f.Name(), errors.New("it does not match its checksum"))
	}
	return binio.DecodeSums(b)
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

// touched says that a file of an interrupted run is not what that run left, and
// what to do: the journal says that it is, so a resumed run would find it again.
func touched(name string, err error) error {
	return fault.New(fault.ErrCorrupt, "%s was touched since the interruption (%v): remove %s and run the command again", name, err, dirOf(name))
}

// dirOf returns the directory that a file of an interrupted run lies in.
func dirOf(name string) string { return filepath.Dir(name) }
