package hyperion

import (
	"fmt"
	"math"
	"sort"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/devrows"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/featurestore/internal/online"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
)

// own has the further parameters of a layout for Open.
type own struct {
	near, rows int64         // frames on the GPU; all frames
	requests   int           // requests in flight of a slot, if the host reads
	reads      *devrows.Plan // for reads of training batches by the GPU; nil: the host reads

	// For a source that can hold lists of neighbours: room is the RAM for lists, in bytes, and if shared
	// is set, for the rows in RAM too; ofLists is the memory of the chosen lists, in bytes.
	room    int64
	shared  bool
	ofLists int64
}

// Plan gives the GPU the frames that the options ask for, or all that fit. It gives the RAM the frames that
// the options ask for, or divides the memory between frames and lists by their benefit. Pages of reads
// take a quarter of the memory left for frames and lists, and the remainder after the division.
func (c *candidate) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	shape := devrows.Shape{Rows: c.facts.Inputs(false), RowBytes: c.facts.RowBytes, Most: online.Single{}.Most(c.facts.RowBytes), Path: c.data.FeaturesPath()}
	return devrows.Planned(o, shape, func(reads *devrows.Plan) (featurestore.Layout, error) { return c.plan(o, reads) })
}

func (c *candidate) plan(o featurestore.PlanOptions, reads *devrows.Plan) (featurestore.Layout, error) {
	none := featurestore.Layout{}
	near, err := c.framesOnGPU(&o, reads)
	if err != nil {
		return none, err
	}
	bytes := func(w own) int64 {
		l := c.layout(o.GPU, w)
		return l.Bytes(o.Slots, o.EvalSlots)
	}
	w := own{near: near, rows: near, requests: c.fewestRequests(), reads: reads}
	least := c.layout(o.GPU, w)
	if n := bytes(w); n > o.Memory {
		return least, fault.New(fault.ErrBudget, "%d slots and the tables of nodes and checksums need %s of memory, but only %s is left; give more --memory",
			o.Slots, budget.FormatBytes(n), budget.FormatBytes(max(o.Memory, 0)))
	}
	if o.Least {
		return least, nil
	}
	if o.Cache != nil {
		rows, err := o.Cache.Rows(c.facts.Nodes, c.facts.RowBytes)
		if err != nil {
			return none, err
		}
		w.rows = min(near+rows, c.mostFrames())
		if n := bytes(w); n > o.Memory {
			return c.layout(o.GPU, w), fault.New(fault.ErrBudget, "--ram-cache %s (%d rows) and %d slots need %s of memory, but only %s is left; give more --memory, or a smaller cache",
				o.Cache, w.rows-near, o.Slots, budget.FormatBytes(n), budget.FormatBytes(o.Memory))
		}
	}
	requests := func(memory int64) int {
		more := most(int64(c.mostRequests()-w.requests), func(n int64) bool {
			w := w
			w.requests += int(n)
			return bytes(w) <= memory
		})
		return w.requests + int(more)
	}
	if n := bytes(w); o.Cache == nil || c.lists() != nil {
		w.requests = requests(n + (o.Memory-n)/4)
	}
	switch {
	case c.lists() != nil:
		w.shared = o.Cache == nil
		w.room = max(0, o.Memory-bytes(w)-2*device.PageSize) // rows and lists are rounded up to whole pages
		if err := c.settle(&w); err != nil {
			return none, err
		}
	case o.Cache == nil:
		w.rows += most(c.mostFrames()-near, func(n int64) bool {
			w := w
			w.rows += n
			return bytes(w) <= o.Memory
		})
	}
	w.requests = requests(o.Memory)
	return c.layout(o.GPU, w), nil
}

// PlanEval returns a layout without a cache, with few reads in flight.
func (c *candidate) PlanEval(int64) (featurestore.Layout, error) {
	return c.layout(nil, own{requests: c.fewestRequests()}), nil
}

// framesOnGPU returns the number of frames on the GPU; 0 without a GPU.
func (c *candidate) framesOnGPU(o *featurestore.PlanOptions, reads *devrows.Plan) (int64, error) {
	if o.GPU == nil {
		return 0, nil
	}
	l := c.layout(o.GPU, own{requests: c.fewestRequests(), reads: reads})
	left, err := devrows.Fit(&l, o)
	if err != nil {
		return 0, err
	}
	if o.Least {
		return 0, nil
	}
	return gpurows.Fit(o, left, c.mostFrames(), c.facts.Nodes, c.facts.RowBytes)
}

// most returns the largest number up to hi that fits. fits must be true for 0, and for all numbers below
// one for which it is true.
func most(hi int64, fits func(int64) bool) int64 {
	return int64(sort.Search(int(hi), func(n int) bool { return !fits(int64(n) + 1) }))
}

// mostFrames returns the largest number of frames: one for each row, within the range of int32.
func (c *candidate) mostFrames() int64 { return min(c.facts.Nodes, math.MaxInt32) }

// mostRequests returns the number of requests in flight with which any batch completes at once;
// fewestRequests returns the smallest number in flight of a slot.
func (c *candidate) mostRequests() int   { return max(c.facts.Inputs(false), c.facts.Inputs(true)) }
func (c *candidate) fewestRequests() int { return min(microBatch, c.mostRequests()) }

// layout counts the memory of a store that computes on a GPU, or with nil on the host.
func (c *candidate) layout(gpu *cuda.Device, o own) featurestore.Layout {
	l := featurestore.Layout{
		CacheRows: o.rows, GPU: gpu, GPURows: o.near,
		TableBytes: c.source.TableBytes() + c.data.PageSumsBytes(),
		Note:       c.note(o),
		Own:        o,
	}
	c.side(&l).count(&l)
	l.RAMBytes += c.ranksBytes() + residency.Size{Nodes: int(c.facts.Nodes), Frames: int(o.rows)}.Bytes(residency.Static)
	choosing := c.source.RanksBytes() + divisionMemory(c.facts.Nodes, 0)
	if lists := c.lists(); lists != nil {
		l.RAMBytes += lists.ListsBytes(o.ofLists)
		choosing += divisionMemory(0, c.facts.Nodes) + lists.ListsWork()
	}
	l.KeepBytes = max(choosing, c.data.PageSumsWork(), c.fillBytes()+l.KeepBytes)
	l.SlotBytes += c.slotBytes(false, o)
	l.EvalSlotBytes += c.slotBytes(true, o)
	o.reads.Count(&l)
	return l
}

// note describes the cache and, if a batch cannot complete all reads at once, the number that it can.
func (c *candidate) note(o own) string {
	note := "the cache holds rows, and no lists of neighbours"
	if c.lists() != nil {
		note = fmt.Sprintf("%s of the cache hold lists of neighbours", budget.FormatBytes(o.ofLists))
	}
	if n := c.mostRequests(); o.requests < n && o.reads == nil {
		note += fmt.Sprintf("; up to %d of a batch's missed rows complete at once; each slot needs %s more for all of them", o.requests,
			budget.FormatBytes(int64(n-o.requests)*online.Single{}.Most(c.facts.RowBytes)))
	}
	return note
}

// side returns the side of a layout, without opening it.
func (c *candidate) side(l *featurestore.Layout) side {
	if o := l.Own.(own); l.GPU == nil {
		return &host{facts: &c.facts, rows: o.rows}
	} else {
		return newGPU(&c.facts, l, o)
	}
}

// slotBytes returns the memory of a slot without its matrix, in bytes; 0 if no batches need it.
func (c *candidate) slotBytes(eval bool, o own) int64 {
	n := c.facts.Inputs(eval)
	if n == 0 {
		return 0
	}
	bytes := listBytes*int64(n) + c.source.LoaderBytes(eval)
	if o.reads == nil || eval {
		bytes += readerBytes(min(o.requests, n), online.Single{}, c.facts.RowBytes)
	}
	return bytes
}

func (c *candidate) ranksBytes() int64 { return pages(4 * c.facts.Nodes) }

// pages rounds the bytes of a buffer up to whole pages.
func pages(bytes int64) int64 { return binio.AlignUp(bytes, device.PageSize) }

// frameBytes is the memory of a held row in addition to the row itself: its node id in the policy.
const frameBytes = 4

// rowDemand returns the demand for rows, by the hotness of the nodes.
func (c *candidate) rowDemand(hotness []uint32) demand {
	row := c.facts.RowBytes
	return demand{
		Accesses: hotness,
		Bytes:    func(uint32) int64 { return int64(row) + frameBytes },
		Read: func(v uint32) int64 {
			_, n, _ := online.Single{}.Next([]uint32{v}, row, c.size())
			return n
		},
	}
}

// lists returns the source if the store chooses the lists that it holds, otherwise nil.
func (c *candidate) lists() featurestore.Lists {
	if l, ok := c.source.(featurestore.Lists); ok && l.Draws() != nil {
		return l
	}
	return nil
}

func (c *candidate) listDemand() demand {
	l := c.lists()
	if l == nil {
		return demand{}
	}
	return demand{Accesses: l.Draws(), Bytes: l.ListBytes, Read: l.ListRead}
}

// choose divides the memory of a layout: it returns the nodes of the rows in frames, and the nodes of
// the lists held in RAM.
func (c *candidate) choose(o own) (frames, lists []uint32, err error) {
	hotness, err := c.source.Hotness()
	if err != nil {
		return nil, nil, err
	}
	ofRows, ofLists := c.rowDemand(hotness), c.listDemand()
	row := ofRows.Bytes(0)
	room := room{GPU: o.near * row, RAM: o.room}
	if !o.shared {
		lists = divide(demand{}, ofLists, room).RAM.Lists
		ofLists, room.RAM = demand{}, (o.rows-o.near)*row
	}
	d := divide(ofRows, ofLists, room)
	if o.shared {
		lists = d.RAM.Lists
	}
	if frames = d.GPU.Rows; len(frames) == 0 {
		return d.RAM.Rows, lists, nil
	}
	return append(frames, d.RAM.Rows...), lists, nil // rows are in RAM once the GPU is full
}

// settle sets the number of frames, if they share the room, and the bytes of lists.
func (c *candidate) settle(o *own) error {
	frames, lists, err := c.choose(*o)
	if err != nil {
		return err
	}
	if o.shared {
		o.rows = min(max(o.near, int64(len(frames))), c.mostFrames())
	}
	for _, v := range lists {
		o.ofLists += c.lists().ListBytes(v)
	}
	return nil
}
