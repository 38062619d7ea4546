// Package devrows lets a GPU read rows from drives by itself. Stores that read single rows share it; it
// needs a storage stack that allows such reads (iostack.DeviceStack).
//
//	Rows, Pages   on the host: submit the reads, and note where rows lie in them; the reads are
//	              then under way while earlier batches are computed
//	Fill          on the stream that copies: complete the reads, compute the checksums of their
//	              pages, copy the rows to the place of the host's rows
//	Landed        on the host: compare the checksums
//
// A slot's pages land in memory of its own on the device, so that its reads can be completed
// whenever other reads need room.
package devrows

import (
	"errors"
	"fmt"

	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// Shape is the size of the reads of a store's training batches.
type Shape struct {
	Rows     int    // of a batch, at most
	RowBytes int    // of a row, an even number
	Most     int64  // bytes of the pages that are read for a row, at most
	Path     string // of the file
	Bytes    int64  // of the pages of a batch, at most; 0: Rows × Most
}

// Plan is how they are read. Nil: by the host.
type Plan struct {
	Shape
	need  iostack.DeviceNeed
	terms iostack.DeviceTerms
}

// newPlan returns the plan for so many slots, or why the host must read.
func newPlan(s iostack.DeviceStack, shape Shape, slots int) (*Plan, error) {
	if shape.Rows == 0 {
		return nil, nil
	}
	if shape.Bytes == 0 {
		shape.Bytes = int64(shape.Rows) * shape.Most
	}
	p := &Plan{Shape: shape, need: iostack.DeviceNeed{Request: int(shape.Most), Bytes: shape.Bytes, Batches: max(1, slots), Path: shape.Path}}
	var err error
	p.terms, err = s.DeviceTerms(p.need)
	return p, err
}

// pages returns the most pages of a batch.
func (p *Plan) pages() int64 { return p.need.Bytes / binio.Page }

// Count adds the memory of the queues and the slots to a layout.
func (p *Plan) Count(l *featurestore.Layout) {
	if p == nil {
		return
	}
	l.QueueBytes = p.terms.Host
	l.GPUBytes += p.terms.Device
	dry := new(cuda.Arena)
	_ = new(Slot).lay(p, dry) // which has room for all
	l.GPUSlotBytes = dry.Used() + p.terms.BatchDevice
	l.SlotBytes += p.pinnedBytes() + readBytes*p.pages() + p.terms.BatchHost
}

// DeviceBytes returns the device memory of the queues, in bytes.
func (p *Plan) DeviceBytes() int64 {
	if p == nil {
		return 0
	}
	return p.terms.Device
}

// pinnedBytes returns the bytes of ranges, places of rows and sums.
func (p *Plan) pinnedBytes() int64 { return 20*p.pages() + 8*int64(p.Rows) }

// Planned plans a store with a GPU that reads rows by itself, if the options allow it; see Choose.
func Planned(o featurestore.PlanOptions, shape Shape, plan func(*Plan) (featurestore.Layout, error)) (featurestore.Layout, error) {
	return Choose(o, func() (featurestore.Layout, error, error) {
		p, why := newPlan(o.Reads, shape, o.MostSlots)
		if why != nil {
			return featurestore.Layout{}, why, nil
		}
		l, err := plan(p)
		return l, nil, err
	}, func() (featurestore.Layout, error) { return plan(nil) })
}

// Choose plans a store with a GPU that reads by itself, if the options allow it. Where that is not
// possible, for the reason that byGPU returns, or takes more memory than there is, it plans a store
// with reads from the host, and notes why.
func Choose(o featurestore.PlanOptions, byGPU func() (l featurestore.Layout, why, err error), byHost func() (featurestore.Layout, error)) (featurestore.Layout, error) {
	if o.GPU == nil || o.Reads == nil {
		return byHost()
	}
	l, why, err := byGPU()
	if why == nil {
		if err == nil || !errors.Is(err, fault.ErrBudget) {
			return l, err
		}
		why = err
	}
	l, err = byHost()
	if l.Note != "" {
		l.Note += "; "
	}
	l.Note += fmt.Sprintf("the host submits the reads of batches: %v", why)
	return l, err
}

// Fit returns the device memory left for rows that stay there, in bytes, beside the slots' share, which
// slots take later.
func Fit(l *featurestore.Layout, o *featurestore.PlanOptions) (left int64, err error) {
	need := l.GPUBytes + int64(o.MostSlots)*l.GPUSlotBytes
	if need > o.GPUMemory {
		return 0, fault.New(fault.ErrBudget, "batches in flight need %s of GPU memory, but only %s is left; give more --gpu-memory, or sample smaller batches",
			budget.FormatBytes(need), budget.FormatBytes(max(o.GPUMemory, 0)))
	}
	return o.GPUMemory - need, nil
}
