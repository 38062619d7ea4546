package mbfile

import (
	"encoding/binary"

	"diskgnn/graph/batchcodec"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
)

const (
	indexMagic = "DGNNSMP1"
	indexHead  = len(indexMagic) + 16
	fixedPart  = 20 // of a record: offset, size, CRC
)

// recordBytes returns the bytes of the record of a batch, of a typed graph or another.
func recordBytes(layers int, typed bool) int {
	n := fixedPart + 4*(layers+1) + 4*layers
	if typed {
		n += 4 * layers
	}
	return n
}

// BatchInfo is the entry of one batch in the index. Its slices alias the index and must not be
// changed.
type BatchInfo struct {
	File         int   // number of the batches file
	Offset, Size int64 // of the byte form in that file, in bytes
	CRC          uint32
	// Nodes has the number of sources of every layer, input side first, and at its end the number of
	// seed nodes: layer l has Nodes[l] sources and Nodes[l+1] destinations.
	Nodes []uint32
	Edges []uint32 // number of edges of every layer
	Rows  []uint32 // in a typed graph: number of rows of every layer; else nil
}

// Seeds returns the number of seed nodes.
func (b *BatchInfo) Seeds() int { return int(b.Nodes[len(b.Nodes)-1]) }

// InputNodes returns the number of input nodes.
func (b *BatchInfo) InputNodes() int { return int(b.Nodes[0]) }

// NumEdges returns the number of edges over all layers.
func (b *BatchInfo) NumEdges() int64 {
	var n int64
	for _, e := range b.Edges {
		n += int64(e)
	}
	return n
}

// index is the content of index.bin.
type index struct {
	layers, perFile int
	typed           bool
	firstFile       int    // the number of the first batch's file: not 0 in most shards
	records         []byte // of recordBytes each
}

func (ix *index) recordBytes() int { return recordBytes(ix.layers, ix.typed) }

func (ix *index) batches() int { return len(ix.records) / ix.recordBytes() }

// files returns the number of files that hold the batches.
func (ix *index) files() int { return filesOf(ix.batches(), ix.perFile) }

func filesOf(batches, perFile int) int { return (batches + perFile - 1) / perFile }

// info returns record i without allocating.
func (ix *index) info(i int) BatchInfo {
	n := ix.recordBytes()
	r := ix.records[i*n : (i+1)*n : (i+1)*n]
	counts, edges := binio.View[uint32](r[fixedPart:]), 2*ix.layers+1
	info := BatchInfo{
		File:   ix.firstFile + i/ix.perFile,
		Offset: int64(binary.LittleEndian.Uint64(r)),
		Size:   int64(binary.LittleEndian.Uint64(r[8:])),
		CRC:    binary.LittleEndian.Uint32(r[16:]),
		Nodes:  counts[: ix.layers+1 : ix.layers+1],
		Edges:  counts[ix.layers+1 : edges : edges],
	}
	if ix.typed {
		info.Rows = counts[edges:]
	}
	return info
}

func (ix *index) add(offset, size int64, crc uint32, nodes, edges, rows []uint32) {
	r := binary.LittleEndian.AppendUint64(ix.records, uint64(offset))
	r = binary.LittleEndian.AppendUint64(r, uint64(size))
	r = binary.LittleEndian.AppendUint32(r, crc)
	r = append(r, binio.Bytes(nodes)...)
	r = append(r, binio.Bytes(edges)...)
	ix.records = append(r, binio.Bytes(rows)...)
}

// crcs returns the checksums of the batches lo to hi-1.
func (ix *index) crcs(lo, hi int) []uint32 {
	crcs := make([]uint32, 0, hi-lo)
	for i := lo; i < hi; i++ {
		crcs = append(crcs, ix.info(i).CRC)
	}
	return crcs
}

// file describes the f-th file of batches.
func (ix *index) file(f int) stage.File {
	return stage.File{Name: BatchesFile(ix.firstFile + f), Size: ix.fileSize(f), Checksum: binio.HashSums(ix.crcs(ix.fileSpan(f)))}
}

// checker returns a checker of the f-th file of batches.
func (ix *index) checker(name string, f int) binio.Checker {
	lo, hi := ix.fileSpan(f)
	return binio.CheckRanges(name, func(yield func(binio.Range) bool) {
		for i := lo; i < hi; i++ {
			if b := ix.info(i); !yield(binio.Range{Offset: b.Offset, Len: b.Size, CRC: b.CRC}) {
				return
			}
		}
	})
}

// fileSpan returns the batches that the f-th file holds.
func (ix *index) fileSpan(f int) (lo, hi int) {
	return f * ix.perFile, min((f+1)*ix.perFile, ix.batches())
}

// fileSize returns the bytes of the f-th file.
func (ix *index) fileSize(f int) int64 {
	_, hi := ix.fileSpan(f)
	last := ix.info(hi - 1)
	return last.Offset + last.Size
}

func (ix *index) encode() []byte {
	b := append(make([]byte, 0, indexHead+len(ix.records)+4), indexMagic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(ix.layers))
	b = binary.LittleEndian.AppendUint32(b, uint32(ix.perFile))
	b = binary.LittleEndian.AppendUint64(b, uint64(ix.batches()))
	b = append(b, ix.records...)
	return binary.LittleEndian.AppendUint32(b, binio.CRC(b))
}

// decodeIndex decodes the output of encode for a graph that is not typed, decodeTypedIndex for one that is. The result aliases b, which must be aligned to four bytes,
// as every allocation of that size is. Whatever the bytes, every record of the result can be used
// without further checks.
func decodeIndex(b []byte) (*index, error) { return decode(b, false) }

func decodeTypedIndex(b []byte) (*index, error) { return decode(b, true) }

func decode(b []byte, typed bool) (*index, error) {
	if len(b) < indexHead+4 || string(b[:len(indexMagic)]) != indexMagic {
		return nil, fault.New(fault.ErrCorrupt, "%s is not an index of batches", IndexFile)
	}
	if body := b[:len(b)-4]; binio.CRC(body) != binary.LittleEndian.Uint32(b[len(body):]) {
		return nil, binio.BadRange(IndexFile, 0, int64(len(b)))
	}
	d := binio.NewDecoder(b[len(indexMagic):])
	layers, perFile, batches := d.U32(), d.U32(), d.U64()
	if layers < 1 || layers > batchcodec.MaxLayers || perFile < 1 || perFile > 1<<30 {
		return nil, fault.New(fault.ErrCorrupt, "%s: %d layers or %d batches per file are impossible", IndexFile, layers, perFile)
	}
	ix := &index{layers: int(layers), perFile: int(perFile), typed: typed, records: b[indexHead : len(b)-4]}
	n := ix.recordBytes()
	if len(ix.records)%n != 0 || batches != uint64(len(ix.records)/n) {
		return nil, fault.New(fault.ErrCorrupt, "%s: the table of records has %d bytes, not a record of %d bytes for each of %d batches", IndexFile, len(ix.records), n, batches)
	}
	return ix, ix.validate()
}

// validate checks that the batches follow each other in the files, and that no layer has fewer sources
// than destinations. In a typed graph, destinations share input nodes.
func (ix *index) validate() error {
	var end int64 // of the batch before, in its file
	for i := range ix.batches() {
		if i%ix.perFile == 0 {
			end = 0
		}
		b := ix.info(i)
		if b.Offset != end || b.Size <= 0 || b.Size > 1<<62-end {
			return fault.New(fault.ErrCorrupt, "%s: batch %d is at byte %d with %d bytes, but the batch before it ends at byte %d", IndexFile, i, b.Offset, b.Size, end)
		}
		end += b.Size
		for l := range b.Edges {
			if b.Nodes[l] < b.Nodes[l+1] && !(ix.typed && l == 0) {
				return fault.New(fault.ErrCorrupt, "%s: batch %d, layer %d: %d sources are fewer than the %d destinations", IndexFile, i, l, b.Nodes[l], b.Nodes[l+1])
			}
		}
	}
	return nil
}
