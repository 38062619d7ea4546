package packed

import (
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/pack/packfile"
)

// hold adds rows to a layout that evaluation batches find in memory: of eval.bin, then of hot.bin beyond
// the cache. Reading a file once, in sequence, replaces the runs of pages that every batch reads. A file is
// left on disk if these runs are fewer bytes, and the rest of a file if memory ends.
func (p *planner) hold(l Layout, h featurestore.Hold) Layout {
	f := p.r.Facts()
	rb := int64(f.RowBytes)
	room := h.Memory - 3*device.PageSize // the memory begins and ends with whole pages, and so do reads
	fits := func(rows int64) int64 { return max(0, min(rows, room/rb)) }
	hot := int64(0)
	if !isMin(p.r) { // under min no evaluation batch has rows in hot.bin
		hot = max(0, f.HotRows-l.CacheRows)
	}
	cached := l.RAMBytes
	if p.runs(h, f.EvalRows, func(e *packfile.Eval) int { return e.Rows }) > f.EvalRows*rb {
		l.HeldEval = fits(f.EvalRows)
		room -= l.HeldEval * rb
	}
	if p.runs(h, hot, func(e *packfile.Eval) int { return e.Inputs - e.Rows }) > hot*rb {
		l.HeldHot = fits(hot)
	}
	l = p.measured(l)
	l.HeldBytes, l.RAMBytes = l.RAMBytes-cached, cached
	return l
}

// runs returns the bytes that evaluation batches read, for the whole job, as runs of pages out of the given
// number of adjacent rows. of returns the most rows of a batch among them.
func (p *planner) runs(h featurestore.Hold, rows int64, of func(*packfile.Eval) int) (bytes int64) {
	rb := int64(p.r.Facts().RowBytes)
	add := func(list []packfile.Eval, times int) {
		for i := range list {
			bytes += int64(times) * min(rows*rb, int64(of(&list[i]))*binio.AlignUp(rb, binio.Page))
		}
	}
	add(p.r.Index().Valid, h.Validations)
	add(p.r.Index().Test, 1)
	return bytes
}
