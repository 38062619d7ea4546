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
// pages. Stores of rows alone take the graphs from a Source: package presampled reads them, package onthefly
// draws them while training. A policy that looks ahead sees the input nodes of the coming batches in a
// Window. A Design describes a store by its name, and package featurestore/all lists the designs.
// Package featurestore/storetest holds each store to a plain gather from the dataset. No store changes a
// number: batches of equal samples have equal graphs and equal rows, in an order of the input nodes that
// the store chooses.
package featurestore

import (
	"context"
	"fmt"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// Split is the split of a batch's seed nodes: training, validation or test nodes.
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

// String returns the name of the batch for errors, such as "validation batch 3".
func (r Ref) String() string {
	return fmt.Sprintf("%s %d", [...]string{"batch", "validation batch", "test batch"}[r.Split], r.Index)
}

// Facts are the sizes of a store's rows, and the numbers and sizes of its batches.
type Facts struct {
	Nodes       int64        // rows of features: of the nodes, or of a typed graph
	Types       *graph.Types // of a typed graph, else nil
	SeedType    int          // place of the seed nodes' type
	Dim         int
	DType       dtype.Type // of the rows as the store holds them
	RowBytes    int        // of such a row
	Classes     int
	TargetBytes int    // of a seed node's multi-hot labels; 0: it has one class
	Metric      string // the usual metric of the dataset, or ""

	Train, Valid, Test      int // batches; training's of all sample epochs
	Epochs, BatchesPerEpoch int // sample epochs
	Fanout, EvalFanout      []int

	TrainSizes graph.Sizes // maxima over the training batches
	TrainMeans graph.Sizes // rounded means over them
	EvalSizes  graph.Sizes // maxima over the others

	// TypeInputs has, of a typed graph, the number of the training batches' input nodes of each type, for people; nil:
	// unknown.
	TypeInputs []int64

	EpochSeeds int64 // the most seed nodes of a sample epoch
	EvalSeeds  int64 // the larger number of seed nodes of the validation and the test batches

	InBits bool // blocks are stored in bits: see PlanOptions.InBits
}

// MultiLabel reports whether a node may have several classes.
func (f *Facts) MultiLabel() bool { return f.TargetBytes > 0 }

// Inputs returns the most input nodes of a training batch, or if eval is set, of an evaluation batch. It
// is 0 if the run has no such batches.
func (f *Facts) Inputs(eval bool) int {
	if eval {
		return f.EvalSizes.Inputs()
	}
	return f.TrainSizes.Inputs()
}

// Batches returns the number of batches of a split.
func (f *Facts) Batches(s Split) int { return [...]int{f.Train, f.Valid, f.Test}[s] }

// Lineage has the fingerprints of the directories that the batches come from. Runs record it. Store is
// the fingerprint of the store's own directory, "" for stores without one. If batches are drawn while
// training, Samples is a hash of the parameters that decide them.
type Lineage struct {
	Dataset, Samples, Store string
}

// Description describes a store's directory for reports. No result of a run depends on it. It is zero
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

// Cache has the reads of a training run with a cache of Rows rows.
type Cache struct {
	Rows int64   `json:"rows"`
	Hits float64 `json:"hits"` // share of the training batches' rows that memory serves
	// ReadBytes are the bytes read for the other rows, over the training batches of all sample epochs.
	ReadBytes int64 `json:"read_bytes"`
}

// Candidate is a store with its metadata read, before it is opened. It holds little memory.
type Candidate interface {
	// Name is the value of --store.
	Name() string
	// Dir is the directory to name in errors.
	Dir() string
	Facts() Facts
	Lineage() Lineage
	Describe() Description
	// InOrder reports whether training batches must be started in the order of the samples, which
	// is cyclic through all sample epochs, from the batch given to Fill.
	InOrder() bool
	// Plan divides the memory that the options allow. If the smallest layout needs more, the error is of
	// kind fault.ErrBudget.
	Plan(PlanOptions) (Layout, error)
	// PlanEval returns the layout, for the host, of a store that loads each evaluation batch once and no
	// training batches. hold is the memory, in bytes, in which it may hold rows that several batches
	// read. If the layout has RAMBytes or HeldBytes, call Fill before the first batch.
	PlanEval(hold int64) (Layout, error)
	// Open opens the store with a layout that Plan or PlanEval returned. The stack must
	// outlive the store. The levels are empty until Fill.
	Open(stack iostack.Stack, l Layout) (Store, error)
}

// Reads is a Candidate with batches of many small reads. It needs more reads in flight than the default
// of the storage stack.
type Reads interface {
	// Reads returns the options for the storage stack of the store.
	Reads() iostack.Options
}

// Sliced is a Candidate that may be a slice: its directory then has the training batches of one rank
// alone, and the evaluation batches.
type Sliced interface {
	// Slice returns the slice of the directory, or false if it has all batches.
	Slice() (Slice, bool)
}

// Slice is one rank's part of a training on World ranks, where a step takes Accumulate batches over all
// ranks. It divides an epoch's batches in the order of the samples.
type Slice struct{ Rank, World, Accumulate int }

// Confinable is a Candidate that has its rows in the page cache of the operating system. A memory
// cgroup around the process can limit that cache to the planned size.
type Confinable interface {
	// Confine returns the layout for a run in such a cgroup, with the cgroup in its Note, or false if the
	// store should run without one.
	Confine(l Layout) (Layout, bool)
}

// PlanOptions are the limits of memory for a layout, and the sizes and policies that the user asks for.
type PlanOptions struct {
	// Cache is the wanted RAM cache: a share of the nodes, or bytes. Nil takes as much as
	// Memory allows and the store can use.
	Cache *budget.Size
	// Memory is the limit of the host memory of the store and its slots, in bytes.
	Memory int64
	// Policy is the residency policy of a store with a choice of policies; "": its default.
	Policy string
	// FaultThreads is the number of threads that touch the rows of a store with mapped rows; 0: its
	// default.
	FaultThreads int
	// Accesses is the number of accesses that batches must exceed to be read together, for a store that gathers
	// batches (Design.Accesses); 0: its default.
	Accesses int64
	// Least selects the smallest cache that the store can have, and overrides Cache.
	Least bool
	// Slots and EvalSlots are the numbers of slots for training and for evaluation.
	Slots, EvalSlots int
	// Hold is memory for rows that only evaluation batches use. It changes nothing else of the layout, but
	// may make slots for evaluation smaller.
	Hold Hold
	// GPU is the device that computes on the matrices; nil: the host does.
	GPU device.GPU
	// GPUMemory is the limit of the store's device memory, in bytes. GPUCache is the wanted cache
	// there, a share of the rows, or bytes; nil: all rows that fit. Without a GPU, it is the part of the rows
	// that a consumer of the batches holds, as float32: see Remote.
	GPUMemory int64
	GPUCache  *budget.Size
	// Direct reports whether reads can land in the device's memory, for up to MostSlots slots.
	Direct    bool
	MostSlots int
	// Peers are further devices of the process, with a view each, after the view of GPU. GPUMemory and
	// GPUCache are limits of each device. If Divide is set, devices read each other's memory, and each
	// holds a part of the rows.
	Peers  []device.GPU
	Divide bool
	// Reads is the storage stack of the store if the device can submit reads to it; nil: the host submits
	// all reads. If the store cannot use it, Layout.Note has the reason.
	Reads iostack.DeviceStack
	// Stored asks for matrices of rows in the type that the store has them in, for a consumer that takes this type. A store
	// that complies says so in its Layout; the others widen.
	Stored bool
	// InBits asks a store with Facts.InBits to leave the blocks of its batches in bits (graph.Block.Bits), for a consumer
	// that decodes them, and checks their values.
	InBits bool
	// Unused are parts of batches that the model does not use.
	Unused Unused
}

// Unused names parts of a batch that a store need not read. It may leave the values of Batch.Input for rows on disk
// undefined, and Batch.Degree empty. Most stores get these with other data, and ignore it.
type Unused struct{ Ranks, Degrees bool }

// Hold is memory of the host, in addition to PlanOptions.Memory, in which a store may hold rows that
// evaluation batches would read again.
type Hold struct {
	Memory      int64 // in bytes
	Validations int   // how often each validation batch is loaded; test batches are loaded once
}

// NoGPURows returns an error of kind fault.ErrUsage if the options have a GPU and a GPUCache above 0.
// Stores call it that hold no rows on a GPU; where is a clause for the message: where they hold them.
func (o *PlanOptions) NoGPURows(where string) error {
	if g := o.GPUCache; o.GPU != nil && g != nil && g.Value != 0 {
		return fault.New(fault.ErrUsage, "--gpu-cache %s: %s; use --ram-cache", g, where)
	}
	return nil
}

// Fits returns an error of kind fault.ErrBudget if a layout needs more host memory than the options allow.
func (o *PlanOptions) Fits(l *Layout) error {
	if need := l.Bytes(o.Slots, o.EvalSlots); need > o.Memory {
		return fault.New(fault.ErrBudget, "%d slots and %d rows in RAM need %s of memory, but only %s is left; give more --memory, or a smaller --ram-cache",
			o.Slots, l.CacheRows, budget.FormatBytes(need), budget.FormatBytes(max(o.Memory, 0)))
	}
	return nil
}

// Layout is the memory of a store and its parameters, known before the store is opened. Sizes are in bytes.
type Layout struct {
	CacheRows int64 // in RAM or on the GPU

	TableBytes    int64 // of tables that Open reads, such as checksums
	RAMBytes      int64 // of the rows in RAM, and of their index
	HeldBytes     int64 // of further rows in RAM, for evaluation batches alone: see Hold
	KeepBytes     int64 // of filling the rows, and of saved states, in addition
	WindowBytes   int64 // of the window, if the store has one: see Source.WindowBytes
	SlotBytes     int64 // of one training slot
	EvalSlotBytes int64 // of one evaluation slot
	DecodeBytes   int64 // of the decompression for all slots
	StateBytes    int64 // of the longest result of State
	QueueBytes    int64 // of the queues of a GPU that submits reads: see iostack.DeviceStack

	// Ahead is the number of training batches that the store's Window shows after the first; 0: the
	// store has no window. A store with a window is InOrder.
	Ahead int
	// Superbatch is the number of batches in the longest superbatch of a store that plans its cache
	// per superbatch; 0: it does not.
	Superbatch int

	GPU          device.GPU // that computes on the matrices; nil: the host
	GPURows      int64      // on the GPU; with Divide, on all GPUs together; without a GPU, held by a consumer
	GPURowsBytes int64      // of the rows on one GPU
	GPUBytes     int64      // of the device's memory, for the store without its slots
	GPUSlotBytes int64      // of the device's memory, for one training slot

	Policy string // residency policy of the cache, for a store with a choice of policies
	// ByUse reports whether Fill leaves the cache empty, wholly or in part: rows enter it when batches
	// use them.
	ByUse bool
	// FaultThreads is the number of threads that touch mapped rows; 0: none are mapped.
	FaultThreads int
	// Accesses is the number of accesses that batches must exceed to be read together; 0: each is read by itself.
	Accesses int64
	// Unchecked reports whether rows are read without comparing checksums.
	Unchecked bool
	// Stored reports whether the rows of Slot.Matrix have the store's type, one after the other, and not float32.
	Stored bool
	Note   string // facts about the layout for the user, or ""

	// Own has further parameters of the store for Open.
	Own any
}

// Bytes returns the host memory of the store with the given numbers of slots, in bytes.
func (l *Layout) Bytes(slots, evalSlots int) int64 {
	return l.TableBytes + l.RAMBytes + l.HeldBytes + l.KeepBytes + l.WindowBytes + l.DecodeBytes + l.QueueBytes + int64(slots)*l.SlotBytes + int64(evalSlots)*l.EvalSlotBytes
}

// Reporter receives the progress of Fill. The name is for stores in other modules.
type Reporter = progress.Reporter

// Store holds rows for the batches of one process. Call its methods from one goroutine. Slots come from
// its views.
type Store interface {
	// View returns the view of the i-th device. Without devices, View 0 is the view of the host.
	View(i int) View
	// Fill fills the levels for a training that continues with training batch next, and returns the
	// bytes read. No batch may be under way. After an error, call Fill again before any batch.
	Fill(ctx context.Context, next int, rep progress.Reporter) (read int64, err error)
	// State returns the store's part of a checkpoint, or nil if residency follows from the position
	// alone. LoadState restores it before Fill.
	State() ([]byte, error)
	LoadState([]byte) error
	// Close releases files and levels. All slots must have been freed.
	Close() error
}

// View is the part of a store for one device. Its methods may be called concurrently.
type View interface {
	// NewSlot reserves the memory of a slot for the largest training batch, or if eval is set, for the
	// largest evaluation batch.
	NewSlot(eval bool) (Slot, error)
}

// Slot holds one batch in flight: its graph, its feature matrix, and the memory that reads land in. A
// slot belongs to one goroutine at a time. Call the steps in the order of their declaration. Each step may
// run while other slots are at other steps, but training batches are assembled in the order in which
// they compute.
type Slot interface {
	// Start submits the reads that do not depend on the graph, and returns at once. Call Wait afterwards,
	// even after an error.
	Start(Ref) error
	// LoadGraph waits for the graph, checks and decodes it, or leaves its blocks in bits (PlanOptions.InBits),
	// and submits the reads that follow from it.
	LoadGraph(ctx context.Context) error
	// Wait returns when all reads have landed. If ctx ends first, it returns as soon as no read can write
	// into the slot any more.
	Wait(ctx context.Context) error
	// Assemble checks the bytes read and completes the matrix, or the inputs from which Fill makes it.
	Assemble(ctx context.Context) error

	// Batch returns the graph of the batch loaded last, valid until the next Start. The Input of a
	// training batch has the rank of each node: by descending hotness in the samples, ties by ascending
	// id. For batches drawn while training, it is the hotness in the batches of the dry pass. The Input of
	// evaluation batches has a meaning that the store defines.
	Batch() *graph.Batch
	// Counts returns the counts of the batch loaded last.
	Counts() Counts
	// X returns the feature matrix, input nodes × dim, row-major, if the host computes. It is complete
	// after Assemble, and valid until the next Start.
	X() []float32
	// Matrix returns the memory of X for all batches of the slot, valid until Free; nil if a device
	// computes.
	Matrix() []byte
	// Fill submits the work that writes the feature matrix of the assembled batch to x: copies on the
	// given stream, then work on a stream of the store. It returns the time span of the work on the
	// store's stream, nil if there is none. The slot must not change until the copies are done. Fill
	// also reuses the device memory of an earlier batch, which must have been computed: the last but one
	// for training batches, the last for evaluation batches. The calling goroutine must be attached to
	// the device.
	Fill(copies device.Stream, x device.Buffer) (device.Span, error)
	// Free releases the memory. Call Wait first: no read may be in flight.
	Free()
}

// Named is a Slot that knows the ids of its input nodes.
type Named interface {
	// OnInput sets a function that LoadGraph calls with the ids, in the order of the Batch's Input. It must not keep or
	// change them.
	OnInput(f func(nodes []uint32))
}

// Landing is a Slot that may return from Fill before the drive has delivered the bytes. The device
// computes their checksums.
type Landing interface {
	// Landed returns the error of the copies of the last Fill: a read that failed, or bytes that do not
	// match their checksums. Call it once the copies are done. After an error, discard all results
	// computed meanwhile.
	Landed() error
}

// Remote is a Store that can leave rows to a consumer of its batches, which holds them on a GPU of its own: the rows of
// the ranks below Layout.GPURows. The store leaves their places in a matrix as they are.
type Remote interface {
	// RemoteRows reads the rows of these ranks, in order and in pieces of whole rows, and returns the bytes read. x is valid
	// until take returns.
	RemoteRows(ctx context.Context, rep progress.Reporter, take func(x []float32) error) (read int64, err error)
}

// Source supplies the batches of stores that hold rows alone: graphs, and facts about them.
type Source interface {
	// Dir is the directory to name in errors.
	Dir() string
	Facts() Facts
	Lineage() Lineage
	// TableBytes is the memory of the source, in bytes.
	TableBytes() int64
	// Ranks fills rank with the rank of every node: see Slot.Batch. While it runs it takes RanksBytes
	// bytes of memory.
	Ranks(rank []uint32) error
	RanksBytes() int64
	// Hotness returns the hotness of every node: in all training batches of the samples, or in the
	// batches of the dry pass. The caller must not change it. The call and its result take up to
	// RanksBytes bytes.
	Hotness() ([]uint32, error)
	// Inputs reads the input nodes of a batch, in the order of Loader.Decode. They alias buf, grown if
	// needed, which is returned for the next call.
	Inputs(ctx context.Context, ref Ref, buf []byte) (nodes []uint32, _ []byte, err error)
	// LoaderBytes is the memory of a loader, in bytes.
	LoaderBytes(eval bool) int64
	// WindowBytes is the memory of a window that shows ahead batches after the first, in bytes.
	WindowBytes(ahead int) int64
	// Open opens the files that loaders and windows read through the stack.
	Open(stack iostack.Stack) (Loaders, error)
}

// Mapped is a Store or a Source that reads mapped files without checking them again after opening them.
type Mapped interface {
	// Unchanged returns an error of kind fault.ErrCorrupt if a file has changed, or its name is missing or
	// refers to another file, since it was opened. Call it before committing results made from the files.
	// It is safe while batches are under way.
	Unchanged() error
}

// Lists is a Source that draws its batches, and can hold the lists of in-neighbours of some nodes in
// memory. The store chooses these nodes. The other lists are read from disk when batches are drawn.
// TableBytes does not include the memory of HoldLists, which the store counts.
type Lists interface {
	Source
	// Draws returns the number of draws from each node's list, for the training batches that Hotness
	// counts. The caller must not change it. It is nil if the store cannot choose the lists in memory.
	Draws() []uint32
	// ListBytes is the memory of a held list, in bytes, at least 1. ListRead is the number of bytes that a
	// draw reads from a list that is not held.
	ListBytes(v uint32) int64
	ListRead(v uint32) int64
	// ListsBytes is the memory of holding lists of sum bytes in all, and ListsWork the work memory of
	// HoldLists until it returns, in bytes.
	ListsBytes(sum int64) int64
	ListsWork() int64
	// HoldLists replaces the held lists by the lists of the given nodes, and returns the bytes read. No
	// batch may be under way. After an error no lists are held.
	HoldLists(ctx context.Context, nodes []uint32, rep progress.Reporter) (read int64, err error)
}

// Loaders makes loaders and windows. Free all of them before Close.
type Loaders interface {
	NewLoader(eval bool) (Loader, error)
	// NewWindow returns a window that shows ahead batches after the first; ahead is at least 1. The window
	// is empty until Seek.
	NewWindow(ahead int) (Window, error)
	Close() error
}

// Loader reads the graph of one batch at a time. It belongs to one goroutine at a time.
type Loader interface {
	// Start submits the read of a batch's graph and returns at once. Call Wait afterwards, even after an
	// error.
	Start(Ref) error
	// Wait returns when the read has landed. If ctx ends first, it returns as soon as the read cannot
	// write any more.
	Wait(ctx context.Context) error
	// Decode checks and decodes the landed batch. Input has node ids, which the caller may change. The
	// batch is valid until the next Start.
	Decode() (*graph.Batch, error)
	// Counts returns BytesRead, UsefulBytes, GraphRead and the requests of the last read.
	Counts() Counts
	Free()
}

// Window shows the input nodes of coming training batches: a first batch, and the batches after it in
// the order of the samples, which is cyclic through all sample epochs. Source.WindowBytes is its memory.
// The store moves the window to the batch given to Fill, and advances it past each batch that its policy
// has decided for. LoadGraph of several batches may run at the same time and in any order. So the store
// decides under a lock, for the present batch and for all earlier batches without a decision.
//
// The source reads or draws the batches ahead. It may keep a batch for its loader or make it again, with
// the same nodes. A window belongs to one goroutine at a time.
type Window interface {
	// Seek makes a training batch the first. Seek and Advance return the bytes read from disk, which
	// count as reads of graphs. Both have finished their reads when they return. Damage is an error of
	// kind fault.ErrCorrupt. After an error, also if ctx ends, the window is empty until Seek succeeds.
	Seek(ctx context.Context, first int) (read int64, err error)
	// Advance drops the first batch and appends the next one at the end.
	Advance(ctx context.Context) (read int64, err error)
	// First returns the index of the first batch.
	First() int
	// Inputs returns the input nodes of the batch k places after the first, in the order of Loader.Decode.
	// k is from 0 to the number of batches ahead. The nodes belong to the window, and do not change until
	// it drops the batch.
	Inputs(k int) []uint32
	Free()
}

// Counts are the bytes, rows and requests of one batch, by origin.
type Counts struct {
	// BytesRead is the number of bytes read from disk. UsefulBytes is the number of bytes of the batch, its
	// graph and rows, that were read from disk. A store that reads ahead counts them at their first use: for
	// one batch they may be more than BytesRead.
	BytesRead, UsefulBytes int64
	GraphRead              int64 // part of BytesRead for graphs
	SSDRead, SSDUseful     int64 // parts of BytesRead and UsefulBytes for the SSD level
	// TopologyRead is the part of GraphRead for the topology, if batches are drawn while training.
	// TopologyRequests is the number of its requests.
	TopologyRead, TopologyRequests int64
	RAMRows                        int // rows from memory, without a read
	GPURows                        int // part of RAMRows in the GPU's memory
	// Requests is the number of reads that were submitted for the batch, or of pages that the kernel read
	// for a store of mapped rows.
	Requests int64
	// For a store that holds pages: BufferRows is the part of RAMRows in the constant buffer. PageMisses
	// and PageHits count the accesses of pages by all other rows: a miss reads the page, a hit does not.
	BufferRows, PageMisses, PageHits int
}

// Add adds the counts o to c.
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
