// Package gids is the store that holds pages of a DATASET's features as GIDS does (Park and others,
// VLDB 2024), in a cache like BaM's (Qureshi and others, ASPLOS 2023). There is no pack; graphs come
// from a featurestore.Source.
//
//	constant buffer   the rows of the nodes with the highest reverse PageRank, for the whole run
//	cache of pages    lines of 4 KiB, each a page of the feature file
//	window            pages that one of the next 8 batches uses keep their line
//	accumulator       batches are read together until they have enough accesses
//
// A row of the buffer needs no access. Each other row has an access for every page that it lies on, one
// or more; rows may share pages. An access hits if a line holds the page, or if another access of the
// batch has missed it already. So with P = 4096, the pages p(k) of batch k that no line holds when it
// comes, and the file's size Z, batch k reads
//
//	Σ over i in p(k) of min(P, Z − i·P)  bytes
//
// in |p(k)| requests, and beside its own graph the graph of the window's last batch. Hits and misses
// add up to the accesses.
//
// Lines are taken in a circle, as BaM does: the hand goes past lines in use and lines with a page that
// the window uses, and takes the next one. A batch's lines are in use until it has been assembled.
// Where a whole turn finds no line, the batch's other misses are read and pass by. The pages in the
// cache are a function of the batches in their order, not of time.
//
// Pages are read into their lines while earlier batches are in flight, so a slot holds only the pages of
// its reads. The cache does not take a line that a batch in flight uses, and the accumulator bounds the
// batches in flight: see gathers.
//
// # Modes
//
// GIDS' paper and the script that is published with it differ. In mode paper, nodes rank by reverse
// PageRank, and the accumulator counts the accesses outside the buffer. In mode script, rank moves along
// the edges, and the accumulator counts all rows. Before each batch it raises the number needed by the
// buffer's hits in the whole previous gather: see gathers. On a graph with all edges in both directions
// the ranks agree. In a typed graph a node steps along all relations alike, and a row that nodes without features
// share has the ranks of all of them.
//
// # Differences from GIDS
//
//   - The host reads pages, and the cache is in RAM. If the storage stack allows it (an iostack.DeviceStack),
//     the GPU reads them, copies them to their lines, and makes the matrix; lines are in its memory first, and
//     in RAM where both are given.
//   - The number of accesses that batches must exceed is GIDS' for its drive, another one that the user gives, or one
//     that follows from a measurement of the drive before the run.
//   - The host finds the lines of pages, in the order of the batches, so hits do not depend on time. In GIDS,
//     the threads of the GPU do.
//   - A page is read once for a batch.
//   - BaM keeps the page of a line that a batch uses and a later batch of the window will use. Here all
//     pages of the window keep their lines.
//   - BaM waits, without limit, until it can take a line. Here the page passes by.
//   - Three batches may always be in flight, so that reading overlaps the other links; never more than
//     the number of slots.
//
// The memory plan counts BaM's record of 32 bytes for each page of the file.
package gids

import (
	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// Name is the value of --store for this store.
const Name = "gids"

// The modes, which --cache-policy takes.
const (
	Paper  = "paper"
	Script = "script"
)

const (
	window   = 8   // batches ahead with pages that keep their lines: the value of GIDS' script
	inFlight = 512 // reads of a batch at the same time
)

// Design describes the store.
func Design() featurestore.Design {
	return featurestore.Design{Name: Name, On: on, Policies: []string{Paper, Script}, Accesses: measured,
		InRAM: "the levels of the store " + Name + " are in RAM, unless the GPU reads (--io nvme:…)", UnlessGPUReads: true}
}

// on returns the store for the batches of a source, with rows of the dataset that they are drawn from. If
// pages of the features cannot be read, the error is of kind fault.ErrUsage.
func on(s featurestore.Source, d *dataset.Dataset) (featurestore.Candidate, error) {
	var v *design
	c, err := machine.New(machine.Design{Design: Design(), InOrder: true, Reads: iostack.Options{Workers: inFlight, MaxIO: machine.LongestRead},
		Levels: func(t *machine.Table) machine.Levels {
			v = &design{t}
			return v
		}}, s, d)
	if most := int64(1) << 32; err == nil && v.pages() > most {
		return nil, fault.New(fault.ErrUsage, "the features of %s have %d pages: the store %s numbers %d", d.Dir(), v.pages(), Name, most)
	}
	return c, err
}

// design implements machine.ReadByGPU.
type design struct{ *machine.Table }

func (d *design) pages() int64 { return binio.AlignUp(d.Size(), binio.Page) / binio.Page }

// mostPages bounds the pages of the given number of rows.
func (d *design) mostPages(rows int) int {
	each := machine.Single{}.Most(d.Facts.RowBytes) / binio.Page
	return int(min(int64(rows)*each, d.pages()))
}
