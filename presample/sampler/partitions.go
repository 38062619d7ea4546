package sampler

import (
	"math"

	"diskgnn/dataset"
	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/walk"
)

// partitions divide the nodes of a graph for the orders Dispersed and Sequential, which draw
// batches from the partitions in a buffer, as MariusGNN does. Each node is in one partition,
// the same in all epochs. Sizes of partitions differ by one at most. Nodes are assigned to
// partitions at random:
//
//	dispersed   of all nodes alike. An epoch is a walk of package walk: a training node is
//	            assigned to a state that holds its partition
//	sequential  training nodes come first, and fill the partitions from 0 on. An epoch is
//	            one state: these partitions, and random others as far as the buffer holds them
//
// A batch has seed nodes of one state, and the batches of a state follow each other; a state
// without seed nodes has none. Every epoch has the same number of batches, which suffices for
// any distribution of the seed nodes over states. Surplus batches are given to the states in
// turn. The seed nodes of a state are divided evenly among its batches.
type partitions struct {
	params mbfile.Params
	of     []uint16 // of every node
	train  []uint32 // the training nodes
	kept   int      // under Sequential, the partitions with training nodes
	states int      // of every epoch
}

// partition divides the nodes of a graph.
func partition(p mbfile.Params, nodes int64, train []uint32) (*partitions, error) {
	if int64(p.Partitions) > nodes {
		return nil, fault.New(fault.ErrUsage, "--partitions %d: the graph has only %d nodes", p.Partitions, nodes)
	}
	q := &partitions{params: p, of: make([]uint16, nodes), train: train, states: 1}
	src := rng.New(rng.Key(p.Seed, forPartitions))
	if p.Order == Dispersed {
		for v := range q.of {
			q.of[v] = q.at(v)
		}
		rng.Shuffle(&src, q.of)
		q.states = walk.States(p.Walk, p.Partitions, p.Buffer)
		return q, nil
	}
	const none = math.MaxUint16
	for v := range q.of {
		q.of[v] = none
	}
	n := 0
	for _, v := range train {
		if q.of[v] == none {
			q.of[v] = q.at(n)
			n++
		}
	}
	q.kept = 1 + int(q.at(n-1))
	if q.kept > p.Buffer {
		return nil, fault.New(fault.ErrUsage, "--order sequential keeps the partitions of all %d training nodes in the buffer, %d of %d partitions, but --buffer is %d: give more, use --order dispersed, or fewer training nodes (--train-ratio)",
			n, q.kept, p.Partitions, p.Buffer)
	}
	rest := make([]uint16, len(q.of)-n)
	for i := range rest {
		rest[i] = q.at(n + i)
	}
	rng.Shuffle(&src, rest)
	for v, in := range q.of {
		if in == none {
			q.of[v], rest = rest[0], rest[1:]
		}
	}
	return q, nil
}

// at returns the partition of the i-th node.
func (q *partitions) at(i int) uint16 { return uint16(i * q.params.Partitions / len(q.of)) }

// batches returns the number of batches of an epoch: however the seed nodes fall to states,
// no more are needed for none to be larger than the batch size.
func (q *partitions) batches() int {
	n, size := len(q.train), q.params.BatchSize
	return min((n+size-1)/size+q.states-1, n)
}

// visitMemory returns the bytes of a visit, without its order.
func (q *partitions) visitMemory() int64 {
	states, _ := walk.Memory(q.params.Partitions, q.states)
	return states + 8*int64(q.batches())
}

// memory returns the bytes held beside the visits.
func (q *partitions) memory() int64 {
	_, assignment := walk.Memory(q.params.Partitions, q.states)
	return 2*int64(len(q.of)) + 4*int64(len(q.train)) + 16*int64(q.states+1) + assignment
}

// PartitionMemory returns the bytes of memory that Load takes, while it works, to divide the nodes
// into partitions.
func PartitionMemory(p mbfile.Params, nodes int64) int64 {
	switch p.Order {
	case Dispersed:
		return 2 * nodes
	case Sequential:
		return 4 * nodes
	}
	return 0
}

// BufferedMemory returns an upper bound of the bytes of memory for the orders Dispersed and
// Sequential: Load's work, and Seeds.Memory while the batches of two successive epochs are in use.
func BufferedMemory(p *mbfile.Params, d dataset.Facts, targetBytes int) int64 {
	states := 1
	if p.Order == Dispersed {
		states = walk.States(p.Walk, p.Partitions, p.Buffer)
	}
	held, assignment := walk.Memory(p.Partitions, states)
	split := d.Train + d.Valid + d.Test
	visit := 4*d.Train + held + 8*d.Train // no more batches than seed nodes
	arranging := 4*d.Train + 16*int64(states)
	loading := 4*d.Nodes + int64(targetBytes)*split + PartitionMemory(*p, d.Nodes)
	return loading + 2*d.Nodes + int64(12+targetBytes)*split + 4*d.Train + 16*int64(states+1) + assignment + 2*visit + arranging
}

// cut is where a batch ends in the order of an epoch, and the state that it belongs to.
type cut struct{ end, state uint32 }

func (q *partitions) walk(epoch int) *walk.Walk {
	p := &q.params
	key := rng.Key(p.Seed, forWalk, uint64(epoch))
	if p.Order == Sequential {
		return walk.Fixed(p.Partitions, p.Buffer, q.kept, key)
	}
	return walk.New(p.Walk, p.Partitions, p.Buffer, key)
}

// arrange makes the visit of an epoch: its walk, and the training nodes, state after state, cut into
// batches. key is the key of the order.
func (q *partitions) arrange(v *visit, epoch int, key uint64) {
	v.walk = nil // give it up first
	v.walk = q.walk(epoch)
	src, to := rng.New(key), v.walk.Assign()
	states := make([]uint32, len(q.train))
	seeds := make([]int, q.states)
	for i, node := range q.train {
		in := int(q.of[node])
		s := to.State(in, in, &src)
		states[i] = uint32(s)
		seeds[s]++
	}
	end := make([]int, q.states)
	for s, at := 0, 0; s < q.states; s++ {
		end[s] = at
		at += seeds[s]
	}
	for i, s := range states {
		v.order[end[s]] = uint32(i)
		end[s]++
	}
	for s, n := range seeds {
		rng.Shuffle(&src, v.order[end[s]-n:end[s]])
	}
	v.cuts = cutStates(v.cuts[:0], seeds, q.params.BatchSize, q.batches())
}

// cutStates appends the cuts of the given number of batches. seeds has the numbers of seed nodes of
// the states, and is overwritten.
func cutStates(cuts []cut, seeds []int, size, batches int) []cut {
	for _, n := range seeds {
		batches -= (n + size - 1) / size
	}
	// A state with n seed nodes can have up to n batches.
	more := make([]int, len(seeds))
	for batches > 0 {
		for s, n := range seeds {
			if batches > 0 && (n+size-1)/size+more[s] < n {
				more[s]++
				batches--
			}
		}
	}
	at := 0
	for s, n := range seeds {
		k := (n+size-1)/size + more[s]
		for b := range k {
			cuts = append(cuts, cut{uint32(at + n*(b+1)/k), uint32(s)})
		}
		at += n
	}
	return cuts
}

// Partitions returns the partition of every node, which must not be changed, or nil if the order has
// no partitions.
func (s *Seeds) Partitions() []uint16 {
	if s.orders.parts == nil {
		return nil
	}
	return s.orders.parts.of
}

// State returns the number of the state, in the walk of the epoch, that a batch belongs to. It sets
// held[p] to whether partition p is in the buffer in that state; all input nodes of the batch are in
// these partitions. For batches that are drawn from the whole graph (of other orders, and for
// evaluation) it returns -1. len(held) must be the number of partitions.
func (s *Seeds) State(id ID, held []bool) int {
	if s.orders.parts == nil || id.Split != Train {
		return -1
	}
	state := 0
	s.orders.with(id.Epoch, func(v *visit) {
		state = int(v.cuts[id.Index].state)
		v.walk.Resident(state, held)
	})
	return state
}
