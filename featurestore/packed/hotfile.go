package packed

import (
	"context"
	"fmt"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// ramRows are rows of hot.bin in RAM, and after them rows of eval.bin. The entry of a row of hot.bin is its
// rank; the row of eval.bin at place k has the entry end + k.
type ramRows struct {
	src        *source
	first, end int64        // rows of hot.bin, first ≤ row < end
	eval       int64        // rows of eval.bin, from its first row on
	mem        *device.Host // rows from the page of hot.bin in which row first begins
}

// begin returns the offset of the first page in hot.bin.
func (t *ramRows) begin() int64 {
	return t.first * int64(t.src.facts.RowBytes) / device.PageSize * device.PageSize
}

func (t *ramRows) bytes() int64 {
	if t.end <= t.first && t.eval == 0 {
		return 0
	}
	rb := int64(t.src.facts.RowBytes)
	last := binio.AlignUp(t.eval*rb, binio.Page) // whole pages, to be checked
	return binio.AlignUp(t.end*rb+last, device.PageSize) - t.begin()
}

// rows returns the memory from row first on.
func (t *ramRows) rows() []byte {
	if t.bytes() == 0 {
		return nil
	}
	return t.mem.Bytes()[t.first*int64(t.src.facts.RowBytes)-t.begin():]
}

func (t *ramRows) open() (err error) {
	if t.mem, err = device.NewHost(int(t.bytes())); err != nil {
		return fmt.Errorf("RAM cache: %w", err)
	}
	return nil
}

func (t *ramRows) close() {
	if t.mem != nil {
		t.mem.Free()
	}
}

func (t *ramRows) fill(ctx context.Context, rep progress.Reporter) (read int64, err error) {
	rb := int64(t.src.facts.RowBytes)
	if t.end > t.first {
		read, err = t.read(ctx, rep, "fill the RAM cache", &t.src.hot, t.begin(), t.end*rb, 0)
	}
	if err == nil && t.eval > 0 { // over the rest of the last page of hot.bin
		var n int64
		n, err = t.read(ctx, rep, "hold rows of evaluation batches", &t.src.eval, 0, t.eval*rb, t.end*rb-t.begin())
		read += n
	}
	return read, err
}

// read reads whole pages of a file, from byte begin on until they contain byte end - 1, to byte `to` of the
// memory.
func (t *ramRows) read(ctx context.Context, rep progress.Reporter, what string, f *rowFile, begin, end, to int64) (int64, error) {
	mem := t.mem.Bytes()[to:]
	return f.read(ctx, t.src.stack, rep, what, fileRange{
		begin: begin,
		end:   min(binio.AlignUp(end, binio.Page), f.sums.Size),
		room: func(_ int, lo int64) ([]byte, error) {
			return mem[lo-begin : min(lo-begin+hotPiece, int64(len(mem)))], nil
		},
	})
}

// fileRange is a range of a file of rows that is read piece by piece.
type fileRange struct {
	begin, end int64
	// room returns the memory for the piece that begins at lo, as the k-th piece in flight.
	room func(k int, lo int64) ([]byte, error)
	// take, if not nil, takes the piece after it was checked.
	take func(k int, lo int64, b []byte) error
}

// hotPiece is the size of a piece, in bytes; hotDepth is the number of pieces in flight.
const hotPiece, hotDepth = 4 << 20, 4

// read reads a range of the file, in sequence, checks it, and returns the bytes read.
func (f *rowFile) read(ctx context.Context, stack iostack.Stack, rep progress.Reporter, what string, r fileRange) (int64, error) {
	task := rep.Task(what, r.end-r.begin, progress.Bytes)
	defer task.Done()
	var groups [hotDepth]iostack.Group
	var landing [hotDepth][]byte
	drain := func(err error) error {
		done, cancel := context.WithCancel(ctx)
		cancel()
		for i := range groups {
			_ = stack.Wait(done, &groups[i])
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	pieces := int((r.end - r.begin + hotPiece - 1) / hotPiece)
	for i := range pieces + hotDepth {
		k := i % hotDepth
		if i >= hotDepth && i-hotDepth < pieces {
			lo := r.begin + int64(i-hotDepth)*hotPiece
			if err := stack.Wait(ctx, &groups[k]); err != nil {
				return 0, drain(err)
			}
			if err := f.sums.Verify(f.Name(), lo, landing[k]); err != nil {
				return 0, drain(err)
			}
			if r.take != nil {
				if err := r.take(k, lo, landing[k]); err != nil {
					return 0, drain(err)
				}
			}
			task.Add(int64(len(landing[k])))
		}
		if i < pieces {
			lo := r.begin + int64(i)*hotPiece
			room, err := r.room(k, lo)
			if err != nil {
				return 0, drain(err)
			}
			landing[k] = room[:min(r.end-lo, int64(len(room)))]
			if err := stack.Submit(&groups[k], []iostack.Request{{File: f.File, Offset: lo, Buf: landing[k]}}); err != nil {
				return 0, drain(err)
			}
		}
	}
	return r.end - r.begin, nil
}
