package pipeline

import (
	"fmt"
	"strings"
)

// String returns the table in one line:
//
//	load graph 3% | read features 92% | compute 40%, bound by read features 1.02×
//
// whose last number is Slowdown.
func (t Table) String() string {
	var b strings.Builder
	for i, s := range t.Links {
		if i > 0 {
			b.WriteString(" | ")
		}
		fmt.Fprintf(&b, "%s %.0f%%", s.Link, 100*t.Share(s))
	}
	if x := t.Slowdown(); x > 0 {
		fmt.Fprintf(&b, ", bound by %s %.2f×", t.Bound().Link, x)
	}
	return b.String()
}
