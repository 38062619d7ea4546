package nvme_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/nvmetest"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

// watched is a transport to a controller that does not stop once it is stuck, or that is gone.
// It writes down what becomes of it.
type watched struct {
	nvme.Transport
	stuck, gone bool
	did         []string
}

func (w *watched) Load32(offset int) uint32 {
	switch {
	case w.gone:
		return ^uint32(0)
	case w.stuck && offset == spec.CSTS:
		return spec.Ready
	}
	return w.Transport.Load32(offset)
}

func (w *watched) Free(m *nvme.Memory) error {
	w.did = append(w.did, "free")
	return w.Transport.Free(m)
}

func (w *watched) Close() error {
	if w.Transport.Load32(spec.CSTS)&spec.Ready != 0 && !w.gone {
		w.did = append(w.did, "close while ready")
	}
	w.did = append(w.did, "close")
	return w.Transport.Close()
}

func (w *watched) Abandon() error {
	w.did = append(w.did, "abandon")
	return nil
}

// clock is one on which every look takes a second while the controller is stuck, and no time
// passes else.
func (w *watched) clock() func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time {
		if w.stuck {
			now = now.Add(time.Second)
		}
		return now
	}
}

// A transport is closed once the controller is not ready any more, and is abandoned where that
// does not happen: it may still write to memory.
func TestClose(t *testing.T) {
	for _, x := range []struct {
		name        string
		stuck, gone bool
		want        string
	}{
		{"well", false, false, "close"},
		{"gone", false, true, "close"},
		{"stuck", true, false, "abandon"},
	} {
		w := &watched{Transport: nvmetest.Drive(t, soft.Options{})}
		c, err := nvme.Open(context.Background(), w, nvme.Options{Now: w.clock()})
		if err != nil {
			t.Fatal(err)
		}
		w.did = nil
		w.stuck, w.gone = x.stuck, x.gone
		err = c.Close()
		if x.stuck && (!errors.Is(err, nvme.ErrTimeout) || !strings.Contains(err.Error(), "disable soft:")) || !x.stuck && err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
		if got := strings.Join(w.did, ", "); got != x.want {
			t.Errorf("%s: %s, want %s", x.name, got, x.want)
		}
		if err := c.Close(); err != nil || len(w.did) != 1 {
			t.Errorf("%s, closed again: %v, %q", x.name, err, w.did)
		}
	}
}

// The rings of a controller that cannot be disabled stay, and its queues are dead; a reset that
// succeeds gives them back.
func TestResetStuck(t *testing.T) {
	w := &watched{Transport: nvmetest.Drive(t, soft.Options{})}
	c, err := nvme.Open(context.Background(), w, nvme.Options{Now: w.clock()})
	if err != nil {
		t.Fatal(err)
	}
	q := c.Queues()[0]
	w.did, w.stuck = nil, true
	if err := c.Reset(context.Background()); !errors.Is(err, nvme.ErrTimeout) || len(w.did) > 0 {
		t.Errorf("%v, %q", err, w.did)
	}
	if _, err := q.Poll(nil); !errors.Is(err, nvme.ErrClosed) {
		t.Error(err)
	}
	w.stuck = false
	if err := c.Reset(context.Background()); err != nil || strings.Count(strings.Join(w.did, " "), "free") != 7 {
		t.Errorf("%v, %q: the rings of two queues, and what identified the controller", err, w.did)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// shy is a transport whose registers are nobody's to map: that a GPU will ring doorbells there
// costs the controller in software a look at them all the time.
type shy struct {
	nvme.Transport
	t *testing.T
}

func (s shy) Registers() []byte {
	s.t.Error("the driver maps the registers")
	return nil
}

func (s shy) Mapped() int { return spec.Doorbells + 8*4 } // with the doorbells of four pairs

// As many queues are made as have doorbells that are mapped, which the driver does by itself.
func TestMapped(t *testing.T) {
	c, err := nvme.Open(context.Background(), shy{nvmetest.Drive(t, soft.Options{}), t}, nvme.Options{Queues: 8})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.Queues()); n != 3 { // and the admin queue
		t.Errorf("%d queues", n)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
