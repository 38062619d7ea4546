package kernels

import (
	"math/bits"

	"diskgnn/device/cuda"
)

// Shape is the record of a block in bits, of ShapeBytes in device memory. The host fills it, except for the word of
// faults, which Unpack sets, and the last word, which Loop sets.
type Shape [ShapeBytes / 4]uint32

// ShapeBytes is the size of a Shape in bytes.
const ShapeBytes = 64

// Words of a Shape.
const (
	ShapeSources = iota
	ShapeDestinations
	ShapeEdges
	ShapeWrong     // faults of the block: bits
	ShapeCountBits // widths of the arrays
	ShapeSourceBits
	ShapePlaceBits
	ShapeCountsAt // numbers of their first words
	ShapeSourcesAt
	ShapePlacesAt
	ShapeLooped // edges of the block with loops
)

// Bits of the word ShapeWrong.
const (
	WrongCounts = 1 << iota
	WrongSource
	WrongPlace
	WrongTwice
)

// Wrong describes the first of the faults in a block, "" for none.
func Wrong(faults uint32) string {
	switch {
	case faults&WrongCounts != 0:
		return "its destinations have another number of edges than the block"
	case faults&WrongSource != 0:
		return "an edge has a source beyond the last"
	case faults&WrongPlace != 0:
		return "a destination lies beyond the last source"
	case faults&WrongTwice != 0:
		return "two destinations lie at the same source"
	}
	return ""
}

// BitsBlock is a block in bits, in the host's memory: see package graph/batchcodec.
type BitsBlock struct {
	Sources, Destinations, Edges int
	// Arrays are the edge counts, the source positions, and the destination positions, which are zero if destinations are the first
	// sources.
	Arrays [3]Bits
}

// Bits are numbers of Width bits, from 1 to 32, as graph.Bits has them.
type Bits struct {
	Bytes []byte
	Width int
}

// Lay makes s the record of a block, with arrays that lie in the words from the number at on, each with a word behind it. It
// returns the number of the next word. There is room for the block's Words, and its arrays have their lengths.
func (s *Shape) Lay(b *BitsBlock, at int) int {
	*s = Shape{ShapeSources: uint32(b.Sources), ShapeDestinations: uint32(b.Destinations), ShapeEdges: uint32(b.Edges)}
	for i, a := range b.Arrays {
		if a.Width > 0 {
			s[ShapeCountBits+i], s[ShapeCountsAt+i] = uint32(a.Width), uint32(at)
			at += arrayWords(len(a.Bytes))
		}
	}
	return at
}

// CopyIn enqueues the copies of the block's arrays to their places in words. The arrays do not change until the copies are done.
func (s *Shape) CopyIn(stream *cuda.Stream, words cuda.Buffer, b *BitsBlock) error {
	for i, a := range b.Arrays {
		from := 4 * int64(s[ShapeCountsAt+i])
		if err := stream.CopyIn(words.Slice(from, words.Bytes()-from), a.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// Words returns the number of words that Lay lays out for the block.
func (b *BitsBlock) Words() int {
	n := 0
	for _, a := range b.Arrays {
		if a.Width > 0 {
			n += arrayWords(len(a.Bytes))
		}
	}
	return n
}

// arrayWords returns the words of an array of the given bytes, with the word behind it.
func arrayWords(bytes int) int { return (bytes+3)/4 + 1 }

// MostBitsWords returns the most words of a block of at most the given sources, destinations and edges, with arrays of the least
// widths. scattered says that it may have positions of its destinations.
func MostBitsWords(src, dst, edges int, scattered bool) int {
	array := func(n, most int) int { return arrayWords((n*bits.Len32(uint32(most)|1) + 7) / 8) }
	n := array(dst, edges) + array(edges, src-1)
	if scattered {
		n += array(dst, src-1)
	}
	return n
}

// Unpack decodes a block from bits, and checks its values. A fault sets a bit of the shape's ShapeWrong; the results are then
// undefined, but within their bounds, so that they may be used as indices. Buffers are of uint32.
type Unpack struct {
	Words                        cuda.Buffer // with the arrays, as Shape.Lay lays them out
	Shape                        cuda.Buffer // a Shape, on the device
	Sources, Destinations, Edges Count       // with the counts of the Shape
	Indptr, Indices              cuda.Buffer // of the block
	Means                        cuda.Buffer // float32: one over the number of a destination's edges, or 0; may be none
	Positions                    cuda.Buffer // of the destinations among the sources; may be none
	Places                       cuda.Buffer // by source: its number as a destination plus one, or 0; may be none. It needs Positions.
	Sums                         cuda.Buffer // scratch: TileSumBytes of the destinations
}

// TileSumBytes returns the size in bytes of the scratch memory of a prefix sum over rows.
func TileSumBytes(rows int) int64 { return SampleSumBytes(rows) }

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of Words and the content of the
// Shape are not checked.
func (a Unpack) Launch(s *cuda.Stream) error {
	dst, edges := a.Destinations.Most, a.Edges.Most
	l := begin(s, "sum up edge counts")
	l.Buffer("the sums", a.Sums, TileSumBytes(dst))
	a.source(&l)
	l.count(a.Destinations)
	if err := l.tiled(unpackSums, dst); err != nil {
		return err
	}
	l = begin(s, "unpack index pointers")
	l.Buffer("the index pointers", a.Indptr, 4*int64(dst+1))
	l.Optional("the means", a.Means, 4*int64(dst))
	l.Buffer("the sums", a.Sums, 0)
	a.source(&l)
	l.count(a.Destinations)
	if err := l.tiled(unpackIndptr, dst); err != nil {
		return err
	}
	l = begin(s, "unpack sources")
	l.Buffer("the sources", a.Indices, 4*int64(edges))
	a.source(&l)
	l.count(a.Edges)
	if err := l.tiled(unpackSources, edges); err != nil || a.Positions == (cuda.Buffer{}) {
		return err
	}
	if a.Places != (cuda.Buffer{}) {
		if err := s.Fill(a.Places, 0); err != nil {
			return err
		}
	}
	l = begin(s, "unpack destinations")
	l.Buffer("the positions", a.Positions, 4*int64(dst))
	l.Optional("the places", a.Places, 4*int64(a.Sources.Most))
	a.source(&l)
	l.count(a.Destinations)
	return l.tiled(unpackPlaces, dst)
}

func (a *Unpack) source(l *launch) {
	l.Buffer("the words", a.Words, 4)
	l.Buffer("the shape", a.Shape, ShapeBytes)
}

// Weigh computes the weights of a block's sums by the degrees in the whole graph, for model.ByGraph.
type Weigh struct {
	Src, Dst, Own         cuda.Buffer // float32
	Degrees               cuda.Buffer // uint32: of the batch's input nodes
	Positions             cuda.Buffer // uint32: of the outermost block's destinations
	Outermost             bool        // the sources are the input nodes; otherwise the first of these destinations
	Indptr                cuda.Buffer
	Sources, Destinations Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; indices are not checked.
func (a Weigh) Launch(s *cuda.Stream) error {
	l := begin(s, "weigh sources")
	l.Buffer("the weights", a.Src, 4*int64(a.Sources.Most))
	if l.Buffer("the degrees", a.Degrees, 4); a.Outermost {
		l.Buffer("no positions", cuda.Buffer{}, 0)
	} else {
		l.Buffer("the positions", a.Positions, 4*int64(a.Sources.Most))
	}
	l.count(a.Sources)
	if err := l.tiled(weighSources, a.Sources.Most); err != nil {
		return err
	}
	dst := int64(a.Destinations.Most)
	l = begin(s, "weigh destinations")
	l.Buffer("the weights", a.Dst, 4*dst)
	l.Buffer("the weights of the own rows", a.Own, 4*dst)
	l.Buffer("the index pointers", a.Indptr, 4*(dst+1))
	l.Buffer("the degrees", a.Degrees, 4)
	l.Buffer("the positions", a.Positions, 4*dst)
	l.count(a.Destinations)
	return l.tiled(weighDestinations, a.Destinations.Most)
}

// Loop gives every destination of a block one edge from itself, its last one, and leaves out its other edges from itself.
// Buffers are of uint32.
type Loop struct {
	Indptr, Indices cuda.Buffer // with loops
	Edges           Count       // of these; At is written
	From, Sources   cuda.Buffer // Indptr and Indices without
	Positions       cuda.Buffer // of the destinations among the sources; none: they are the first
	Destinations    Count
	Counts          cuda.Buffer // scratch, by destination
	Sums            cuda.Buffer // scratch: TileSumBytes of the destinations
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; indices are not checked.
func (a Loop) Launch(s *cuda.Stream) error {
	dst := a.Destinations.Most
	l := begin(s, "count edges with loops")
	l.Buffer("the counts", a.Counts, 4*int64(dst))
	a.from(&l)
	if err := l.rows(loopCounts, dst, 32, 1); err != nil {
		return err
	}
	if err := scanTo(s, a.Indptr, a.Edges.At, a.Sums, a.Counts, a.Destinations); err != nil {
		return err
	}
	l = begin(s, "add loops")
	l.Buffer("the edges with loops", a.Indices, 4*int64(a.Edges.Most))
	l.Buffer("the index pointers with loops", a.Indptr, 0)
	a.from(&l)
	return l.rows(loopFill, dst, 32, 1)
}

func (a *Loop) from(l *launch) {
	l.Buffer("the index pointers", a.From, 4*int64(a.Destinations.Most+1))
	l.Buffer("the sources", a.Sources, 0)
	l.Optional("the positions", a.Positions, 4*int64(a.Destinations.Most))
	l.count(a.Destinations)
}

// scanTo enqueues out[i] = the sum of the values before i, for each of the rows and for the end, and total = the sum of all, if
// there is a total.
func scanTo(s *cuda.Stream, out, total, sums, values cuda.Buffer, rows Count) error {
	l := begin(s, "sum up tiles")
	l.Buffer("the sums", sums, TileSumBytes(rows.Most))
	l.Buffer("the values", values, 4*int64(rows.Most))
	l.count(rows)
	if err := l.tiled(scanSums, rows.Most); err != nil {
		return err
	}
	l = begin(s, "sum up")
	l.Buffer("the sums of the values", out, 4*int64(rows.Most+1))
	l.Optional("the total", total, 4)
	l.Buffer("the sums", sums, 0)
	l.Buffer("the values", values, 0)
	l.count(rows)
	return l.tiled(scan, rows.Most)
}

// Transpose sorts the edges of a block by source. The edges of a source stay in their order. Buffers are of uint32.
type Transpose struct {
	TIndptr, TIndices cuda.Buffer // source s feeds the destinations TIndices[TIndptr[s]:TIndptr[s+1]]
	TEdges            cuda.Buffer // by these edges; may be none
	Indptr, Indices   cuda.Buffer
	Sources, Edges    Count
	Destinations      Count       // at least one; At is read
	Counts            cuda.Buffer // scratch, by source
	Arrivals, Slots   cuda.Buffer // scratch, by edge
	Sums              cuda.Buffer // scratch: TileSumBytes of the sources
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; indices are not checked.
func (a Transpose) Launch(s *cuda.Stream) error {
	edges := int64(a.Edges.Most)
	if err := s.Fill(a.Counts, 0); err != nil {
		return err
	}
	l := begin(s, "count edges by source")
	l.Buffer("the counts", a.Counts, 4*int64(a.Sources.Most))
	l.Buffer("the arrivals", a.Arrivals, 4*edges)
	l.Buffer("the sources", a.Indices, 4*edges)
	l.count(a.Edges)
	if err := l.tiled(countSources, a.Edges.Most); err != nil {
		return err
	}
	if err := scanTo(s, a.TIndptr, cuda.Buffer{}, a.Sums, a.Counts, a.Sources); err != nil {
		return err
	}
	l = begin(s, "collect the edges of sources")
	l.Buffer("the edges by source", a.Slots, 4*edges)
	l.Buffer("the index pointers by source", a.TIndptr, 0)
	l.Buffer("the arrivals", a.Arrivals, 0)
	l.Buffer("the sources", a.Indices, 0)
	l.count(a.Edges)
	if err := l.tiled(fillSlots, a.Edges.Most); err != nil {
		return err
	}
	l = begin(s, "order the edges of sources")
	l.Buffer("the destinations by source", a.TIndices, 4*edges)
	l.Optional("the edges by source", a.TEdges, 4*edges)
	l.Buffer("the collected edges", a.Slots, 0)
	l.Buffer("the index pointers by source", a.TIndptr, 0)
	l.Buffer("the sources", a.Indices, 0)
	l.Buffer("the index pointers", a.Indptr, 4*int64(a.Destinations.Most+1))
	l.Buffer("the number of destinations", a.Destinations.At, 4)
	l.count(a.Edges)
	return l.tiled(rankSlots, a.Edges.Most)
}
