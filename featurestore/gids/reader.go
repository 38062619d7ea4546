package gids

import (
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/binio"
)

// pages is a Planner with pages in place of nodes, each a row of binio.Page bytes.
type pages struct{}

// Most implements machine.Planner.
func (pages) Most(int) int64 { return binio.Page }

// Next returns the first page, which is shorter at the end of the file.
func (pages) Next(list []uint32, _ int, size int64) (off, n int64, served int) {
	off = int64(list[0]) * binio.Page
	return off, min(binio.Page, size-off), 1
}

// reading is the way in which pages are read.
func reading() machine.Reading { return machine.Alternate(pages{}, binio.Page, inFlight) }

// sink is a machine.Sink of the content of pages.
type sink func(k int, content []byte) error

// Put implements machine.Sink.
func (s sink) Put(k int, content []byte) error { return s(k, content) }
