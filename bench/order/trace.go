package main

import (
	"maps"
	"math"
	"slices"
)

// trace is the input nodes of batches in the order of their visiting. Training
// goes round it: after the last batch comes the first.
type trace struct {
	nodes   int
	batches [][]uint32
}

func (t *trace) total() (n int64) {
	for _, b := range t.batches {
		n += int64(len(b))
	}
	return n
}

// overlap returns the mean share of a batch's nodes that the batch before has.
func (t *trace) overlap() float64 {
	seen := make([]int, t.nodes) // the last batch that had the node, from 1
	var sum float64
	for i, b := range t.batches {
		shared := 0
		for _, v := range b {
			if i > 0 && seen[v] == i {
				shared++
			}
			seen[v] = i + 1
		}
		sum += float64(shared) / float64(len(b))
	}
	return sum / float64(max(len(t.batches)-1, 1))
}

// distinct adds up the different nodes of every n batches.
func (t *trace) distinct(n int) (sum int64) {
	seen := make([]int, t.nodes)
	for i, b := range t.batches {
		for _, v := range b {
			if seen[v] != i/n+1 {
				sum++
			}
			seen[v] = i/n + 1
		}
	}
	return sum
}

// static counts the hits of a cache that holds the nodes needed most often.
func (t *trace) static(size int) (hits int64) {
	count := make([]int64, t.nodes)
	for _, b := range t.batches {
		for _, v := range b {
			count[v]++
		}
	}
	slices.Sort(count)
	for _, c := range count[t.nodes-min(size, t.nodes):] {
		hits += c
	}
	return hits
}

// A policy ranks nodes after a batch by when it was and when they are needed
// next: of less rank, more worth keeping.
type policy func(now, next int) int

// soonest keeps what is needed next. What is left out at once is bypassed, so that
// this is Belady's MIN: nodes needed next by the same batch are equally good.
func soonest(_, next int) int { return next }

// recent keeps what was needed last.
func recent(now, _ int) int { return -now }

// replace counts the hits of a cache that after each batch keeps, of the batch's
// nodes and its own, those that the policy ranks first. The first round of the
// trace fills the cache, the second counts.
func (t *trace) replace(size int, rank policy) (hits int64) {
	n, next := len(t.batches), t.nextUses()
	ranks := make([]int, t.nodes)
	held := make([]bool, t.nodes)
	var cached []uint32
	for round := range 2 {
		for i, b := range t.batches {
			for k, v := range b {
				ranks[v] = rank(round*n+i, round*n+next[i][k])
				switch {
				case !held[v]:
					held[v] = true
					cached = append(cached, v)
				case round == 1:
					hits++
				}
			}
			best := keep(cached, ranks, size)
			for _, v := range cached[best:] {
				held[v] = false
			}
			cached = cached[:best]
		}
	}
	return hits
}

// keep moves the size nodes of least rank to the front and returns their number.
func keep(nodes []uint32, ranks []int, size int) int {
	if len(nodes) <= size {
		return len(nodes)
	}
	count := map[int]int{}
	for _, v := range nodes {
		count[ranks[v]]++
	}
	room := size
	limit := math.MaxInt // ranks below it have room
	for _, r := range slices.Sorted(maps.Keys(count)) {
		if limit = r; count[r] > room {
			break
		}
		room -= count[r]
	}
	at := 0
	for i, v := range nodes {
		if ranks[v] < limit || ranks[v] == limit && room > 0 {
			if ranks[v] == limit {
				room--
			}
			nodes[at], nodes[i] = v, nodes[at]
			at++
		}
	}
	return at
}

// nextUses returns, for every node of every batch, the next batch that needs it,
// counted on beyond the last when that is in the next round.
func (t *trace) nextUses() [][]int {
	n := len(t.batches)
	at := make([]int, t.nodes)
	for i, b := range slices.Backward(t.batches) {
		for _, v := range b {
			at[v] = n + i
		}
	}
	uses := make([][]int, n)
	for i, b := range slices.Backward(t.batches) {
		uses[i] = make([]int, len(b))
		for k, v := range b {
			uses[i][k], at[v] = at[v], i
		}
	}
	return uses
}
