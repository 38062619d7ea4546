package packfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// verifyPiece is the number of bytes, whole pages, that Verify reads at a time from a file with a table of
// page checksums.
const verifyPiece = 1 << 20

// Verify reads every row and every graph and checks them, and that the gaps between them are zero; In a
// slice, it checks the bytes that the rank needs, and that all others are zero. The first damage is an
// error of kind fault.ErrCorrupt. Opening the pack has checked the index. Its memory is the largest graph,
// and a piece of a chunk with its rows. rep shows the progress in bytes.
func (r *Reader) Verify(ctx context.Context, fsys vfs.FS, rep progress.Reporter) error {
	total := int64(0)
	for _, f := range r.meta.Files {
		total += f.Size
	}
	task := rep.Task("verify pack", total, progress.Bytes)
	defer task.Done()
	var tables [][2]string
	if r.part.Common {
		tables = append(tables, [2]string{HotFile, HotSums}, [2]string{EvalFile, EvalSums})
	}
	if _, ok := r.files[EvalColdFile]; ok {
		tables = append(tables, [2]string{EvalColdFile, EvalColdSums})
	}
	if _, ok := r.files[RefillFile]; ok {
		tables = append(tables, [2]string{RefillFile, RefillSums})
	}
	for g := r.part.Lo; g < r.part.Hi; g++ {
		if _, ok := r.files[SSDFile(g)]; ok && r.slice == nil {
			tables = append(tables, [2]string{SSDFile(g), SSDSums(g)})
		}
	}
	if err := r.verifyFacts(); err != nil {
		return err
	}
	parts := &partReader{r: r, fs: fsys, task: task, buf: make([]byte, max(r.mostPiece(), r.facts.GraphBytes, binio.Page))}
	for _, f := range tables {
		if err := r.verifyRows(ctx, parts, f[0], f[1]); err != nil {
			return err
		}
	}
	if err := r.verifyTrain(ctx, parts); err != nil {
		return err
	}
	if r.slice != nil {
		if err := r.verifyShared(ctx, fsys, task); err != nil {
			return err
		}
	}
	if !r.part.Common {
		return nil
	}
	return r.verifyEval(ctx, parts)
}

// verifyShared checks the SSD level of a slice.
func (r *Reader) verifyShared(ctx context.Context, fsys vfs.FS, task progress.Task) error {
	s, err := r.Share(ctx, fsys, *r.slice)
	if err != nil {
		return err
	}
	for _, f := range s.Files() {
		if !s.shared(f.Name) {
			continue
		}
		c, err := s.Checker(r.Path(f.Name), f)
		if err != nil {
			return err
		}
		err = stage.CheckFile(ctx, fsys, r.Path(f.Name), f.Size, c, func(b []byte) error {
			task.Add(int64(len(b)))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyTrain checks the training batches' chunks and graphs.
func (r *Reader) verifyTrain(ctx context.Context, parts *partReader) error {
	var b graph.Batch
	var plan Plan
	pieces, err := newPieceChecker(r.Form())
	if err != nil {
		return err
	}
	defer pieces.decoder.Close()
	counts := newTally(&r.facts)
	cold, graphs := parts.in(""), parts.in("")
	defer func() { cold.close(); graphs.close() }()
	lo, hi := r.part.Batches(&r.facts)
	for i := lo; i < hi; i++ {
		if i%GroupBatches(r.facts.Segment) == 0 {
			if err := errors.Join(cold.end(ctx), graphs.end(ctx)); err != nil {
				return err
			}
			cold, graphs = parts.in(ColdFile(r.Group(i))), parts.in(GraphFile(r.Group(i)))
		}
		if !r.has(i) {
			continue // zeros, as between parts
		}
		t := &r.index.Train[i]
		err := t.Pieces(r.Form(), r.index.Bands-1, func(p Piece) error {
			piece, err := cold.next(ctx, t.ChunkOffset+p.Offset, p.Len)
			if err != nil {
				return err
			}
			return pieces.check(r.Path(cold.name), t, piece, p)
		})
		if err != nil {
			return err
		}
		raw, err := graphs.next(ctx, t.GraphOffset, t.GraphBytes())
		if err != nil {
			return err
		}
		if err := r.DecodeTrainGraph(i, Everything, raw, &b, &plan); err != nil {
			return err
		}
		if err := counts.add(&b, r.facts.Fanout); err != nil {
			return r.damaged("training batch %d: %v", i, err)
		}
	}
	if err := errors.Join(cold.end(ctx), graphs.end(ctx)); err != nil {
		return err
	}
	return r.verifyTrained(counts)
}

// mostPiece returns the bytes of the longest piece of a chunk as stored.
func (r *Reader) mostPiece() int64 {
	n := 0
	for i := range r.index.Train {
		_ = r.index.Train[i].Pieces(r.Form(), r.index.Bands-1, func(p Piece) error {
			n = max(n, p.Len)
			return nil
		})
	}
	return int64(n)
}

// pieceChecker checks the pieces of chunks. It decompresses compressed pieces to check their lengths.
type pieceChecker struct {
	form    Form
	decoder *FrameDecoder // nil without compression
	rows    []byte
}

func newPieceChecker(f Form) (*pieceChecker, error) {
	c := &pieceChecker{form: f}
	if !f.Compressed() {
		return c, nil
	}
	var err error
	c.decoder, err = NewFrameDecoder(f.Codec, 1)
	return c, err
}

// check checks the bytes of one piece.
func (c *pieceChecker) check(name string, t *Train, piece []byte, p Piece) error {
	alone := Train{ChunkOffset: t.ChunkOffset + p.Offset}
	p.Offset = 0
	if c.decoder == nil {
		return alone.VerifyPiece(name, piece, p)
	}
	c.rows = binio.Grow(c.rows, p.RowLen)
	return alone.LoadPiece(c.decoder, name, piece, p, c.rows)
}

// verifyEval checks the evaluation batches' graphs.
func (r *Reader) verifyEval(ctx context.Context, parts *partReader) error {
	var b graph.Batch
	graphs, counts := parts.in(EvalGraphFile), newTally(&r.facts)
	defer graphs.close()
	for _, evals := range [][]Eval{r.index.Valid, r.index.Test} {
		for i := range evals {
			raw, err := graphs.next(ctx, evals[i].GraphOffset, evals[i].GraphBytes())
			if err != nil {
				return err
			}
			if err := r.DecodeEvalGraph(&evals[i], Everything, raw, &b); err != nil {
				return err
			}
			if err := counts.add(&b, r.facts.EvalFanout); err != nil {
				return r.damaged("evaluation batch %d: %v", i, err)
			}
		}
	}
	if err := graphs.end(ctx); err != nil {
		return err
	}
	return r.same("sizes of the largest evaluation batch", r.facts.EvalSizes, counts.most)
}

// partReader reads files with parts that begin on pages, and checks that the gaps between them are
// zero.
type partReader struct {
	r    *Reader
	fs   vfs.FS
	task progress.Task
	buf  []byte
	name string
	f    vfs.File // nil until something is read
	at   int64    // where the last part ended
}

// in returns a reader of another file that shares the buffer; the empty name stands for an empty file.
func (p *partReader) in(name string) *partReader {
	q := *p
	q.name, q.f, q.at = name, nil, 0
	return &q
}

// next returns the part of n bytes at off; it is valid until the next call on any
// reader that shares the buffer.
func (p *partReader) next(ctx context.Context, off int64, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	if n > len(p.buf) {
		return nil, fault.New(fault.ErrCorrupt, "%s: a part of %d bytes is longer than the %d bytes that the metadata allow", p.r.Path(p.name), n, len(p.buf))
	}
	if err := p.gap(ctx, off); err != nil {
		return nil, err
	}
	p.at = off + int64(n)
	b := p.buf[:n]
	return b, p.read(ctx, b, off)
}

// gap checks the bytes up to the next part.
func (p *partReader) gap(ctx context.Context, to int64) error {
	for p.at < to {
		b := p.buf[:min(int64(len(p.buf)), to-p.at)]
		if err := p.read(ctx, b, p.at); err != nil {
			return err
		}
		if i := slices.IndexFunc(b, func(c byte) bool { return c != 0 }); i >= 0 {
			return fault.New(fault.ErrCorrupt, "%s: byte %d lies between parts and is not zero", p.r.Path(p.name), p.at+int64(i))
		}
		p.at += int64(len(b))
	}
	return nil
}

// end checks the bytes after the last part, and closes the file.
func (p *partReader) end(ctx context.Context) error {
	defer p.close()
	return p.gap(ctx, p.r.files[p.name].Size)
}

// close closes the file; again, it does nothing.
func (p *partReader) close() {
	if p.f != nil {
		_ = p.f.Close() // only read from
		p.f = nil
	}
}

// read fills b from the file.
func (p *partReader) read(ctx context.Context, b []byte, off int64) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(b) == 0 {
		return nil
	}
	if p.f == nil {
		if p.f, err = p.fs.Open(p.r.Path(p.name)); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
	}
	if n, err := p.f.ReadAt(b, off); n < len(b) {
		if errors.Is(err, io.EOF) {
			return fault.New(fault.ErrCorrupt, "%s: ends before byte %d: it was truncated", p.f.Name(), off+int64(len(b)))
		}
		return fmt.Errorf("read %s: %w", p.f.Name(), err)
	}
	p.task.Add(int64(len(b)))
	return nil
}

// verifyRows checks a file of rows against its table of page checksums.
func (r *Reader) verifyRows(ctx context.Context, parts *partReader, name, sumsName string) error {
	sums, err := r.Sums(parts.fs, sumsName)
	if err != nil {
		return err
	}
	rows := parts.in(name)
	defer rows.close()
	piece := make([]byte, min(verifyPiece, sums.Size))
	for off := int64(0); off < sums.Size; {
		b := piece[:min(int64(len(piece)), sums.Size-off)]
		if err := rows.read(ctx, b, off); err != nil {
			return err
		}
		if err := sums.Verify(r.Path(name), off, b); err != nil {
			return err
		}
		off += int64(len(b))
	}
	return nil
}
