package epoch

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"diskgnn/pipeline"
)

// Where the batches of a run are, in the middle of a step, while it validates, and after the end.
func TestPlaces(t *testing.T) {
	w := newWorld(t)
	w.slots.Train = 1
	var training, validating, other string
	places := func(i int) string {
		at := w.opened[i].Stands()
		if at.Pipeline != w.opened[i].Name || at.Rank != nil {
			t.Errorf("%+v", at)
		}
		for i := range at.Batches.Links {
			at.Batches.Links[i].Seconds = 0
		}
		return at.String()
	}
	w.on = func(event string) {
		switch event {
		case "computed 1, 101 bytes":
			training, other = places(0), places(1)
		case "evaluated":
			validating = places(1)
		}
	}
	w.must()
	if want := "train: compute is at epoch 1, batch 1 for 0 s; load graph waits for a free slot; read features and assemble wait for load graph"; training != want {
		t.Errorf("in a step: %s\nwant %s", training, want)
	}
	// The first batch of the validation may be loading ahead.
	ahead := strings.Contains(other, " is at epoch 1, validation batch 0 for 0 s")
	if want := "evaluate: no batch is under way"; other != want && !ahead || places(1) != want || places(0) != "train: no batch is under way" {
		t.Errorf("%s\nwant %s; at the end %s, %s", other, want, places(0), places(1))
	}
	if want := "evaluate: compute is at test batch 1 for 0 s"; validating != want {
		t.Errorf("scoring: %s\nwant %s", validating, want)
	}
	if at := w.opened[0].Moved(); at.IsZero() || at.After(time.Now()) {
		t.Errorf("moved at %v", at)
	}
}

// A place in words and for programs.
func TestPlace(t *testing.T) {
	rank := 0
	p := Place{Pipeline: "train", Reads: 3, Rank: &rank, Batches: pipeline.Standing{Asked: 4, Left: 1, Links: []pipeline.LinkStanding{
		{Link: "read features", Working: 1, Oldest: "epoch 0, batch 2", Seconds: 90}, {Link: "compute", Waits: "read features"}}}}
	if got, want := p.String(), "train: read features is at epoch 0, batch 2 for 1 min 30 s; compute waits for read features; 3 reads under way; it waits for rank 0"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	got, err := json.Marshal(p)
	want := `{"pipeline":"train","batches":{"asked":4,"left":1,"stages":[{"stage":"read features","working":1,"oldest":"epoch 0, batch 2","seconds":90},{"stage":"compute","working":0,"waits_for":"read features"}]},"reads_under_way":3,"waits_for_rank":0}`
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	p.Rank, p.Reads, p.Batches = nil, 1, pipeline.Standing{}
	if got, want := p.String(), "train: no batch is under way; 1 read under way"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
