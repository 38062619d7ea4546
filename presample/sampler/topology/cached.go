package topology

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/iostack"
)

// cached is the level of that name.
type cached struct {
	data    *dataset.Dataset
	offsets *graph.Offsets
	sums    *binio.Sums // of the indices' pages
	stack   iostack.Stack
	file    iostack.File // the indices
	held    held
}

// inFlight is the number of reads that the stack carries out at the same time, over several readers.
const inFlight = 256

func openCached(ctx context.Context, d *dataset.Dataset, o Options, rep progress.Reporter) (_ Topology, err error) {
	c := &cached{data: d}
	if c.offsets, err = d.Offsets(ctx, rep); err != nil {
		return nil, fmt.Errorf("verify %s: %w", d.Dir(), err)
	}
	if c.sums, _, err = d.IndicesPageSums(ctx, rep, c.offsets); err != nil {
		return nil, fmt.Errorf("verify %s: %w", d.Dir(), err)
	}
	var how string
	if c.stack, how, err = o.Stack(o.IO, iostack.Options{Workers: inFlight, MaxIO: longestRead}); err != nil {
		return nil, err
	}
	if c.file, err = c.stack.Open(d.IndicesPath()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if have, want := c.file.Size(), d.IndicesBytes(); have != want {
		err := fault.New(fault.ErrCorrupt, "%s has %d bytes instead of %d", c.file.Name(), have, want)
		return nil, errors.Join(c.damaged(err), c.Close())
	}
	if direct, why := c.file.Direct(); !direct {
		how += "; through the page cache: " + why
	}
	rep.Logf("topology: neighbours that are not held in memory are read by %s", how)
	return c, nil
}

// longestRead is the largest read of the stack, in bytes. Each read in progress has a bounce buffer of
// this size.
const longestRead = 16 << 10

// StackBytes is the memory in bytes of a cached topology's storage stack outside Go's heap: bounce
// buffers, which io_uring pins.
const StackBytes = inFlight * longestRead

// damaged adds to an error about the indices how they are made again.
func (c *cached) damaged(err error) error {
	return stage.Damaged(err, c.data.Dir(), c.data.Meta().Format)
}

func (c *cached) Level() string { return Cached }

func (c *cached) ReaderBytes() int64 { return readerBytes() }

func (c *cached) Guard(fn func() error) error { return fn() }

// Unchanged has nothing to compare: every page is checked when it is read.
func (c *cached) Unchanged() error { return nil }

func (c *cached) Bytes() int64 {
	bytes, _ := Needs(c.data, Cached)
	return bytes + c.held.bytes()
}

func (c *cached) HostBytes() int64 {
	if c.held.ids == nil {
		return StackBytes
	}
	return StackBytes + binio.AlignUp(int64(c.held.ids.Len()), binio.Page)
}

func (c *cached) Fill(ctx context.Context, by Order, bytes int64, rep progress.Reporter) (nodes, read int64, err error) {
	c.held.free()
	if bytes < heldBytes(int64(c.offsets.NumNodes()), 0, 0) {
		return 0, 0, nil
	}
	var h held
	nodes, edges, read, err := c.choose(ctx, &h, by, bytes, rep)
	if err != nil {
		return 0, 0, fmt.Errorf("choose the nodes with neighbours in memory: %w", err)
	}
	debug.FreeOSMemory() // the list
	task := rep.Task("read held neighbours", 4*edges, progress.Bytes)
	defer task.Done()
	if err := h.lay(c.offsets, nodes, edges); err != nil {
		return 0, 0, fmt.Errorf("read neighbours into memory: %w", err)
	}
	n, err := c.read(ctx, &h, task)
	if err != nil {
		h.free()
		return 0, 0, fmt.Errorf("read neighbours into memory: %w", err)
	}
	c.held = h
	return nodes, read + n, nil
}

// choose lists the nodes, and forgets the list.
func (c *cached) choose(ctx context.Context, h *held, by Order, bytes int64, rep progress.Reporter) (nodes, edges, read int64, err error) {
	list, read, err := by.List(ctx, c.data, c.offsets, rep)
	if err != nil {
		return 0, 0, 0, err
	}
	nodes, edges = h.choose(list, c.offsets, bytes)
	return nodes, edges, read, nil
}

func (c *cached) read(ctx context.Context, h *held, task progress.Task) (int64, error) {
	f, err := newFetcher(c)
	if err != nil {
		return 0, err
	}
	defer f.free()
	err = f.fetch(ctx, &filling{of: h, offsets: c.offsets, task: task})
	return f.reads.Bytes, err
}

// filling is the pieces of the nodes that are held.
type filling struct {
	of      *held
	offsets *graph.Offsets
	task    progress.Task
	node    int // the next to look at
	filled  int // edges
}

func (f *filling) next() (piece, bool) {
	for n := f.offsets.NumNodes(); f.node < n; {
		v := f.node
		f.node++
		if w := f.of.bits[v>>6]; w == 0 {
			f.node = v>>6<<6 + 64
		} else if d := int(f.offsets.Degree(uint32(v))); w>>(v&63)&1 != 0 && d > 0 {
			return piece{first: f.offsets.Start(int64(v)), n: d}, true
		}
	}
	return piece{}, false
}

func (f *filling) take(_ context.Context, _ piece, sources []uint32) error {
	f.filled += copy(f.of.ids.Uint32s()[f.filled:], sources)
	f.task.Add(int64(4 * len(sources)))
	return nil
}

// Close releases files and memory.
func (c *cached) Close() error {
	c.held.free()
	var err error
	if c.file != nil {
		err = c.file.Close()
	}
	return errors.Join(err, c.stack.Close())
}

// Lists tells the memory that holding the in-neighbours of single nodes takes, and the reads that it
// saves, for a cached topology.
type Lists struct {
	of     *cached
	fanout int
}

// ListsOf returns the Lists of a cached topology; the bool is false for other topologies. fanout is
// the largest number of in-neighbours that samplers draw of a node, or 0 if they read all of them.
func ListsOf(t Topology, fanout int) (Lists, bool) {
	c, ok := t.(*cached)
	return Lists{c, fanout}, ok
}

// Bytes returns the bytes of memory to hold the in-neighbours of node v and their position.
func (l Lists) Bytes(v uint32) int64 { return 4*int64(l.of.offsets.Degree(v)) + 4 }

// Held returns the bytes that Fill must be given to hold nodes with the given sum of Bytes, with the
// index.
func (l Lists) Held(bytes int64) int64 {
	return heldBytes(int64(l.of.offsets.NumNodes()), 0, 0) + bytes + device.PageSize
}

// Read returns the bytes that one draw reads from disk if the in-neighbours of v are not held, and no
// other draw of the hop reads the same pages: all pages of the in-neighbours, or fanout pages if those
// are fewer.
func (l Lists) Read(v uint32) int64 {
	first, n := l.of.offsets.Start(int64(v)), int64(l.of.offsets.Degree(v))
	if n == 0 {
		return 0
	}
	pages := (first+n-1)/pageEdges - first/pageEdges + 1
	if l.fanout > 0 {
		pages = min(pages, int64(l.fanout))
	}
	return pages * binio.Page
}
