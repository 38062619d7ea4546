package shard

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Shard{"0/1": {0, 1}, "2/5": {2, 5}, " 4/5 ": {4, 5}} {
		s, err := Parse(text)
		if err != nil || s != want || s.Whole() {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "1", "/", "0/0", "1/1", "-1/3", "3/-3", "5/5", "0/65537", "a/b", "1/2/3", "0/99999999999999999999"} {
		if s, err := Parse(text); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	if name := (Shard{1, 3}).DirName("a/b/"); name != "a/b.shard-1-of-3" {
		t.Error(name)
	}
	if name := (Shard{}).DirName("a/b"); name != "a/b" || (Shard{}).String() != "" {
		t.Error(name)
	}
}

// TestOf checks that shards cover all groups once, in order, evenly.
func TestOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups, n := rapid.IntRange(0, 1<<40).Draw(t, "groups"), rapid.IntRange(1, 300).Draw(t, "shards")
		at := 0
		for i := range n {
			lo, hi := Shard{i, n}.Of(groups)
			if lo != at || hi-lo != groups/n && hi-lo != groups/n+1 {
				t.Fatalf("shard %d/%d of %d groups: %d to %d after %d", i, n, groups, lo, hi, at)
			}
			at = hi
		}
		if at != groups {
			t.Fatalf("%d of %d groups", at, groups)
		}
	})
	if lo, hi := (Shard{}).Of(7); lo != 0 || hi != 7 {
		t.Errorf("the whole: %d to %d", lo, hi)
	}
}
