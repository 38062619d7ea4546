package packed

import (
	"fmt"
	"strings"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/pack/packfile"
)

// PlanOptions say what a layout may use.
type PlanOptions struct {
	// Cache is the wanted RAM cache: a share of the nodes, or bytes. Nil takes as
	// much of what the pack holds as hot as Memory allows.
	Cache *budget.Size
	// Memory is what the store and its slots may hold, in bytes.
	Memory int64
	// Slots and EvalSlots are the numbers of slots that will be made.
	Slots, EvalSlots int
	// GPU is the device that the matrices are for; nil: they are for the host.
	GPU *cuda.Device
	// GPUMemory is what the store may hold of the device's, in bytes, and GPUCache the
	// share of the rows, or bytes, that it may hold there; nil: as much as fits.
	GPUMemory int64
	GPUCache  *budget.Size
	// Direct says that reads can land in the device's memory: chunks do, if they are not
	// compressed, in as many slots as there may be, MostSlots.
	Direct    bool
	MostSlots int
}

// Layout says which rows live where, and what the buffers take.
type Layout struct {
	CacheRows int64 // ranks below are in RAM or on the GPU
	// Through is the last band that is read from disk: the chunk's bands
	// 0 … Through hold the ranks from CacheRows up.
	Through       int
	RAMBytes      int64 // of the cache
	KeepBytes     int64 // of what keeping the cache takes besides, under policy min
	SlotBytes     int64 // of one training slot
	EvalSlotBytes int64 // of one evaluation slot
	DecodeBytes   int64 // of all slots' decompression
	Note          string

	// GPU is the device that assembles the matrices; nil: the CPU does, and RAM holds all
	// rows of the cache.
	GPU           *cuda.Device
	GPURows       int64 // ranks below are on the GPU
	GPUCacheBytes int64 // of their rows
	// GPUBytes is what the store takes of the device's memory: for the rows, and for what
	// batches land in and are checked with.
	GPUBytes int64
	// GPUSlotBytes is what a training slot takes of it besides; more than 0 where chunks
	// are read into it.
	GPUSlotBytes int64
}

// Plan chooses the cache: the largest of the pack's sizes that is wanted and
// fits. Less memory than the least hot set is refused with fault.ErrBudget.
func Plan(r *packfile.Reader, o PlanOptions) (Layout, error) {
	edges := r.Index().Edges
	f := r.Facts()
	first := 0
	note := ""
	if isMin(r) { // its batches change the cache, which the CPU does
		if o.GPU != nil && o.GPUCache != nil && o.GPUCache.Value != 0 {
			return Layout{}, fault.New(fault.ErrUsage, "--gpu-cache %s: %s has the policy min, whose cache RAM holds", o.GPUCache, r.Dir())
		}
		o.GPU = nil
	}
	most, err := mostOnGPU(r, &o)
	if err != nil {
		return Layout{}, err
	}
	if o.Cache != nil {
		wanted, err := o.Cache.Rows(f.Nodes, f.RowBytes)
		if err != nil {
			return Layout{}, err
		}
		wanted += most
		if isMin(r) {
			if err := exactly(r, wanted, *o.Cache); err != nil {
				return Layout{}, err
			}
			wanted = edges[0]
		}
		first = edgeBelow(edges, wanted)
		if first == len(edges) {
			return Layout{}, fault.New(fault.ErrBudget, "%s was packed for at least %s of cache, asked for %s (%d rows); give at least that, or pack again with a smaller --cache",
				r.Dir(), share(r, edges[len(edges)-1]), asked(&o), wanted)
		}
		if edges[first] < wanted {
			note = fmt.Sprintf("cache rounded down to %s: the pack was cut for caches of %s", share(r, edges[first]), list(r, edges))
		}
	}
	for through := first; through < len(edges); through++ {
		l := layout(r, through, &o, most)
		if l.total(o) > o.Memory {
			continue
		}
		if through > first && o.Cache != nil {
			return Layout{}, fault.New(fault.ErrBudget, "a cache of %s needs %s of memory with its %d slots, %s is left for it; the next smaller cache is %s",
				share(r, edges[first]), budget.FormatBytes(layoutTotal(r, first, o, most)), o.Slots, left(o.Memory), share(r, edges[through]))
		}
		l.Note = note
		if o.Cache == nil && through > 0 {
			l.Note = fmt.Sprintf("cache of %s: what memory allows of the %s that the pack holds as hot", share(r, edges[through]), share(r, edges[0]))
		}
		return l, nil
	}
	least := len(edges) - 1
	return Layout{}, fault.New(fault.ErrBudget, "the least cache of this pack, %s, and %d slots need %s of memory, %s is left for them; give more --memory, or sample smaller batches",
		share(r, edges[least]), o.Slots, budget.FormatBytes(layoutTotal(r, least, o, most)), left(o.Memory))
}

// left says how much memory there is: none where more was taken than there was.
func left(memory int64) string {
	if memory <= 0 {
		return "nothing"
	}
	return budget.FormatBytes(memory)
}

// exactly refuses another cache than the one that a pack of policy min was made for.
func exactly(r *packfile.Reader, wanted int64, cache budget.Size) error {
	rows := r.Index().Edges[0]
	if wanted == rows || wanted == r.Params().CacheRows {
		return nil
	}
	kind := fault.ErrUsage
	if wanted < rows {
		kind = fault.ErrBudget
	}
	return fault.New(kind, "%s has the policy min: its cache is exactly %s, asked for %s (%d rows); give --ram-cache %dB, or none", r.Dir(), share(r, rows), cache, wanted, rows*int64(r.Facts().RowBytes))
}

// edgeBelow returns the first, largest edge of at most rows, or len(edges).
func edgeBelow(edges []int64, rows int64) int {
	for i, e := range edges {
		if e <= rows {
			return i
		}
	}
	return len(edges)
}

func share(r *packfile.Reader, rows int64) string {
	f := r.Facts()
	return fmt.Sprintf("%.3g%% (%s)", 100*float64(rows)/float64(max(f.Nodes, 1)), budget.FormatBytes(rows*int64(f.RowBytes)))
}

func list(r *packfile.Reader, edges []int64) string {
	s := make([]string, len(edges))
	for i, e := range edges {
		s[i] = share(r, e)
	}
	return strings.Join(s, ", ")
}

func layoutTotal(r *packfile.Reader, through int, o PlanOptions, most int64) int64 {
	l := layout(r, through, &o, most)
	return l.total(o)
}

func (l *Layout) total(o PlanOptions) int64 {
	return l.RAMBytes + l.KeepBytes + l.DecodeBytes + int64(o.Slots)*l.SlotBytes + int64(o.EvalSlots)*l.EvalSlotBytes
}

// layout sizes the buffers for a cache at one of the pack's edges, of whose rows at most
// so many are the GPU's.
func layout(r *packfile.Reader, through int, o *PlanOptions, most int64) Layout {
	f := r.Facts()
	l := Layout{CacheRows: r.Index().Edges[through], Through: through, GPU: o.GPU}
	if isMin(r) { // whatever is no hit is read
		through = r.Index().Bands - 1
		l.Through, l.KeepBytes = through, minBytes(r)
	}
	if l.GPU != nil {
		l.GPURows = min(l.CacheRows, most)
		l.GPUCacheBytes = l.GPURows * int64(f.RowBytes)
		l.GPUBytes = binio.AlignUp(l.GPUCacheBytes, cuda.Align) + landingBytes(r, through, o)
		l.GPUSlotBytes = directBytes(r, through, o)
	}
	if l.CacheRows > l.GPURows {
		l.RAMBytes = binio.AlignUp(l.CacheRows*int64(f.RowBytes), device.PageSize) - l.hotBegin(f.RowBytes)
	}
	l.DecodeBytes = copierMemory(copyWorkers(r.Form()), r.Form())
	graph := binio.AlignUp(f.GraphBytes, device.PageSize) // as it lies on disk
	train, eval := slotSizes(r, &l), evalSlotSizes(r, &l)
	if len(f.TrainSizes.Src) > 0 {
		l.SlotBytes = graph + f.TrainSizes.Bytes(f.TargetBytes) + r.PlanBytes() + train.sum()
	}
	if len(f.EvalSizes.Src) > 0 {
		l.EvalSlotBytes = graph + f.EvalSizes.Bytes(f.TargetBytes) + eval.sum()
	}
	return l
}

// hotBegin returns where in hot.bin the pages begin that RAM holds.
func (l *Layout) hotBegin(rowBytes int) int64 {
	return l.GPURows * int64(rowBytes) / device.PageSize * device.PageSize
}

// slotBytes are the sizes of a slot's buffers; see Slot.
type slotBytes struct{ matrix, wire, ids, staging int64 }

func (b slotBytes) sum() int64 { return b.matrix + b.wire + b.ids + 2*b.staging }

func slotSizes(r *packfile.Reader, l *Layout) slotBytes {
	f := r.Facts()
	b := slotBytes{matrix: matrixBytes(f, inputs(f.TrainSizes)), staging: ssdStaging(r, l.Through)}
	if l.GPU != nil {
		sent, ssd, known := splitRows(r, l.Through)
		if l.GPUSlotBytes > 0 {
			sent = ssd
		}
		b.matrix, b.ids = wholePages(sent, f.RowBytes), wholePages(known, 4)
	}
	if !l.inPlace(r) {
		b.wire = wireBytes(r, l.Through)
	}
	return b
}

func evalSlotSizes(r *packfile.Reader, l *Layout) slotBytes {
	f := r.Facts()
	b := slotBytes{matrix: matrixBytes(f, inputs(f.EvalSizes)), staging: stagingBytes(f.RowBytes)}
	if l.GPU != nil {
		b.matrix, b.ids = wholePages(inputs(f.EvalSizes), f.RowBytes), wholePages(inputs(f.EvalSizes), 4)
	}
	return b
}

// inputs returns the most input nodes of a batch.
func inputs(s graph.Sizes) int {
	if len(s.Src) == 0 {
		return 0
	}
	return s.Src[0]
}

// matrixBytes returns the bytes of a float32 matrix, whole pages.
func matrixBytes(f packfile.Facts, rows int) int64 { return wholePages(rows, 4*f.Dim) }

func wholePages(rows, rowBytes int) int64 {
	return binio.AlignUp(int64(rows)*int64(rowBytes), device.PageSize)
}

// inPlace reports whether chunks are the front of a slot's matrix as they lie on disk.
func (l *Layout) inPlace(r *packfile.Reader) bool {
	return !r.Form().Compressed() && (l.GPU != nil || r.Facts().DType == dtype.Float32)
}

// wireBytes returns the bytes of the buffer that a chunk lands in when it
// cannot land in the matrix.
func wireBytes(r *packfile.Reader, through int) int64 {
	most := int64(0)
	for i := range r.Index().Train {
		most = max(most, r.Index().Train[i].Extent(r.Form(), through))
	}
	return binio.AlignUp(most, device.PageSize)
}

// stagingBytes returns the bytes of one of the two buffers through which runs of pages
// are read.
func stagingBytes(rowBytes int) int64 {
	return max(8<<20, binio.AlignUp(int64(rowBytes), binio.Page)+2*binio.Page)
}
