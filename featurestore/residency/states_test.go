package residency

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"diskgnn/internal/fault"
)

// counter is something that decides: its state is one byte, the batch that it is before.
type counter struct {
	States
	next int
}

func newCounter(circle, slots int) *counter {
	c := &counter{States: States{Circle: circle, Kind: 2}}
	c.AddSlots(slots)
	c.Begin(c.take(), 0, 0)
	return c
}

func (c *counter) take() []byte { return append(c.New(1), byte(c.next)) }

func (c *counter) steps(n int) {
	for range n {
		c.next = (c.next + 1) % c.Circle
		c.Step()
	}
}

func (c *counter) save() []byte { return c.Save([]byte("ab"), c.next, c.take) }

// By hand: the base moves on once the position, three batches back at most, must be beyond the
// later state.
func TestBaseFollowsThePosition(t *testing.T) {
	c := newCounter(7, 3)
	for i, s := range []struct {
		steps       int
		base, since byte
	}{
		{2, 0, 2}, // the position may still be at the beginning
		{3, 0, 5}, // the later state was the beginning's, too; now it is of batch 5
		{2, 0, 7},
		{1, 5, 3},
	} {
		c.steps(s.steps)
		if got, want := c.save(), append(append([]byte("ab"), s.base, 0, 0, 0, 0, 0, 0, 0, s.since, 0, 0, 0, 0, 0, 0, 0), s.base); !bytes.Equal(got, want) {
			t.Errorf("%d: %v, want %v", i, got, want)
		}
	}
	if content, next := c.Base(); next != 5 || !bytes.Equal(content, []byte{5}) {
		t.Errorf("the base is %v of batch %d", content, next)
	}
	behind := func(want ...int) {
		t.Helper()
		for next, want := range want {
			if n := c.Behind(next); n != want {
				t.Errorf("batch %d: %d behind, want %d", next, n, want)
			}
		}
	}
	behind(2, 3, -1, -1, -1, 0, 1)
	c.steps(8) // more than a circle
	behind(9, 10, 11, 5, 6, 7, 8)
	c.Forget()
	behind(-1, -1, -1, -1, -1, -1, -1)
}

// What was saved is taken apart and gone on from.
func TestParse(t *testing.T) {
	c := newCounter(7, 3)
	c.steps(5)
	c.save()
	c.steps(6)
	b := slices.Clone(c.save()[2:])
	content, next, since, err := c.Parse(b)
	if err != nil || next != 5 || since != 6 || !bytes.Equal(content, []byte{5}) {
		t.Fatalf("%v, batch %d, %d ago, %v", content, next, since, err)
	}
	again := newCounter(7, 3)
	again.next = next
	again.Begin(again.take(), next, since)
	if n := again.Behind(4); n != 6 {
		t.Errorf("%d behind, want 6", n)
	}
	if got := again.save()[2:]; !bytes.Equal(got, b) {
		t.Errorf("saved once more: %v, not %v", got, b)
	}
	for what, spoil := range map[string]func(b []byte) []byte{
		"another circle": func(b []byte) []byte { b[0] = 7; return b },
		"long ago":       func(b []byte) []byte { b[13], b[8] = 1, 1; return b },
		"cut":            func(b []byte) []byte { return b[:15] },
		"nothing":        func([]byte) []byte { return nil },
	} {
		if _, _, _, err := c.Parse(spoil(slices.Clone(b))); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	b[13], b[8] = 1, 0 // just not too long ago
	if _, _, since, err := c.Parse(b); err != nil || since != 1<<40 {
		t.Errorf("%d ago, %v", since, err)
	}
}
