package mbfile

import (
	"diskgnn/graph"
	"diskgnn/graph/batchcodec"
	"diskgnn/internal/binio"
)

// Encoded is a batch ready to be written. Encode reuses its memory.
type Encoded struct {
	Bytes []byte // the byte form
	CRC   uint32
	Nodes []uint32 // as in BatchInfo
	Edges []uint32
}

// Encode fills e from a valid batch whose destinations are prefixes of the
// sources. Workers call it, so that the one writer only writes.
func (e *Encoded) Encode(b *graph.Batch) {
	e.Bytes = batchcodec.Append(e.Bytes[:0], b)
	e.CRC = binio.CRC(e.Bytes)
	layers := len(b.Blocks)
	e.Nodes, e.Edges = binio.Grow(e.Nodes, layers+1), binio.Grow(e.Edges, layers)
	for l := range b.Blocks {
		e.Nodes[l], e.Edges[l] = uint32(b.Blocks[l].NumSrc), uint32(len(b.Blocks[l].Indices))
	}
	e.Nodes[layers] = uint32(b.NumSeeds())
}
