package packed

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
)

// lazySums is a file's table of page checksums, read when it is first needed.
type lazySums struct {
	once sync.Once
	sums binio.Sums
	err  error
}

func (l *lazySums) load(fsys vfs.FS, r *packfile.Reader, name string) (*binio.Sums, error) {
	l.once.Do(func() { l.sums, l.err = r.Sums(fsys, name) })
	return &l.sums, l.err
}

// ssdRows returns the place, in the matrix, of the batch's rows from the SSD level, as
// far as RAM does not hold them: they follow all cold rows.
func (s *Store) ssdRows(batch int) (first, n int) {
	t := &s.pack.Index().Train[batch]
	return t.ColdRows(s.pack.Index().Bands - 1), t.SSDRows(s.layout.Through)
}

// startSSD submits the first reads of the batch's rows from the SSD level.
func (s *Store) startSSD(sl *Slot) error {
	first, n := s.ssdRows(sl.batch)
	if n == 0 {
		return nil
	}
	group := s.pack.Group(sl.batch)
	file, err := s.files.take(packfile.SSDFile(group))
	if err != nil {
		return err
	}
	sl.ssd = file
	sums, err := file.sums.load(s.fs, s.pack, packfile.SSDSums(group))
	if err != nil {
		return err
	}
	before := sl.BytesRead
	err = s.startRows(sl, rowList{
		file: file.File, sums: sums, ids: sl.plan.SSD[:n],
		base: s.pack.Index().Segments[s.pack.SegmentOf(sl.batch)].Offset,
		to:   sl.places(first, sl.coldHere(), n),
	})
	sl.SSDRead += sl.BytesRead - before
	if err != nil {
		s.dropRows(sl)
	}
	return err
}

// endSSD returns when the rows of the SSD level are in the matrix, or, after an error,
// perhaps an earlier one, when none of their reads can land any more.
func (s *Store) endSSD(ctx context.Context, sl *Slot, err error) error {
	if sl.ssd == nil {
		return err
	}
	read, useful := sl.BytesRead, sl.UsefulBytes
	if err == nil {
		if err = s.finishRows(ctx, sl); err != nil {
			err = fmt.Errorf("SSD level of batch %d: %w", sl.batch, err)
		}
	}
	if err != nil {
		s.dropRows(sl)
	}
	sl.SSDRead += sl.BytesRead - read
	sl.SSDUseful += sl.UsefulBytes - useful
	f := sl.ssd
	sl.ssd = nil
	return errors.Join(err, s.files.give(f))
}

// ssdStaging returns the bytes of each of the two buffers through which the SSD
// level's rows of training batches are read.
func ssdStaging(r *packfile.Reader, through int) int64 {
	most := int64(0)
	for i := range r.Index().Train {
		most = max(most, int64(r.Index().Train[i].SSDRows(through)))
	}
	rb := r.Facts().RowBytes
	row := binio.AlignUp(int64(rb), binio.Page) + binio.Page // with what it shares pages with
	return binio.AlignUp(min(stagingBytes(rb), most*row), device.PageSize)
}
