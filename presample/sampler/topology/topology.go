// Package topology opens the topology of a DATASET for samplers, at one of these levels:
//
//	mapped  the files are mapped, and the kernel's page cache holds pages as it has room
//	cached  the in-neighbours of chosen nodes are held in memory, up to a given size; those
//	        of others are read by a storage stack, all that a hop of a batch needs together
//
// Samplers draw the same batches from any.
//
// # Cached
//
// Memory holds the position of each node's in-neighbours (4 bytes a node), the checksum of every 4 KiB
// page of the indices (a thousandth of them), the bounce buffers of the stack (StackBytes), and after
// Fill the in-neighbours of the nodes that an Order lists first, until memory is full, with an index of
// them: a bit for every node and 4 bytes for each held node.
//
// A hop reads the in-neighbours that are not held in one go: it sorts the destinations by the position
// of their in-neighbours, and reads each page once, adjacent pages by one request. Of a destination
// that draws some of many, pages without a drawn edge are left out: draws go by degrees alone. Only
// LABOR and buffers of partitions look at all neighbours. Reads go around the page cache where the file
// system allows it, pages are compared with their checksums, and node ids with the number of nodes.
package topology

import (
	"context"
	"errors"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	stacks "diskgnn/iostack/all"
	"diskgnn/presample/sampler"
)

// Levels, as --topology names them.
const (
	Mapped = "mapped"
	Cached = "cached"
	// Pinned is a copy of a mapped one that a GPU reads: featurestore/live makes it, and Open
	// does not know it.
	Pinned = "pinned"
)

// Levels returns the levels that Open accepts, the default first.
func Levels() []string { return []string{Mapped, Cached} }

// CheckLevel refuses a level that Open does not know.
func CheckLevel(level string) error {
	if !slices.Contains(Levels(), level) {
		return fault.New(fault.ErrUsage, "--topology %s: known are %s", level, strings.Join(Levels(), ", "))
	}
	return nil
}

// Topology is an open topology. Readers may be made and used on any goroutines; other methods
// belong to one, while no reader reads.
type Topology interface {
	// Level is one of Levels.
	Level() string
	// NewReader returns a reader for one sampler. Free it before Close.
	NewReader() (Reader, error)
	// ReaderBytes is the memory of a reader.
	ReaderBytes() int64
	// Guard runs fn, which reads on the calling goroutine, and returns an error of kind
	// fault.ErrCorrupt where a mapped file can no longer be read, or was changed meanwhile.
	Guard(fn func() error) error
	// Unchanged returns an error of kind fault.ErrCorrupt if a mapped file was changed or replaced
	// since it was verified. Call it before committing batches.
	Unchanged() error
	// Bytes is the memory that the topology holds; of it HostBytes is outside Go's heap.
	Bytes() int64
	HostBytes() int64
	// Fill holds the in-neighbours of the nodes that an order lists first, in place of the present
	// ones: to the end of the list, or to the first node that does not fit in the given bytes with the
	// index. It returns the number of nodes, and the bytes read. While it works it also holds the list,
	// and a reader while it reads. A mapped topology holds nothing. After an error nothing is held.
	Fill(ctx context.Context, by Order, bytes int64, rep progress.Reporter) (nodes, read int64, err error)
	Close() error
}

// Reader reads for one sampler.
type Reader interface {
	sampler.Reader
	Free()
}

// Localize orders the seed nodes, where their order calls for it: see sampler.Seeds. That goes
// through the graph many times, in the order of its nodes; a topology that is not mapped is
// mapped for it.
func Localize(ctx context.Context, s *sampler.Seeds, t Topology, d *dataset.Dataset, workers int, rep progress.Reporter) (err error) {
	if m, ok := t.(*mapped); ok {
		return s.Localize(ctx, m.Topology, workers, rep)
	}
	if s.LocalizeMemory(d.Facts().Nodes) == 0 {
		return nil
	}
	m, err := d.Topology(ctx, rep, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return s.Localize(ctx, m, workers, rep)
}

// Options of Open.
type Options struct {
	Level   string
	Workers int // goroutines that verify what is mapped; 0: one for each processor
	// IO is the kind of storage stack that cached topologies read by, and Stack opens it: "" and nil
	// mean the default of iostack/all.
	IO    string
	Stack func(kind string, o iostack.Options) (iostack.Stack, string, error)
}

// Needs returns the memory that a topology holds for a dataset before Fill, and the work memory of
// opening it, in bytes.
func Needs(d *dataset.Dataset, level string) (held, work int64) {
	if level != Cached {
		return 0, 0
	}
	return graph.OffsetsBytes(d.Facts().Nodes) + d.IndicesPageSumsBytes() + StackBytes, d.IndicesPageSumsWork()
}

// ReaderBytes returns the memory of a reader of that level.
func ReaderBytes(level string) int64 {
	if level != Cached {
		return 0
	}
	return readerBytes()
}

// Open opens the topology of a dataset. A mapped topology is verified as a whole. Of a cached topology
// the offsets are verified; the indices are checked as they are read, by a table of their pages'
// checksums that the first reader makes in a pass over them.
func Open(ctx context.Context, d *dataset.Dataset, o Options, rep progress.Reporter) (Topology, error) {
	if err := CheckLevel(o.Level); err != nil {
		return nil, err
	}
	if o.Level == Mapped {
		t, err := d.Topology(ctx, rep, o.Workers)
		if err != nil {
			return nil, err
		}
		return &mapped{t}, nil
	}
	if o.Stack == nil {
		o.Stack = stacks.Open
	}
	if o.IO == "" {
		o.IO = stacks.Auto
	}
	return openCached(ctx, d, o, rep)
}

// mapped is the level of that name.
type mapped struct{ *dataset.Topology }

// CSC returns the graph of a mapped topology, for those who copy it; nil of another.
func CSC(t Topology) *graph.CSC {
	if m, ok := t.(*mapped); ok {
		return &m.CSC
	}
	return nil
}

func (m *mapped) Level() string      { return Mapped }
func (m *mapped) ReaderBytes() int64 { return 0 }
func (m *mapped) Bytes() int64       { return 0 }
func (m *mapped) HostBytes() int64   { return 0 }

func (m *mapped) NewReader() (Reader, error) { return unfreed{sampler.Graph(&m.CSC)}, nil }

func (m *mapped) Fill(context.Context, Order, int64, progress.Reporter) (nodes, read int64, err error) {
	return 0, 0, nil
}

// unfreed is a reader without memory of its own.
type unfreed struct{ sampler.Reader }

func (unfreed) Free() {}
