// Package featurestore defines the stores that supply a run with mini-batches. A store holds the graph
// of every batch and the features of its input nodes, and makes them ready in the memory that a batch
// travels in, a slot.
//
//	Candidate   a store found by its metadata: Facts, Lineage; Plan divides memory
//	   │ Open
//	Store       levels that hold rows, one of a process
//	   │ View   one for every device that computes, or one for the host
//	Slot        Start ─► LoadGraph ─► Wait ─► Assemble: the graph, and the feature matrix
//
// The stores lie below: packed reads the output of `diskgnn pack`, memory holds all rows, rows, ginex,
// gnndrive and hyperion read them one by one, agnes in blocks for many batches at once, gids reads and
// holds pages of them, marius reads whole partitions, mmap maps them and lets the kernel read their
// pages. Stores of rows alone take the graphs from a Source: package sampled reads them, package live
// draws them while training. A policy that looks ahead sees the input nodes of the coming batches in a
// Window. Package featurestore/all finds a store by its name; featurestore/storetest holds each to a
// plain gather from the dataset. No store changes a number: batches of equal samples have equal graphs
// and equal rows, in an order of the input nodes that the store chooses.
package featurestore

import (
	"context"
	"fmt"

	"diskgnn/device/cuda"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// Split is the use of a batch: training, or a split to evaluate.
type Split uint8

// The splits of a dataset's labelled nodes.
const (
	Train Split = iota
	Valid
	Test
)

// Ref names a batch: the Index-th of its split. Training batches count through all
// sample epochs.
type Ref struct {
	Split Split
	Index int
}

// String names the batch in errors.
func (r Ref) String() string {
	return fmt.Sprintf("%s %d", [...]string{"batch", "validation batch", "test batch"}[r.Split], r.Index)
}

// Facts are the counts of a run's batches and of their rows.
type Facts struct {
	Nodes       int64
	Dim         int
	DType       dtype.Type // of the rows as the store holds them
	RowBytes    int        // of such a row
	Classes     int
	TargetBytes int    // of a seed node's multi-hot labels; 0: it has one class
	Metric      string // by which the dataset is usually judged; "" where none is known

	Train, Valid, Test      int // batches; training's of all sample epochs
	Epochs, BatchesPerEpoch int // sample epochs
	Fanout, EvalFanout      []int

	TrainSizes graph.Sizes // maxima over the training batches
	TrainMeans graph.Sizes // rounded means over them
	EvalSizes  graph.Sizes // maxima over the others

	EpochSeeds int64 // seed nodes of the sample epoch that has most
	EvalSeeds  int64 // of the validation or the test batches, whichever have more
}

// MultiLabel reports whether a node may have several classes.
func (f *Facts) MultiLabel() bool { return f.TargetBytes > 0 }

// Inputs returns the most input nodes of a training batch, or with eval of another; 0 where
// there are no such batches.
func (f *Facts) Inputs(eval bool) int {
	if eval {
		return f.EvalSizes.Inputs()
	}
	return f.TrainSizes.Inputs()
}

// Batches returns how many batches a split has.
func (f *Facts) Batches(s Split) int { return [...]int{f.Train, f.Valid, f.Test}[s] }

// Lineage names the directories by their fingerprints. Runs record it. Store is the fingerprint of the
// store's own directory, empty for stores without one. Where batches are drawn while training, Samples
// is a hash of the parameters that decide them.
type Lineage struct {
	Dataset, Samples, Store string
}

// Description describes a store's directory for people. No number of a run follows from it. It is zero
// for stores without a directory of their own.
type Description struct {
	Codec          string  `json:"codec"`
	Policy         string  `json:"policy"`
	LeastCacheRows int64   `json:"least_cache_rows"`
	Segment        int     `json:"segment"` // batches that share rows on disk
	DiskBytes      int64   `json:"disk_bytes"`
	Blowup         float64 `json:"blowup"` // DiskBytes over the feature table's
	// Levels are the parts of the directory. Caches gives the reads for each cache size that a trainer
	// may choose, smallest first.
	Levels []Level `json:"levels,omitempty"`
	Caches []Cache `json:"caches,omitempty"`
}

// Level is one part of a store's directory.
type Level struct {
	Name  string `json:"name"` // hot, ssd, cold, evaluation, graphs or index
	Rows  int64  `json:"rows"` // 0 for graphs and the index
	Bytes int64  `json:"bytes"`
}

// Cache gives the reads of a trainer that holds Rows rows in memory.
type Cache struct {
	Rows int64   `json:"rows"`
	Hits float64 `json:"hits"` // share of the training batches' rows that memory serves
	// ReadBytes are the bytes read for the other rows, over the training batches of all sample epochs.
	ReadBytes int64 `json:"read_bytes"`
}

// Candidate is a store that was found. Its metadata was read; it holds no memory worth counting.
type Candidate interface {
	// Name is the value of --store.
	Name() string
	// Dir is the directory that errors are about.
	Dir() string
	Facts() Facts
	Lineage() Lineage
	Describe() Description
	// InOrder says that training batches must be started in the order of the samples, which
	// is cyclic through all sample epochs, from the one that Fill names.
	InOrder() bool
	// Plan divides the memory that the options allow. Less than the least is refused with
	// fault.ErrBudget.
	Plan(PlanOptions) (Layout, error)
	// PlanEval returns the layout of a store that loads each evaluation batch once, and no
	// other, for the host. Where it has RAMBytes, Fill comes before the batches.
	PlanEval() (Layout, error)
	// Open opens the store with a layout that Plan or PlanEval returned. The stack must
	// outlive it. Its levels are empty until Fill.
	Open(stack iostack.Stack, l Layout) (Store, error)
}

// Reads is a Candidate with batches of many small reads: it wants more reads in flight than the storage
// stack has by default.
type Reads interface {
	// Reads returns the options of the stack that the store is to be opened with.
	Reads() iostack.Options
}

// Sliced is a Candidate that may be a slice: its directory then has the training batches of one rank
// alone, and the evaluation batches.
type Sliced interface {
	// Slice returns which rank's, or false: the directory has all batches.
	Slice() (Slice, bool)
}

// Slice is one rank's part of a training on World ranks, where a step takes Accumulate batches over all
// ranks. It divides an epoch's batches in the order of the samples.
type Slice struct{ Rank, World, Accumulate int }

// Confinable is a Candidate that has its rows in the page cache of the operating system. A memory
// cgroup around the process can hold that cache to the planned size.
type Confinable interface {
	// Confine returns the layout in such a cgroup, with a Note that says so, or false where the store
	// is better off without one.
	Confine(l Layout) (Layout, bool)
}

// PlanOptions are the limits of a layout, and the wishes for it.
type PlanOptions struct {
	// Cache is the wanted RAM cache: a share of the nodes, or bytes. Nil takes as much as
	// Memory allows and the store can use.
	Cache *budget.Size
	// Memory is the limit of the store and its slots, in bytes.
	Memory int64
	// Policy is the residency policy of a store that has several; "" stands for its default.
	Policy string
	// FaultThreads is the number of threads on which a store that maps its rows touches
	// them; 0 stands for its default.
	FaultThreads int
	// Least takes the smallest cache that the store can have, whatever Cache says.
	Least bool
	// Slots and EvalSlots are the numbers of slots that will be made.
	Slots, EvalSlots int
	// GPU is the device that the matrices are for; nil: they are for the host.
	GPU *cuda.Device
	// GPUMemory is the limit of the store's device memory, in bytes. GPUCache is the wanted cache
	// there, a share of the rows, or bytes; nil: all rows that fit.
	GPUMemory int64
	GPUCache  *budget.Size
	// Direct says that reads can land in the device's memory, for up to MostSlots slots.
	Direct    bool
	MostSlots int
	// Peers are further devices of the process, which have a view each, after GPU's;
	// GPUMemory and GPUCache are of each device. Divide says that they read each other's
	// memory, so that the rows on them are divided.
	Peers  []*cuda.Device
	Divide bool
	// Reads is the storage stack that the store will be opened with, if the device can read
	// from it by itself; nil: the host submits all reads. A store that has them submitted by
	// the host all the same says in the Note why.
	Reads iostack.DeviceStack
}

// NoGPURows refuses rows on a GPU of a store that has none there: where says where they are.
func (o *PlanOptions) NoGPURows(where string) error {
	if g := o.GPUCache; o.GPU != nil && g != nil && g.Value != 0 {
		return fault.New(fault.ErrUsage, "--gpu-cache %s: %s; use --ram-cache", g, where)
	}
	return nil
}

// Layout is the memory that a store will hold, known before it is opened.
type Layout struct {
	CacheRows int64 // in RAM or on the GPU

	TableBytes    int64 // of what Open reads of the directory, such as checksums
	RAMBytes      int64 // of the rows in RAM, and of what finds them
	KeepBytes     int64 // of what filling them while training takes besides
	WindowBytes   int64 // of the window, if the store has one: see Source.WindowBytes
	SlotBytes     int64 // of one training slot
	EvalSlotBytes int64 // of one evaluation slot
	DecodeBytes   int64 // of all slots' decompression
	StateBytes    int64 // that State returns at most
	QueueBytes    int64 // of the queues by which a GPU reads by itself: see iostack.DeviceStack

	// Ahead is how many training batches the store's Window shows after the first; 0: the
	// store has no window. A store with one is InOrder.
	Ahead int

	GPU          *cuda.Device // that the matrices are for; nil: the host
	GPURows      int64        // on the GPU; divided among several, on all of them
	GPURowsBytes int64        // of their rows, on each
	GPUBytes     int64        // all that the store takes of the device's memory at once
	GPUSlotBytes int64        // what a training slot takes of it besides

	Policy string // which the rows of the cache follow, of a store with a choice of them
	// ByUse says that Fill leaves the cache empty, wholly or in part: rows enter it as batches use
	// them.
	ByUse bool
	// FaultThreads is the number of threads that touch mapped rows; 0: none are mapped.
	FaultThreads int
	// Unchecked says that no checksum is compared when rows are read.
	Unchecked bool
	Note      string // what the user should know, or ""

	// Own belongs to the store: the rest of its parameters for Open.
	Own any
}

// Bytes returns the host memory of the store with its slots, in bytes.
func (l *Layout) Bytes(slots, evalSlots int) int64 {
	return l.TableBytes + l.RAMBytes + l.KeepBytes + l.WindowBytes + l.DecodeBytes + l.QueueBytes + int64(slots)*l.SlotBytes + int64(evalSlots)*l.EvalSlotBytes
}

// Store holds rows. It belongs to one process, and its methods to one goroutine; slots
// are made of its views.
type Store interface {
	// View returns the store as the device of that number sees it; 0 is the host's where
	// there is no device.
	View(i int) View
	// Fill fills the levels for a training that goes on with the given training batch, and
	// returns the bytes read. No batch may be under way. After an error it must be called
	// again.
	Fill(ctx context.Context, next int, rep progress.Reporter) (read int64, err error)
	// State returns the part of a checkpoint, beside the position, that the store needs to go on
	// exactly, or nil where residency follows from the position. LoadState puts it back.
	State() ([]byte, error)
	LoadState([]byte) error
	// Close releases files and levels. All slots must have been freed.
	Close() error
}

// View is a store as one device sees it. Its methods may be called from several
// goroutines.
type View interface {
	// NewSlot reserves a slot at the maxima of training batches, or with eval of the
	// others.
	NewSlot(eval bool) (Slot, error)
}

// Slot holds one batch on its way: its graph, its feature matrix, and the memory that
// reads land in. A slot belongs to one goroutine at a time. The steps come in the order
// of their declaration; each may run while other slots are at other steps, and Assemble
// of training batches in the order in which they compute.
type Slot interface {
	// Start submits the reads that are known without the graph, and returns at once. The
	// slot must be waited for, even after an error.
	Start(Ref) error
	// LoadGraph waits for the graph, checks and decodes it, and submits the reads that
	// follow from it.
	LoadGraph(ctx context.Context) error
	// Wait returns when all reads have landed. When ctx ends first it returns once no
	// read can still write into the slot.
	Wait(ctx context.Context) error
	// Assemble checks the bytes and completes the matrix, or the inputs from which Fill makes it.
	Assemble(ctx context.Context) error

	// Batch is the graph of the batch loaded last; its memory is reused. The Input of a training batch
	// names each node by its rank: by descending hotness in the samples, ties by ascending id; for
	// batches that are drawn while training, hotness in the batches of the dry pass. The Input of other
	// batches has a meaning that the store defines.
	Batch() *graph.Batch
	// Counts are of the batch loaded last.
	Counts() Counts
	// X returns the feature matrix, input nodes × dim, row-major, where the host computes.
	// It is complete after Assemble, and the slot's until Start.
	X() []float32
	// Matrix returns the memory in which X lies, whichever batch it is of, until Free;
	// none where a device computes.
	Matrix() []byte
	// Fill submits the work that makes x the feature matrix of the assembled batch: copies on the given
	// stream, then work on a stream of the store, and returns the time span of the latter, nil if there
	// is none. The slot must stay as it is until the copies are done. Fill reuses a batch's memory on
	// the device along with x: of training batches, the one before the last must have been computed, of
	// other batches the last. The calling goroutine is attached.
	Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error)
	// Free gives the memory back. No read may be in flight: Wait first.
	Free()
}

// Landing is a Slot that may return from Fill before its bytes have come from the drive; they are
// checked on the device.
type Landing interface {
	// Landed returns the error of the last Fill's copies, once they are done: of a read that failed, or
	// of bytes that do not match their checksums. After an error, discard all results computed
	// meanwhile.
	Landed() error
}

// Source supplies stores of rows alone with batches: their graphs, and the facts about them.
type Source interface {
	// Dir is the directory that errors are about.
	Dir() string
	Facts() Facts
	Lineage() Lineage
	// TableBytes is the memory of the source, in bytes.
	TableBytes() int64
	// Ranks fills rank, one for each node: see Slot.Batch. It holds RanksBytes besides.
	Ranks(rank []uint32) error
	RanksBytes() int64
	// Hotness returns how many training batches have each node among their input nodes, as far
	// as they are known: those that Ranks goes by. It must not be changed. It takes RanksBytes
	// at most.
	Hotness() ([]uint32, error)
	// Inputs reads the input nodes of a batch, in the order in which a loader has them.
	// They alias buf, grown if needed, which is returned for the next call.
	Inputs(ctx context.Context, ref Ref, buf []byte) (nodes []uint32, _ []byte, err error)
	// LoaderBytes is the memory of a loader.
	LoaderBytes(eval bool) int64
	// WindowBytes is the memory of a window that shows ahead batches after the first, in bytes.
	WindowBytes(ahead int) int64
	// Open opens the files that loaders and windows read through the stack.
	Open(stack iostack.Stack) (Loaders, error)
}

// Mapped is a Store or a Source that reads mapped files, which are not checked again after they
// were opened.
type Mapped interface {
	// Unchanged returns an error of kind fault.ErrCorrupt unless the files are still as they were
	// opened, under their names. Call it before committing results made from them. It is safe while
	// batches are under way.
	Unchanged() error
}

// Lists is a Source that draws its batches, and can hold the lists of in-neighbours of some nodes in
// memory. The store chooses these nodes. The other lists are read from disk when batches are drawn.
// TableBytes does not include the memory of HoldLists, which the store counts.
type Lists interface {
	Source
	// Draws returns how often each node's list was drawn from, for the training batches that Hotness
	// goes by. It must not be changed. Nil: the store has no choice of the lists that are held.
	Draws() []uint32
	// ListBytes is the memory that holding a node's list takes, at least 1, and ListRead the
	// bytes that a draw from it reads where it is not held.
	ListBytes(v uint32) int64
	ListRead(v uint32) int64
	// ListsBytes is the memory of holding lists of sum bytes in all, and ListsWork the work memory of
	// HoldLists until it returns, in bytes.
	ListsBytes(sum int64) int64
	ListsWork() int64
	// HoldLists reads the lists of the given nodes, instead of those that are held, and returns
	// the bytes read. No batch may be under way. After an error none are held.
	HoldLists(ctx context.Context, nodes []uint32, rep progress.Reporter) (read int64, err error)
}

// Loaders makes loaders and windows. Close comes when all of them have been freed.
type Loaders interface {
	NewLoader(eval bool) (Loader, error)
	// NewWindow returns a window that shows ahead batches after the first, at least one. It shows
	// nothing until Seek.
	NewWindow(ahead int) (Window, error)
	Close() error
}

// Loader reads the graph of one batch at a time. It belongs to one goroutine at a time.
type Loader interface {
	// Start submits the read of a batch's graph and returns at once. It must be waited for,
	// even after an error.
	Start(Ref) error
	// Wait returns when the read has landed. When ctx ends first it returns once the read
	// cannot write any more.
	Wait(ctx context.Context) error
	// Decode checks and decodes the landed batch. The batch's Input names nodes; it may be changed
	// until the next call.
	Decode() (*graph.Batch, error)
	// Counts has BytesRead, UsefulBytes and GraphRead, of the read started last.
	Counts() Counts
	Free()
}

// Window shows a store the input nodes of the training batches that come: the first, and
// some after it, in the order of the samples, which is cyclic through all sample epochs. A
// store divides its memory with Source.WindowBytes, moves the window to the batch that Fill
// names, and advances it past each batch that its policy has decided. Batches pass LoadGraph
// side by side and in any order: a store decides under a lock, for the batch at hand and for
// those before it that are not decided yet, as the window has the nodes of all of them.
//
// A source reads ahead, or draws ahead; whether a batch that was seen is kept for its loader
// or made once more is the source's choice, and the nodes are the same. A window belongs to
// one goroutine at a time.
type Window interface {
	// Seek makes a training batch the first. Seek and Advance return the bytes read from disk, which
	// count as a graph's; Advance does its reads, if any, at once. Damage is an error of kind
	// fault.ErrCorrupt. After an error, also when ctx ends, the window shows nothing until Seek has
	// succeeded, and no read is under way.
	Seek(ctx context.Context, first int) (read int64, err error)
	// Advance drops the first batch: the one after it is the first, and one more is seen.
	Advance(ctx context.Context) (read int64, err error)
	// First returns the index of the first batch.
	First() int
	// Inputs returns the input nodes of the batch that comes k after the first, k from 0 to
	// the number that the window was made for, in the order in which a loader has them. They
	// are the window's, and stay as they are until it drops the batch.
	Inputs(k int) []uint32
	Free()
}

// Counts say where a batch came from, in bytes and rows.
type Counts struct {
	// BytesRead is the number of bytes read from disk. UsefulBytes of them are in the batch: its graph
	// and its rows.
	BytesRead, UsefulBytes int64
	GraphRead              int64 // what the graph has of BytesRead
	SSDRead, SSDUseful     int64 // what a level of shared rows on disk has of them
	// TopologyRead is the topology's part of GraphRead, where batches are drawn while training, and
	// TopologyRequests is its number of requests.
	TopologyRead, TopologyRequests int64
	RAMRows                        int // rows that no read was for
	GPURows                        int // of these, rows that the GPU's memory held
	// Requests are the reads that were submitted for it, of whatever length, or the pages
	// that a store had the kernel read.
	Requests int64
	// Of a store that holds pages: BufferRows are the RAMRows that are held for good. PageMisses and
	// PageHits are the accesses of pages by all other rows: the pages that were read, and the rest.
	BufferRows, PageMisses, PageHits int
}

// Add adds the counts of another part of the batch.
func (c *Counts) Add(o Counts) {
	c.BytesRead += o.BytesRead
	c.UsefulBytes += o.UsefulBytes
	c.GraphRead += o.GraphRead
	c.SSDRead += o.SSDRead
	c.SSDUseful += o.SSDUseful
	c.TopologyRead += o.TopologyRead
	c.TopologyRequests += o.TopologyRequests
	c.RAMRows += o.RAMRows
	c.GPURows += o.GPURows
	c.Requests += o.Requests
	c.BufferRows += o.BufferRows
	c.PageMisses += o.PageMisses
	c.PageHits += o.PageHits
}
