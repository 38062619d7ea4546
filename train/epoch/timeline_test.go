package epoch

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"diskgnn/pipeline"
	"diskgnn/train/rundir"
)

// TestTimeline: the last batches that were computed, of one epoch, counted from their first span;
// those that are only read, and evaluation's, are left out.
func TestTimeline(t *testing.T) {
	position := func(item int) (epoch, batch int) { return item / 20, item % 20 }
	var spans []pipeline.Span
	for i := range 17 {
		spans = append(spans, pipeline.Span{Lane: "train read features", Item: 20 + i, Begin: time.Duration(i) * time.Second, Length: time.Second})
	}
	for i := range 15 {
		spans = append(spans, pipeline.Span{Lane: "train compute", Item: 20 + i, Begin: time.Duration(i+1) * time.Second, Length: time.Second / 2})
	}
	spans = append(spans, pipeline.Span{Lane: "valid compute", Item: 99}, pipeline.Span{Lane: "fill the cache", Item: 30}, pipeline.Span{Lane: "compute", Item: 34, Begin: 9 * time.Second, Length: time.Second / 4})
	got := timeline(spans, position)
	if got == nil || got.Epoch != 1 || len(got.Spans) != 2*timelineBatches+1 {
		t.Fatalf("%+v", got)
	}
	want := []rundir.TimelineSpan{{Lane: "read features", Batch: 3, Begin: 0, Seconds: 1}, {Lane: "read features", Batch: 14, Begin: 11, Seconds: 1},
		{Lane: "compute", Batch: 3, Begin: 1, Seconds: 0.5}, {Lane: "compute", Batch: 14, Begin: 12, Seconds: 0.5}, {Lane: "GPU compute", Batch: 14, Begin: 6, Seconds: 0.25}}
	if d := cmp.Diff(want, []rundir.TimelineSpan{got.Spans[0], got.Spans[11], got.Spans[12], got.Spans[23], got.Spans[24]}); d != "" {
		t.Error(d)
	}
	if got := timeline(spans[:17], position); got != nil {
		t.Errorf("nothing computed: %+v", got)
	}
	early := timeline([]pipeline.Span{{Lane: "train launch", Item: 19, Begin: 5}, {Lane: "train launch", Item: 20, Begin: 6}}, position)
	if early == nil || early.Epoch != 1 || len(early.Spans) != 1 || early.Spans[0] != (rundir.TimelineSpan{Lane: "launch"}) {
		t.Errorf("of two epochs: %+v", early)
	}
}
