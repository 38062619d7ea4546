package gpu

import (
	"errors"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// TileSizes are the sizes of a Tile's memory.
type TileSizes struct {
	Tile   int   // destinations
	Lists  int   // of all destinations: a destination has one, in a typed graph one for each of some relations
	Edges  int64 // sources of all destinations
	Long   int   // lists longer than Fold
	Span   int   // rows of a block on the device, a multiple of Window
	Window int   // rows that come at a time, a multiple of Group
	Group  int   // rows of each product
	Fold   int   // sources that are summed in float32; see kernels.Lists
	Keep   bool  // the destinations' own rows are kept when they pass by: these are consecutive nodes
	Listed bool  // the destinations are any nodes, not consecutive ones
}

// Span is a run of a tile's lists. In a typed graph these are the lists by one relation of destinations of one type that
// follow each other; in other graphs a tile has one span.
type Span struct {
	Relation int
	At, Rows int   // the lists from place At on
	Lo, Hi   int64 // rows of the table from Lo to Hi may be their sources
	Long     int   // lists longer than Fold among them
}

// Piece is a part of the destinations of a window that has one type: the window's rows from At on.
type Piece struct {
	Kind, At, Rows int
	Lists          []Span // of these destinations alone
}

// A Tile computes a layer of a whole graph on a GPU: for some destinations at a time, which add the rows of
// their sources in the order of their lists, as package cpu's Pull does. Its results have the same bits for any
// sizes of tiles, blocks and windows.
//
//	Begin, Put…, Own (if First) ─► Take, for all rows of the table in order ─► End ─► Finish
//
// In a typed graph Sums, for all pieces of a window in ascending order, and Output take the place of Finish. Lists name
// sources by their rows of the table.
//
// Rows of sources are copied to one half of the memory while the other half is added. The memory that is given to
// a method may change when it returns. A Tile is for one goroutine, which is attached to the device.
type Tile struct {
	*Inference
	prepare.PullShape
	memory
	sizes TileSizes
	net   *network
	layer *layer
	kind  pulling

	acc, kept    cuda.Buffer
	products     cuda.Buffer // of a block's rows, or of own rows
	matrix       cuda.Buffer // the weights of the products
	nodes, bad   cuda.Buffer
	factors      [2]cuda.Buffer // of the sums of a window's rows, and of their own rows
	lists        kernels.Lists
	positions    [2]cuda.Buffer
	x, weights   [2]cuda.Buffer // of a block's rows
	copied, used [2]*cuda.Event

	spans    []Span
	lo       int // place of the first destination
	turn     int // half of the memory with the block under way
	first, n int // its rows
}

// pulling is the part of a Tile that differs between kinds of layers.
type pulling interface {
	// lay takes the memory, and sets the shape.
	lay(s *TileSizes)
	// prepare returns the weights of the products.
	prepare(weights []float32) []float32
	// begin makes the accumulators of lists, if First of the destinations' own rows x; these may be none.
	begin(s *Span, x cuda.Buffer)
	// pull adds the block's rows x, with the sources' weights, to the accumulators.
	pull(x, weights cuda.Buffer)
	// sums stores the layer's sums of n destinations from place at on, with their own rows x, if Last.
	sums(at, n int, x cuda.Buffer)
}

// pullingTypes is pulling in a typed graph. It has no sums of all types.
type pullingTypes interface {
	pulling
	// sumPiece stores the layer's sums of a piece, if Last with the destinations' own rows x, which may be none, and with
	// a factor for each row of each of its lists.
	sumPiece(p *Piece, x cuda.Buffer, factors []float32)
}

// start enqueues the copies of the weights, and of the matrices made of them.
func (t *Tile) start(weights []float32) {
	n := t.net
	n.try(t.memory.err)
	n.try(t.main.CopyIn(n.weights, binio.Bytes(weights)))
	n.try(t.main.CopyIn(t.matrix, binio.Bytes(t.kind.prepare(weights))))
	if n.model.Types != nil {
		n.try(t.main.Fill(t.layer.tail.bias, 0)) // the sums have the types' biases
		n.try(t.main.Fill(t.nodes, 0xFF))        // no source is left out
	}
	if o := t.layer.tail.norm; o != nil && o.batch {
		lo, hi := n.layout.Span(o.index, model.RunningVar, model.RunningVar)
		n.try(t.main.CopyIn(o.inverse, binio.Bytes(inverseRoots(weights[lo:hi]))))
	}
	for i := range t.used { // waiting for them has a meaning from the first block on
		n.try(t.used[i].Record(t.main))
	}
}

// Free releases everything.
func (t *Tile) Free() {
	_ = t.main.Synchronize() // errors were returned before
	_ = t.copies.Synchronize()
	free(t.copied[:]...)
	free(t.used[:]...)
	t.arena.Free()
}

// Wait waits for all work, and returns its error.
func (t *Tile) Wait() error {
	return errors.Join(t.net.failed, t.main.Synchronize())
}

// Begin begins with destinations from place lo on, which have that many lists.
func (t *Tile) Begin(lo, lists int) error {
	t.lo, t.n = lo, 0
	t.lists.Rows, t.lists.Many, t.spans = lists, 0, t.spans[:0]
	t.net.try(t.main.Fill(part(t.positions[0], 0, lists), 0))
	t.net.try(t.main.Fill(t.bad, 0))
	if !t.First {
		t.kind.begin(&Span{Rows: lists}, cuda.Buffer{})
	}
	return t.net.failed
}

// PutSpans sets the spans, which cover all lists in order, and the places in its span of every long list, ascending.
func (t *Tile) PutSpans(spans []Span, long []uint32) error {
	t.spans = append(t.spans[:0], spans...)
	if t.lists.Wide == (cuda.Buffer{}) || len(long) == 0 {
		return nil
	}
	t.lists.Many = len(long)
	t.net.try(t.main.Fill(t.lists.Wide.Slice(0, 8*int64(len(long))*int64(t.Wide)), 0))
	return t.put(t.lists.Long, 0, binio.Bytes(long))
}

// each calls do for the spans, with their lists and accumulators.
func (t *Tile) each(do func(s *Span, l kernels.Lists, acc cuda.Buffer)) {
	long := 0
	for i := range t.spans {
		s, l := &t.spans[i], t.lists
		l.Rows = s.Rows
		l.Starts, l.From, l.To = l.Starts.Slice(8*int64(s.At), 8*int64(s.Rows+1)), part(l.From, s.At, s.At+s.Rows), part(l.To, s.At, s.At+s.Rows)
		if l.Many > 0 {
			l.Wide = l.Wide.Slice(8*int64(long)*int64(t.Wide), 8*int64(s.Long)*int64(t.Wide))
			l.Long, l.Many = part(l.Long, long, long+s.Long), s.Long
		}
		long += s.Long
		do(s, l, after(t.acc, s.At*t.Acc))
	}
}

// PutStarts sets where lists begin in the sources, from list at on; behind the last one's start comes its end.
func (t *Tile) PutStarts(at int, starts []uint64) error {
	return t.put(t.lists.Starts, 8*int64(at), binio.Bytes(starts))
}

// PutSources sets sources, from place at of all lists on.
func (t *Tile) PutSources(at int64, sources []uint32) error {
	return t.put(t.lists.Sources, 4*at, binio.Bytes(sources))
}

// PutNodes sets the destinations, if they are Listed.
func (t *Tile) PutNodes(nodes []uint32) error {
	if t.nodes == (cuda.Buffer{}) {
		return nil
	}
	return t.put(t.nodes, 0, binio.Bytes(nodes))
}

func (t *Tile) put(to cuda.Buffer, at int64, content []byte) error {
	t.net.try(t.main.CopyIn(to.Slice(at, int64(len(content))), content))
	return t.Wait()
}

// Own makes the accumulators of the lists of some destinations, if First; in a typed graph, of a group of them at most.
// Each of the spans has a list of every destination. x are their own rows; nil: they have none.
func (t *Tile) Own(lists []Span, x []float32) error {
	if len(lists) == 0 {
		return nil
	}
	own := t.own(lists[0].Rows, x)
	for i := range lists {
		t.kind.begin(&lists[i], own)
	}
	return t.Wait()
}

// own copies own rows of n destinations.
func (t *Tile) own(n int, x []float32) cuda.Buffer {
	if x == nil {
		return cuda.Buffer{}
	}
	t.net.try(t.main.CopyIn(t.x[0], binio.Bytes(x[:n*t.In])))
	return t.x[0]
}

// Take takes the rows x of n nodes from first on, and their weights as sources, nil if they have none. Nodes ascend
// from call to call; rows that no destination needs may be left out.
func (t *Tile) Take(first, n int, x, weights []float32) error {
	if t.n > 0 && (first != t.first+t.n || t.n+n > t.sizes.Span) {
		t.flush()
	}
	half := t.turn
	if t.n == 0 {
		t.first = first
		t.net.try(t.copies.Wait(t.used[half]))
	}
	t.net.try(t.copies.CopyIn(after(t.x[half], t.n*t.In), binio.Bytes(x[:n*t.In])))
	if weights != nil {
		t.net.try(t.copies.CopyIn(after(t.weights[half], t.n), binio.Bytes(weights[:n])))
	}
	t.net.try(t.copied[half].Record(t.copies))
	t.net.try(t.copied[half].Synchronize())
	if t.n += n; t.n == t.sizes.Span {
		t.flush()
	}
	return t.net.failed
}

// flush adds the block under way.
func (t *Tile) flush() {
	if t.n == 0 {
		return
	}
	half := t.turn
	t.net.try(t.main.Wait(t.copied[half]))
	t.keep(t.x[half])
	t.seek(int64(t.first), int64(t.first+t.n))
	if t.net.failed != nil {
		return // the parts are undefined
	}
	t.lists.First = uint32(t.first)
	t.kind.pull(t.x[half], t.weights[half])
	t.positions[0], t.positions[1] = t.positions[1], t.positions[0]
	t.net.try(t.used[half].Record(t.main))
	t.turn, t.n = 1-half, 0
}

// seek finds the parts of the lists with nodes from first to end.
func (t *Tile) seek(first, end int64) {
	t.lists.From, t.lists.To = t.positions[0], t.positions[1]
	t.net.try(kernels.PullSeek{Lists: &t.lists, Begin: first, End: end, Bad: t.bad}.Launch(t.main))
}

// keep copies the destinations' rows among the block's rows x.
func (t *Tile) keep(x cuda.Buffer) {
	from, to := max(t.first, t.lo), min(t.first+t.n, t.lo+t.lists.Rows)
	if t.kept != (cuda.Buffer{}) && from < to {
		t.net.try(t.main.Copy(part(t.kept, (from-t.lo)*t.In, (to-t.lo)*t.In), part(x, (from-t.first)*t.In, (to-t.first)*t.In)))
	}
}

// End ends the taking of rows. It returns an error if a list has a source left: it does not ascend, or has no node
// of the graph.
func (t *Tile) End() error {
	t.flush()
	if t.net.failed != nil {
		return t.net.failed
	}
	t.seek(1<<32, 1<<33) // no source may be left
	t.each(func(_ *Span, l kernels.Lists, acc cuda.Buffer) {
		if l.Many > 0 {
			t.net.try(kernels.PullUnfold{Acc: acc, Stride: t.Acc, Wide: l.Wide, Width: t.Wide, Long: l.Long, Many: l.Many}.Launch(t.main))
		}
	})
	var bad [1]uint32
	t.net.try(t.main.CopyOut(binio.Bytes(bad[:]), t.bad))
	if err := t.Wait(); err != nil {
		return err
	}
	if bad[0] != 0 {
		return fault.New(fault.ErrCorrupt, "the in-neighbours of a node do not ascend, or are no nodes of the graph")
	}
	return nil
}

// Finish stores the output rows of n destinations, from place at of the tile on, in out. x are their input rows, if
// Last and not Keep. factors and owns are the weights of their sums, 0 without a source, and of their own rows.
func (t *Tile) Finish(at, n int, out, x, factors, owns []float32) error {
	own := t.x[0]
	switch {
	case t.kept != (cuda.Buffer{}):
		own = after(t.kept, at*t.In)
	case t.Last:
		t.net.try(t.main.CopyIn(own, binio.Bytes(x[:n*t.In])))
	}
	for i, w := range [][]float32{factors, owns} {
		if t.factors[i] != (cuda.Buffer{}) {
			t.net.try(t.main.CopyIn(t.factors[i], binio.Bytes(w[:n])))
		}
	}
	t.kind.sums(at, n, own)
	return t.Output(n, out)
}

// Sums makes the sums of a piece. x are the destinations' own rows, if Last, or nil if they have none. factors are the
// weights of each row's sums, for one list of the piece after the other, if Last.
func (t *Tile) Sums(p *Piece, x, factors []float32) error {
	t.kind.(pullingTypes).sumPiece(p, t.own(p.Rows, x), factors)
	return t.Wait()
}

// Rows stores the output rows of a layer without sums, of the input rows x, in out.
func (t *Tile) Rows(n int, out, x []float32) error {
	t.net.try(t.main.CopyIn(t.x[0], binio.Bytes(x[:n*t.In])))
	t.kind.sums(0, n, t.x[0])
	return t.Output(n, out)
}

// Output stores the n output rows of the layer's sums in out.
func (t *Tile) Output(n int, out []float32) error {
	t.net.in.now.blocks[max(0, t.layer.index)] = block{src: kernels.Rows(n), dst: kernels.Rows(n)}
	t.layer.tail.forward()
	t.net.try(t.main.CopyOut(binio.Bytes(out[:n*t.Out]), t.layer.data))
	return t.Wait()
}

// product enqueues z = x·w + beta·z for n rows, group by group.
func (t *Tile) product(n int, x cuda.Buffer, ldx, depth int, w cuda.Buffer, cols int, beta float32, z cuda.Buffer, ldz int) {
	for at := 0; at < n; at += t.Group {
		t.net.product(false, false, t.Group, cols, depth, 1, after(x, at*ldx), ldx, w, cols, beta, after(z, at*ldz), ldz)
	}
}
