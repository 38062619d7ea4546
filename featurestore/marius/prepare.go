package marius

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
)

// prepared returns the checksums of the file of rows by partition, and the bytes read. It makes the file
// if it is missing or does not match the samples. places has the place of every node's row.
func (d *design) prepared(ctx context.Context, places []uint32, rep progress.Reporter) (sums *binio.Sums, read int64, err error) {
	sums, err = d.readSums()
	switch {
	case err == nil:
		return sums, d.sumsRead(), nil
	case !errors.Is(err, fs.ErrNotExist):
		rep.Logf("%s is made again: %v", d.file(), err)
	}
	if sums, read, err = d.prepare(ctx, places, rep); err != nil {
		return nil, 0, fmt.Errorf("lay out the rows by partition: %w", err)
	}
	return sums, read, nil
}

func (d *design) sumsRead() int64 {
	return int64(fingerprintBytes) + binio.SumsBytes(d.table.size(), binio.Page)
}

// fingerprintBytes is the length of a fingerprint.
const fingerprintBytes = 64

func (d *design) readSums() (*binio.Sums, error) {
	fsys := d.source.FS()
	b, err := vfs.ReadSmall(fsys, d.file()+".sums", fingerprintBytes+binio.SumsBytes(d.table.size(), binio.Page))
	if err != nil {
		return nil, err
	}
	if len(b) < fingerprintBytes || string(b[:fingerprintBytes]) != d.source.Lineage().Samples {
		return nil, fault.New(fault.ErrLineage, "it was made from other samples")
	}
	s, err := binio.DecodeSums(b[fingerprintBytes:])
	if err != nil {
		return nil, err
	}
	st, err := fsys.Stat(d.file())
	switch {
	case err != nil:
		return nil, err
	case s.Granule != binio.Page || s.Size != d.table.size() || st.Size() != s.Size:
		return nil, fault.New(fault.ErrCorrupt, "it has %d bytes, and checksums of %d bytes, instead of %d", st.Size(), s.Size, d.table.size())
	}
	return &s, nil
}

// prepare makes the file and its checksums, unless another process has made them meanwhile. If another
// process is making them, the error is of kind fault.ErrLocked.
func (d *design) prepare(ctx context.Context, places []uint32, rep progress.Reporter) (sums *binio.Sums, read int64, err error) {
	fsys, tmp := d.source.FS(), d.file()+vfs.TempSuffix
	lock, err := fsys.Lock(tmp)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if sums, err = d.readSums(); err == nil {
		return sums, d.sumsRead(), fsys.Remove(tmp)
	}
	began := time.Now()
	if sums, err = d.replace(ctx, tmp, places, rep); err != nil {
		if err := fsys.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) { // free the disk space
			rep.Logf("%s was not removed: %v", tmp, err)
		}
		return nil, 0, err
	}
	read = d.facts.Nodes * d.table.row
	rep.Logf("laid out the rows by partition, once for these samples: %s read, %s written to %s in %s",
		budget.FormatBytes(read), budget.FormatBytes(d.table.size()), d.file(), units.Duration(time.Since(began)))
	return sums, read, nil
}

// replace writes the rows to tmp, then the checksums to their file, and renames tmp last: checksums without a
// file are ignored.
func (d *design) replace(ctx context.Context, tmp string, places []uint32, rep progress.Reporter) (*binio.Sums, error) {
	fsys, dir := d.source.FS(), d.source.Dir()
	f, err := d.makeRoom(tmp)
	if err != nil {
		return nil, err
	}
	sums, err := d.write(ctx, f, places, rep)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if err := vfs.ReplaceFile(fsys, d.file()+".sums", append([]byte(d.source.Lineage().Samples), sums.Encode()...)); err != nil {
		return nil, err
	}
	if err := fsys.Rename(tmp, d.file()); err != nil {
		return nil, err
	}
	return sums, fsys.SyncDir(dir)
}

// makeRoom returns the empty file to write, with enough free space on the disk. First it removes an old file,
// and the rest of an interrupted run.
func (d *design) makeRoom(tmp string) (_ vfs.File, err error) {
	fsys := d.source.FS()
	if err := fsys.Remove(d.file()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := fsys.OpenReadWrite(tmp)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := f.Truncate(0); err != nil {
		return nil, err
	}
	free, err := fsys.Free(d.source.Dir())
	if err != nil {
		return nil, err
	}
	if need := d.table.size() + d.sumsRead(); need > free {
		return nil, fault.New(fault.ErrBudget, "%s needs %s of disk, but only %s is free: make room", d.file(), budget.FormatBytes(need), budget.FormatBytes(free))
	}
	return f, f.Truncate(d.table.size())
}

func (d *design) write(ctx context.Context, f vfs.File, places []uint32, rep progress.Reporter) (_ *binio.Sums, err error) {
	table, err := d.data.Features()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, table.Close()) }()
	w := &writer{tableLayout: &d.table, file: f, sums: binio.NewScatter(d.table.size(), binio.Page), pending: make([]pending, d.table.partitions())}
	step := max(readBytes/d.table.row, 1)
	buf := make([]byte, min(step, d.facts.Nodes)*d.table.row)
	task := rep.Task("lay out the rows by partition", d.facts.Nodes, progress.Rows)
	defer task.Done()
	for lo := int64(0); lo < d.facts.Nodes; lo += step {
		hi := min(lo+step, d.facts.Nodes)
		rows := buf[:(hi-lo)*d.table.row]
		if err := table.ReadRows(ctx, lo, hi, rows); err != nil {
			return nil, err
		}
		for v := lo; v < hi; v++ {
			if err := w.put(int64(places[v]), rows[(v-lo)*d.table.row:][:d.table.row]); err != nil {
				return nil, err
			}
		}
		task.Add(hi - lo)
	}
	for p := range w.pending {
		if err := w.flush(p); err != nil {
			return nil, err
		}
	}
	sums := w.sums.Sums()
	return &sums, f.Sync()
}

// writer collects the rows of every partition. The rows of a partition come in the order of their places.
type writer struct {
	*tableLayout
	file    vfs.File
	sums    *binio.Scatter
	pending []pending // of every partition
}

// pending has the rows of a partition that are not written yet. done is the number of bytes written before.
type pending struct {
	rows []byte
	done int64
}

func (w *writer) put(place int64, row []byte) error {
	p := w.of(place)
	q := &w.pending[p]
	if at := w.begin[p] + (q.done+int64(len(q.rows)))/w.row; at != place {
		return fmt.Errorf("row %d of partition %d is out of order: row %d is next", place, p, at)
	}
	if q.rows == nil {
		q.rows = make([]byte, 0, w.scatterRows()*w.row)
	}
	q.rows = append(q.rows, row...)
	if len(q.rows) < cap(q.rows) {
		return nil
	}
	return w.flush(p)
}

func (w *writer) flush(p int) error {
	q := &w.pending[p]
	if len(q.rows) == 0 {
		return nil
	}
	at := w.offset[p] + q.done
	if _, err := w.file.WriteAt(q.rows, at); err != nil {
		return err
	}
	w.sums.Put(at, q.rows)
	q.done += int64(len(q.rows))
	q.rows = q.rows[:0]
	return nil
}
