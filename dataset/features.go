package dataset

import (
	"context"
	"fmt"
	"sync"

	"diskgnn/internal/binio"
	"diskgnn/internal/vfs"
)

// readStep is the most that ReadRows reads at once, so that it sees a cancel
// soon.
const readStep = 16 * Granule

// FeatureReader reads verified feature rows. It is safe for concurrent use and
// holds one granule per concurrent call, beside 4 bytes per MiB of features.
type FeatureReader struct {
	f        vfs.File
	name     string
	sums     binio.Sums
	rowBytes int64
	rows     int64
	edges    sync.Pool // of *edge: granules that a range covers in part
}

// edge is a verified granule that is kept because the next range, when rows are
// read in order, begins in it.
type edge struct {
	index int64
	data  []byte
}

// Features opens the feature rows for reading.
func (d *Dataset) Features() (*FeatureReader, error) {
	sums, err := d.sums(FeaturesFile)
	if err != nil {
		return nil, err
	}
	f, err := d.fs.Open(d.path(FeaturesFile))
	if err != nil {
		return nil, err
	}
	return &FeatureReader{f: f, name: d.path(FeaturesFile), sums: sums, rowBytes: int64(d.RowBytes()), rows: d.facts.Nodes}, nil
}

// Close closes the file.
func (r *FeatureReader) Close() error { return r.f.Close() }

// ReadRows fills buf, (hi−lo) × RowBytes long, with the rows [lo, hi). All bytes
// are checked or an error is returned; buf's content is undefined then. Rows
// read in ascending ranges cost one read of every byte.
func (r *FeatureReader) ReadRows(ctx context.Context, lo, hi int64, buf []byte) error {
	if lo < 0 || hi < lo || hi > r.rows || int64(len(buf)) != (hi-lo)*r.rowBytes {
		return fmt.Errorf("dataset: rows [%d, %d) of %d into %d bytes", lo, hi, r.rows, len(buf))
	}
	for off := lo * r.rowBytes; len(buf) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.read(buf, off)
		if err != nil {
			return err
		}
		off, buf = off+n, buf[n:]
	}
	return nil
}

// read fills the front of buf from off on and returns how much: as many whole
// granules as it can verify in place, or the part of one.
func (r *FeatureReader) read(buf []byte, off int64) (int64, error) {
	if off%Granule == 0 {
		n := min(int64(len(buf)), r.sums.Size-off, readStep)
		if off+n != r.sums.Size {
			n -= n % Granule
		}
		if n > 0 {
			if err := readAt(r.f, buf[:n], off); err != nil {
				return 0, err
			}
			return n, r.sums.Verify(r.name, off, buf[:n])
		}
	}
	e, _ := r.edges.Get().(*edge)
	if e == nil {
		e = &edge{index: -1, data: make([]byte, 0, Granule)}
	}
	defer r.edges.Put(e)
	i := off / Granule
	if e.index != i {
		e.index = -1
		e.data = e.data[:min(Granule, r.sums.Size-i*Granule)]
		if err := readAt(r.f, e.data, i*Granule); err != nil {
			return 0, err
		}
		if err := r.sums.Verify(r.name, i*Granule, e.data); err != nil {
			return 0, err
		}
		e.index = i
	}
	return int64(copy(buf, e.data[off-i*Granule:])), nil
}
