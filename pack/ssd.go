package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/mapped"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
)

// ssdRequestsFile is the scratch list of the rows of the SSD level: node ids, uint32,
// segment after segment, by slot.
const ssdRequestsFile = "ssd-requests.tmp"

// ssdPiece is the number of slots that a worker looks through at a time.
const ssdPiece = 1 << 16

// ssdWriter writes the rows of the SSD level while their range of the table is in
// memory. What a range writes does not depend on what is there, so that an interrupted
// range is simply written again.
type ssdWriter struct {
	dir      *stage.Dir
	facts    *packfile.Facts
	segments []packfile.Segment
	workers  int

	list  *mapped.File
	nodes []uint32 // mapped; of all segments
	start []int64  // first of every segment in nodes
	out   []vfs.File
}

// groupSegments returns the segments lo ≤ i < hi of a group.
func groupSegments(f *packfile.Facts, group int) (lo, hi int) {
	n := packfile.GroupBatches(f.Segment) / f.Segment
	return group * n, min((group+1)*n, f.Segments)
}

// ssdSize returns the bytes of the file of a group's segments.
func ssdSize(segments []packfile.Segment, rowBytes int) int64 {
	last := &segments[len(segments)-1]
	return last.Offset + binio.AlignUp(int64(last.Rows)*int64(rowBytes), binio.Page)
}

// newSSDWriter opens the files at their sizes. resumed says that an earlier run has
// written some of their rows, and crc is the list's.
func newSSDWriter(ctx context.Context, dir *stage.Dir, x *packfile.Index, f *packfile.Facts, workers int, crc uint32, resumed bool) (_ *ssdWriter, err error) {
	w := &ssdWriter{dir: dir, facts: f, segments: x.Segments, workers: workers}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	w.start = make([]int64, len(w.segments)+1)
	for i := range w.segments {
		w.start[i+1] = w.start[i] + int64(w.segments[i].Rows)
	}
	if err := w.openList(ctx, crc); err != nil {
		return nil, err
	}
	for g := range f.Groups() {
		lo, hi := groupSegments(f, g)
		size := ssdSize(w.segments[lo:hi], f.RowBytes)
		if size == 0 {
			w.out = append(w.out, nil)
			continue
		}
		file, err := dir.FS().OpenReadWrite(dir.File(packfile.SSDFile(g)))
		if err != nil {
			return nil, err
		}
		w.out = append(w.out, file)
		if st, err := file.Stat(); err != nil {
			return nil, err
		} else if resumed && st.Size() != size {
			return nil, touched(file.Name(), fmt.Errorf("%d bytes instead of %d", st.Size(), size))
		}
		if err := file.Truncate(size); err != nil {
			return nil, fmt.Errorf("size %s: %w", file.Name(), err)
		}
	}
	return w, nil
}

// openList maps the scratch list and checks it.
func (w *ssdWriter) openList(ctx context.Context, crc uint32) error {
	name := w.dir.File(ssdRequestsFile)
	list, err := mapped.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return touched(name, err)
	}
	if err != nil {
		return err
	}
	w.list = list
	if int64(len(list.Data())) != 4*w.start[len(w.segments)] {
		return touched(name, errors.New("it has another length"))
	}
	got := uint32(0)
	err = mapped.Guard(func() error {
		for b := list.Data(); len(b) > 0; {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(len(b), writeBuffer)
			got = binio.UpdateCRC(got, b[:n])
			b = b[n:]
		}
		return nil
	}, list)
	if err != nil {
		return err
	}
	if got != crc {
		return touched(name, errors.New("it does not match its checksum"))
	}
	w.nodes = binio.View[uint32](list.Data())
	return nil
}

// take writes the rows lo ≤ v < hi wherever they belong.
func (w *ssdWriter) take(ctx context.Context, lo, hi int64, rows []byte) error {
	type piece struct{ segment, first, last int }
	jobs := make(chan piece)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(jobs)
		for i := range w.segments {
			for first := 0; first < w.segments[i].Rows; first += ssdPiece {
				select {
				case jobs <- piece{i, first, min(first+ssdPiece, w.segments[i].Rows)}:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return nil
	})
	for range w.workers {
		g.Go(func() error {
			buf := make([]byte, 0, max(writeBuffer, w.facts.RowBytes))
			for p := range jobs {
				err := mapped.Guard(func() error { return w.piece(p.segment, p.first, p.last, lo, hi, rows, buf) }, w.list)
				if err != nil {
					return fmt.Errorf("segment %d: %w", p.segment, err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// piece writes those of the rows lo ≤ v < hi that belong to the slots first ≤ k < last
// of a segment; adjacent ones in one write.
func (w *ssdWriter) piece(segment, first, last int, lo, hi int64, rows, buf []byte) error {
	rb := w.facts.RowBytes
	nodes := w.nodes[w.start[segment]:w.start[segment+1]]
	out := w.out[segment*w.facts.Segment/packfile.GroupBatches(w.facts.Segment)]
	flush := func(end int) error {
		if len(buf) == 0 {
			return nil
		}
		off := w.segments[segment].Offset + int64(end)*int64(rb) - int64(len(buf))
		if _, err := out.WriteAt(buf, off); err != nil {
			return fmt.Errorf("write %s: %w", out.Name(), err)
		}
		buf = buf[:0]
		return nil
	}
	for k := first; k < last; k++ {
		v := int64(nodes[k])
		inside := v >= lo && v < hi
		if !inside || len(buf)+rb > cap(buf) {
			if err := flush(k); err != nil {
				return err
			}
		}
		if inside {
			buf = append(buf, rows[int(v-lo)*rb:int(v-lo+1)*rb]...)
		}
	}
	return flush(last)
}

// files returns the files written to, which the range's end must make durable.
func (w *ssdWriter) files() []vfs.File {
	var all []vfs.File
	for _, f := range w.out {
		if f != nil {
			all = append(all, f)
		}
	}
	return all
}

// finish reads the files back, writes their tables of checksums, and describes both.
// Rows come in the order of nodes, pages of several: there is no page whose checksum
// could be known before.
func (w *ssdWriter) finish(ctx context.Context) ([]stage.File, error) {
	described := make([][]stage.File, len(w.out))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(w.workers)
	for i, f := range w.out {
		if f == nil {
			continue
		}
		g.Go(func() (err error) {
			described[i], err = w.sum(ctx, i, f)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var all []stage.File
	for _, d := range described {
		all = append(all, d...)
	}
	return all, nil
}

// sum writes the checksums of a group's file.
func (w *ssdWriter) sum(ctx context.Context, group int, f vfs.File) ([]stage.File, error) {
	s := binio.NewSummer(binio.Page)
	buf := make([]byte, writeBuffer)
	for off := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := f.ReadAt(buf, off)
		_, _ = s.Write(buf[:n])
		off += int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s back: %w", f.Name(), err)
		}
	}
	sums := s.Sums()
	b := sums.Encode()
	if err := vfs.WriteFile(w.dir.FS(), w.dir.File(packfile.SSDSums(group)), b); err != nil {
		return nil, fmt.Errorf("write %s: %w", packfile.SSDSums(group), err)
	}
	return []stage.File{
		{Name: packfile.SSDFile(group), Size: sums.Size, Checksum: sums.Checksum()},
		{Name: packfile.SSDSums(group), Size: int64(len(b)), Checksum: binio.Hash(b)},
	}, nil
}

// close closes what is open; files that finish described are durable already.
func (w *ssdWriter) close() {
	for _, f := range w.files() {
		_ = f.Close()
	}
	if w.list != nil {
		_ = w.list.Close()
	}
}
