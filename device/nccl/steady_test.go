//go:build linux && (amd64 || arm64) && !race

package nccl

import (
	"errors"
	"testing"
)

// TestSteadyState: enqueueing and waiting take no memory.
func TestSteadyState(t *testing.T) {
	a, err := open([]string{compile(t, "-DVERSION=23007")})
	if err != nil {
		t.Fatal(err)
	}
	l, err := checked(a)
	if err != nil {
		t.Fatal(err)
	}
	id, err := l.NewID()
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Join(t.Context(), id, 2, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, x := stream(t, 8)
	ctx, n := t.Context(), 0
	done := func() (bool, error) { n++; return n%3 == 0, nil }
	if allocs := testing.AllocsPerRun(100, func() {
		if err := errors.Join(c.AllReduce(ctx, s, x), c.Wait(ctx, "sum", done)); err != nil {
			t.Fatal(err)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
