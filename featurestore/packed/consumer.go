package packed

import (
	"context"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
)

var _ featurestore.Remote = (*Store)(nil)

// remotePiece is the size of the pieces in which a consumer gets rows, in bytes. Tests change it.
var remotePiece = hotPiece

// pieceRows returns the number of rows that are read at a time for a consumer.
func (s *Store) pieceRows() int64 {
	return min(max(1, int64(remotePiece)/int64(s.src.facts.RowBytes)), s.remote)
}

// pieceBytes returns the memory for such rows, 0 if no consumer holds any.
func (s *Store) pieceBytes() int64 {
	n := s.pieceRows()
	if n == 0 {
		return 0
	}
	f := &s.src.facts
	return binio.AlignUp(n*int64(f.RowBytes), device.PageSize) + device.PageSize + binio.AlignUp(n*4*int64(f.Dim), device.PageSize)
}

// RemoteRows implements featurestore.Remote.
func (s *Store) RemoteRows(ctx context.Context, rep progress.Reporter, take func(x []float32) error) (read int64, err error) {
	f := &s.src.facts
	task := rep.Task("read the rows for the consumer", s.remote*int64(f.RowBytes), progress.Bytes)
	defer task.Done()
	most := s.pieceRows()
	x, err := device.NewHost(int(most) * 4 * f.Dim)
	if err != nil {
		return 0, err
	}
	defer x.Free()
	for first := int64(0); first < s.remote; first += most {
		rows := &ramRows{src: s.src, first: first, end: min(first+most, s.remote)}
		n := rows.end - first
		if err := rows.open(); err != nil {
			return read, err
		}
		got, err := rows.fill(ctx, progress.Discard)
		if err == nil {
			part := x.Float32s()[:int(n)*f.Dim]
			s.copies.Widen(part, rows.rows()[:n*int64(f.RowBytes)], f.DType, f.Dim)
			err = take(part)
		}
		rows.close()
		if read += got; err != nil {
			return read, err
		}
		task.Add(n * int64(f.RowBytes))
	}
	return read, nil
}
