// Package stream has the streams that sources hand to the importer: edges, of lists and of compressed
// rows, and rows of features, of several parts. Nodes of several types become nodes of one.
package stream

import (
	"context"
	"errors"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/internal/fault"
)

// chunk is the number of edges, offsets or columns that are read at a time.
const chunk = 1 << 14

// Integers is a stream of integers. Next sets dst to the next ones and returns their number, 0 at the
// end.
type Integers interface {
	Next(dst []int64) (int, error)
	Close() error
}

// Pairs is a stream of edges. Next sets dst and src, which have the same length, to the ends of the
// next edges and returns their number, 0 at the end.
type Pairs interface {
	Next(dst, src []int64) (int, error)
	Close() error
}

// Interleave returns the edges of a stream of integers: source, destination, source, destination, and
// so on. Closing the result closes s.
func Interleave(s Integers) Pairs { return &interleaved{s, make([]int64, 2*chunk)} }

type interleaved struct {
	Integers
	both []int64
}

func (p *interleaved) Next(dst, src []int64) (int, error) {
	n, err := p.Integers.Next(p.both[:2*min(len(dst), len(p.both)/2)])
	for i := range n / 2 {
		src[i], dst[i] = p.both[2*i], p.both[2*i+1]
	}
	return n / 2, err
}

// CountTwoRows returns the number of edges of an array of shape (2, E), and whether it is row-major: all
// sources, then all destinations. Other arrays are errors of kind fault.ErrInput.
func CountTwoRows(open func() (*npz.Array, error)) (edges int64, rowMajor bool, err error) {
	err = importer.With(open, func(a *npz.Array) error {
		if !a.Integer() || len(a.Shape) != 2 || a.Shape[0] != 2 {
			return a.Fail(fault.New(fault.ErrInput, "edges must be integers of shape (2, E), not %s of shape %s", a.Type(), a.ShapeString()))
		}
		edges, rowMajor = a.Shape[1], !a.Fortran
		return nil
	})
	return edges, rowMajor, err
}

// TwoRows returns the edges of an array of shape (2, E). If it is row-major, it calls open twice, for one
// reader of each row.
func TwoRows(open func() (*npz.Array, error)) (_ Pairs, err error) {
	a, err := open()
	if err != nil {
		return nil, err
	}
	if a.Fortran { // source, destination, source, …
		return Interleave(npz.NewInts(a)), nil
	}
	b, err := open()
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	left := a.Shape[1]
	p := &twoRows{src: newAhead(a, 0, left, false), dst: newAhead(b, left, left, true)}
	return p, nil
}

// TwoVectors returns the edges of two arrays of equal length, sources and destinations. src and dst
// are the keys with which open opens them.
func TwoVectors(open func(key string) (*npz.Array, error), src, dst string) (Pairs, error) {
	a, err := open(src)
	if err != nil {
		return nil, err
	}
	b, err := open(dst)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	n := a.Count()
	if err := errors.Join(a.Vector(-1), b.Vector(n)); err != nil {
		return nil, errors.Join(err, a.Close(), b.Close())
	}
	return &twoRows{src: newAhead(a, 0, n, true), dst: newAhead(b, 0, n, true)}, nil
}

// twoRows yields the pairs of two streams that are read concurrently: of an archive, both are
// unpacked at a time.
type twoRows struct{ src, dst *ahead }

func (p *twoRows) Next(dst, src []int64) (int, error) {
	n, err := p.src.next(src)
	if err == nil && n == 0 { // the end: the other stream must have ended too
		_, err = p.dst.next(dst[:0])
	}
	if err != nil {
		return 0, err
	}
	for done := 0; done < n; {
		k, err := p.dst.next(dst[done:n])
		if err != nil {
			return 0, err
		}
		done += k
	}
	return n, nil
}

func (p *twoRows) Close() error { return errors.Join(p.src.close(), p.dst.close()) }

// ahead reads elements of an array in a goroutine of its own.
type ahead struct {
	a      *npz.Array
	pieces chan []int64
	free   chan []int64
	stop   chan struct{}
	failed error // before pieces is closed
	piece  []int64
	rest   []int64 // of piece
	ended  chan struct{}
}

// newAhead begins to read count elements after the first skip ones. last says that they end the array,
// so that its End is checked.
func newAhead(a *npz.Array, skip, count int64, last bool) *ahead {
	const pieces = 4
	r := &ahead{a: a, pieces: make(chan []int64, pieces), free: make(chan []int64, pieces), stop: make(chan struct{}), ended: make(chan struct{})}
	for range pieces {
		r.free <- make([]int64, chunk)
	}
	go func() {
		defer fault.Crash()
		defer close(r.ended)
		defer close(r.pieces)
		r.failed = r.read(skip, count, last)
	}()
	return r
}

func (r *ahead) read(skip, count int64, last bool) error {
	for skip > 0 {
		n := min(skip, 64*chunk)
		if err := r.a.Skip(n); err != nil {
			return err
		}
		skip -= n
		select {
		case <-r.stop:
			return nil
		default:
		}
	}
	for count > 0 {
		var b []int64
		select {
		case b = <-r.free:
		case <-r.stop:
			return nil
		}
		b = b[:min(int64(cap(b)), count)]
		if err := r.a.Ints(b); err != nil {
			return err
		}
		count -= int64(len(b))
		r.pieces <- b // there is room for all that there are
	}
	if last {
		return r.a.End()
	}
	return nil
}

// next fills dst, or less of it, and returns how much; 0 is the end.
func (r *ahead) next(dst []int64) (int, error) {
	if len(r.rest) == 0 {
		if r.piece != nil {
			r.free <- r.piece
		}
		var ok bool
		if r.piece, ok = <-r.pieces; !ok {
			return 0, r.failed
		}
		r.rest = r.piece
	}
	n := copy(dst, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *ahead) close() error {
	close(r.stop)
	<-r.ended
	return r.a.Close()
}

// CheckSources checks that the source nodes of the first edges are below nodes, in a row-major array a
// of shape (2, E), and closes a. leaves returns the error for a wrong source. In an archive this takes
// less time than reading the first edge, since destinations are behind all sources: see
// importer.Glancer.
func CheckSources(a *npz.Array, nodes int64, leaves func(src int64) error) (err error) {
	defer func() { err = errors.Join(err, a.Close()) }()
	first := make([]int64, min(a.Count()/2, chunk))
	if err := a.Ints(first); err != nil {
		return err
	}
	for _, src := range first {
		if uint64(src) >= uint64(nodes) {
			return leaves(src)
		}
	}
	return nil
}

// EachPair calls add for all edges of p, in several pieces, and checks that both ends are below nodes.
// name is the file, for messages. The slices are valid during the call.
func EachPair(ctx context.Context, name string, p Pairs, nodes int64, add func(dst, src []int64) error) error {
	dst, src := make([]int64, chunk), make([]int64, chunk)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := p.Next(dst, src)
		if err != nil || n == 0 {
			return err
		}
		for i := range n {
			if uint64(dst[i]) >= uint64(nodes) || uint64(src[i]) >= uint64(nodes) {
				return fault.New(fault.ErrInput, "%s: the edge from %d to %d is out of range: the graph has %d nodes", name, src[i], dst[i], nodes)
			}
		}
		if err := add(dst[:n], src[:n]); err != nil {
			return err
		}
	}
}
