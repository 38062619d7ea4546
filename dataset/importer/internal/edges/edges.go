// Package edges reads lists of edges as streams of pairs.
package edges

import (
	"context"
	"errors"

	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/internal/fault"
)

// chunk is the number of edges that are read at a time.
const chunk = 1 << 14

// Integers is a stream of integers: Next fills dst as far as there are any, and returns how
// many there were.
type Integers interface {
	Next(dst []int64) (int, error)
	Close() error
}

// Pairs is a stream of edges: Next fills dst and src as far as there are any.
type Pairs interface {
	Next(dst, src []int64) (int, error)
	Close() error
}

// Interleave reads sources and destinations that follow each other in pairs. Closing the
// result closes the stream.
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

// TwoRows reads the edges of an array of shape (2, E), row-major: all sources, then all
// destinations. open opens the array; it is called twice.
func TwoRows(open func() (*npz.Array, error)) (_ Pairs, err error) {
	a, err := open()
	if err != nil {
		return nil, err
	}
	b, err := open()
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	p := &twoRows{src: a, dst: b, left: a.Shape[1]}
	if err := b.Skip(p.left); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// TwoVectors reads the edges of two arrays of equal length, sources and destinations, by the names
// that open knows them by.
func TwoVectors(open func(key string) (*npz.Array, error), src, dst string) (Pairs, error) {
	a, err := open(src)
	if err != nil {
		return nil, err
	}
	b, err := open(dst)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	p := &twoRows{src: a, dst: b, left: a.Count(), whole: true}
	if err := errors.Join(a.Vector(-1), b.Vector(p.left)); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

type twoRows struct {
	src, dst *npz.Array
	left     int64
	whole    bool // both are read to their ends
}

func (p *twoRows) Next(dst, src []int64) (int, error) {
	n := min(int64(len(dst)), p.left)
	p.left -= n
	err := errors.Join(p.src.Ints(src[:n]), p.dst.Ints(dst[:n]))
	if err == nil && n == 0 && p.whole { // an archive checks its sums where an array ends
		err = errors.Join(p.src.End(), p.dst.End())
	}
	return int(n), err
}

func (p *twoRows) Close() error { return errors.Join(p.src.Close(), p.dst.Close()) }

// Each calls add for all edges of the stream, some at a time. Those that leave the graph of so
// many nodes are refused; name is the file, for messages.
func Each(ctx context.Context, name string, p Pairs, nodes int64, add func(dst, src []int64) error) error {
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
				return fault.New(fault.ErrInput, "%s: the edge from %d to %d leaves the graph of %d nodes", name, src[i], dst[i], nodes)
			}
		}
		if err := add(dst[:n], src[:n]); err != nil {
			return err
		}
	}
}
