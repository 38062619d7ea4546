package marius

import (
	"fmt"
	"path/filepath"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/phases"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/walk"
)

// Names of the files beside the samples.
const (
	FeaturesFile = "features.partitioned"
	SumsFile     = FeaturesFile + ".sums"
)

// Samples is a source with a directory of samples and the parameters of their draw.
type Samples interface {
	featurestore.Source
	Params() mbfile.Params
	FS() vfs.FS
}

// design implements phases.Design. A unit is the room of a partition.
type design struct {
	source Samples
	data   *dataset.Dataset
	facts  featurestore.Facts
	params mbfile.Params
	table  tableLayout
}

func newDesign(s Samples, d *dataset.Dataset, p mbfile.Params) *design {
	f := s.Facts()
	return &design{source: s, data: d, facts: f, params: p, table: newTableLayout(f.Nodes, int64(f.RowBytes), p.Partitions)}
}

// changes reports whether the partitions in the buffer ever change.
func (d *design) changes() bool {
	p := &d.params
	return p.Buffer < p.Partitions && (p.Order == mbfile.Dispersed || p.Epochs > 1)
}

// Units returns the buffer as the least number of units. The most useful number adds the partitions that can
// come with one phase.
func (d *design) Units() phases.Units {
	p := &d.params
	u := phases.Units{Rows: d.table.mostRows(), Frames: d.table.roomRows(), Least: int64(p.Buffer), Most: int64(p.Buffer)}
	if d.changes() {
		u.Most += int64(min(p.Buffer, p.Partitions-p.Buffer))
	}
	return u
}

func (d *design) Count(l *featurestore.Layout, rooms int64) {
	p := &d.params
	l.TableBytes += d.table.sumsBytes() + d.courseBytes()
	l.RAMBytes += d.placesBytes() + landingBytes(l.GPURowsBytes)
	l.KeepBytes = max(l.KeepBytes, sampler.BufferedMemory(p, d.data.Facts(), d.data.TargetBytes()), d.table.workBytes())
	where := "in RAM"
	if l.GPURows > 0 {
		where = "on the GPU and in RAM"
	}
	l.Note = fmt.Sprintf("%d of %s are %s, %s each", p.Buffer, units.Of(p.Partitions, "partition"), where, budget.FormatBytes(d.table.bytes(0)))
	switch more := rooms - int64(p.Buffer); {
	case !d.changes():
		l.Note += ", for the whole run"
	case more == 0:
		l.Note += "; there is no room to read the next ones beside training"
	default:
		l.Note += fmt.Sprintf("; up to %d of the next state are read beside training", more)
	}
}

// Pieces of a partition are so long that longer reads are not faster, and two trips have enough of them in
// flight.
const (
	pieceBytes = 1 << 20
	tripPieces = 16
)

// landingBytes returns the memory in which the pieces of both trips land if the first near bytes of frames are on
// the GPU, in bytes.
func landingBytes(near int64) int64 {
	if near == 0 {
		return 0
	}
	return 2 * tripPieces * pieceBytes
}

// placesBytes returns the memory of the places of all nodes, in bytes.
func (d *design) placesBytes() int64 { return binio.AlignUp(4*d.facts.Nodes, device.PageSize) }

// courseBytes bounds the memory of all phases.
func (d *design) courseBytes() int64 {
	states := 1
	if d.params.Order == mbfile.Dispersed {
		states = walk.States(d.params.Walk, d.params.Partitions, d.params.Buffer)
	}
	return int64(min(d.params.Epochs*states, d.facts.Train)) * (40 + 2*int64(d.params.Partitions))
}

// file returns the name of the file of rows by partition.
func (d *design) file() string { return filepath.Join(d.source.Dir(), FeaturesFile) }
