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
// A destination adds every row to its accumulator itself, in the order of its list (train/cpu's Pull).
// Lists longer than Fold are summed in blocks of Fold positions, and these in float64. Rows are multiplied
// in groups of Group at absolute numbers. So the result has the same bits for any size of tiles and
// blocks, any memory and any number of threads.
package grid

import (
	"context"
	"sync/atomic"
	"time"
	"unsafe"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/pieces"
	"diskgnn/train/cpu"
)

// Fold is the number of sources that are summed in float32. Longer lists are cut into blocks of Fold
// positions, with a sum in float64. Tests change it.
var Fold = 1 << 12

// Group is the number of rows that are multiplied together, a power of two. Tests change it.
var Group = 512

// Layer is a layer to compute, and the resources for it. Its memory is the plan's.
type Layer struct {
	Plan    Plan
	Pull    *cpu.Pull
	Table   Table // input rows
	Graph   *graph.CSC
	Guard   func(fn func() error) error // runs a function that reads the graph: see dataset.Topology
	Targets []uint32                    // destinations, ascending; nil: all nodes
	Long    int64                       // targets with lists longer than Fold
	Need    []bool                      // pieces of Table with a source of a target or, if Pull.Last, its own row; nil: all
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
	cpu.PullShape
	count   int // targets
	mem     *device.Host
	acc     []float32
	cursor  []uint32  // positions in the lists
	next    []uint32  // the sources there; done where a list has ended
	longest int64     // long lists in a tile
	long    []uint32  // destinations of the tile with long lists, ascending
	wide    []float64 // their sums
	mapped  []float32 // rows of a block that destinations add, or output rows of a window
	windows [2][]float32
	kept    []float32 // own rows of the tile, where they are kept
	held    []float32 // the input table, where it stays in memory
	whole   bool      // held is complete
	workers []worker
	file    *pieces.Reader // nil for a table in memory
	cost    Cost
}

// done marks the end of a list in run.next.
const done = 1<<32 - 1

// Run computes the layer tile by tile, and passes the output rows of the targets to emit in ascending
// order: rows of the targets from lo on, valid during the call.
func (l *Layer) Run(ctx context.Context, emit func(ctx context.Context, lo int, rows []float32) error) (_ Cost, err error) {
	r := &run{Layer: l, PullShape: l.Pull.PullShape, count: l.targets(), longest: min(l.Long, int64(l.Plan.Tile))}
	if l.Graph == nil {
		r.Acc = 0
	}
	if err := r.allocate(); err != nil {
		return Cost{}, err
	}
	defer r.mem.Free()
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

// targets returns the number of destinations.
func (l *Layer) targets() int {
	if l.Targets != nil {
		return len(l.Targets)
	}
	return int(l.Table.Rows)
}

// node returns the i-th target.
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
	r.workers = make([]worker, r.Threads)
	for i := range r.workers {
		r.workers[i] = worker{idx: make([]uint32, 0, idxRoom), runs: make([]piece, 0, idxRoom), nodes: make([]uint32, 0, Group)}
	}
	return nil
}

// carver cuts a buffer into parts. Without memory it counts.
type carver struct {
	mem  []byte
	used int64
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
		if r.Plan.Keep {
			r.keep(lo, hi, first, n, x)
		}
		if r.Maps {
			if err := r.maps(ctx, r.mapped, x, first, n); err != nil {
				return err
			}
			x = r.mapped
		}
		err := r.each(ctx, hi-lo, pullGrain, func(worker, from, to int) error {
			return r.pull(worker, lo, from, to, x, int64(first), int64(first+n))
		})
		r.Passed(int64(n))
		return err
	})
	if err != nil {
		return err
	}
	return r.finish(ctx, lo, hi, emit)
}

// keep copies the rows of targets from lo to hi among the rows x, of n nodes from first on.
func (r *run) keep(lo, hi, first, n int, x []float32) {
	i := selection{lo: lo, hi: hi, ids: r.Targets}.at(first)
	for ; i < hi && int(r.node(i)) < first+n; i++ {
		copy(r.kept[(i-lo)*r.In:(i-lo+1)*r.In], x[(int(r.node(i))-first)*r.In:])
	}
}

// maps stores the rows that destinations add, of n nodes from first on.
func (r *run) maps(ctx context.Context, to, x []float32, first, n int) error {
	return r.each(ctx, n, Group, func(worker, from, end int) error {
		r.Pull.Map(worker, to[from*r.Row:], x[from*r.In:], uint32(first+from), end-from)
		return nil
	})
}

// rows computes a layer without neighbours: the rows that Map makes.
func (r *run) rows(ctx context.Context, emit func(ctx context.Context, lo int, rows []float32) error) error {
	err := r.stream(ctx, selection{lo: r.From, hi: int(r.Table.Rows)}, func(first, n int, x []float32) error {
		if err := r.maps(ctx, r.mapped, x, first, n); err != nil {
			return err
		}
		r.Passed(int64(n))
		return emit(ctx, first, r.mapped[:n*r.Row])
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

// begin sets the accumulators and cursors of the targets from lo to hi.
func (r *run) begin(ctx context.Context, lo, hi int) error {
	if err := r.findLong(ctx, lo, hi); err != nil {
		return err
	}
	clear(r.wide[:len(r.long)*r.Wide])
	return r.own(ctx, lo, hi, r.First, nil, func(worker, from, to int, x []float32) error {
		r.Pull.Begin(worker, r.acc[(from-lo)*r.Acc:(to-lo)*r.Acc], x, to-from)
		for i := from; i < to; i++ {
			list, err := r.Graph.Row(r.node(i))
			if err != nil {
				return err
			}
			if r.cursor[i-lo], r.next[i-lo] = 0, done; len(list) > 0 {
				r.next[i-lo] = list[0]
			}
		}
		return nil
	}, nil)
}

// findLong lists the destinations with long lists.
func (r *run) findLong(ctx context.Context, lo, hi int) error {
	r.long = r.long[:0]
	if cap(r.long) == 0 {
		return nil
	}
	return r.Guard(func() error {
		for i := lo; i < hi; i++ {
			if err := ctx.Err(); i%pullGrain == 0 && err != nil {
				return err
			}
			list, err := r.Graph.Row(r.node(i))
			if err != nil {
				return err
			}
			if len(list) > Fold {
				if len(r.long) == cap(r.long) {
					return fault.New(fault.ErrCorrupt, "node %d has more in-neighbours than when they were counted", r.node(i))
				}
				r.long = append(r.long, uint32(i-lo))
			}
		}
		return nil
	})
}

// finish computes the output rows of the targets from lo to hi.
func (r *run) finish(ctx context.Context, lo, hi int, emit func(ctx context.Context, lo int, rows []float32) error) error {
	start := 0
	return r.own(ctx, lo, hi, r.Last, r.kept, func(worker, from, to int, x []float32) error {
		w := &r.workers[worker]
		w.nodes = w.nodes[:0]
		for i := from; i < to; i++ {
			v := r.node(i)
			list, err := r.Graph.Row(v)
			if err != nil {
				return err
			}
			if int(r.cursor[i-lo]) != len(list) {
				return fault.New(fault.ErrCorrupt, "the in-neighbours of node %d do not ascend, or are no nodes of the graph", v)
			}
			if len(list) > Fold {
				r.unfold(i - lo)
			}
			w.nodes = append(w.nodes, v)
		}
		at := (from - lo) % r.Plan.Block
		r.Pull.Finish(worker, r.mapped[at*r.Out:], r.acc[(from-lo)*r.Acc:], x, w.nodes)
		return nil
	}, func(n int) error {
		err := emit(ctx, lo+start, r.mapped[:n*r.Out])
		start += n
		return err
	})
}

// own calls do for groups of the targets from lo to hi, with their input rows if reads says so, from kept
// where that has them, and after, if given, when all groups of a window of n targets are done.
func (r *run) own(ctx context.Context, lo, hi int, reads bool, kept []float32, do func(worker, from, to int, x []float32) error, after func(n int) error) error {
	window := func(first, n int, x []float32) error {
		err := r.each(ctx, n, Group, func(worker, from, to int) error {
			var rows []float32
			if reads {
				rows = x[from*r.In:]
			}
			return do(worker, first+from, first+to, rows)
		})
		if err == nil && after != nil {
			err = after(n)
		}
		return err
	}
	if reads && kept == nil {
		return r.stream(ctx, selection{lo: lo, hi: hi, ids: r.Targets}, window)
	}
	for first := lo; first < hi; first += r.Plan.Block {
		var rows []float32
		if kept != nil {
			rows = kept[(first-lo)*r.In:]
		}
		if err := window(first, min(r.Plan.Block, hi-first), rows); err != nil {
			return err
		}
	}
	return nil
}

// each calls do for parts of n rows, on all threads, under the graph's guard.
func (r *run) each(ctx context.Context, n, grain int, do func(worker, from, to int) error) error {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for worker := range min(r.Threads, (n+grain-1)/grain) {
		g.Go(func() error {
			return r.Guard(func() error {
				for {
					from := int(next.Add(int64(grain))) - grain
					if from >= n {
						return nil
					}
					if err := ctx.Err(); err != nil {
						return err
					}
					if err := do(worker, from, min(from+grain, n)); err != nil {
						return err
					}
				}
			})
		})
	}
	return g.Wait()
}

// wait adds the time since start to the time of waiting for rows.
func (r *run) wait(start time.Time) { r.cost.ReadSeconds += time.Since(start).Seconds() }
