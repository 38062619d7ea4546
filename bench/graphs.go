package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"diskgnn/graph"
	"diskgnn/internal/vfs"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

// graphsCommand counts the bytes of a pack's graphs of training batches for an edge, and measures their decoding:
//
//	go run ./bench graphs PACK SAMPLES
//
// floor_bytes is the entropy of the same numbers: sources of edges are uniform, in the order of the edges; numbers of
// edges and degrees have their frequencies in the batch; ranks are a random set of the nodes of each hotness, and
// the hotnesses of a band's rows are in random order. For each cache of the pack, sage_bytes are read by a model
// that needs neither degrees nor the ranks of rows on disk, and gcn_bytes by a model that needs degrees. Milliseconds
// are for decoding a batch on one core, from memory: sage_ms for sage_bytes, all_ms for the whole graph. in_bits_ms is for
// sage_bytes with blocks that are left in bits, for a GPU to decode.
func graphsCommand(h *harness, _ *flag.FlagSet) func(context.Context, []string) error {
	return func(_ context.Context, args []string) (err error) {
		if len(args) != 2 {
			return fmt.Errorf("graphs needs a pack and its samples, not %d arguments", len(args))
		}
		m := graphMeasure{ofEdges: map[uint32]int{}, ofDegrees: map[uint32]int{}}
		if m.pack, err = packfile.Open(vfs.OS, args[0]); err != nil {
			return err
		}
		samples, err := mbfile.Open(vfs.OS, args[1])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, samples.Close()) }()
		hotness, err := samples.Hotness()
		if err != nil {
			return err
		}
		_, m.classes, _ = cut.Rank(hotness)
		return m.report(h, filepath.Base(args[0]))
	}
}

// graphMeasure adds up the graphs of a pack.
type graphMeasure struct {
	pack    *packfile.Reader
	classes []uint32 // first rank of each hotness

	edges, inputs, bytes int64
	floor                float64 // bits
	raw                  []byte
	batch                graph.Batch
	plan                 packfile.Plan
	inClass              []int
	ofEdges, ofDegrees   map[uint32]int
}

func (m *graphMeasure) report(h *harness, name string) error {
	x := m.pack.Index()
	var all time.Duration
	for i := range x.Train {
		t := &x.Train[i]
		took, err := m.decode(i, packfile.Everything)
		if err != nil {
			return err
		}
		all += took
		m.edges, m.inputs, m.bytes = m.edges+int64(t.Edges), m.inputs+int64(t.Inputs), m.bytes+int64(t.GraphBytes())
		m.floor += m.entropy(t)
	}
	batches, edges := float64(len(x.Train)), float64(m.edges)
	base := row{{"pack", name}, {"batches", len(x.Train)}, {"edges_per_batch", m.edges / int64(len(x.Train))}, {"inputs_per_edge", float64(m.inputs) / edges},
		{"stored_bytes", float64(m.bytes) / edges}, {"floor_bytes", m.floor / 8 / edges}, {"all_ms", 1e3 * all.Seconds() / batches}}
	for through := len(x.Edges) - 1; through >= 0; through-- {
		read := map[bool]int64{}
		var took [2]time.Duration // decoded, left in bits
		for i := range x.Train {
			for _, degrees := range []bool{false, true} {
				_, n := m.pack.TrainGraph(i, packfile.Needs{Degrees: degrees, Through: through})
				read[degrees] += int64(n)
			}
			for k := range took {
				d, err := m.decode(i, packfile.Needs{Through: through, InBits: k == 1})
				if err != nil {
					return err
				}
				took[k] += d
			}
		}
		r := append(base[:len(base):len(base)], row{{"cache", float64(x.Edges[through]) / float64(m.pack.Facts().Nodes)},
			{"sage_bytes", float64(read[false]) / edges}, {"gcn_bytes", float64(read[true]) / edges}, {"sage_ms", 1e3 * took[0].Seconds() / batches}, {"in_bits_ms", 1e3 * took[1].Seconds() / batches}}...)
		if err := h.report(r); err != nil {
			return err
		}
	}
	return nil
}

// decode reads a graph and returns the time of its decoding.
func (m *graphMeasure) decode(i int, n packfile.Needs) (took time.Duration, err error) {
	f, err := os.Open(m.pack.Path(packfile.GraphFile(m.pack.Group(i))))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	off, size := m.pack.TrainGraph(i, n)
	if cap(m.raw) < size {
		m.raw = make([]byte, size)
	}
	m.raw = m.raw[:size]
	if _, err := f.ReadAt(m.raw, off); err != nil {
		return 0, err
	}
	began := time.Now()
	err = m.pack.DecodeTrainGraph(i, n, m.raw, &m.batch, &m.plan)
	return time.Since(began), err
}

// entropy returns the bits of a batch.
func (m *graphMeasure) entropy(t *packfile.Train) float64 {
	bits := frequencies(m.ofDegrees, len(m.batch.Degree), func(i int) uint32 { return m.batch.Degree[i] })
	for l := range m.batch.Blocks {
		k := &m.batch.Blocks[l]
		bits += float64(len(k.Indices)) * math.Log2(float64(max(k.NumSrc, 1)))
		bits += frequencies(m.ofEdges, k.NumDst, func(i int) uint32 { return k.Indptr[i+1] - k.Indptr[i] })
		if k.Dst != nil { // distinct positions in some order
			bits += logFactorial(k.NumSrc) - logFactorial(k.NumSrc-k.NumDst)
		}
	}
	at := 0
	for _, list := range [][]int{t.Bands, t.SSD} {
		for _, n := range list {
			bits += m.ranks(m.batch.Input[at:][:n], true)
			at += n
		}
	}
	return bits + m.ranks(m.batch.Input[at:], false)
}

// ranks returns the bits of ranks that ascend in each class. With turns, the classes take turns at random.
func (m *graphMeasure) ranks(ranks []uint32, turns bool) (bits float64) {
	if len(m.inClass) == 0 {
		m.inClass = make([]int, len(m.classes))
	}
	for _, r := range ranks {
		m.inClass[m.classOf(r)]++
	}
	for k, n := range m.inClass {
		if n == 0 {
			continue
		}
		end := m.pack.Facts().Nodes
		if k+1 < len(m.classes) {
			end = int64(m.classes[k+1])
		}
		size := int(end) - int(m.classes[k])
		bits += logFactorial(size) - logFactorial(n) - logFactorial(size-n)
		if turns {
			bits -= logFactorial(n)
		}
		m.inClass[k] = 0
	}
	if turns {
		bits += logFactorial(len(ranks))
	}
	return bits
}

// classOf returns the last class that begins at or before a rank.
func (m *graphMeasure) classOf(rank uint32) int {
	lo, hi := 0, len(m.classes)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; m.classes[mid] <= rank {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// frequencies returns the bits of n values by their frequencies. It uses the memory of count.
func frequencies(count map[uint32]int, n int, value func(i int) uint32) (bits float64) {
	clear(count)
	for i := range n {
		count[value(i)]++
	}
	for _, c := range count {
		bits += float64(c) * math.Log2(float64(n)/float64(c))
	}
	return bits
}

// logFactorial returns log₂ n!.
func logFactorial(n int) float64 {
	v, _ := math.Lgamma(float64(n) + 1)
	return v / math.Ln2
}
