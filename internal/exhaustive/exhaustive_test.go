package exhaustive

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// tried returns what each tries of a program of so many operations.
func tried(t interface{ Errorf(string, ...any) }, name string, step int, all bool, operations int) (list []int) {
	count := each(name, step, all, func(n int) bool {
		if n < operations {
			list = append(list, n)
		}
		return n < operations
	})
	if count != operations {
		t.Errorf("%d operations are counted as %d", operations, count)
	}
	return list
}

func TestByHand(t *testing.T) {
	for _, c := range []struct {
		name       string
		step       int
		all        bool
		operations int
		want       string
	}{
		{"a", 1, false, 0, "[]"},
		{"a", 4, false, 1, "[0]"},
		{"a", 1, false, 3, "[0 1 2]"},
		{"a", 4, true, 3, "[0 1 2]"},
		{"a", 4, false, 12, "[0 1 5 9 11]"}, // the hash of "a" is e40c292ch: it begins with 1
		{"b", 4, false, 12, "[0 2 6 10 11]"},
	} {
		if got := fmt.Sprint(tried(t, c.name, c.step, c.all, c.operations)); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestEach: the first and the last operation are tried, none twice, and no more than a step is
// left out; every operation has a name under which it is tried.
func TestEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step, operations := rapid.IntRange(1, 20).Draw(t, "step"), rapid.IntRange(1, 100).Draw(t, "operations")
		seen := map[int]bool{}
		for name := range 200 {
			list := tried(t, fmt.Sprint(name), step, false, operations)
			slices.Sort(list)
			if list[0] != 0 || list[len(list)-1] != operations-1 {
				t.Fatalf("of %d, every %d: %v", operations, step, list)
			}
			for i, n := range list {
				seen[n] = true
				if i > 0 && (n == list[i-1] || n > list[i-1]+step) {
					t.Fatalf("of %d, every %d: %v", operations, step, list)
				}
			}
		}
		if len(seen) != operations {
			t.Fatalf("%d of %d operations are tried", len(seen), operations)
		}
	})
}

// TestVariable: the environment makes it exhaustive.
func TestVariable(t *testing.T) {
	for value, want := range map[string]int{"": 5, "1": 12} {
		t.Setenv(Variable, value)
		n := 0
		Each(named("a"), 4, func(k int) bool {
			if k < 12 {
				n++
			}
			return k < 12
		})
		if n != want {
			t.Errorf("%s=%s: %d operations are tried, want %d", Variable, value, n, want)
		}
	}
}

type named string

func (n named) Name() string { return string(n) }
