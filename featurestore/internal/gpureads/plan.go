// Package gpureads lets a GPU submit and complete reads of rows. Stores that read single rows or pages share
// it. It needs a storage stack that allows such reads (iostack.DeviceStack).
//
//	Rows, Pages   on the host: submit the reads, and record the places of rows; the reads are in
//	              flight while earlier batches are computed
//	Fill          on the stream of copies: complete the reads, compute the checksums of their pages,
//	              copy the rows to their destination on the device
//	Landed        on the host: compare the checksums
//
// The pages of a slot land in its own device memory, so its reads can be completed at any time, when other
// reads need room.
package gpureads

import (
	"errors"
	"fmt"

	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// Shape has the sizes of the reads of a store's training batches.
type Shape struct {
	Rows     int    // the most rows of a batch
	RowBytes int    // bytes of a row, an even number
	Most     int64  // the most bytes of pages that are read for one row
	Path     string // of the file of rows
	Bytes    int64  // the most bytes of pages of a batch; 0: Rows × Most
}

// Plan has the memory and the queues for reads by a GPU; nil: the host reads.
type Plan struct {
	Shape
	need  iostack.DeviceNeed
	terms iostack.DeviceTerms
}

// newPlan returns the plan for the given number of slots. The error is the reason for which the host must
// read.
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

// pinnedBytes returns the pinned memory of a slot, in bytes: ranges, places of rows and checksums.
func (p *Plan) pinnedBytes() int64 { return 20*p.pages() + 8*int64(p.Rows) }

// Planned is Choose for a store with reads of the given shape: it calls plan with a Plan, or with nil for
// reads by the host.
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

// Choose calls byGPU to plan a store with reads by the GPU, if the options have a GPU and Reads. If byGPU
// returns the reason why for which the GPU cannot read, or an error of kind fault.ErrBudget, Choose returns
// the layout of byHost instead, with the reason in its Note.
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

// Fit returns the device memory left for cached rows, in bytes: GPUMemory without GPUBytes of the layout,
// and without the memory that MostSlots slots will take. If nothing is left, the error is of kind
// fault.ErrBudget.
func Fit(l *featurestore.Layout, o *featurestore.PlanOptions) (left int64, err error) {
	need := l.GPUBytes + int64(o.MostSlots)*l.GPUSlotBytes
	if need > o.GPUMemory {
		return 0, fault.New(fault.ErrBudget, "batches in flight need %s of GPU memory, but only %s is left; give more --gpu-memory, or sample smaller batches",
			budget.FormatBytes(need), budget.FormatBytes(max(o.GPUMemory, 0)))
	}
	return o.GPUMemory - need, nil
}
