// Package agnes is the store that reads the features of a DATASET in blocks of 1 MiB, each for many
// batches at once, as AGNES does (KDD 2026): the accesses of a hyperbatch, which is up to 1,024
// batches, are recorded before it begins; then every block that any of them needs is read once, in the
// order of the file, and its rows wait in memory for their batches. There is no pack; graphs come from a
// featurestore.Source.
//
// With R the bytes of a row, S the bytes of the file, B = 2²⁰, and N(h) the input nodes of the batches
// of hyperbatch h, it reads
//
//	Σ over h of Σ over b in {⌊v·R/B⌋, …, ⌈(v+1)·R/B⌉ − 1 : v in N(h)} of min(B, S − b·B)  bytes
//
// (a last page that the file ends in may count whole), at the first batch of the hyperbatch. A row is
// held once however many of the batches use it: the first use is a miss, the others are hits. With C
// rows in RAM and on the GPU, a hyperbatch is
//
//	the next batches of the sample epoch, 1,024 at most, with |N(h)| ≤ C
//
// It follows from C and the samples alone. Its rows are in frames by ascending node; if a GPU computes, the first
// frames are in its memory. Rows of one hyperbatch are not kept for the next. Blocks land in a buffer of a sixteenth
// of the rows' memory, 2 blocks at least and 32 at most. Up to one read for each block of the buffer is in flight.
//
// A hyperbatch is recorded while the previous one is trained, one batch for each trained batch. Recording
// reads the graph of each batch once more. The blocks are read at the first batch of the hyperbatch, when
// all earlier batches are assembled; if a GPU computes, rows are replaced when it has gathered these batches.
// AGNES likewise samples a hyperbatch during the previous one, and trains when its rows have been gathered.
//
// Three things differ from AGNES. Hyperbatches are as long as memory allows; AGNES writes the rows without
// room to one file for each batch, and reads them again. Blocks are parts of the file, so a row
// may lie on two. The source holds the topology.
package agnes

import (
	"fmt"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/phases"
	"diskgnn/internal/budget"
	"diskgnn/internal/units"
)

// Name is the value of --store for this store.
const Name = "agnes"

// blockBytes is the granule of the dataset's checksums, and the read size of AGNES.
const blockBytes = dataset.Granule

// Most batches of a hyperbatch, and blocks in the buffer.
const (
	mostBatches = 1024
	leastBlocks = 2
	mostBlocks  = 32
)

// windowAhead is the number of batches in the window after the one that is recorded.
const windowAhead = 1

// Design describes the store.
func Design() featurestore.Design {
	return featurestore.Design{Name: Name, On: on}
}

func on(s featurestore.Source, d *dataset.Dataset) (featurestore.Candidate, error) {
	return phases.New(Design(), s, d, &design{source: s, data: d, facts: s.Facts(), longest: mostBatches})
}

// design implements phases.Design. A unit is a row.
type design struct {
	source  featurestore.Source
	data    *dataset.Dataset
	facts   featurestore.Facts
	longest int // batches of a hyperbatch
}

// Units returns one row as the unit: at least the input nodes of the largest batch, at most all nodes.
func (d *design) Units() phases.Units {
	return phases.Units{Rows: 1, Frames: 1, Least: min(int64(d.facts.Inputs(false)), d.facts.Nodes), Most: d.facts.Nodes}
}

func (d *design) size() int64 { return d.facts.Nodes * int64(d.facts.RowBytes) }

// blocks returns the number of blocks for which a buffer of rows rows has room.
func (d *design) blocks(rows int64) int64 {
	inFile := (d.size() + blockBytes - 1) / blockBytes
	return min(max(rows*int64(d.facts.RowBytes)/16/blockBytes, leastBlocks), mostBlocks, inFile)
}

func (d *design) Count(l *featurestore.Layout, rows int64) {
	blocks := d.blocks(rows)
	l.TableBytes += 4 * ((d.size() + blockBytes - 1) / blockBytes)
	l.RAMBytes += blocks*blockBytes + 2*nodeSetBytes(d.facts.Nodes)
	l.Ahead, l.WindowBytes = windowAhead, d.source.WindowBytes(windowAhead)
	l.Note = fmt.Sprintf("hyperbatches of up to %s and %s; reads up to %s of %s at a time",
		units.Of(min(d.longest, d.facts.BatchesPerEpoch), "batch"), units.Of(rows, "row"), units.Of(blocks, "block"), budget.FormatBytes(blockBytes))
}
