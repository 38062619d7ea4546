package soft_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/nvmetest"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

// A command that is stuck is late, and aborted; one that is not under way cannot be. The queue
// is told of the completion.
func TestAbort(t *testing.T) {
	var stuck atomic.Bool
	stuck.Store(true)
	_, d := nvmetest.Serve(t, soft.Options{Fate: func(*spec.Command) soft.Fate { return soft.Fate{Stuck: stuck.Load()} }})
	now := time.Unix(0, 0)
	c := nvmetest.Open(t, d, nvme.Options{Now: func() time.Time { return now }, Timeout: time.Hour})
	q, space := c.Queues()[0], c.Namespace()
	m := nvmetest.Alloc(t, d, 4096)
	told := make(chan bool, 1)
	d.Notify(q.ID(), func() {
		select {
		case told <- true:
		default:
		}
	})
	late := func(age time.Duration) (ids []uint16) {
		q.Late(age, func(tag uint64, id uint16) {
			if tag != 77 {
				t.Errorf("command %d is late", tag)
			}
			ids = append(ids, id)
		})
		return ids
	}
	cmd := space.Transfer(spec.Read, 0, 1)
	if err := q.Submit(&cmd, m, 0, 512, 77); err != nil {
		t.Fatal(err)
	}
	q.Ring()
	if aborted, err := c.Abort(q, 9999); aborted || err != nil {
		t.Errorf("a command that is not under way: %v, %v", aborted, err)
	}
	now = now.Add(30 * time.Minute)
	if len(late(31*time.Minute)) != 0 || len(late(30*time.Minute)) != 1 {
		t.Error("a command is late that has been under way for half an hour, after 31 minutes, or not after 30")
	}
	for aborted := false; !aborted; { // it may not be fetched yet
		var err error
		if aborted, err = c.Abort(q, late(0)[0]); err != nil {
			t.Fatal(err)
		}
	}
	<-told
	if n, err := q.Poll(func(tag uint64, done spec.Completion) {
		if tag != 77 || !errors.Is(done.Status, spec.AbortRequested) {
			t.Errorf("command %d: %v", tag, done.Status)
		}
	}); n != 1 || err != nil || len(late(0)) != 0 {
		t.Errorf("%d completions, %v", n, err)
	}
	stuck.Store(false)
	if _, err := q.Do(&cmd, m, 0, 512); err != nil {
		t.Error(err)
	}
}
