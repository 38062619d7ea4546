package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/vfs"
	"diskgnn/pack/cut"
	"diskgnn/presample/mbfile"
)

// segmentsCommand compares orders of the rows that the batches of a segment share:
//
//	go run ./bench segments [-lengths 12,25] [-cache 0.05] [-dim 128] SAMPLES…
//
// Every whole segment is laid out in each order, and every batch reads the pages of 4 KiB that have its rows.
// bytes_over_used are these pages over the rows, and runs_per_batch the runs of adjacent pages. The orders: gray is
// the program's; minhash sorts by the least values of the batches under two random permutations, as DiskGNN does
// (SIGMOD'25, algorithm 1); rank is by hotness, and node by the number of the node.
func segmentsCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	lengths := f.String("lengths", "12,25", "lengths of segments, in batches")
	cache := f.Float64("cache", 0.05, "share of the nodes that memory holds: the hottest")
	dim := f.Int("dim", 128, "width of the float32 features")
	return func(ctx context.Context, args []string) error {
		for _, dir := range args {
			for length := range strings.SplitSeq(*lengths, ",") {
				n, err := strconv.Atoi(length)
				if err != nil || n < 2 {
					return fmt.Errorf("-lengths %s: a segment has at least 2 batches", *lengths)
				}
				l := layout{dir: dir, length: n, cache: *cache, rowBytes: int64(*dim * dtype.Float32.Size())}
				if err := l.measure(ctx, h); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// layout lays out the shared rows of all segments of one length.
type layout struct {
	dir      string
	length   int
	cache    float64
	rowBytes int64

	samples *mbfile.Reader
	rank    []uint32
	least   uint32 // ranks below are held
	raw     []byte
	place   []uint32 // 1 + the place of a shared node, by node
}

// cost is the reading of all batches in one order.
type cost struct{ pages, runs int64 }

func (l *layout) measure(ctx context.Context, h *harness) (err error) {
	if l.samples, err = mbfile.Open(vfs.OS, l.dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.samples.Close()) }()
	hotness, err := l.samples.Hotness()
	if err != nil {
		return err
	}
	l.rank, _, _ = cut.Rank(hotness)
	l.place = make([]uint32, len(l.rank))
	l.least = uint32(l.cache * float64(len(l.rank)))
	lo, hi := l.samples.Train()
	if hi-lo < l.length {
		return fmt.Errorf("%s has %d batches: no segment of %d", l.dir, hi-lo, l.length)
	}
	hi = lo + (hi-lo)/l.length*l.length
	hash := newMinHash(l.length)
	costs, used := map[string]cost{}, int64(0)
	shared := cut.NewSegments(l.samples, lo, hi, l.rank, []int64{int64(l.least)}, l.length, (hi-lo)/l.length, 2)
	err = shared.Run(ctx, func(segment int, gray []uint32) error {
		users, err := l.users(ctx, lo+segment*l.length, gray)
		if err != nil {
			return err
		}
		for _, batches := range users {
			used += int64(len(batches))
		}
		for name, key := range map[string]func(at int) uint64{
			"gray":    func(at int) uint64 { return uint64(at) },
			"minhash": func(at int) uint64 { return hash.of(users[at]) },
			"rank":    func(at int) uint64 { return uint64(l.rank[gray[at]]) },
			"node":    func(at int) uint64 { return uint64(gray[at]) },
		} {
			c := l.read(sortedBy(gray, key), users)
			costs[name] = cost{costs[name].pages + c.pages, costs[name].runs + c.runs}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"gray", "minhash", "rank", "node"} {
		c := costs[name]
		if err := h.report(row{{"samples", filepath.Base(l.dir)}, {"batches", l.length}, {"order", name},
			{"bytes_over_used", float64(c.pages*binio.Page) / float64(max(1, used*l.rowBytes))},
			{"runs_per_batch", float64(c.runs) / float64(hi-lo)}, {"used_rows", used}}); err != nil {
			return err
		}
	}
	return nil
}

// users returns the batches of a segment that use each of its shared nodes; first is its first batch.
func (l *layout) users(ctx context.Context, first int, shared []uint32) ([][]int, error) {
	clear(l.place)
	for at, v := range shared {
		l.place[v] = uint32(at) + 1
	}
	users := make([][]int, len(shared))
	for i := range l.length {
		nodes, raw, err := l.samples.Inputs(ctx, first+i, l.raw)
		if l.raw = raw; err != nil {
			return nil, err
		}
		for _, v := range nodes {
			if at := l.place[v]; at > 0 {
				users[at-1] = append(users[at-1], i)
			}
		}
	}
	return users, nil
}

// read returns the reading of a segment with its rows in the given order. users is by place in the program's order.
func (l *layout) read(order []int, users [][]int) (c cost) {
	next := make([]int64, l.length) // the page after the last one that a batch reads
	for at, row := range order {
		from := int64(at) * l.rowBytes / binio.Page
		to := (int64(at+1)*l.rowBytes-1)/binio.Page + 1
		for _, i := range users[row] {
			if from > next[i] || next[i] == 0 {
				c.runs++
			}
			c.pages += to - max(from, next[i])
			next[i] = to
		}
	}
	return c
}

// minHash is two permutations of the batches of a segment.
type minHash [2][]int

func newMinHash(batches int) *minHash {
	random := rand.New(rand.NewPCG(1, 2))
	return &minHash{random.Perm(batches), random.Perm(batches)}
}

// of returns the key of a node that the given batches use.
func (m *minHash) of(batches []int) uint64 {
	key := uint64(0)
	for _, perm := range m {
		least := len(perm)
		for _, i := range batches {
			least = min(least, perm[i])
		}
		key = key<<bits.Len(uint(len(perm))) | uint64(least)
	}
	return key
}

// sortedBy returns the places of the nodes in ascending order of a key; equal ones in ascending order of the nodes.
func sortedBy(nodes []uint32, key func(at int) uint64) []int {
	keys, order := make([]uint64, len(nodes)), make([]int, len(nodes))
	for at := range order {
		keys[at], order[at] = key(at), at
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(keys[a], keys[b]), cmp.Compare(nodes[a], nodes[b])) })
	return order
}
