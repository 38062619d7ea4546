package pipeline_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"diskgnn/pipeline"
)

// One item stands still, in a chain of links that take a second: where the items are, and which link
// waits for which.
func TestStanding(t *testing.T) {
	type links = []pipeline.LinkStanding
	for _, c := range []struct {
		name       string
		link, item int           // where nothing moves
		slots, run int           // items of the run
		loaders    int           // workers of the first link
		until      time.Duration // the moment
		moved      time.Duration // the latest movement before
		want       pipeline.Standing
		text       string
	}{
		{"the last link", 2, 1, 3, 5, 1, time.Minute, 5 * time.Second,
			pipeline.Standing{Asked: 5, Left: 1, Links: links{{Link: "load", Waits: "a free slot"}, {Link: "read", Waits: "load"}, {Link: "compute", Working: 1, Oldest: "batch 1", Seconds: 57}}},
			"compute is at batch 1 for 57.0 s; load waits for a free slot; read waits for load"},
		{"the middle", 1, 0, 2, 5, 1, time.Minute, 2 * time.Second,
			pipeline.Standing{Asked: 5, Links: links{{Link: "load", Waits: "a free slot"}, {Link: "read", Working: 1, Oldest: "batch 0", Seconds: 59}, {Link: "compute", Waits: "read"}}},
			"read is at batch 0 for 59.0 s; load waits for a free slot; compute waits for read"},
		{"the first, with workers", 0, 1, 3, 5, 3, 2 * time.Minute, 4 * time.Second,
			pipeline.Standing{Asked: 5, Left: 1, Links: links{{Link: "load", Working: 1, Oldest: "batch 1", Seconds: 120}, {Link: "read", Waits: "load"}, {Link: "compute", Waits: "load"}}},
			"load is at batch 1 for 2 min; read and compute wait for load"},
		{"many at work", 2, 0, 3, 5, 3, 500 * time.Millisecond, 0,
			pipeline.Standing{Asked: 5, Links: links{{Link: "load", Working: 3, Oldest: "batch 0", Seconds: 0.5}, {Link: "read", Waits: "load"}, {Link: "compute", Waits: "load"}}},
			"load is at batch 0 for 500 ms, and at 2 more; read and compute wait for load"},
		{"two at work", 2, 0, 4, 5, 1, 1500 * time.Millisecond, time.Second,
			pipeline.Standing{Asked: 5, Links: links{{Link: "load", Working: 1, Oldest: "batch 1", Seconds: 0.5}, {Link: "read", Working: 1, Oldest: "batch 0", Seconds: 0.5}, {Link: "compute", Waits: "read"}}},
			"load is at batch 1 for 500 ms; read is at batch 0 for 500 ms; compute waits for read"},
		{"the end of a run", 2, 1, 3, 2, 1, time.Minute, 3 * time.Second,
			pipeline.Standing{Asked: 2, Left: 1, Links: links{{Link: "load"}, {Link: "read"}, {Link: "compute", Working: 1, Oldest: "batch 1", Seconds: 57}}},
			"compute is at batch 1 for 57.0 s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				resume := make(chan struct{})
				conf := pipeline.Config[*slot]{Slots: slots(c.slots), Items: 5, Label: func(i int) string { return fmt.Sprint("batch ", i) }}
				for i, name := range []string{"load", "read", "compute"} {
					workers := 1
					if i == 0 {
						workers = c.loaders
					}
					conf.Links = append(conf.Links, pipeline.Link[*slot]{Name: name, Workers: workers, Do: func(_ context.Context, _ *slot, item int) error {
						time.Sleep(time.Second)
						if i == c.link && item == c.item {
							<-resume
						}
						return nil
					}})
				}
				began := time.Now()
				p, err := pipeline.Start(t.Context(), conf)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				idle := func(when string) {
					t.Helper()
					if got := p.Standing().String(); got != "no batch is under way" {
						t.Errorf("%s: %s", when, got)
					}
				}
				idle("before")
				var ran sync.WaitGroup
				ran.Go(func() { err = p.Run(c.run) })
				time.Sleep(c.until)
				synctest.Wait()
				got := p.Standing()
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
				if got.String() != c.text {
					t.Errorf("%s\nwant %s", got, c.text)
				}
				if moved := p.Moved().Sub(began); moved != c.moved {
					t.Errorf("moved after %v, want %v", moved, c.moved)
				}
				close(resume)
				ran.Wait()
				if err != nil {
					t.Error(err)
				}
				idle("after")
			})
		})
	}
}
