// Package walk decides which partitions of a graph are in memory together, state after state, while an
// epoch is trained on as MariusGNN does (Waleffe et al.: MariusGNN, EuroSys 2023; Mohoney et al.:
// Marius, OSDI 2021).
//
// A buffer holds some of the partitions. A state is the set of partitions that it holds at a time; from
// one state to the next, one group of partitions replaces another. A walk is the states of an epoch, a
// function of its kind, the counts and a key alone:
//
//	beta    groups are single partitions. The last slot of the buffer takes every group on
//	        disk in turn; then the other slots are filled anew with groups that are not
//	        needed again afterwards; both are repeated until no group is left on disk. Any
//	        two partitions are in the buffer together in at least one state.
//	comet   BETA over groups of random partitions, as few of which fill the buffer as can be:
//	        two, where it holds an even number of partitions
//	sweep   the first pass of comet alone, as MariusGNN classifies nodes: every partition is
//	        in the buffer in at least one state, with those that stay there throughout
//
// An item to train on with partitions i and j is assigned to a state that holds both: by beta to the
// first such state, as BETA does, by the other kinds to any of them with equal probability, which is
// COMET's deferred assignment. Seed nodes of partition i are assigned as the pair of i and i.
package walk

import "diskgnn/internal/rng"

// Kinds of walks.
const (
	Sweep = "sweep"
	Beta  = "beta"
	Comet = "comet"
)

// Names returns the kinds of walks: the values that --walk accepts, the default first.
func Names() []string { return []string{Sweep, Beta, Comet} }

// MaxPartitions is the largest number of partitions.
const MaxPartitions = 1 << 14

// swap is the step from one state to the next: one group replaces another.
type swap struct{ out, in uint16 }

// Walk is the sequence of states of an epoch. It is immutable and safe for concurrent use.
type Walk struct {
	size  int      // partitions of a group; the last group may have fewer
	parts []uint16 // all partitions, group after group
	slots int      // state 0 has the groups 0 to slots-1
	swaps []swap
	first bool // items are assigned to the first state that holds both partitions
}

func groupSize(kind string, buffer int) int {
	if kind == Beta {
		return 1
	}
	slots := 2
	for buffer%slots != 0 {
		slots++
	}
	return buffer / slots
}

// States returns the number of states of a walk of the given kind.
func States(kind string, partitions, buffer int) int {
	size := groupSize(kind, buffer)
	slots := buffer / size
	n, disk := 1, (partitions+size-1)/size-slots
	for disk > 0 {
		n += disk
		if kind == Sweep {
			break
		}
		last := min(slots-1, disk)
		n, disk = n+last, disk-last
	}
	return n
}

// New returns a random walk of the given kind, determined by key. It requires 2 ≤ buffer ≤ partitions
// ≤ MaxPartitions.
func New(kind string, partitions, buffer int, key uint64) *Walk {
	src := rng.New(key)
	size := groupSize(kind, buffer)
	w := &Walk{size: size, parts: upTo(partitions), slots: buffer / size, first: kind == Beta}
	rng.Shuffle(&src, w.parts)
	groups := upTo((partitions + size - 1) / size)
	held, disk := groups[:w.slots], groups[w.slots:]
	admit := func(slot, at int) {
		w.swaps = append(w.swaps, swap{out: held[slot], in: disk[at]})
		held[slot], disk[at] = disk[at], held[slot]
	}
	for len(disk) > 0 {
		rng.Shuffle(&src, held)
		rng.Shuffle(&src, disk)
		for at := range disk {
			admit(len(held)-1, at)
		}
		if kind == Sweep {
			break
		}
		rng.Shuffle(&src, disk)
		n := min(len(held)-1, len(disk))
		for at := range n {
			admit(at, at)
		}
		disk = disk[n:] // groups that left those slots were together with every other group
	}
	return w
}

// Fixed returns a walk with a single state: the partitions 0 … kept−1, and random others until the
// buffer is full. It requires 1 ≤ kept ≤ buffer ≤ partitions ≤ MaxPartitions.
func Fixed(partitions, buffer, kept int, key uint64) *Walk {
	src := rng.New(key)
	w := &Walk{size: buffer, parts: upTo(partitions), slots: 1}
	rng.Shuffle(&src, w.parts[kept:])
	return w
}

// upTo returns the numbers below n.
func upTo(n int) []uint16 {
	s := make([]uint16, n)
	for i := range s {
		s[i] = uint16(i)
	}
	return s
}

// States returns the number of states.
func (w *Walk) States() int { return 1 + len(w.swaps) }

func (w *Walk) group(g uint16) []uint16 {
	lo := int(g) * w.size
	return w.parts[lo:min(lo+w.size, len(w.parts))]
}

// Resident sets held[p] to whether partition p is in the buffer in the given state. len(held) is the
// number of partitions.
func (w *Walk) Resident(state int, held []bool) {
	clear(held)
	put := func(g uint16, in bool) {
		for _, p := range w.group(g) {
			held[p] = in
		}
	}
	for g := range w.slots {
		put(uint16(g), true)
	}
	for _, s := range w.swaps[:state] {
		put(s.out, false)
		put(s.in, true)
	}
}

// span is the states from to to-1.
type span struct{ from, to int }

// Assignment assigns items, which belong to a pair of partitions, to the states of a walk.
type Assignment struct {
	first   bool
	groupOf []uint16 // of every partition
	stays   [][]span // of every group, in the buffer
}

// Assign returns the Assignment to the states of the walk.
func (w *Walk) Assign() *Assignment {
	a := &Assignment{first: w.first, groupOf: make([]uint16, len(w.parts)), stays: make([][]span, (len(w.parts)+w.size-1)/w.size)}
	for g := range a.stays {
		for _, p := range w.group(uint16(g)) {
			a.groupOf[p] = uint16(g)
		}
		if g < w.slots {
			a.stays[g] = []span{{0, w.States()}}
		}
	}
	for i, s := range w.swaps {
		out := a.stays[s.out]
		out[len(out)-1].to = i + 1
		a.stays[s.in] = append(a.stays[s.in], span{i + 1, w.States()})
	}
	return a
}

// State returns a state in which the partitions i and j are both in the buffer, or -1 if there is
// none: the first one for Beta, and a random one, drawn from src, for other kinds.
func (a *Assignment) State(i, j int, src *rng.Source) int {
	x, y := a.stays[a.groupOf[i]], a.stays[a.groupOf[j]]
	n := 0
	for s := range together(x, y) {
		n += s.to - s.from
	}
	if n == 0 {
		return -1
	}
	nth := 0
	if !a.first {
		nth = int(src.Uint64n(uint64(n)))
	}
	for s := range together(x, y) {
		if nth < s.to-s.from {
			return s.from + nth
		}
		nth -= s.to - s.from
	}
	panic("walk: fewer states than were counted")
}

// together yields the states that are in both lists of ascending spans.
func together(x, y []span) func(yield func(span) bool) {
	return func(yield func(span) bool) {
		for len(x) > 0 && len(y) > 0 {
			both := span{max(x[0].from, y[0].from), min(x[0].to, y[0].to)}
			if both.from < both.to && !yield(both) {
				return
			}
			if x[0].to < y[0].to {
				x = x[1:]
			} else {
				y = y[1:]
			}
		}
	}
}

// Memory returns the bytes of memory of a Walk with the given number of states, and of an Assignment
// to them.
func Memory(partitions, states int) (walk, assignment int64) {
	p, s := int64(partitions), int64(states)
	return 4*p + 8*s, 2*p + 24*p + 3*16*(p+s)
}
