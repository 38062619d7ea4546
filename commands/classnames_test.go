package commands

import (
	"fmt"
	"testing"
)

// TestClassNameLines: a line names eight classes at most.
func TestClassNameLines(t *testing.T) {
	var names []string
	for c := range 10 {
		names = append(names, fmt.Sprint("c", c))
	}
	for n, want := range map[int]string{
		1: "c0", 8: "c0, c1, c2, c3, c4, c5, c6, c7", 9: "c0, c1, c2, c3, c4, c5, c6, c7 and 1 other", 10: "c0, c1, c2, c3, c4, c5, c6, c7 and 2 others",
	} {
		if got := classNameLines(names[:n]); len(got) != 1 || got[0].text != want {
			t.Errorf("%d: %+v, want %q", n, got, want)
		}
	}
	if got := classNameLines(nil); got != nil {
		t.Errorf("%+v", got)
	}
}
