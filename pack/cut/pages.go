package cut

import (
	"context"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

// samplePages returns the bytes that trainers read of the SSD level per byte of rows,
// found on the segment in the middle of the samples. It holds SegmentMemory.
func samplePages(ctx context.Context, samples *mbfile.Reader, rank []uint32, edges []int64, length, rowBytes int) (float64, error) {
	batches := samples.Facts().TrainBatches
	segment := SegmentsOf(batches, length) / 2
	first := segment * length
	n := min(length, batches-first)
	nodes := newSegment(rank, edges)
	slot := batchSlot{count: make([]int, 2)}
	load := func(k int) ([]uint32, error) {
		var list []uint32
		var err error
		if list, slot.raw, err = samples.Inputs(ctx, first+k, slot.raw); err != nil {
			return nil, err
		}
		slot.classify(list, rank, edges[len(edges)-1:])
		return slot.nodes[:slot.count[0]], nil
	}
	nodes.begin(n)
	for k := range n {
		list, err := load(k)
		if err != nil {
			return 0, err
		}
		nodes.add(k, list)
	}
	nodes.finish()
	useful, read := int64(0), int64(0)
	var places []uint32
	// All batches of the segment are alike: a few suffice.
	for k := 0; k < n; k += (n + mostSampled - 1) / mostSampled {
		list, err := load(k)
		if err != nil {
			return 0, err
		}
		places = places[:0]
		for _, v := range list {
			if s, ok := nodes.Place(v); ok {
				places = append(places, s)
			}
		}
		slices.Sort(places)
		useful += int64(len(places)) * int64(rowBytes)
		read += runBytes(places, int64(rowBytes))
	}
	if useful == 0 {
		return 1, nil
	}
	return float64(read) / float64(useful), nil
}

// mostSampled is the most batches of a segment that are looked at for pages.
const mostSampled = 8

// runBytes returns the bytes of the page runs that hold the rows of ascending places.
func runBytes(places []uint32, rowBytes int64) int64 {
	total, end := int64(0), int64(-1)
	for _, s := range places {
		lo := int64(s) * rowBytes / binio.Page * binio.Page
		hi := binio.AlignUp((int64(s)+1)*rowBytes, binio.Page)
		switch {
		case end < 0 || lo > end+packfile.MaxGap*binio.Page:
			total += hi - lo
		default:
			total += max(hi-end, 0)
		}
		end = max(end, hi)
	}
	return total
}
