package residency

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A damaged batch may have a node twice. No policy panics, whatever it keeps then.
func TestNodesTwice(t *testing.T) {
	for _, name := range append(Online(), Standby) {
		p := newPolicy(t, name, Config{Nodes: 12, Frames: 5})
		rng := rand.New(rand.NewPCG(1, 2))
		nodes, held, into := make([]uint32, 6), make([]int32, 6), make([]int32, 6)
		for range 2000 {
			for i := range nodes {
				nodes[i] = rng.Uint32N(12)
			}
			p.Batch(nodes[:rng.IntN(len(nodes)+1)], held, into)
		}
	}
}

// By hand, with four frames: what the last two batches used stays, though the batch at hand
// does not use it, and of what was released the first node of the oldest batch leaves first.
func TestStandbyByHand(t *testing.T) {
	p := newPolicy(t, Standby, Config{Nodes: 9, Frames: 4})
	held, into := make([]int32, 3), make([]int32, 3)
	for i, step := range []struct {
		batch      string
		held, into []int32
	}{
		{"ba", []int32{-1, -1}, []int32{0, 1}},
		{"c", []int32{-1}, []int32{2}},
		{"def", []int32{-1, -1, -1}, []int32{3, -1, -1}}, // b and a are in use by this batch still
		{"g", []int32{-1}, []int32{0}},                   // and now released, b before a
		{"ch", []int32{2, -1}, []int32{-1, 1}},           // c would have been released, too
		{"abd", []int32{-1, -1, 3}, []int32{-1, -1, -1}}, // d was released, but is used
		{"e", []int32{-1}, []int32{0}},                   // g's
		{"i", []int32{-1}, []int32{2}},                   // c's, before h's
	} {
		b := letters(step.batch)[0]
		p.Batch(b, held, into)
		if !slices.Equal(held[:len(b)], step.held) || !slices.Equal(into[:len(b)], step.into) {
			t.Errorf("batch %d, %s: held %v, into %v, want %v, %v", i, step.batch, held[:len(b)], into[:len(b)], step.held, step.into)
		}
	}
}
