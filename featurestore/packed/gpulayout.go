package packed

import (
	"fmt"

	"diskgnn/device/cuda"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/pack/packfile"
)

// turns is the number of training batches that land on the GPU at the same time: one
// is gathered while the next one is copied.
const turns = 2

// mostOnGPU returns how many rows the GPU may hold.
func mostOnGPU(r *packfile.Reader, o *PlanOptions) (int64, error) {
	if o.GPU == nil {
		return 0, nil
	}
	f := r.Facts()
	room := o.GPUMemory
	for through := range r.Index().Edges {
		room = min(room, o.GPUMemory-landingBytes(r, through, o)-int64(o.MostSlots)*directBytes(r, through, o))
	}
	if room < 0 {
		return 0, fault.New(fault.ErrBudget, "batches on their way need %s of GPU memory, %s is left for them; give more --gpu-memory, or sample smaller batches",
			budget.FormatBytes(o.GPUMemory-room), left(o.GPUMemory))
	}
	room = room / cuda.Align * cuda.Align // which is how it is handed out
	fits := min(room/int64(f.RowBytes), f.HotRows)
	if o.GPUCache == nil {
		return fits, nil
	}
	wanted, err := o.GPUCache.Rows(f.Nodes, f.RowBytes)
	if err != nil {
		return 0, err
	}
	if wanted = min(wanted, f.HotRows); wanted > fits {
		return 0, fault.New(fault.ErrBudget, "--gpu-cache %s (%s) does not fit: the GPU has room for %s", o.GPUCache,
			budget.FormatBytes(wanted*int64(f.RowBytes)), budget.FormatBytes(room))
	}
	return wanted, nil
}

// asked says what caches were asked for.
func asked(o *PlanOptions) string {
	switch {
	case o.GPU == nil:
		return o.Cache.String()
	case o.GPUCache == nil:
		return fmt.Sprintf("%s in RAM beside what the GPU has room for", o.Cache)
	}
	return fmt.Sprintf("%s in RAM and %s on the GPU", o.Cache, o.GPUCache)
}

// splitRows returns the most rows of a training batch that are sent to the GPU, the most
// of these that are of the SSD level, and the most that it finds by their ranks.
func splitRows(r *packfile.Reader, through int) (sent, ssd, known int) {
	for i := range r.Index().Train {
		t := &r.Index().Train[i]
		n := t.ColdRows(through) + t.SSDRows(through)
		sent, ssd, known = max(sent, n), max(ssd, t.SSDRows(through)), max(known, t.Inputs-n)
	}
	return sent, ssd, known
}

// directBytes returns the device memory that the chunk of a training batch is read into,
// 0 where it lands in host memory.
func directBytes(r *packfile.Reader, through int, o *PlanOptions) int64 {
	if !o.Direct || r.Form().Compressed() {
		return 0
	}
	return binio.AlignUp(wireBytes(r, through), cuda.Align)
}

// landingBytes returns the device memory that batches land in, and are checked with.
func landingBytes(r *packfile.Reader, through int, o *PlanOptions) int64 {
	a := new(cuda.Arena) // only counts
	_, _ = newTurns(a, r, through)
	if directBytes(r, through, o) > 0 {
		_ = new(checks).take(a, r, through)
	}
	return a.Used()
}

// newTurns takes the memory that batches land in: training batches in turn, then those
// of evaluation.
func newTurns(a *cuda.Arena, r *packfile.Reader, through int) ([turns + 1]turn, error) {
	var list [turns + 1]turn
	f := r.Facts()
	sent, _, known := splitRows(r, through)
	for i := range list {
		if i == turns {
			sent, known = inputs(f.EvalSizes), inputs(f.EvalSizes)
		}
		var err error
		if list[i].ids, err = a.Take(4 * int64(known)); err != nil {
			return list, err
		}
		if f.DType == dtype.Float32 {
			continue // rows are copied to where they are wanted
		}
		if list[i].rows, err = a.Take(int64(sent) * int64(f.RowBytes)); err != nil {
			return list, err
		}
	}
	return list, nil
}
