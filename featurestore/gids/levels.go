package gids

import (
	"diskgnn/device"
	"diskgnn/featurestore/internal/gpureads"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/binio"
)

// own has the further parameters of a layout for Open.
type own struct {
	mode  string
	need  int64 // accesses that a gather must exceed
	rows  int   // of the constant buffer
	lines int   // of the cache of pages, of which
	near  int   // are in the memory of gpu: the first ones

	gpu   device.GPU     // that submits the reads of training batches
	reads *gpureads.Plan // of gpu; nil: the host submits the reads
}

// levels is the memory of the store outside its slots.
type levels struct {
	host   *device.Host
	buffer buffer
	cache  *cache
	lines  []byte // a page each, without the lines on a GPU
}

func (v *levels) lay(mem *machine.Memory, d *design, o own) {
	v.buffer.lay(mem, d, o.rows)
	pages := 0
	if o.lines > 0 {
		pages = int(d.pages())
	}
	v.cache = newCache(pages, o.lines, mem)
	v.lines = machine.Numbers[byte](mem, (o.lines-o.near)*binio.Page)
}
