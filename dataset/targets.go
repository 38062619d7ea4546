package dataset

import (
	"context"

	"diskgnn/graph"
	"diskgnn/internal/fault"
)

// MaxTargets is the largest number of classes of a multi-label dataset.
const MaxTargets = 1 << 24

// MultiLabel reports whether a node may have any number of classes, instead of one.
func (f *Facts) MultiLabel() bool { return f.LabelKind == labelMultiHot }

// TargetBytes returns the length in bytes of a node's row of bits in targets.bin, or 0 if the dataset
// is not multi-label.
func (f *Facts) TargetBytes() int {
	if !f.MultiLabel() {
		return 0
	}
	return graph.TargetBytes(f.Classes)
}

// Targets reads and checks the classes of the given nodes, which must ascend, in a multi-label
// dataset: a row of TargetBytes bytes for each, as in graph.Batch.Targets. For other datasets it
// returns nil. It holds two granules of the file and a row beside its result.
func (d *Dataset) Targets(ctx context.Context, nodes []uint32) (_ []byte, err error) {
	defer func() { err = d.damaged(err) }()
	row := d.facts.TargetBytes()
	if row == 0 {
		return nil, nil
	}
	targets := make([]byte, 0, len(nodes)*row)
	err = d.scanTargets(ctx, func(first int64, rows []byte) error {
		end := first + int64(len(rows)/row)
		for len(nodes) > 0 && int64(nodes[0]) < end {
			at := int(int64(nodes[0])-first) * row
			targets = append(targets, rows[at:at+row]...)
			nodes = nodes[1:]
		}
		return nil
	})
	return targets, err
}

// scanTargets calls see for the rows of all nodes, some at a time: those from node
// first on. They are valid during the call.
func (d *Dataset) scanTargets(ctx context.Context, see func(first int64, rows []byte) error) error {
	row := d.facts.TargetBytes()
	first := int64(0)
	rest := make([]byte, 0, row+Granule) // the begin of a row, and a granule
	return d.scan(ctx, TargetsFile, func(piece []byte) error {
		rest = append(rest, piece...)
		rows := rest[:len(rest)/row*row]
		if v := classBeyond(rows, row, d.facts.Classes); v >= 0 {
			return fault.New(fault.ErrCorrupt, "%s: node %d has a class outside the dataset's %d classes", d.path(TargetsFile), first+int64(v), d.facts.Classes)
		}
		if err := see(first, rows); err != nil {
			return err
		}
		first += int64(len(rows) / row)
		rest = rest[:copy(rest, rest[len(rows):])]
		return nil
	})
}

// classBeyond returns the first row with a bit behind the bits of the classes, or -1.
func classBeyond(rows []byte, row, classes int) int {
	if classes%8 == 0 {
		return -1
	}
	for v := 0; v < len(rows)/row; v++ {
		if rows[(v+1)*row-1]>>(classes%8) != 0 {
			return v
		}
	}
	return -1
}

// unlabelledClass returns the first row that has a class though its label is none, or
// -1.
func unlabelledClass(rows []byte, row int, labels []int32) int {
	for v, y := range labels {
		if y != graph.Unlabelled {
			continue
		}
		for _, b := range rows[v*row : (v+1)*row] {
			if b != 0 {
				return v
			}
		}
	}
	return -1
}
