package epoch

import (
	"errors"
	"testing"
)

// failing is a subscriber that counts, and fails by its error.
type failing struct {
	n   int
	err error
}

func (f *failing) On(Event) error { f.n++; return f.err }

// TestPublish: subscribers take an event in turn, up to the first that fails.
func TestPublish(t *testing.T) {
	boom := errors.New("no")
	first, second, third := &failing{}, &failing{err: boom}, &failing{}
	if err := (Stream{first, second, third}).Publish(&Ended{}); err != boom || first.n != 1 || second.n != 1 || third.n != 0 {
		t.Errorf("%v: %d, %d, %d", err, first.n, second.n, third.n)
	}
	if err := (Stream{first, third}).Publish(&Ended{}); err != nil || first.n != 2 || third.n != 1 {
		t.Errorf("%v: %d, %d", err, first.n, third.n)
	}
}
