package nvmetest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

// A completion that is lost ends in an error that says what the queue knew; after a reset
// the controller is as new.
func lost(t *testing.T, reach Reach) {
	var drop atomic.Bool
	drop.Store(true)
	_, d := Serve(t, soft.Options{Fate: func(*spec.Command) soft.Fate { return soft.Fate{Drop: drop.Load()} }})
	now, step := time.Unix(0, 0), time.Duration(0)
	c := Open(t, reach(t, d), nvme.Options{Now: func() time.Time { now = now.Add(step); return now }, Timeout: time.Hour})
	step = time.Second
	q, space := c.Queues()[0], c.Namespace()
	m := Alloc(t, c.Transport(), 4096)
	cmd := space.Transfer(spec.Read, 0, 1)
	_, err := q.Do(&cmd, m, 0, 512)
	if !errors.Is(err, nvme.ErrTimeout) || !strings.Contains(err.Error(), "opcode 02h") || !strings.Contains(err.Error(), "1 under way") {
		t.Errorf("%v", err)
	}
	if err := q.Submit(&cmd, m, 0, 512, 0); !errors.Is(err, nvme.ErrTimeout) {
		t.Errorf("a queue that is dead takes a command: %v", err)
	}
	drop.Store(false)
	step = 0
	if err := c.Reset(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Queues()[0].Do(&cmd, m, 0, 512); err != nil {
		t.Error(err)
	}
	if _, err := q.Poll(nil); !errors.Is(err, nvme.ErrClosed) {
		t.Errorf("a queue of before: %v", err)
	}
}
