// Package mmap is the store that maps the features of a DATASET and gathers rows from the mapping, as
// DGL does with features that do not fit in memory: the kernel reads a page when a thread touches it,
// and the thread waits. There is no pack; graphs come from a featurestore.Source.
//
//	LoadGraph  decode the graph, replace the input nodes by their ranks
//	Wait       gather the input nodes' rows, on locked threads that wait for page faults
//	Assemble   nothing
//
// A page fault stops a thread of the operating system and the goroutine on it, so each thread reads one
// page at a time. Goroutines are locked to these threads, so Go's scheduler keeps its own. The kernel is
// advised that reads are random: it reads single pages, without their neighbours.
//
// The store bounds the number of pages of the features in the page cache, which is part of the planned
// memory. When the next rows would exceed the bound, it drops all of these pages from the page cache, and
// continues to gather. This replaces pages less well than the kernel does, but needs no privileges. With a
// bound of one batch, pages are dropped after every batch; with a bound of all pages, never.
//
// A batch reads the pages of its rows that no batch has touched since the last drop. With B pages as the
// bound, H = {} the pages held, P bytes in a page and rows of R bytes, for the nodes of a batch in their
// order:
//
//	p(v) = {⌊v·R/P⌋, …, ⌈(v+1)·R/P⌉ − 1}
//	if |H ∪ p(v)| > B:  H ← {}
//	read  Σ over p(v) \ H of P bytes  (the file's last page: less),  H ← H ∪ p(v)
//
// The kernel reads more if it evicts pages for lack of memory, and less if other processes use the file.
// Batches of evaluation use and change the page cache too.
//
// If a memory cgroup around the process limits the page cache to the same memory (see Confine), the kernel
// evicts single pages, the least used first, and the store drops none. Then a batch's reads are counted as
// the page faults that waited for a read, one page each, and a row with such a fault is a miss. A few per
// cent of them may not be counted: see threadFaults.
//
// Rows are not checked, since the kernel maps a page for the thread that touches it. If the file was
// truncated or written to since it was opened, or the disk fails to read it, the error is of kind
// fault.ErrCorrupt.
package mmap

import (
	"os"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
)

// Name is the value of --store for this store.
const Name = "mmap"

// DefaultFaultThreads is the number of threads if PlanOptions.FaultThreads is 0.
const DefaultFaultThreads = 16

// Design describes the store.
func Design() featurestore.Design {
	return featurestore.Design{Name: Name, On: on, Maps: true, InRAM: "the store " + Name + " leaves rows to the page cache, which is in RAM"}
}

// on returns the store for the batches of a source, with rows of the dataset that they are drawn from.
// Compressed features are an error of kind fault.ErrUsage.
func on(s featurestore.Source, d *dataset.Dataset) (featurestore.Candidate, error) {
	return machine.New(machine.Design{Design: Design(), Levels: newLevels}, s, d)
}

// levels implements machine.Levels and featurestore.Confinable.
type levels struct {
	*machine.Table
	page int64 // bytes of a page of this machine
}

func newLevels(t *machine.Table) machine.Levels { return &levels{t, int64(os.Getpagesize())} }
