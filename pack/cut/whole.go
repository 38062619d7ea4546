package cut

import "diskgnn/internal/binio"

// wholeShare is the largest share of a pack by which an edge of 100 % may enlarge it.
const wholeShare = 0.05

// WholeTable reports whether the pack of the request should have an edge of 100 % above its bands, of which
// the first is the largest: trainers with enough memory then read no rows. It is so if the rows between both
// edges have at most wholeShare of the bytes of the pack without them, before the compression of chunks. The
// answer depends on the samples and the content parameters alone. If the batches have too few rows for it in
// any case, it is false without reading the hotness.
func WholeTable(r Request) (bool, error) {
	f, rb := &r.Facts, int64(r.Facts.RowBytes)
	inner := int64(r.Params.Bands[0] / 100 * float64(f.Nodes))
	limit := func(rows, graphs int64) bool {
		return float64((f.Nodes-inner)*rb) <= wholeShare*float64(rows*rb+graphs)
	}
	var inputs, graphs int64
	for i := range r.Samples.Facts().Batches() {
		info := r.Samples.Info(i)
		graphs += binio.AlignUp(info.Size, binio.Page)
		if i < f.Train {
			inputs += int64(info.Nodes[0])
		}
	}
	if !limit(inner+inputs, graphs) {
		return false, nil
	}
	c := &Counts{Request: r}
	hotness, touched, err := c.ranking()
	if err != nil {
		return false, err
	}
	cold := int64(0) // rows of chunks
	for v, n := range hotness {
		if int64(c.Rank[v]) >= r.Params.CacheRows {
			cold += int64(n)
		}
	}
	return touched > inner && limit(inner+cold, graphs), nil
}
