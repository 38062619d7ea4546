// Package phases is the common part of stores that train in phases. A phase is a run of successive
// training batches with all their rows in frames, on the GPU and in RAM. Rows come in large reads, when the phase
// begins or during the previous phase.
//
//	LoadGraph  decode the graph
//	Assemble   at the beginning of a phase, replace rows; read ahead the batch's share; gather
//	Fill       if a GPU computes, it gathers here
//
// Training batches are assembled in their order, so a row is replaced without locks when no batch needs it
// any more. Earlier batches compute while a batch is assembled. If a GPU computes, they may still have to be
// gathered: then the beginning of a phase waits for their gathers. The time of reads of rows counts for the
// link assemble.
//
// The rows in frames and the reads of a batch follow from its place in the circle of sample epochs, so
// checkpoints hold neither. A row is a miss for the first batch that uses it after it was read, and a hit
// for later batches, regardless of the batch that read it.
//
// A store is a Design; its Residents hold the rows. Batches of evaluation read all of their rows one by
// one, as package rowcache does, and change nothing.
package phases

import (
	"context"
	"fmt"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/internal/rowcache"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// Design is the part of a phased store that differs between stores.
type Design interface {
	Units() Units
	// Count adds to a layout the memory of residents with the given number of units, without the frames:
	// TableBytes, RAMBytes, KeepBytes, Ahead, WindowBytes, and the Note. The layout has GPURows. More units never
	// need less memory.
	Count(l *featurestore.Layout, units int64)
	// Open allocates residents of rows in the frames of the given number of units, which read through the stack
	// and the loaders.
	Open(stack iostack.Stack, loaders featurestore.Loaders, frames *Frames, units int64) (Residents, error)
}

// Units are the parts in which memory is divided.
type Units struct {
	Rows, Frames int64 // of a unit
	Least, Most  int64 // the least and the most useful number of units
}

// Residents hold the rows of a phase in frames. They belong to one goroutine at a time. After an error, call Seek
// before anything else.
type Residents interface {
	// Seek brings the residents to their state before a training batch, and returns the bytes read.
	Seek(ctx context.Context, batch int, rep progress.Reporter) (read int64, err error)
	// Turn makes the rows of a batch resident, replacing rows that the batch does not need, and reads
	// ahead the batch's share. batch is the batch of Seek, or the one after the batch of the last Turn. Turn
	// adds its reads to counts, without useful bytes.
	Turn(ctx context.Context, batch int, counts *featurestore.Counts) error
	// Find replaces the input nodes of the batch of the last Turn by their frames.
	Find(nodes []uint32) error
	Close() error
}

// New returns a store with residents of the given design, for a dataset and the batches of a source. If the
// features do not allow reads of single rows, the error is of kind fault.ErrUsage.
func New(of featurestore.Design, source featurestore.Source, data *dataset.Dataset, d Design) (featurestore.Candidate, error) {
	return machine.New(machine.Design{Design: of, InOrder: true,
		Reads: iostack.Options{Workers: 64, MaxIO: 256 << 10}, // within the memory of the default options
		Levels: func(t *machine.Table) machine.Levels {
			single := rowcache.Design{Design: featurestore.Design{Name: of.Name, Policies: []string{residency.LRU}}, Planner: machine.Single{}, InFlight: singles}
			return &levels{t, of.Name, d, rowcache.NewLevels(t, single)}
		}}, source, data)
}

// singles is the number of reads of single rows in flight, for a batch of evaluation.
const singles = 512

// levels implements machine.Levels.
type levels struct {
	*machine.Table
	name   string
	design Design
	single machine.Levels // for batches of evaluation
}

// own has the further parameters of a layout for Open.
type own struct {
	units  int64
	single featurestore.Layout // of the store for batches of evaluation
}

// PlanEval returns the layout of the store that reads single rows.
func (v *levels) PlanEval(hold int64) (featurestore.Layout, error) { return v.single.PlanEval(hold) }

// Plan takes the units that the options ask for, or all that the memory allows, on the GPU first.
func (v *levels) Plan(r machine.Room, _ *gpureads.Plan) (featurestore.Layout, error) {
	single, err := v.single.PlanEval(0)
	if err != nil {
		return featurestore.Layout{}, err
	}
	u := v.design.Units()
	near, err := r.OnGPU(v.layout(single, r.GPU, 0, u.Least), u.Most*u.Frames)
	if err != nil {
		return featurestore.Layout{}, err
	}
	of := func(units int64) featurestore.Layout { return v.layout(single, r.GPU, near, units) }
	floor := "the store " + v.name
	if near > 0 {
		floor = fmt.Sprintf("beside %d rows on the GPU, %s", near, floor)
	}
	return r.Divide(machine.Division{Least: u.Least, Most: u.Most, Of: of,
		Parts: fmt.Sprintf("the smallest buffer (%d rows)", of(u.Least).CacheRows), Floor: floor,
		Units: func(wanted int64) int64 { return (wanted + near) / u.Rows }})
}

// layout counts the memory of a store with the given number of units, of which up to near frames are on the GPU,
// and of the store of single rows.
func (v *levels) layout(single featurestore.Layout, gpu device.GPU, near, units int64) featurestore.Layout {
	u := v.design.Units()
	l := featurestore.Layout{
		CacheRows:     min(units*u.Rows, v.Facts.Nodes),
		ByUse:         true,
		TableBytes:    single.TableBytes,
		RAMBytes:      single.RAMBytes,
		KeepBytes:     single.KeepBytes,
		EvalSlotBytes: single.EvalSlotBytes,
		Own:           own{units, single},
	}
	if v.Facts.Train > 0 {
		l.SlotBytes = v.Source.LoaderBytes(false)
	}
	newFrames(&v.Facts, gpu, min(near, units*u.Frames), units*u.Frames).count(&l)
	v.design.Count(&l, units)
	return l
}
