package torchfile

import (
	"errors"
	"io"
)

// Reader returns the tensor's bytes as a stream that can seek, row after row. Where the rows of a
// matrix do not lie in order but its columns do, fortran is true, and it yields column after
// column. Elements that follow each other in neither way are an error.
func (t *Tensor) Reader() (_ io.ReadSeeker, fortran bool, err error) {
	shape, stride := t.Shape, t.Stride
	if len(shape) == 2 && stride[1] != 1 && shape[1] > 1 && stride[0] == 1 {
		shape, stride = []int64{shape[1], shape[0]}, []int64{stride[1], stride[0]}
		fortran = true
	}
	r := &reader{t: t, size: t.Count() * int64(t.Size), run: int64(t.Size)}
	// The inner dimensions that lie without gaps are one run.
	outer := len(shape)
	for outer > 0 && (shape[outer-1] <= 1 || stride[outer-1]*int64(t.Size) == r.run) {
		r.run *= max(shape[outer-1], 1)
		outer--
	}
	if outer == len(shape) && outer > 0 && r.size > 0 {
		return nil, false, bad("a tensor of strides %v, whose elements do not follow each other: save it as its .contiguous()", t.Stride)
	}
	r.shape, r.stride = shape[:outer], stride[:outer]
	return r, fortran, nil
}

// reader yields the runs of a tensor one after the other.
type reader struct {
	t             *Tensor
	shape, stride []int64 // of the dimensions whose elements are runs
	run, size     int64   // bytes of a run, and of all
	at            int64   // bytes that were read
}

// Read implements io.Reader.
func (r *reader) Read(b []byte) (int, error) {
	if r.at >= r.size {
		return 0, io.EOF
	}
	i, in := r.at/r.run, r.at%r.run
	place := r.t.offset
	for d := len(r.shape) - 1; d >= 0; d-- {
		place += i % r.shape[d] * r.stride[d]
		i /= r.shape[d]
	}
	b = b[:min(int64(len(b)), r.run-in)]
	n, err := r.t.storage.ReadAt(b, place*int64(r.t.Size)+in)
	r.at += int64(n)
	if n == len(b) && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Seek implements io.Seeker.
func (r *reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, bad("a place before the tensor's first element")
	}
	r.at = offset
	return offset, nil
}
