package packed

import (
	"context"
	"fmt"

	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// Preload fills the caches for a training that begins with batch 0, and returns the
// bytes read.
func (s *Store) Preload(ctx context.Context, rep progress.Reporter) (int64, error) {
	return s.PreloadFor(ctx, 0, rep)
}

// PreloadFor fills the caches for a training that goes on with the given batch. No
// batch may be under way. After an error it must be called again.
func (s *Store) PreloadFor(ctx context.Context, batch int, rep progress.Reporter) (int64, error) {
	if s.min != nil {
		return s.preloadMin(ctx, batch, rep)
	}
	n, err := s.preloadGPU(ctx, rep)
	if err != nil {
		return n, err
	}
	ram, err := s.preloadHot(ctx, rep)
	return n + ram, err
}

// preloadHot fills the RAM cache from hot.bin, from where the GPU's rows end, checked.
func (s *Store) preloadHot(ctx context.Context, rep progress.Reporter) (int64, error) {
	rb := int64(s.facts.RowBytes)
	begin := s.layout.hotBegin(s.facts.RowBytes)
	if s.layout.RAMBytes == 0 {
		return 0, nil
	}
	mem := s.cache.Bytes()
	return s.readHot(ctx, rep, "fill the RAM cache", hotRange{
		begin: begin,
		end:   min(binio.AlignUp(s.layout.CacheRows*rb, binio.Page), s.hotSums.Size), // whole pages, to be checked
		room: func(_ int, lo int64) ([]byte, error) {
			return mem[lo-begin : min(lo-begin+preloadPiece, int64(len(mem)))], nil
		},
	})
}

// hotRange is how a range of hot.bin is read, piece by piece.
type hotRange struct {
	begin, end int64
	// room returns where a piece that begins at lo may land, as the k-th of those under way.
	room func(k int, lo int64) ([]byte, error)
	// take, if any, uses the piece once it is checked.
	take func(k int, lo int64, b []byte) error
}

// How hot.bin is read: in pieces, so many at a time.
const preloadPiece, preloadDepth = 4 << 20, 4

// readHot reads a range of hot.bin, checked.
func (s *Store) readHot(ctx context.Context, rep progress.Reporter, what string, r hotRange) (int64, error) {
	task := rep.Task(what, r.end-r.begin, progress.Bytes)
	defer task.Done()
	var groups [preloadDepth]iostack.Group
	var landing [preloadDepth][]byte
	drain := func(err error) error {
		done, cancel := context.WithCancel(ctx)
		cancel()
		for i := range groups {
			_ = s.stack.Wait(done, &groups[i])
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	pieces := int((r.end - r.begin + preloadPiece - 1) / preloadPiece)
	for i := range pieces + preloadDepth {
		k := i % preloadDepth
		if i >= preloadDepth && i-preloadDepth < pieces {
			lo := r.begin + int64(i-preloadDepth)*preloadPiece
			if err := s.stack.Wait(ctx, &groups[k]); err != nil {
				return 0, drain(err)
			}
			if err := s.hotSums.Verify(s.hot.Name(), lo, landing[k]); err != nil {
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
			lo := r.begin + int64(i)*preloadPiece
			room, err := r.room(k, lo)
			if err != nil {
				return 0, drain(err)
			}
			landing[k] = room[:min(r.end-lo, int64(len(room)))]
			if err := s.stack.Submit(&groups[k], []iostack.Request{{File: s.hot, Offset: lo, Buf: landing[k]}}); err != nil {
				return 0, drain(err)
			}
		}
	}
	return r.end - r.begin, nil
}
