package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// frame holds the offsets of a prepared batch's parts, at the maximum sizes: in a work's pinned
// memory, which is copied in one piece, and likewise on the device. If the device decodes the blocks, their
// bits are copied from where the batch has them, and their parts are on the device alone, behind the copied ones.
type frame struct {
	bytes   int64
	copied  int64 // bytes of the parts in pinned memory
	counts  span  // uint32: sources and destinations of every block
	shapes  span  // a kernels.Shape of every block in bits, in the place of counts
	bits    span  // uint32: the arrays of these blocks, on the device alone
	degrees span  // uint32: of the input nodes, for blocks in bits
	scratch scratch
	inverse span // float32: the factor of the gradients: 1 over the number of terms in the loss, or 1
	ids     span // uint32: the input nodes' ids, for the dropout of the input
	order   span // uint32: prepare.Prepared's Order
	labels  span // int32
	targets span // bits of a row's classes, with the loss Binary
	blocks  []blockFrame
}

// span is a range of bytes; an empty one stands for an absent part.
type span struct{ from, bytes int64 }

// blockFrame is a block's part of a frame. Its edges are prepare.Looped's if the preparer adds loops.
type blockFrame struct {
	outer, inner, own         span // weights: prepare.Block's Dst, Src and Own
	indptr, indices           span
	tindptr, tindices, tedges span
	positions                 span // of the destinations among the sources, in the outermost block and in typed ones
	base                      span // of the rows of a typed block that is attended: see block
	place                     span // as prepare.Block's, but also for destinations that come first
}

func (f *frame) take(elements int) span {
	s := span{f.bytes, 4 * int64(elements)}
	f.bytes += (s.bytes + cuda.Align - 1) &^ (cuda.Align - 1)
	return s
}

// scratch is memory for decoding one block after the other.
type scratch struct {
	sums            span // of tiles
	bySource        span // counts
	arrivals, slots span // by edge
	indptr, indices span // of a block without loops
	byDestination   span // counts
}

func newFrame(n *plan) *frame {
	f, s, seeds := new(frame), n.sizes, n.seeds()
	f.inverse = f.take(1)
	if n.training {
		f.labels = f.take(seeds)
		if n.lossKind == model.Binary {
			f.targets = f.take((seeds*graph.TargetBytes(n.model.Classes()) + 3) / 4)
		}
	}
	if n.projects() && n.training {
		f.ids, f.order = f.take(s.Src[0]), f.take(n.preparer.Lengths(0).Order)
	}
	if n.inBits {
		f.takeBits(n)
	} else {
		f.counts = f.take(2 * len(s.Src))
	}
	for l := range s.Src {
		f.blocks = append(f.blocks, f.takeBlock(n, l))
	}
	if !n.inBits {
		f.copied = f.bytes
	}
	return f
}

// takeBits takes the parts of blocks in bits, and the memory for decoding them.
func (f *frame) takeBits(n *plan) {
	s, words, src, dst, edges, transposed := n.sizes, 0, 0, 0, 0, false
	f.shapes = f.take(len(s.Src) * kernels.ShapeBytes / 4)
	for l := range s.Src {
		words += kernels.MostBitsWords(s.Src[l], s.Dst[l], s.Edges[l], l == 0)
		k := n.preparer.Lengths(l)
		transposed = transposed || k.TIndptr+k.LoopTIndptr > 0
		src, dst, edges = max(src, s.Src[l]), max(dst, s.Dst[l]), max(edges, s.Edges[l], k.Indices)
	}
	if n.model.Weighing() == model.ByGraph {
		f.degrees = f.take(s.Src[0])
	}
	f.copied = f.bytes
	f.bits = f.take(words)
	c := &f.scratch
	c.sums = f.take(int(kernels.TileSumBytes(max(src, dst)) / 4))
	if transposed {
		c.bySource, c.arrivals, c.slots = f.take(src), f.take(edges), f.take(edges)
	}
	if n.preparer.Loops() {
		c.indptr, c.indices, c.byDestination = f.take(dst+1), f.take(edges), f.take(dst)
	}
}

// takeBlock takes the parts of block l.
func (f *frame) takeBlock(n *plan, l int) blockFrame {
	s, k := n.sizes, n.preparer.Lengths(l)
	b := blockFrame{outer: f.take(k.Dst), inner: f.take(k.Src), own: f.take(k.Own), place: f.take(k.Place)}
	if n.preparer.Loops() {
		b.indptr, b.indices = f.take(k.Indptr), f.take(k.Indices)
		b.tindptr, b.tindices, b.tedges = f.take(k.LoopTIndptr), f.take(k.LoopTIndices), f.take(k.LoopTEdges)
	} else {
		b.indptr, b.indices = f.take(s.RowsOf(l)+1), f.take(s.Edges[l])
		b.tindptr, b.tindices, b.tedges = f.take(k.TIndptr), f.take(k.TIndices), f.take(k.TEdges)
	}
	if l == 0 || n.model.Types != nil {
		b.positions = f.take(s.Dst[l])
	}
	if n.model.Weighing() == model.AttendedByRow {
		b.base = f.take(s.RowsOf(l))
	}
	return b
}

// count returns the place of a count of block l: with 0 of its sources, with 1 of its destinations.
func (f *frame) count(l, which int) span {
	if f.shapes.bytes > 0 {
		return span{f.shapes.from + int64(l)*kernels.ShapeBytes + 4*int64(kernels.ShapeSources+which), 4}
	}
	return span{f.counts.from + 4*int64(2*l+which), 4}
}

// on returns the part on the device, the zero Buffer for an absent part.
func (s span) on(memory cuda.Buffer) cuda.Buffer {
	if s.bytes == 0 || memory == (cuda.Buffer{}) {
		return cuda.Buffer{}
	}
	return memory.Slice(s.from, s.bytes)
}

// in returns the part in host memory, nil for an absent part.
func in[T binio.Number](memory []byte, s span) []T {
	if s.bytes == 0 {
		return nil
	}
	return binio.View[T](memory[s.from:][:s.bytes:s.bytes])
}

// room makes a Prepared with its slices in the frame.
func (f *frame) room(memory []byte, loops bool) prepare.Prepared {
	floats := func(s span) []float32 { return in[float32](memory, s) }
	words := func(s span) []uint32 { return in[uint32](memory, s) }
	p := prepare.Prepared{Order: words(f.order)}
	for _, b := range f.blocks {
		k := prepare.Block{Dst: floats(b.outer), Src: floats(b.inner), Own: floats(b.own), Place: words(b.place)}
		if loops {
			k.Looped = prepare.Looped{Indptr: words(b.indptr), Indices: words(b.indices),
				TIndptr: words(b.tindptr), TIndices: words(b.tindices), TEdges: words(b.tedges)}
		} else {
			k.TIndptr, k.TIndices, k.TEdges = words(b.tindptr), words(b.tindices), words(b.tedges)
		}
		p.Blocks = append(p.Blocks, k)
	}
	return p
}

// memory hands out the device's memory. It keeps the first error.
type memory struct {
	arena *cuda.Arena
	err   error
}

func (m *memory) bytes(n int64) cuda.Buffer {
	b, err := m.arena.Take(n)
	if m.err == nil {
		m.err = err
	}
	return b
}

// floats takes n float32s or words.
func (m *memory) floats(n int) cuda.Buffer { return m.bytes(4 * int64(n)) }

// part returns elements from to to of a buffer with four bytes an element.
func part(b cuda.Buffer, from, to int) cuda.Buffer {
	if b == (cuda.Buffer{}) {
		return b
	}
	return b.Slice(4*int64(from), 4*int64(to-from))
}

// after returns the rest of a buffer after a number of elements.
func after(b cuda.Buffer, elements int) cuda.Buffer { return part(b, elements, int(b.Bytes()/4)) }

// free releases resources of a kind, if there are any.
func free[T interface {
	comparable
	Free()
}](list ...T) {
	var none T
	for _, x := range list {
		if x != none {
			x.Free()
		}
	}
}
