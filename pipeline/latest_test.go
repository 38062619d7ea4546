package pipeline

import (
	"fmt"
	"testing"
	"time"
)

// TestLatest: the latest spans, oldest first, as far as the ring holds them.
func TestLatest(t *testing.T) {
	r := NewRecorder(3)
	if got := r.Latest(5); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
	a, b := r.Lane("a"), r.Lane("b")
	for i := range 5 {
		lane := a
		if i%2 == 1 {
			lane = b
		}
		r.AddSpan(lane, i, r.since.Add(time.Duration(i)), 7)
	}
	for most, want := range map[int]string{0: "[]", 2: "[{b 3 3ns 7ns} {a 4 4ns 7ns}]", 9: "[{a 2 2ns 7ns} {b 3 3ns 7ns} {a 4 4ns 7ns}]"} {
		if got := fmt.Sprint(r.Latest(most)); got != want {
			t.Errorf("%d: %s, want %s", most, got, want)
		}
	}
}
