package pack

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/pack/packfile"
)

// hotWriter collects the hot rows, which arrive in node order, and writes them
// in rank order. If the budget holds them all they wait in memory; else they are
// spilled into windows of consecutive ranks, each small enough to be put in
// order in memory at the end.
type hotWriter struct {
	files    *fileSet
	rank     []uint32
	rows     int64 // hot rows
	rowBytes int
	window   int64 // ranks that memory holds at once

	workers int

	mem   *device.Host // all rows, when one window suffices
	spill []*appender
}

func newHotWriter(files *fileSet, rank []uint32, rows int64, rowBytes int, window int64, spillBuf, workers int) (_ *hotWriter, err error) {
	h := &hotWriter{files: files, rank: rank, rows: rows, rowBytes: rowBytes, window: max(window, 1), workers: workers}
	if h.windows() <= 1 {
		h.mem, err = device.NewHost(int(rows) * rowBytes)
		return h, err
	}
	for w := range h.windows() {
		a, err := newAppender(files, spillFile(w), spillBuf)
		if err != nil {
			return nil, err
		}
		h.spill = append(h.spill, a)
	}
	return h, nil
}

func (h *hotWriter) windows() int { return int((h.rows + h.window - 1) / h.window) }

func spillFile(w int) string { return fmt.Sprintf("hot-%05d.tmp", w) }

// close gives the memory back.
func (h *hotWriter) close() {
	if h.mem != nil {
		h.mem.Free()
	}
	for _, a := range h.spill {
		a.close()
	}
}

// take picks the hot ones among the rows lo ≤ v < hi.
func (h *hotWriter) take(lo, hi int64, rows []byte) error {
	if h.mem == nil {
		return h.takeSpilled(lo, hi, rows)
	}
	mem, rb := h.mem.Bytes(), int64(h.rowBytes)
	var g errgroup.Group
	parts := int64(h.workers)
	for k := range parts {
		g.Go(func() error { // every rank is one node's: nobody else writes there
			for v := lo + (hi-lo)*k/parts; v < lo+(hi-lo)*(k+1)/parts; v++ {
				if rank := int64(h.rank[v]); rank < h.rows {
					copy(mem[rank*rb:(rank+1)*rb], rows[(v-lo)*rb:(v-lo+1)*rb])
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func (h *hotWriter) takeSpilled(lo, hi int64, rows []byte) error {
	var head [4]byte
	for v := lo; v < hi; v++ {
		rank := int64(h.rank[v])
		if rank >= h.rows {
			continue
		}
		a := h.spill[rank/h.window]
		binary.LittleEndian.PutUint32(head[:], uint32(rank))
		if err := a.write(head[:]); err != nil {
			return err
		}
		if err := a.write(rows[int(v-lo)*h.rowBytes : int(v-lo+1)*h.rowBytes]); err != nil {
			return err
		}
	}
	return nil
}

// finish writes hot.bin and its checksums; window rows are held at once.
func (h *hotWriter) finish(ctx context.Context, w *writers, window int64) ([]stage.File, error) {
	out, err := newRowFile(h.files, w, packfile.HotFile, h.rows*int64(h.rowBytes))
	if err != nil {
		return nil, err
	}
	defer out.close()
	if h.mem != nil {
		if err := out.writeAll(ctx, h.mem.Bytes(), h.workers); err != nil {
			return nil, err
		}
		return out.finish(packfile.HotSums)
	}
	buf := make([]byte, window*int64(h.rowBytes))
	for w, a := range h.spill {
		if err := a.finish(); err != nil {
			return nil, err
		}
		n := min(h.window, h.rows-int64(w)*h.window)
		if err := h.order(w, buf[:n*int64(h.rowBytes)], a.crc); err != nil {
			return nil, err
		}
		if err := out.write(ctx, buf[:n*int64(h.rowBytes)]); err != nil {
			return nil, err
		}
		if err := h.files.dir.FS().Remove(h.files.dir.File(spillFile(w))); err != nil {
			return nil, err
		}
	}
	return out.finish(packfile.HotSums)
}

// order reads a window's spilled rows, which have the given checksum, into their
// places.
func (h *hotWriter) order(w int, dst []byte, want uint32) error {
	f, err := h.files.dir.FS().Open(h.files.dir.File(spillFile(w)))
	if err != nil {
		return err
	}
	defer f.Close()
	rec := 4 + h.rowBytes
	per := max(appendBuffer/rec, 1)
	piece := make([]byte, per*rec)
	crc := uint32(0)
	for left := len(dst) / h.rowBytes; left > 0; {
		n := min(left, per)
		if _, err := io.ReadFull(f, piece[:n*rec]); err != nil {
			return fmt.Errorf("read %s: %w", f.Name(), err)
		}
		crc = binio.UpdateCRC(crc, piece[:n*rec])
		for i := range n {
			r := piece[i*rec : (i+1)*rec]
			place := int64(binary.LittleEndian.Uint32(r)) - int64(w)*h.window
			if place < 0 || place >= int64(len(dst)/h.rowBytes) {
				return fault.New(fault.ErrCorrupt, "%s was not read back as it was written", f.Name())
			}
			copy(dst[place*int64(h.rowBytes):], r[4:])
		}
		left -= n
	}
	if crc != want {
		return fault.New(fault.ErrCorrupt, "%s was not read back as it was written", f.Name())
	}
	return nil
}

// evalWriter appends the evaluation segment's rows, which lie in node order.
type evalWriter struct {
	set      *bitset
	out      *rowFile
	rowBytes int
}

func (e *evalWriter) take(ctx context.Context, lo, hi int64, rows []byte) error {
	for v := lo; v < hi; v++ {
		if v%64 == 0 && e.set.words[v/64] == 0 {
			v += 63
			continue
		}
		if e.set.has(uint32(v)) {
			if err := e.out.write(ctx, rows[int(v-lo)*e.rowBytes:int(v-lo+1)*e.rowBytes]); err != nil {
				return err
			}
		}
	}
	return nil
}

// summedFile is an appender that computes the CRC of every page.
type summedFile struct {
	*appender
	name string
	dir  *stage.Dir
	sums *binio.Summer
}

func newSummedFile(files *fileSet, name string) (*summedFile, error) {
	a, err := newAppender(files, name, appendBuffer)
	if err != nil {
		return nil, err
	}
	return &summedFile{a, name, files.dir, binio.NewSummer(binio.Page)}, nil
}

func (s *summedFile) write(b []byte) error {
	_, _ = s.sums.Write(b)
	return s.appender.write(b)
}

// finish makes the file durable, writes its table of checksums, and describes
// both.
func (s *summedFile) finish(table string) ([]stage.File, error) {
	if err := s.appender.finish(); err != nil {
		return nil, err
	}
	return describeSummed(s.dir, s.name, s.sums.Sums(), table)
}
