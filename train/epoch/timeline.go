package epoch

import (
	"math"
	"slices"
	"strings"
	"time"

	"diskgnn/pipeline"
	"diskgnn/train/rundir"
)

// Without a trace, the latest spans are kept for the report all the same, 40 bytes each: enough for
// the batches that it draws, on any number of lanes.
const (
	TimelineSpans   = 1024
	timelineBatches = 12
)

const trainLanes = "train " // begin the names of the training pipeline's lanes

// timeline returns the spans of the last batches that left the training pipeline; nil without any.
// position returns the batch of an item.
func timeline(spans []pipeline.Span, position func(item int) (epoch, batch int)) *rundir.Timeline {
	last := -1
	for _, s := range spans {
		switch link, ok := strings.CutPrefix(s.Lane, trainLanes); {
		case ok && (link == LinkCompute || link == LinkLaunch || link == linkConsume):
			last = max(last, s.Item)
		}
	}
	if last < 0 {
		return nil
	}
	t := &rundir.Timeline{}
	t.Epoch, _ = position(last)
	began := time.Duration(math.MaxInt64)
	var list []pipeline.Span
	for _, s := range spans {
		lane, ok := strings.CutPrefix(s.Lane, trainLanes)
		if !ok && !slices.Contains(GPULinks[:], lane) || s.Item > last || s.Item <= last-timelineBatches {
			continue
		}
		s.Lane = lane
		if !ok && lane == LinkCompute {
			s.Lane = "GPU " + lane
		}
		if epoch, _ := position(s.Item); epoch == t.Epoch {
			list, began = append(list, s), min(began, s.Begin)
		}
	}
	for _, s := range list {
		_, batch := position(s.Item)
		t.Spans = append(t.Spans, rundir.TimelineSpan{Lane: s.Lane, Batch: batch, Begin: (s.Begin - began).Seconds(), Seconds: s.Length.Seconds()})
	}
	return t
}
