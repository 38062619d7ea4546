// Package topology opens the topology of a DATASET for samplers, at one of these levels:
//
//	mapped  the files are mapped, and the kernel's page cache holds pages as it has room
//	cached  the in-neighbours of chosen nodes are held in memory, up to a given size; a
//	        storage stack reads the others, all that a hop of a batch needs together
//
// Samplers draw the same batches from both.
//
// # Cached
//
// Memory holds the position of each node's in-neighbours (4 bytes for each node), the checksum of
// every 4 KiB page of the indices (a thousandth of their size), the bounce buffers of the stack
// (StackBytes) and, after Fill, the in-neighbours of the first nodes of an Order, until memory is
// full, with an index: a bit for every node and 4 bytes for each held node.
//
// A hop reads all in-neighbours that it needs and that are not held together: it sorts the
// destinations by the position of their in-neighbours, and reads each page once, adjacent pages by one
// request. If a destination draws only some in-neighbours, pages without a drawn edge are not read,
// since draws depend on degrees only. LABOR and buffers of partitions need all in-neighbours. Reads
// bypass the page cache if the file system allows it; pages are compared with their checksums, and
// node ids with the number of nodes.
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
	// Pinned is the level of a topology that is copied to memory that a GPU reads. Package
	// featurestore/onthefly makes it; Open does not accept it.
	Pinned = "pinned"
)

// Levels returns the levels that Open accepts, the default first.
func Levels() []string { return []string{Mapped, Cached} }

// CheckLevel returns an error of kind fault.ErrUsage if Open does not accept the level.
func CheckLevel(level string) error {
	if !slices.Contains(Levels(), level) {
		return fault.New(fault.ErrUsage, "--topology %s is not one of %s", level, strings.Join(Levels(), ", "))
	}
	return nil
}

// Topology is an open topology. Readers may be made and used concurrently, each by one goroutine; every
// goroutine that reads calls Guard itself. The other methods must be called by one goroutine, while no
// reader reads.
type Topology interface {
	// Level returns the level, one of Levels.
	Level() string
	// NewReader returns a reader for one sampler. The caller frees it before Close.
	NewReader() (Reader, error)
	// ReaderBytes returns the bytes of memory of a reader.
	ReaderBytes() int64
	// Guard runs fn, which reads the topology on the calling goroutine. It returns an error of kind
	// fault.ErrCorrupt if a mapped file cannot be read any more, or was changed meanwhile.
	Guard(fn func() error) error
	// Unchanged returns an error of kind fault.ErrCorrupt if a mapped file was changed or replaced
	// since it was verified. Call it before committing batches.
	Unchanged() error
	// Bytes returns the bytes of memory that the topology holds; HostBytes returns the part outside
	// Go's heap.
	Bytes() int64
	HostBytes() int64
	// Fill reads the in-neighbours of the first nodes of an order into memory, instead of the nodes
	// held before: all nodes of the order, or the first ones that fit into the given bytes with the
	// index. It returns the number of nodes and the bytes read. Meanwhile it also holds the order's
	// list, and a reader's memory. A mapped topology holds nothing. After an error nothing is held.
	Fill(ctx context.Context, by Order, bytes int64, rep progress.Reporter) (nodes, read int64, err error)
	Close() error
}

// Reader is a reader of the topology for one sampler. Free frees its memory.
type Reader interface {
	sampler.Reader
	Free()
}

// Localize calls s.Localize with the topology of d, if the order of the batches needs it. That reads
// the graph many times, in the order of its nodes; a topology that is not mapped is mapped for it.
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

// Options are the options of Open.
type Options struct {
	Level   string
	Workers int // goroutines that verify a mapped topology; 0: one for each processor
	// IO is the kind of storage stack of a cached topology, and Stack opens it; "" and nil mean the
	// default of iostack/all.
	IO    string
	Stack func(kind string, o iostack.Options) (iostack.Stack, string, error)
}

// Needs returns the bytes of memory that a topology holds before Fill, and the bytes that opening it
// takes beside that.
func Needs(d *dataset.Dataset, level string) (held, work int64) {
	if level != Cached {
		return 0, 0
	}
	return graph.OffsetsBytes(d.Facts().Nodes) + d.IndicesPageSumsBytes() + StackBytes, d.IndicesPageSumsWork()
}

// ReaderBytes returns the bytes of memory of a reader of a topology of the given level.
func ReaderBytes(level string) int64 {
	if level != Cached {
		return 0
	}
	return readerBytes()
}

// Open opens the topology of a dataset. It verifies a mapped topology completely. Of a cached topology, it
// verifies the offsets; each page of indices is checked when it is read, by a table of checksums. If the
// dataset lacks the table, Open reads all indices to make it, and saves it in the dataset's directory if it
// can.
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

// CSC returns the graph of a mapped topology, for callers that copy it, and nil for other topologies.
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
