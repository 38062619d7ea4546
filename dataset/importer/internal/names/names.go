// Package names numbers nodes that have names, in a bounded amount of memory.
//
// Names are numbered 0, 1, 2 … in the order in which they are first added. Where they fit in
// memory they are in a map. Where they do not, they are spread by a hash over buckets on disk, each of
// which does:
//
//	Add … Add ──► bucket = hash mod 64 ──► Done: each bucket's distinct names, by first appearance
//	                                          └─► merged by first appearance: name number 0, 1, 2 …
//	Find: names ──► buckets ──► looked up bucket by bucket ──► merged in the order of the names
//
// The numbers do not depend on the memory.
package names

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"io"
	"math"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

const (
	// entryBytes is about the memory of a map's entry for a name, beside the name's bytes.
	entryBytes = 96
	buckets    = 64
)

// Least is the smallest memory of a Dict, in bytes.
const Least = 2 << 20

// None is the number of a name that was not added.
const None = math.MaxUint32

// Dict gives names numbers, from 0, in the order of their first appearance. Call Add for all names,
// then Done, then the other methods. It is not safe for concurrent use.
type Dict struct {
	fs      vfs.FS
	scratch func(what string) string // names a file to make
	memory  int64
	added   uint64
	bytes   int64 // of all distinct names
	n       int64 // of these
	twice   int64 // names that were added again
	again   again // the first of these

	seed  maphash.Seed
	known map[string]uint32 // in memory
	list  []string          // by number, likewise
	held  int64             // by both

	defined *spread // names in the order of adding; nil in memory
	own     *spread // of each bucket its distinct names, with their numbers
	inOrder *spread // of one bucket: all names by number
}

type again struct {
	at   uint64
	name string
}

// New returns an empty Dict that holds at most memory bytes. scratch returns the path of a scratch
// file by a short name; the Dict creates such files and removes their names immediately. Less memory
// than Least is an error of kind fault.ErrBudget.
func New(fsys vfs.FS, scratch func(what string) string, memory int64) (*Dict, error) {
	if memory < Least {
		return nil, fault.New(fault.ErrBudget, "numbering the nodes' names needs at least %s of memory", budget.FormatBytes(Least))
	}
	return &Dict{fs: fsys, scratch: scratch, memory: memory, seed: maphash.MakeSeed(), known: map[string]uint32{}}, nil
}

// Len returns the number of distinct names, Bytes their length in bytes together. Both are known after
// Done.
func (d *Dict) Len() int64   { return d.n }
func (d *Dict) Bytes() int64 { return d.bytes }

// Held returns the bytes of memory that the names take: 0 if they are on disk.
func (d *Dict) Held() int64 {
	if d.defined != nil {
		return 0
	}
	return d.held
}

// Twice returns the number n of calls of Add with a name that was added before, and the first of
// these: its name, and the number of the call, from 0. It is known after Done.
func (d *Dict) Twice() (n int64, name string, at int64) {
	return d.twice, d.again.name, int64(d.again.at)
}

// Add adds a name.
func (d *Dict) Add(name []byte) error {
	at := d.added
	d.added++
	if d.defined != nil {
		return d.defined.add(d.bucket(name), at, name)
	}
	if _, ok := d.known[string(name)]; ok {
		d.repeated(at, string(name))
		return nil
	}
	if d.held += int64(len(name)) + entryBytes; d.held > d.memory {
		if err := d.spill(); err != nil {
			return err
		}
		return d.defined.add(d.bucket(name), at, name)
	}
	s := string(name)
	d.known[s] = uint32(len(d.list))
	d.list = append(d.list, s)
	d.n++
	d.bytes += int64(len(s))
	return nil
}

func (d *Dict) repeated(at uint64, name string) {
	if d.twice == 0 || at < d.again.at {
		d.again = again{at, name}
	}
	d.twice++
}

func (d *Dict) bucket(name []byte) int { return int(maphash.Bytes(d.seed, name) % buckets) }

// spill moves the names in memory to disk. Their places are their numbers, which are below the places
// of all later names.
func (d *Dict) spill() (err error) {
	if d.defined, err = d.spread("names", buckets); err != nil {
		return err
	}
	for i, name := range d.list {
		if err := d.defined.add(d.bucket([]byte(name)), uint64(i), []byte(name)); err != nil {
			return err
		}
	}
	d.known, d.list, d.n, d.bytes = nil, nil, 0, 0
	return nil
}

func (d *Dict) spread(what string, n int) (*spread, error) {
	return newSpread(d.fs, d.scratch(what), n, d.memory/4)
}

// Done numbers the names, after the last Add.
func (d *Dict) Done(ctx context.Context) (err error) {
	if d.defined == nil {
		return d.check()
	}
	if err := d.defined.flush(); err != nil {
		return err
	}
	distinct, err := d.spread("distinct", buckets)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, distinct.close()) }()
	for b := range buckets {
		seen, held := map[string]struct{}{}, int64(0)
		err := d.defined.each(ctx, b, func(at uint64, name []byte) error {
			if _, ok := seen[string(name)]; ok {
				d.repeated(at, string(name))
				return nil
			}
			if held += int64(len(name)) + entryBytes; held > d.memory/2 {
				return fault.New(fault.ErrBudget, "one of %d parts of the nodes' names takes more than the %s that --memory leaves for it: give more", buckets, budget.FormatBytes(d.memory/2))
			}
			seen[string(name)] = struct{}{}
			return distinct.add(b, at, name)
		})
		if err != nil {
			return err
		}
	}
	if err := errors.Join(d.defined.close(), distinct.flush()); err != nil {
		return err
	}
	if d.own, err = d.spread("own", buckets); err != nil {
		return err
	}
	if d.inOrder, err = d.spread("in-order", 1); err != nil {
		return err
	}
	err = distinct.merge(ctx, func(b int, _ uint64, name []byte) error {
		number := uint64(d.n)
		d.n++
		if err := d.check(); err != nil {
			return err
		}
		d.bytes += int64(len(name))
		return errors.Join(d.own.add(b, number, name), d.inOrder.add(0, number, name))
	})
	return errors.Join(err, d.own.flush(), d.inOrder.flush())
}

// check refuses more names than there are numbers.
func (d *Dict) check() error {
	if d.n > None {
		return fault.New(fault.ErrInput, "there are more than %d names of nodes: this version has 32-bit node ids", int64(None))
	}
	return nil
}

// Names calls emit for all names in the order of their numbers. A name is valid during the call.
func (d *Dict) Names(ctx context.Context, emit func(name []byte) error) error {
	if d.inOrder != nil {
		return d.inOrder.each(ctx, 0, func(_ uint64, name []byte) error { return emit(name) })
	}
	var b []byte
	for i, s := range d.list {
		if i%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		b = append(b[:0], s...)
		if err := emit(b); err != nil {
			return err
		}
	}
	return nil
}

// Find looks up the names that next returns until io.EOF, and calls emit with the number of each, in
// the same order, or with None.
func (d *Dict) Find(ctx context.Context, next func() ([]byte, error), emit func(number uint32) error) (err error) {
	if d.own == nil {
		for i := 0; ; i++ {
			if i%(1<<16) == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			name, err := next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			number, ok := d.known[string(name)]
			if !ok {
				number = None
			}
			if err := emit(number); err != nil {
				return err
			}
		}
	}
	asked, err := d.spread("asked", buckets)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, asked.close()) }()
	for at := uint64(0); ; at++ {
		name, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = asked.add(d.bucket(name), at, name)
		}
		if err != nil {
			return err
		}
	}
	if err := asked.flush(); err != nil {
		return err
	}
	found, err := d.spread("found", buckets)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, found.close()) }()
	for b := range buckets {
		known := map[string]uint32{}
		if err := d.own.each(ctx, b, func(number uint64, name []byte) error {
			known[string(name)] = uint32(number)
			return nil
		}); err != nil {
			return err
		}
		if err := asked.each(ctx, b, func(at uint64, name []byte) error {
			number, ok := known[string(name)]
			if !ok {
				number = None
			}
			return found.add(b, at, binary.LittleEndian.AppendUint32(nil, number))
		}); err != nil {
			return err
		}
	}
	if err := found.flush(); err != nil {
		return err
	}
	return found.merge(ctx, func(_ int, _ uint64, number []byte) error { return emit(binary.LittleEndian.Uint32(number)) })
}

// Close closes the scratch files, which frees their disk space.
func (d *Dict) Close() error {
	var errs []error
	for _, s := range []*spread{d.defined, d.own, d.inOrder} {
		if s != nil {
			errs = append(errs, s.close())
		}
	}
	return errors.Join(errs...)
}
