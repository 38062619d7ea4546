package hyperion

import (
	"fmt"
	"math"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/budget"
)

// own has the further parameters of a layout for Open.
type own struct {
	frames   machine.Frames
	requests int // requests in flight of a slot, if the host reads

	// For a source that can hold lists of neighbours: room is the RAM for lists, in bytes, and if shared
	// is set, for the rows in RAM too; ofLists is the memory of the chosen lists, in bytes.
	room    int64
	shared  bool
	ofLists int64
}

// Shape implements machine.ReadByGPU.
func (v *levels) Shape() gpureads.Shape {
	return gpureads.Shape{Rows: v.Facts.Inputs(false), RowBytes: v.Facts.RowBytes, Most: machine.Single{}.Most(v.Facts.RowBytes), Path: v.Data.FeaturesPath()}
}

// Plan gives the GPU the frames that the options ask for, or all that fit. It gives the RAM the frames that
// the options ask for, or divides the memory between frames and lists by their benefit. Pages of reads
// take a quarter of the memory left for frames and lists, and the remainder after the placement.
func (v *levels) Plan(r machine.Room, reads *gpureads.Plan) (featurestore.Layout, error) {
	none := featurestore.Layout{}
	w := own{frames: machine.Frames{GPU: r.GPU, Reads: reads, Fixed: true}, requests: v.fewestRequests()}
	most := v.mostFrames()
	if r.Least {
		most = 0
	}
	near, err := r.OnGPU(v.layout(w), most)
	if err != nil {
		return none, err
	}
	w.frames.Near, w.frames.All = near, near
	if least := v.layout(w); r.Least || !r.Fits(least) {
		return least, r.Smallest(least, machine.Tables)
	}
	if r.Cache != nil {
		rows, err := r.Wanted()
		if err != nil {
			return none, err
		}
		w.frames.All = min(near+rows, v.mostFrames())
		if l := v.layout(w); !r.Fits(l) {
			return l, r.Cached(l, w.frames.All-near)
		}
	}
	requests := func(memory int64) int {
		return w.requests + int(machine.Most(int64(v.mostRequests()-w.requests), func(n int64) bool {
			w := w
			w.requests += int(n)
			return r.Need(v.layout(w)) <= memory
		}))
	}
	if n := r.Need(v.layout(w)); r.Cache == nil || v.lists() != nil {
		w.requests = requests(n + (r.Memory-n)/4)
	}
	switch {
	case v.lists() != nil:
		w.shared = r.Cache == nil
		w.room = max(0, r.Memory-r.Need(v.layout(w))-2*device.PageSize) // rows and lists are rounded up to whole pages
		if err := v.settle(&w); err != nil {
			return none, err
		}
	case r.Cache == nil:
		w.frames.All += machine.Most(v.mostFrames()-near, func(n int64) bool {
			w := w
			w.frames.All += n
			return r.Fits(v.layout(w))
		})
	}
	w.requests = requests(r.Memory)
	return v.layout(w), nil
}

// PlanEval returns a layout without a cache, with few reads in flight.
func (v *levels) PlanEval(int64) (featurestore.Layout, error) {
	return v.layout(own{frames: machine.Frames{Fixed: true}, requests: v.fewestRequests()}), nil
}

// mostFrames returns the largest number of frames: one for each row, within the range of int32.
func (v *levels) mostFrames() int64 { return min(v.Facts.Nodes, math.MaxInt32) }

// mostRequests returns the number of requests in flight with which any batch completes at once;
// fewestRequests returns the smallest number in flight of a slot.
func (v *levels) mostRequests() int   { return max(v.Facts.Inputs(false), v.Facts.Inputs(true)) }
func (v *levels) fewestRequests() int { return min(microBatch, v.mostRequests()) }

// layout counts the memory of a store.
func (v *levels) layout(o own) featurestore.Layout {
	l := featurestore.Layout{
		CacheRows:  o.frames.All,
		TableBytes: v.Source.TableBytes() + v.Data.PageSumsBytes(),
		RAMBytes:   v.RanksBytes() + residency.Size{Nodes: int(v.Facts.Nodes), Frames: int(o.frames.All)}.Bytes(residency.Static),
		Note:       v.note(o),
		Own:        o,
	}
	cache := machine.NewCache(&v.Facts, o.frames)
	cache.Count(&l)
	choosing := v.Source.RanksBytes() + placementMemory(v.Facts.Nodes, 0)
	if lists := v.lists(); lists != nil {
		l.RAMBytes += lists.ListsBytes(o.ofLists)
		choosing += placementMemory(0, v.Facts.Nodes) + lists.ListsWork()
	}
	const piece = fillNodes * (4 + 4)
	l.KeepBytes = max(choosing, v.Data.PageSumsWork(), machine.RefillBytes(v.fills(), cache)+piece)
	l.SlotBytes, l.EvalSlotBytes = machine.FrameSlotBytes(v.Table, cache, v.reads(o), o.frames.Reads != nil)
	o.frames.Reads.Count(&l)
	return l
}

// note describes the cache and, if a batch cannot complete all reads at once, the number that it can.
func (v *levels) note(o own) string {
	note := "the cache holds rows, and no lists of neighbours"
	if v.lists() != nil {
		note = fmt.Sprintf("%s of the cache hold lists of neighbours", budget.FormatBytes(o.ofLists))
	}
	if n := v.mostRequests(); o.requests < n && o.frames.Reads == nil {
		note += fmt.Sprintf("; up to %d of a batch's missed rows complete at once; each slot needs %s more for all of them", o.requests,
			budget.FormatBytes(int64(n-o.requests)*machine.Single{}.Most(v.Facts.RowBytes)))
	}
	return note
}

// Sizes of filling the cache: requests in flight, and nodes in a piece.
const (
	fillRequests = 64
	fillNodes    = 1 << 16
)

// reads returns the way in which the host reads a batch's misses: in micro-batches, completed at once.
func (v *levels) reads(o own) machine.Reading {
	return machine.Reading{Planner: machine.Single{}, Row: v.Facts.RowBytes, Rounds: 1, Requests: o.requests, Submit: microBatch}
}

// fills returns the way in which the cache's rows are read.
func (v *levels) fills() machine.Reading {
	return machine.Reading{Planner: joined{}, Row: v.Facts.RowBytes, Rounds: 1, Requests: fillRequests, Submit: fillRequests}
}

// frameBytes is the memory of a held row in addition to the row itself: its node id in the policy.
const frameBytes = 4

// rowDemand returns the demand for rows, by the hotness of the nodes.
func (v *levels) rowDemand(hotness []uint32) demand {
	row := v.Facts.RowBytes
	return demand{
		Accesses: hotness,
		Bytes:    func(uint32) int64 { return int64(row) + frameBytes },
		Read: func(u uint32) int64 {
			_, n, _ := machine.Single{}.Next([]uint32{u}, row, v.Size())
			return n
		},
	}
}

// lists returns the source if the store chooses the lists that it holds, otherwise nil.
func (v *levels) lists() featurestore.Lists {
	if l, ok := v.Source.(featurestore.Lists); ok && l.Draws() != nil {
		return l
	}
	return nil
}

func (v *levels) listDemand() demand {
	l := v.lists()
	if l == nil {
		return demand{}
	}
	return demand{Accesses: l.Draws(), Bytes: l.ListBytes, Read: l.ListRead}
}

// choose divides the memory of a layout: it returns the nodes of the rows in frames, and the nodes of
// the lists held in RAM.
func (v *levels) choose(o own) (frames, lists []uint32, err error) {
	hotness, err := v.Source.Hotness()
	if err != nil {
		return nil, nil, err
	}
	ofRows, ofLists := v.rowDemand(hotness), v.listDemand()
	row := ofRows.Bytes(0)
	room := room{GPU: o.frames.Near * row, RAM: o.room}
	if !o.shared {
		lists = divide(demand{}, ofLists, room).RAM.Lists
		ofLists, room.RAM = demand{}, (o.frames.All-o.frames.Near)*row
	}
	d := divide(ofRows, ofLists, room)
	if o.shared {
		lists = d.RAM.Lists
	}
	if frames = d.GPU; len(frames) == 0 {
		return d.RAM.Rows, lists, nil
	}
	return append(frames, d.RAM.Rows...), lists, nil // rows are in RAM once the GPU is full
}

// settle sets the number of frames, if they share the room, and the bytes of lists.
func (v *levels) settle(o *own) error {
	frames, lists, err := v.choose(*o)
	if err != nil {
		return err
	}
	if o.shared {
		o.frames.All = min(max(o.frames.Near, int64(len(frames))), v.mostFrames())
	}
	for _, u := range lists {
		o.ofLists += v.lists().ListBytes(u)
	}
	return nil
}
