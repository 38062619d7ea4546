package gids

import (
	"cmp"
	"fmt"
	"math"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/binio"
)

// PlanEval returns a layout without levels: batches of evaluation do not use the cache.
func (d *design) PlanEval(int64) (featurestore.Layout, error) {
	return d.layout(own{mode: Paper}, 0), nil
}

// Shape implements machine.ReadByGPU.
func (d *design) Shape() gpureads.Shape {
	n := d.Facts.Inputs(false)
	return gpureads.Shape{Rows: n, RowBytes: d.Facts.RowBytes, Most: binio.Page, Path: d.Data.FeaturesPath(), Bytes: int64(d.mostPages(n)) * binio.Page}
}

// Plan makes the levels as large as the options ask for, or as the memory allows: lines on a GPU that reads, and
// the levels in RAM. A unit is a byte of RAM.
func (d *design) Plan(r machine.Room, reads *gpureads.Plan) (featurestore.Layout, error) {
	o := own{mode: r.Policy, need: cmp.Or(r.Accesses, Defaults().Accesses()), gpu: r.GPU, reads: reads}
	if reads != nil && !r.Least {
		row, spare := int64(d.Facts.RowBytes), o
		spare.near = 1 // rows are rounded up to whole lines
		rows, err := r.OnGPU(d.layout(spare, 0), d.Facts.Nodes)
		if err != nil {
			return featurestore.Layout{}, err
		}
		o.near = int(min(binio.AlignUp(rows*row, binio.Page)/binio.Page, math.MaxInt32))
	}
	return r.Divide(machine.Division{Most: d.whole(), Parts: machine.Tables,
		Units: func(rows int64) int64 { return rows * int64(d.Facts.RowBytes) },
		Of:    func(bytes int64) featurestore.Layout { return d.layout(o, bytes) }})
}

// divide divides bytes of RAM between the levels: half for the constant buffer, at most bufferShare of the
// nodes' rows, and the rest for lines besides the near ones.
func (d *design) divide(bytes int64, near int) (rows, lines int) {
	row := int64(d.Facts.RowBytes)
	n := min(d.mostBuffered(), bytes/2/row)
	return int(n), int(min(int64(near)+(bytes-n*row)/binio.Page, d.pages(), math.MaxInt32))
}

func (d *design) mostBuffered() int64 { return int64(bufferShare * float64(d.Facts.Nodes)) }

// whole returns the bytes with which both levels have their largest size.
func (d *design) whole() int64 {
	most := d.mostBuffered() * int64(d.Facts.RowBytes)
	return max(2*most, most+d.pages()*binio.Page)
}

// layout counts the memory of a store with levels of bytes bytes in RAM, which set the sizes in o.
func (d *design) layout(o own, bytes int64) featurestore.Layout {
	o.rows, o.lines = d.divide(bytes, o.near)
	rows, lines := o.rows, o.lines
	l := featurestore.Layout{
		CacheRows:  min(d.Facts.Nodes, int64(rows)+int64(lines)*binio.Page/int64(d.Facts.RowBytes)),
		TableBytes: d.Source.TableBytes() + d.Data.PageSumsBytes(),
		RAMBytes:   d.levelsBytes(o),
		StateBytes: stateBytes(int64(lines)),
		Policy:     o.mode,
		ByUse:      true,
		Accesses:   o.need,
		Note: fmt.Sprintf("a constant buffer of %d rows and %d lines of %d bytes; batches are read together until they have more than %d accesses",
			rows, lines, binio.Page, o.need),
		Own: o,
	}
	if o.near > 0 {
		l.Note += fmt.Sprintf("; %d lines are on the GPU", o.near)
	}
	reader := machine.Counted(func(mem *machine.Memory) { machine.NewReader(mem, reading(), nil, nil) })
	repeating := machine.Counted(func(mem *machine.Memory) { new(wanted).lay(mem, d, d.Facts.Inputs(false)) })
	l.KeepBytes = max(d.Source.RanksBytes(), d.Data.PageSumsWork(), d.chooseBytes(rows), 4*int64(rows)+reader+d.fillBytes(rows), reader+machine.StagingBytes(int64(o.near)*binio.Page), repeating)
	l.KeepBytes += residency.MostStates * l.StateBytes
	if lines > 0 {
		l.Ahead, l.WindowBytes = window, d.Source.WindowBytes(window)
	}
	l.SlotBytes, l.EvalSlotBytes = d.slotBytes(false, o.reads != nil), d.slotBytes(true, false)
	if o.reads != nil {
		newGPU(d, o).count(&l)
	}
	return l
}

// levelsBytes returns the memory of the levels and of the ranks, in bytes. It counts BaM's record for each page
// of the file, which is larger than the cache's own entry.
func (d *design) levelsBytes(o own) int64 {
	n := d.RanksBytes() + machine.Counted(func(mem *machine.Memory) { new(levels).lay(mem, d, o) })
	if o.lines > 0 {
		n += (recordBytes - pageBytes) * d.pages()
	}
	return n
}

// fillBytes returns the memory of fillBuffer but for a reader's.
func (d *design) fillBytes(rows int) int64 {
	return machine.Counted(func(mem *machine.Memory) { new(wanted).lay(mem, d, min(fillStep, rows)) })
}
