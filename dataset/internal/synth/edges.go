package synth

import (
	"math"
	"slices"

	"diskgnn/internal/rng"
)

// drawRounds is how often a node redraws neighbours that it drew already before
// it takes any that it has not: only in graphs of a few dozen nodes.
const drawRounds = 24

// Neighbors appends the in-neighbours of v to dst, distinct, ascending.
func (m *Model) Neighbors(dst []uint32, v uint32) []uint32 {
	c, rank := m.locate(v)
	degree := m.law.degree(rank, m.community(c).size)
	if degree == 0 {
		return dst
	}
	src := rng.New(rng.Key(m.p.Seed, keyEdges, uint64(v)))
	return m.draw(&src, dst, degree, c, int64(v))
}

// draw appends distinct sources of a node of community c, ascending, other than the node not.
func (m *Model) draw(src *rng.Source, dst []uint32, degree int, c, not int64) []uint32 {
	first := len(dst)
	for range drawRounds {
		for len(dst) < first+degree {
			if u := m.source(src, c); int64(u) != not {
				dst = append(dst, u)
			}
		}
		row := dst[first:]
		slices.Sort(row)
		if dst = dst[:first+len(slices.Compact(row))]; len(dst) == first+degree {
			return dst
		}
	}
	return m.fill(src, dst, first, degree, not)
}

// inside is the number of 11-bit values that mean an edge inside the community.
var inside = uint64(math.Round(Inside * (1 << 11)))

// source draws a neighbour for a node of community c. The lowest 11 bits of the
// random word, which the uniform number leaves over, say whether inside it.
func (m *Model) source(src *rng.Source, c int64) uint32 {
	r := src.Uint64()
	if r&(1<<11-1) >= inside {
		k := uint32(m.p.Classes)
		c = int64((uint32(c) + 1 + src.Uint32n(k-1)) % k)
	}
	q := m.community(c)
	rank := m.law.rank(float64(r>>11)/(1<<53), q.size)
	return uint32(m.position.backward(uint64(q.first + rank)))
}

// fill completes a row with the nodes that follow a random one.
func (m *Model) fill(src *rng.Source, dst []uint32, first, degree int, not int64) []uint32 {
	drawn := len(dst)
	for u := src.Uint64n(uint64(m.p.Nodes)); len(dst) < first+degree; u = (u + 1) % uint64(m.p.Nodes) {
		if _, found := slices.BinarySearch(dst[first:drawn], uint32(u)); !found && int64(u) != not {
			dst = append(dst, uint32(u))
		}
	}
	slices.Sort(dst[first:])
	return dst
}
