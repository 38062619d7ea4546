// Package grid computes a layer of a whole graph that need not fit in memory: a grid of tiles of
// destinations and blocks of sources.
//
//	                  blocks of sources, read in sequence, ahead of their use
//	             ┌───────┬───────┬───────┬───────┬─ … ─┬───────┐
//	tiles of     │   1 ──┼─► 2 ──┼─► 3 ──┼─► 4 ──┼─►   │   P   │ ─► own rows ─► output rows
//	destinations ├───────┼───────┼───────┼───────┼─ … ─┼───────┤
//	             │  P+1 ─┼─►     │       │       │     │  2·P  │ ─► …
//	             └───────┴───────┴───────┴───────┴─ … ─┴───────┘
//
// The accumulators of a tile's destinations fill the memory. Every row of the table passes by once for
// each tile; a destination has a cursor into its list of sources, which ascends, and adds the rows of
// the block that the list has next. At the end it takes its own row. The table is read once for each
// tile, own rows once more unless memory keeps them when they pass by, and a tile's part of the topology
// once for each block; the topology is a mapping, so that blocks after the first find it in the page cache,
// where there is room.
//
// In a typed graph (graph.Types), a destination has a list of sources for each relation into its type, and an
// accumulator for each list. Its lists follow each other, so a tile of destinations is a range of lists; below, a
// list stands for a destination. The table has rows of the types that the layer reads: layer 0's are the features,
// other layers' are the rows of the destinations of the layer before. Part and Link say where a type's rows lie.
// Lists of sources without rows there, which would be zeros, are left out.
//
// A destination adds every row to its accumulator itself, in the order of its list (train/cpu's Pull).
// Lists longer than Fold are summed in blocks of Fold positions, and these in float64. Rows are multiplied
// in groups of Group at absolute numbers. So the result has the same bits for any size of tiles and
// blocks, any memory and any number of threads.
//
// A GPU computes a layer in the same way. The accumulators of a tile, its lists of sources and two blocks of
// rows lie in the GPU's memory, so that this bounds a tile too. Rows pass through windows of Plan.Block rows in
// pinned memory of the host; several windows make a block of Plan.Span rows there, which is added while the next
// one is copied. Destinations add rows in the order of their lists, with the same folds. In a typed graph the lists of a
// type's destinations by one relation are adjacent there, and name sources by their rows of the table. Where there is
// room, own rows are kept when they pass by: on the GPU if the targets are consecutive nodes, else on the host. Rows are
// multiplied in groups of GPUGroup. The bits are again the same for any memory, of the host and of the GPU; they
// differ from the CPU's by the rounding of products and exponentials.
package grid

import (
	"context"
	"time"
	"unsafe"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/iostack"
	"diskgnn/iostack/pieces"
	"diskgnn/train/cpu"
	"diskgnn/train/prepare"
)

// Fold is the number of sources that are summed in float32. Longer lists are cut into blocks of Fold
// positions, with a sum in float64. Tests change it.
var Fold = 1 << 12

// Group is the number of rows that are multiplied together, a power of two. Tests change it.
var Group = 512

// Layer is a layer to compute, and the resources for it. Its memory is the plan's.
type Layer struct {
	Plan    Plan
	Pull    *cpu.Pull // the layer on the CPU
	GPU     *GPU      // nil, or the layer on a GPU, in place of Pull
	Table   Table     // input rows
	Graph   *graph.CSC
	Guard   func(fn func() error) error // runs a function that reads the graph: see dataset.Topology
	Targets []uint32                    // destinations, ascending; nil: all nodes, or the parts' destinations
	Parts   []Part                      // of the destinations, in a typed graph
	Long    int64                       // lists longer than Fold
	Need    []bool                      // pieces of Table with a source of a target or, if Finish reads it, its own row; nil: all
	Threads int
	Stack   iostack.Stack
	Wires   *pieces.Buffers
	From    int // the targets before it are left out: a multiple of Group
	// Ended is called after each tile, once all of its rows are emitted, unless it is nil.
	Ended func() error
	// Passed is called when rows of the table passed a tile: it counts source rows of all tiles.
	Passed func(rows int64)
}

// Cost is the reads and the times of a layer.
type Cost struct {
	BytesRead   int64
	ReadSeconds float64 // waiting for rows
}

// run is a layer under way.
type run struct {
	*Layer
	prepare.PullShape
	count   int // targets
	tiler   tiler
	mem     *device.Host
	of      []Part    // of the destinations; in a graph without types there is one
	lo, hi  int       // the targets of the tile under way
	begins  []int     // of each part: its first list of the tile; and the number of the tile's lists
	longest int64     // lists longer than Fold in a tile
	mapped  []float32 // output rows of a window; before that the tiler's
	windows [2][]float32
	kept    []float32      // own rows of the tile, where they are kept
	held    []float32      // the input table, where it stays in memory
	whole   bool           // held is complete
	file    *pieces.Reader // nil for a table in memory
	cost    Cost
}

// A tiler computes the destinations of a tile: host does on the CPU, onGPU on a GPU. Rows come in windows of
// Plan.Block rows or fewer, in x, which has room for whole groups and is valid during the call.
type tiler interface {
	// carve takes the memory, with room for the output rows of a window in mapped.
	carve(c *carver)
	// open makes the rest, once there is memory, and close releases it.
	open() error
	close()
	// begin begins with the targets from lo to hi of run, and looks at their lists.
	begin(ctx context.Context) error
	// own takes the own rows of n targets from first on, if First.
	own(ctx context.Context, first, n int, x []float32) error
	// add takes the rows of n nodes from first on.
	add(ctx context.Context, first, n int, x []float32) error
	// end follows the last rows of nodes.
	end(ctx context.Context) error
	// finish stores the output rows of n targets from first on in out. x are their own rows, if Last, or nil where the
	// tiler has kept them.
	finish(ctx context.Context, first, n int, out, x []float32) error
	// rows stores the output rows of n nodes from first on in out, for a layer without neighbours.
	rows(ctx context.Context, first, n int, out, x []float32) error
}

// Run computes the layer tile by tile, and passes the output rows of the targets to emit in ascending
// order: rows of the targets from lo on, valid during the call.
func (l *Layer) Run(ctx context.Context, emit func(ctx context.Context, lo int, rows []float32) error) (_ Cost, err error) {
	r := l.newRun()
	if err := r.allocate(); err != nil {
		return Cost{}, err
	}
	defer r.mem.Free()
	defer r.tiler.close()
	if err := r.tiler.open(); err != nil {
		return Cost{}, err
	}
	if l.Table.File != nil {
		if r.file, err = pieces.Open(l.Stack, l.Table.File, l.Wires); err != nil {
			return Cost{}, err
		}
		defer func() {
			if e := r.file.Close(); err == nil {
				err = e
			}
		}()
	}
	if l.Graph == nil {
		err = r.rows(ctx, emit)
	} else if l.Plan.Hold && r.First {
		err = r.stream(ctx, selection{hi: int(r.Table.Rows)}, func(int, int, []float32) error { return nil })
	}
	for lo := l.From; l.Graph != nil && lo < r.count && err == nil; lo += l.Plan.Tile {
		if err = r.tile(ctx, lo, min(lo+l.Plan.Tile, r.count), emit); err == nil {
			err = r.ended()
		}
	}
	if r.file != nil {
		r.cost.BytesRead = r.file.Bytes()
	}
	return r.cost, err
}

// newRun describes a run.
func (l *Layer) newRun() *run {
	r := &run{Layer: l, PullShape: l.shape(), count: l.targets(), of: l.Parts}
	r.longest = min(l.Long, int64(mostLists(l.Parts, l.Plan.Tile)))
	if r.of == nil {
		r.of = untyped(r.count)
	}
	r.begins = make([]int, len(r.of)+1)
	if l.Graph == nil {
		r.Acc = 0
	}
	r.tiler = &host{run: r}
	if l.GPU != nil {
		r.tiler = &onGPU{run: r}
	}
	return r
}

func (l *Layer) shape() prepare.PullShape {
	if l.GPU != nil {
		return l.GPU.Shape
	}
	return l.Pull.PullShape
}

// targets returns the number of destinations.
func (l *Layer) targets() int {
	switch {
	case l.Targets != nil:
		return len(l.Targets)
	case len(l.Parts) > 0:
		return l.Parts[len(l.Parts)-1].Hi
	}
	return int(l.Table.Rows)
}

// node returns the i-th target of a graph without types.
func (l *Layer) node(i int) uint32 {
	if l.Targets != nil {
		return l.Targets[i]
	}
	return uint32(i)
}

// allocate takes the memory of the plan.
func (r *run) allocate() (err error) {
	c := carver{}
	r.carve(&c)
	if r.mem, err = device.NewHost(int(c.used)); err != nil {
		return err
	}
	c = carver{mem: r.mem.Bytes()}
	r.carve(&c)
	return nil
}

// carver cuts a buffer into parts. Without memory it counts.
type carver struct {
	mem    []byte
	used   int64
	beside int64 // bytes that are taken elsewhere
}

func carve[T float32 | float64 | uint32](c *carver, n int64) []T {
	var v T
	bytes := binio.AlignUp(n*int64(unsafe.Sizeof(v)), 64)
	at := c.used
	if c.used += bytes; c.mem == nil {
		return nil
	}
	return binio.View[T](c.mem[at : at+bytes])[:n:n]
}

// tile computes the targets from lo to hi.
func (r *run) tile(ctx context.Context, lo, hi int, emit func(ctx context.Context, lo int, rows []float32) error) error {
	if err := r.begin(ctx, lo, hi); err != nil {
		return err
	}
	err := r.stream(ctx, selection{hi: int(r.Table.Rows), need: r.Need}, func(first, n int, x []float32) error {
		if len(r.kept) > 0 {
			r.keep(lo, hi, first, n, x)
		}
		err := r.tiler.add(ctx, first, n, x)
		r.Passed(int64(n))
		return err
	})
	if err == nil {
		err = r.tiler.end(ctx)
	}
	if err != nil {
		return err
	}
	return r.own(ctx, lo, hi, r.Last && !r.Plan.Keep, func(first, n int, x []float32) error {
		if len(r.kept) > 0 {
			x = r.kept[(first-lo)*r.In:]
		}
		if err := r.tiler.finish(ctx, first, n, r.mapped, x); err != nil {
			return err
		}
		return emit(ctx, first, r.mapped[:n*r.Out])
	})
}

// begin begins with the targets from lo to hi.
func (r *run) begin(ctx context.Context, lo, hi int) error {
	r.lo, r.hi = lo, hi
	beginLists(r.begins, r.of, lo, hi)
	if err := r.tiler.begin(ctx); err != nil || !r.First {
		return err
	}
	return r.own(ctx, lo, hi, true, func(first, n int, x []float32) error { return r.tiler.own(ctx, first, n, x) })
}

// keep copies the rows of targets from lo to hi among the rows x, of n nodes from first on.
func (r *run) keep(lo, hi, first, n int, x []float32) {
	s := r.ownRows(lo, hi)
	for i := s.at(first); i < hi; {
		row, many := s.run(i, hi)
		if row >= int64(first+n) {
			return
		}
		if row >= 0 {
			many = min(many, first+n-int(row))
			copy(r.kept[(i-lo)*r.In:(i-lo+many)*r.In], x[(int(row)-first)*r.In:])
		}
		i += many
	}
}

// rows computes a layer without neighbours.
func (r *run) rows(ctx context.Context, emit func(ctx context.Context, lo int, rows []float32) error) error {
	err := r.stream(ctx, selection{lo: r.From, hi: int(r.Table.Rows)}, func(first, n int, x []float32) error {
		if err := r.tiler.rows(ctx, first, n, r.mapped, x); err != nil {
			return err
		}
		r.Passed(int64(n))
		return emit(ctx, first, r.mapped[:n*r.Out])
	})
	if err != nil {
		return err
	}
	return r.ended()
}

// ended tells the caller that a tile is done.
func (r *run) ended() error {
	if r.Ended == nil {
		return nil
	}
	return r.Ended()
}

// own passes windows of the targets from lo to hi to use, with their own rows if reads says so.
func (r *run) own(ctx context.Context, lo, hi int, reads bool, use func(first, n int, x []float32) error) error {
	if reads {
		return r.stream(ctx, r.ownRows(lo, hi), use)
	}
	for first := lo; first < hi; first += r.Plan.Block {
		if err := use(first, min(r.Plan.Block, hi-first), nil); err != nil {
			return err
		}
	}
	return nil
}

// ownRows selects the own rows of the targets from lo to hi.
func (r *run) ownRows(lo, hi int) selection {
	return selection{lo: lo, hi: hi, ids: r.Targets, parts: r.Parts}
}

// each calls do for parts of n rows, on all threads, under the graph's guard.
func (r *run) each(ctx context.Context, n, grain int, do func(worker, from, to int) error) error {
	return errgroup.Ranges(ctx, r.Threads, n, grain, func(worker, from, to int) error {
		return r.Guard(func() error { return do(worker, from, to) })
	})
}

// wait adds the time since start to the time of waiting for rows.
func (r *run) wait(start time.Time) { r.cost.ReadSeconds += time.Since(start).Seconds() }
