package packed

import (
	"context"
	"fmt"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// ramRows are rows of hot.bin in RAM, in whole pages.
type ramRows struct {
	src        *source
	first, end int64        // rows, first ≤ row < end
	mem        *device.Host // pages of hot.bin, from the page in which row first begins
}

// begin returns the offset of the first page in hot.bin.
func (t *ramRows) begin() int64 {
	return t.first * int64(t.src.facts.RowBytes) / device.PageSize * device.PageSize
}

func (t *ramRows) bytes() int64 {
	if t.end <= t.first {
		return 0
	}
	return binio.AlignUp(t.end*int64(t.src.facts.RowBytes), device.PageSize) - t.begin()
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

func (t *ramRows) fill(ctx context.Context, rep progress.Reporter) (int64, error) {
	if t.bytes() == 0 {
		return 0, nil
	}
	mem, begin := t.mem.Bytes(), t.begin()
	return t.src.readHot(ctx, rep, "fill the RAM cache", hotRange{
		begin: begin,
		end:   min(binio.AlignUp(t.end*int64(t.src.facts.RowBytes), binio.Page), t.src.hot.sums.Size), // whole pages, to be checked
		room: func(_ int, lo int64) ([]byte, error) {
			return mem[lo-begin : min(lo-begin+hotPiece, int64(len(mem)))], nil
		},
	})
}

// hotRange reads a range of hot.bin, piece by piece.
type hotRange struct {
	begin, end int64
	// room returns the memory for the piece that begins at lo, as the k-th piece in flight.
	room func(k int, lo int64) ([]byte, error)
	// take, if not nil, takes the piece after it was checked.
	take func(k int, lo int64, b []byte) error
}

// hotPiece is the size of a piece of hot.bin, in bytes; hotDepth is the number of pieces in flight.
const hotPiece, hotDepth = 4 << 20, 4

func (s *source) readHot(ctx context.Context, rep progress.Reporter, what string, r hotRange) (int64, error) {
	task := rep.Task(what, r.end-r.begin, progress.Bytes)
	defer task.Done()
	var groups [hotDepth]iostack.Group
	var landing [hotDepth][]byte
	drain := func(err error) error {
		done, cancel := context.WithCancel(ctx)
		cancel()
		for i := range groups {
			_ = s.stack.Wait(done, &groups[i])
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	pieces := int((r.end - r.begin + hotPiece - 1) / hotPiece)
	for i := range pieces + hotDepth {
		k := i % hotDepth
		if i >= hotDepth && i-hotDepth < pieces {
			lo := r.begin + int64(i-hotDepth)*hotPiece
			if err := s.stack.Wait(ctx, &groups[k]); err != nil {
				return 0, drain(err)
			}
			if err := s.hot.sums.Verify(s.hot.Name(), lo, landing[k]); err != nil {
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
			if err := s.stack.Submit(&groups[k], []iostack.Request{{File: s.hot.File, Offset: lo, Buf: landing[k]}}); err != nil {
				return 0, drain(err)
			}
		}
	}
	return r.end - r.begin, nil
}
