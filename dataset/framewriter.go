package dataset

import (
	"context"
	"errors"
	"slices"

	"github.com/klauspost/compress/zstd"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// FrameMemory is the memory in bytes of compressing one frame: its content, the frame, and the
// encoder's tables.
const FrameMemory = Granule + maxFrame + 3<<20

// frameWriter writes the compressed feature table. Frames are compressed
// concurrently; the goroutine that calls its methods writes them, in order.
type frameWriter struct {
	output
	w     *Writer
	enc   *zstd.Encoder
	table frames // those written
	skip  int64  // bytes of the next Writes that are in existing frames
	slots int    // frames that may still be made
	idle  []*frame
	under []*frame // being compressed, the first one first
	next  *frame   // being filled, or nil
}

type frame struct {
	raw, out []byte
	done     chan struct{} // receives once when out is ready
}

func newFrameWriter(w *Writer, f vfs.File) *frameWriter {
	return &frameWriter{output: newOutput(f), w: w, slots: w.frames}
}

// Write implements table.
func (fw *frameWriter) Write(p []byte) (int, error) {
	n := len(p)
	known := min(fw.skip, int64(n))
	fw.skip -= known
	for p = p[known:]; len(p) > 0; {
		if fw.next == nil {
			var err error
			if fw.next, err = fw.slot(); err != nil {
				return 0, err
			}
		}
		k := min(len(p), Granule-len(fw.next.raw))
		fw.next.raw = append(fw.next.raw, p[:k]...)
		if p = p[k:]; len(fw.next.raw) == Granule {
			if err := fw.compress(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// slot returns a free frame; it waits for one if all are in use.
func (fw *frameWriter) slot() (*frame, error) {
	if len(fw.idle) == 0 && fw.slots > 0 {
		fw.slots--
		return &frame{raw: make([]byte, 0, Granule), out: make([]byte, 0, maxFrame), done: make(chan struct{}, 1)}, nil
	}
	if len(fw.idle) == 0 {
		if err := fw.retire(); err != nil {
			return nil, err
		}
	}
	last := len(fw.idle) - 1
	f := fw.idle[last]
	fw.idle = fw.idle[:last]
	return f, nil
}

// compress begins to compress the filled content.
func (fw *frameWriter) compress() (err error) {
	if fw.enc == nil {
		if fw.enc, err = newEncoder(fw.w.frames); err != nil {
			return err
		}
	}
	f := fw.next
	fw.next, fw.under = nil, append(fw.under, f)
	go func() {
		defer fault.Crash()
		f.out = fw.enc.EncodeAll(f.raw, f.out[:0])
		f.done <- struct{}{}
	}()
	return nil
}

// retire waits for the first of the frames in use and writes it.
func (fw *frameWriter) retire() error {
	f := fw.under[0]
	fw.under = append(fw.under[:0], fw.under[1:]...)
	<-f.done
	fw.table.add(f.out, len(f.raw))
	err := fw.append(f.out)
	f.raw = f.raw[:0]
	fw.idle = append(fw.idle, f)
	return err
}

// drain writes all frames in use.
func (fw *frameWriter) drain() error {
	for len(fw.under) > 0 {
		if err := fw.retire(); err != nil {
			return err
		}
	}
	return nil
}

// checkpoint implements table. The rows of which a part is in the frame being
// filled are written again by a resumed run.
func (fw *frameWriter) checkpoint(int64) error {
	if err := errors.Join(fw.drain(), fw.sync()); err != nil {
		return err
	}
	return fw.w.update(func(s *journal) {
		s.Rows, s.RowsSum, s.Frames = fw.table.size/int64(s.Facts.RowBytes()), binio.HashSums(fw.table.crcs), fw.table.lengths
	})
}

// pieces implements table.
func (fw *frameWriter) pieces(name string) (p pieces, tail []byte) {
	if fw.next != nil {
		tail = slices.Clone(fw.next.raw)
	}
	return framePieces(name, fw.table), tail
}

func (fw *frameWriter) adopt(ctx context.Context) (bool, error) {
	s := &fw.w.state
	buf := make([]byte, maxFrame)
	for _, n := range s.Frames {
		if n > maxFrame {
			return false, nil
		}
		if ok, err := fw.readAgain(ctx, buf[:n]); !ok || err != nil {
			return false, err
		}
		fw.table.add(buf[:n], Granule)
	}
	fw.skip = fw.table.size - s.Rows*int64(s.Facts.RowBytes())
	if fw.skip < 0 || binio.HashSums(fw.table.crcs) != s.RowsSum {
		return false, nil
	}
	return true, fw.cut(fw.table.stored())
}

// Finish implements table.
func (fw *frameWriter) Finish() error {
	if fw.next != nil {
		if err := fw.compress(); err != nil {
			return err
		}
	}
	if err := errors.Join(fw.drain(), fw.close()); err != nil {
		return err
	}
	file := stage.File{Name: CompressedFeaturesFile, Size: fw.table.stored(), Checksum: binio.HashSums(fw.table.crcs)}
	return fw.w.list(file, fw.table.encode())
}

// writeFrames writes features from memory, compressed.
func (w *Writer) writeFrames(content []byte) (err error) {
	f, err := w.dir.FS().Create(w.dir.File(CompressedFeaturesFile))
	if err != nil {
		return err
	}
	fw := newFrameWriter(w, f)
	defer func() { err = errors.Join(err, fw.Discard()) }()
	if _, err := fw.Write(content); err != nil {
		return err
	}
	return fw.Finish()
}

// Discard implements table. Frames that nobody waits for any longer end by
// themselves.
func (fw *frameWriter) Discard() error { return fw.output.Discard() }
