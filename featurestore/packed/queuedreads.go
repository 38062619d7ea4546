package packed

import (
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// queuedReads are reads of chunks that the GPU submits and completes; nil: the host does.
type queuedReads struct {
	stack iostack.DeviceStack
	need  iostack.DeviceNeed
	terms iostack.DeviceTerms
}

// chunkRequest is the size of the longest read, in bytes: a few tens of such reads keep drives busy.
const chunkRequest = 64 << 10

// newLateReads returns the reads of a pack. The error is the reason for which the host must read.
func newLateReads(r *packfile.Reader, o *featurestore.PlanOptions) (*queuedReads, error) {
	if r.Form().Compressed() {
		return nil, fault.New(fault.ErrUsage, "chunks are compressed, and the CPU decompresses them")
	}
	most := int64(0)
	for i := range r.Index().Train {
		t := &r.Index().Train[i]
		most = max(most, t.Extent(r.Form(), len(t.Bands)-1))
	}
	l := &queuedReads{stack: o.Reads, need: iostack.DeviceNeed{Request: chunkRequest, Bytes: binio.AlignUp(most, device.PageSize), Batches: max(1, o.MostSlots),
		Path: r.Path(packfile.ColdFile(r.Group(0)))}}
	var err error
	l.terms, err = o.Reads.DeviceTerms(l.need)
	return l, err
}

// deviceBytes returns the device memory of the queues, in bytes.
func (l *queuedReads) deviceBytes() int64 {
	if l == nil {
		return 0
	}
	return l.terms.Device
}

// count adds the memory of the queues, and of each slot, to a layout with chunks of at most the given size.
func (l *queuedReads) count(to *featurestore.Layout, chunk int64) {
	if l == nil {
		return
	}
	to.QueueBytes = l.terms.Host
	to.GPUBytes += l.terms.Device
	if chunk == 0 { // all rows are in memory
		return
	}
	to.SlotBytes += l.terms.BatchHost
	to.GPUSlotBytes += l.terms.BatchDevice
}
