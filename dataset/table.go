package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"

	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// table is the feature table being written, in one of its forms.
type table interface {
	io.Writer // takes the rows' bytes, in order
	// adopt checks the rows that a journalled run left in the file, and cuts off the rest. It returns
	// false if they changed. Writing continues after the journalled rows.
	adopt(ctx context.Context) (bool, error)
	// checkpoint makes rows below hi durable and journals them: all, or the rows of whole frames.
	checkpoint(hi int64) error
	// pieces returns the pieces of the table up to the last checkpoint, and the bytes that follow them, of
	// a frame that is not full.
	pieces(name string) (_ pieces, tail []byte)
	Finish() error
	Discard() error
}

func (w *Writer) openTable(f vfs.File) table {
	if w.state.Facts.Compression != "" {
		return newFrameWriter(w, f)
	}
	return w.array(FeaturesFile, f)
}

// resumeTable opens the feature table after its durable rows. It reads these again, for their
// checksums, and begins anew if they changed.
func (w *Writer) resumeTable(ctx context.Context, rep progress.Reporter) (table, error) {
	name := w.dir.File(w.state.Facts.FeaturesFile())
	if w.state.Rows > 0 {
		t, err := w.adoptTable(ctx, name)
		if err != nil {
			return nil, err
		}
		if t != nil {
			rep.Logf("resumed: %d of %d feature rows are written already", w.state.Rows, w.state.Facts.Nodes)
			return t, nil
		}
		rep.Logf("%s changed since the interrupted run: writing the features again", name)
		w.state.forgetRows()
	}
	f, err := w.dir.FS().Create(name)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	return w.openTable(f), nil
}

// adoptTable returns nil if the file does not match the journal.
func (w *Writer) adoptTable(ctx context.Context, name string) (table, error) {
	f, err := w.dir.FS().OpenReadWrite(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	t := w.openTable(f)
	ok, err := t.adopt(ctx)
	if ok && err == nil {
		return t, nil
	}
	return nil, errors.Join(err, t.Discard())
}

func (s *journal) forgetRows() { s.Rows, s.RowsSum, s.Frames = 0, "", nil }

func (a *Array) checkpoint(hi int64) error {
	if err := a.sync(); err != nil {
		return err
	}
	sums := a.sum.Sums()
	return a.w.update(func(s *journal) { s.Rows, s.RowsSum = hi, sums.Checksum() })
}

func (a *Array) pieces(name string) (pieces, []byte) { return rawPieces(name, a.sum.Sums()), nil }

func (a *Array) adopt(ctx context.Context) (bool, error) {
	end := a.w.state.Rows * int64(a.w.state.Facts.RowBytes())
	buf := make([]byte, writeBuffer)
	for off := int64(0); off < end; {
		b := buf[:min(int64(len(buf)), end-off)]
		if ok, err := a.readAgain(ctx, b); !ok || err != nil {
			return false, err
		}
		if _, err := a.sum.Write(b); err != nil {
			return false, err
		}
		off += int64(len(b))
	}
	sums := a.sum.Sums()
	if sums.Checksum() != a.w.state.RowsSum {
		return false, nil
	}
	return true, a.cut(end)
}

// readAgain fills b with the file's next bytes, and reports false at its end.
func (o *output) readAgain(ctx context.Context, b []byte) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	_, err := io.ReadFull(o.f, b) // leaves the file's position behind the bytes read
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", o.f.Name(), err)
	}
	return true, nil
}

// cut ends the file at the given size.
func (o *output) cut(size int64) error {
	if err := o.f.Truncate(size); err != nil {
		return fmt.Errorf("truncate %s: %w", o.f.Name(), err)
	}
	return nil
}
