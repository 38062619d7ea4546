package idset

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSet compares a set with the sorted list of its members.
func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 300).Draw(t, "n")
		s := New(n)
		draw := func(what string) []uint32 { return rapid.SliceOf(rapid.Uint32Range(0, uint32(n-1))).Draw(t, what) }
		added, removed := draw("added"), draw("removed")
		var members []uint32
		for _, id := range added {
			if isNew := !slices.Contains(members, id); s.Add(id) != isNew {
				t.Fatalf("%d is new: %t", id, isNew)
			} else if isNew {
				members = append(members, id)
			}
		}
		for _, id := range removed {
			s.Remove(id)
		}
		members = slices.DeleteFunc(members, func(id uint32) bool { return slices.Contains(removed, id) })
		slices.Sort(members)
		if n := s.Count(); n != int64(len(members)) {
			t.Fatalf("%d members, want %d", n, len(members))
		}
		for id := range uint32(n) + 1 {
			at, is := slices.BinarySearch(members, id)
			if int(s.Place(id)) != at || int64(id) < n && s.Has(id) != is {
				t.Fatalf("%d: place %d, want %d; a member %t", id, s.Place(id), at, is)
			}
		}
		if got := slices.Collect(s.All()); !slices.Equal(got, members) {
			t.Fatalf("all: %v, want %v", got, members)
		}
		lo := rapid.Int64Range(0, n).Draw(t, "lo")
		hi := rapid.Int64Range(lo, n).Draw(t, "hi")
		want := slices.DeleteFunc(slices.Clone(members), func(id uint32) bool { return int64(id) < lo || int64(id) >= hi })
		if got := slices.Collect(s.In(lo, hi)); !slices.Equal(got, want) {
			t.Fatalf("members from %d to %d: %v, want %v", lo, hi, got, want)
		}
		if !s.HasAll(members) || len(removed) > 0 && s.HasAll(removed[:1]) {
			t.Fatalf("all of %v: %t; %v: %t", members, s.HasAll(members), removed, s.HasAll(removed))
		}
		s.AddAll(removed)
		if !s.HasAll(removed) {
			t.Fatal("what was added is no member")
		}
		if s.Clear(); s.Count() != 0 {
			t.Fatal("the cleared set has members")
		}
	})
}

func TestEmpty(t *testing.T) {
	s := New(0)
	if s.Count() != 0 || s.Place(0) != 0 {
		t.Error("the set of nothing has members")
	}
	if Bytes(0) != 0 || Bytes(64) != 12 || Bytes(65) != 24 {
		t.Errorf("%d, %d and %d bytes", Bytes(0), Bytes(64), Bytes(65))
	}
	s = New(65)
	s.Count()
	if held := int64(8*cap(s.words) + 4*cap(s.before)); held != Bytes(65) {
		t.Errorf("%d bytes are held, %d planned", held, Bytes(65))
	}
}

// TestPlacesAllocateOnce: sets are counted again and again.
func TestPlacesAllocateOnce(t *testing.T) {
	s := New(1000)
	s.Count()
	if n := testing.AllocsPerRun(10, func() {
		s.Add(999)
		s.Count()
		s.Remove(999)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
