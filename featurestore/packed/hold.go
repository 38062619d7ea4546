package packed

import (
	"slices"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/pack/packfile"
)

// holding returns the rows that evaluation batches find in memory: of eval.bin, then of hot.bin beyond the
// cache. Reading a file once, in sequence, replaces the runs of pages that every batch reads. A file is
// left on disk if these runs are fewer bytes, and the rest of a file if memory ends. With chunks,
// which have rows without the rest of their pages, hot.bin comes first: more batches have its rows.
func holding(r *packfile.Reader, cacheRows int64, h featurestore.Hold) (heldHot, heldEval int64) {
	f := r.Facts()
	rb := int64(f.RowBytes)
	room := h.Memory - 3*device.PageSize // the memory begins and ends with whole pages, and so do reads
	fits := func(rows int64) int64 { return max(0, min(rows, room/rb)) }
	hot := int64(0)
	if !isMin(r) { // under min no evaluation batch has rows in hot.bin
		hot = max(0, f.HotRows-cacheRows)
	}
	files := []struct {
		held *int64
		rows int64
		of   func(*packfile.Eval) int
	}{
		{&heldEval, f.EvalRows, func(e *packfile.Eval) int { return e.Rows }},
		{&heldHot, hot, hotRows},
	}
	if r.Index().EvalChunks {
		slices.Reverse(files)
	}
	for _, file := range files {
		if runs(r, h, file.rows, file.of) > file.rows*rb {
			*file.held = fits(file.rows)
			room -= *file.held * rb
		}
	}
	return heldHot, heldEval
}

// hotRows returns the most rows of hot.bin that a batch reads from disk.
func hotRows(e *packfile.Eval) int {
	if e.Cold > 0 {
		return e.Cold - e.Rows
	}
	return e.Inputs - e.Rows
}

// runs returns the bytes that evaluation batches read, for the whole job, as chunks or as runs of pages out of
// the given number of adjacent rows. of returns the most rows of a batch among them.
func runs(r *packfile.Reader, h featurestore.Hold, rows int64, of func(*packfile.Eval) int) (bytes int64) {
	rb, x := int64(r.Facts().RowBytes), r.Index()
	add := func(list []packfile.Eval, times int, row int64) {
		for i := range list {
			bytes += int64(times) * min(rows*rb, int64(of(&list[i]))*row)
		}
	}
	page := binio.AlignUp(rb, binio.Page)
	valid := page
	if x.EvalChunks {
		valid = rb
	}
	add(x.Valid, h.Validations, valid)
	add(x.Test, 1, page)
	return bytes
}
