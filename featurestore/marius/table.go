package marius

import "diskgnn/internal/binio"

// tableLayout says where rows lie in the file of rows by partition. Rows have places: those of
// a partition follow each other, by ascending node, and partition p begins at ⌈p·n/P⌉, as
// package sampler divides nodes.
type tableLayout struct {
	nodes, row int64 // bytes of a row
	begin      []int64
	offset     []int64 // of every partition in the file, and the end
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

// rows returns the rows of a partition, bytes those that they take in the file.
func (t *tableLayout) rows(p int) int64  { return t.begin[p+1] - t.begin[p] }
func (t *tableLayout) bytes(p int) int64 { return t.offset[p+1] - t.offset[p] }

func (t *tableLayout) size() int64 { return t.offset[t.partitions()] }

func (t *tableLayout) of(place int64) int { return int(place * int64(t.partitions()) / t.nodes) }

// mostRows returns the rows of the largest partition.
func (t *tableLayout) mostRows() int64 {
	return (t.nodes + int64(t.partitions()) - 1) / int64(t.partitions())
}

// roomRows returns the frames of a room for any partition: as many as whole pages are.
func (t *tableLayout) roomRows() int64 {
	a, b := t.row, int64(binio.Page)
	for b > 0 {
		a, b = b, a%b
	}
	whole := binio.Page / a
	return (t.mostRows() + whole - 1) / whole * whole
}

func (t *tableLayout) sumsBytes() int64 { return t.size() / binio.Page * 4 }
