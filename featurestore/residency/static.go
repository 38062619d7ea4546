package residency

import (
	"cmp"
	"fmt"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// static has the rows of a fixed set of nodes.
type static struct{ table }

// Top returns up to `most` nodes with the highest scores, by descending score, ties by ascending node id.
// It takes 4 bytes a node while it runs.
func Top[S cmp.Ordered](score []S, most int) []uint32 {
	nodes := make([]uint32, len(score))
	for v := range nodes {
		nodes[v] = uint32(v)
	}
	slices.SortFunc(nodes, func(a, b uint32) int {
		if c := cmp.Compare(score[b], score[a]); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	return slices.Clone(nodes[:min(most, len(nodes))])
}

func newStatic(c Config) (Policy, error) {
	if len(c.Set) > c.Frames {
		return nil, fault.New(fault.ErrUsage, "residency: the set has %d nodes, but the cache %d frames", len(c.Set), c.Frames)
	}
	s := &static{newTable(c.Nodes, c.Frames)}
	for _, v := range c.Set {
		if int64(v) >= int64(c.Nodes) || s.frameOf[v] != Absent {
			return nil, fault.New(fault.ErrCorrupt, "residency: the set has node %d twice, or beyond the %d nodes", v, c.Nodes)
		}
		s.add(v)
	}
	return s, nil
}

// Batch implements Policy. It may be called concurrently, since it changes nothing.
func (s *static) Batch(nodes []uint32, held, into []int32) {
	held, into = held[:len(nodes)], into[:len(nodes)]
	for i, v := range nodes {
		held[i], into[i] = s.frameOf[v], Absent
	}
}

// State implements Policy.
func (s *static) State() []byte { return s.save(Static) }

// LoadState implements Policy: the state must be of the same set.
func (s *static) LoadState(b []byte) error {
	set := slices.Clone(s.nodeOf)
	s.clear()
	d := binio.NewDecoder(b)
	if s.load(d, Static); d.Err() == nil && !slices.Equal(s.nodeOf, set) {
		d.Fail("it belongs to another set of nodes")
	}
	if err := end(d); err != nil {
		return fmt.Errorf("residency: state of %s: %w", Static, err)
	}
	return nil
}

// Bytes implements Policy.
func (s *static) Bytes() int64 { return s.table.bytes() }
