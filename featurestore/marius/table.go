package marius

import (
	"diskgnn/internal/binio"
)

// tableLayout computes offsets in the file of rows by partition. The place of a row is its number in the
// file: the rows of a partition are contiguous, by ascending node, and partition p begins at place
// ⌈p·n/P⌉, as in package sampler.
type tableLayout struct {
	nodes, row int64 // bytes of a row
	begin      []int64
	offset     []int64 // by partition: its offset in the file; then the end of the file
}

func newTableLayout(nodes, row int64, partitions int) tableLayout {
	t := tableLayout{nodes: nodes, row: row, begin: make([]int64, partitions+1), offset: make([]int64, partitions+1)}
	for p := range t.begin {
		t.begin[p] = (int64(p)*nodes + int64(partitions) - 1) / int64(partitions)
	}
	for p := range partitions {
		t.offset[p+1] = t.offset[p] + binio.AlignUp(t.rows(p)*row, binio.Page)
	}
	return t
}

func (t *tableLayout) partitions() int { return len(t.begin) - 1 }

// rows returns the number of rows of a partition, bytes its size in the file.
func (t *tableLayout) rows(p int) int64  { return t.begin[p+1] - t.begin[p] }
func (t *tableLayout) bytes(p int) int64 { return t.offset[p+1] - t.offset[p] }

func (t *tableLayout) size() int64 { return t.offset[t.partitions()] }

func (t *tableLayout) of(place int64) int { return int(place * int64(t.partitions()) / t.nodes) }

// mostRows returns the number of rows of the largest partition.
func (t *tableLayout) mostRows() int64 {
	return (t.nodes + int64(t.partitions()) - 1) / int64(t.partitions())
}

// roomRows returns the number of frames of a room: enough for any partition, in whole pages.
func (t *tableLayout) roomRows() int64 {
	a, b := t.row, int64(binio.Page)
	for b > 0 {
		a, b = b, a%b
	}
	whole := binio.Page / a
	return (t.mostRows() + whole - 1) / whole * whole
}

func (t *tableLayout) sumsBytes() int64 { return t.size() / binio.Page * 4 }

const (
	readBytes    = 4 << 20  // read of the feature table at a time
	scatterBytes = 32 << 20 // buffers of all partitions, each of at least one row
	mostScatter  = 1 << 20  // the largest buffer of one partition
)

// scatterRows returns the number of rows that are written to a partition at a time.
func (t *tableLayout) scatterRows() int64 {
	return max(1, min(scatterBytes/int64(t.partitions()), mostScatter)/t.row)
}

// workBytes returns the work memory of writing the file, in bytes.
func (t *tableLayout) workBytes() int64 {
	const granules = 2 * 1 << 20 // of the reader
	return int64(t.partitions())*(t.scatterRows()*t.row+16) + max(readBytes, t.row) + granules + t.sumsBytes()
}
