package memory

import (
	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
)

// Plan counts what the store holds: all rows, of which a GPU has as many as are wanted or
// fit there.
func (c *candidate) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	near, err := c.mostOnGPU(&o)
	if err != nil {
		return featurestore.Layout{}, err
	}
	if o.Cache != nil {
		rows, err := o.Cache.Rows(c.facts.Nodes, c.facts.RowBytes)
		if err != nil {
			return featurestore.Layout{}, err
		}
		if rows+near < c.facts.Nodes {
			return featurestore.Layout{}, fault.New(fault.ErrUsage, "--ram-cache %s: the store %s holds all rows, %s; leave the flag out, read rows while training (--store rows), or train on a pack",
				o.Cache, Name, budget.FormatBytes(c.facts.Nodes*int64(c.facts.RowBytes)))
		}
	}
	l := c.layout(o.GPU, near)
	if need := l.Bytes(o.Slots, o.EvalSlots); need > o.Memory {
		return l, fault.New(fault.ErrBudget, "all rows (%s) and %d slots need %s of memory, %s is left for them; give more --memory, read rows while training (--store rows), or train on a pack",
			budget.FormatBytes(l.RAMBytes), o.Slots, budget.FormatBytes(need), budget.FormatBytes(max(o.Memory, 0)))
	}
	return l, nil
}

// PlanEval returns the layout for the host: all rows, which Fill reads.
func (c *candidate) PlanEval() (featurestore.Layout, error) { return c.layout(nil, 0), nil }

// mostOnGPU returns how many rows the GPU is to hold, if there is one.
func (c *candidate) mostOnGPU(o *featurestore.PlanOptions) (int64, error) {
	if o.GPU == nil {
		return 0, nil
	}
	l := c.layout(o.GPU, 0)
	if l.GPUBytes > o.GPUMemory {
		return 0, fault.New(fault.ErrBudget, "batches on their way need %s of GPU memory, %s is left for them; give more --gpu-memory, or sample smaller batches",
			budget.FormatBytes(l.GPUBytes), budget.FormatBytes(max(o.GPUMemory, 0)))
	}
	return gpurows.Fit(o, o.GPUMemory-l.GPUBytes, c.facts.Nodes, c.facts.Nodes, c.facts.RowBytes)
}

// layout counts what a store holds whose matrices are for a GPU, which has the given number
// of rows, or for the host.
func (c *candidate) layout(gpu *cuda.Device, near int64) featurestore.Layout {
	f := &c.facts
	pieces := f.Nodes*int64(f.RowBytes)/dataset.Granule + 1
	l := featurestore.Layout{
		CacheRows: f.Nodes, GPU: gpu, GPURows: near,
		TableBytes: c.source.TableBytes() + 12*pieces, // and the table's checksums
	}
	c.table(&l).count(&l)
	l.RAMBytes += c.ranksBytes()
	l.KeepBytes = max(c.source.RanksBytes(), l.KeepBytes+compressedBytes(c.data))
	if len(f.TrainSizes.Src) > 0 {
		l.SlotBytes += c.source.LoaderBytes(false)
	}
	if len(f.EvalSizes.Src) > 0 {
		l.EvalSlotBytes += c.source.LoaderBytes(true)
	}
	return l
}

// table returns the table of a layout. Nothing is opened, and no memory taken.
func (c *candidate) table(l *featurestore.Layout) table {
	if l.GPU == nil {
		return &hostTable{facts: &c.facts}
	}
	return newGPUTable(&c.facts, l)
}

// ranksBytes returns the bytes of all ranks, whole pages.
func (c *candidate) ranksBytes() int64 { return pages(4 * c.facts.Nodes) }

// pages rounds bytes up to whole pages.
func pages(bytes int64) int64 { return binio.AlignUp(bytes, device.PageSize) }
