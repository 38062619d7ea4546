package topology_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/progress"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
)

// params draws what decides batches.
func params(t *rapid.T, nodes int) mbfile.Params {
	one := rapid.OneOf(rapid.IntRange(1, 8), rapid.IntRange(1, 100), rapid.Just(mbfile.AllNeighbours))
	p := mbfile.Params{
		BatchSize: rapid.IntRange(1, 60).Draw(t, "batch"), Fanout: rapid.SliceOfN(one, 1, 3).Draw(t, "fanout"), Epochs: 1, TrainRatio: 1,
		Order: sampler.Random, Seed: rapid.Uint64().Draw(t, "seed"),
	}
	p.EvalFanout = p.Fanout
	switch rapid.IntRange(0, 3).Draw(t, "method") {
	case 1:
		p.Method = mbfile.Labor
	case 2:
		p.Method, p.BatchDependency, p.LayerDependency = mbfile.Labor, 3, true
	case 3:
		if nodes >= 2 {
			p.Order, p.Walk, p.Partitions, p.Buffer = sampler.Dispersed, "comet", min(nodes, 12), 2
			p.Buffer = rapid.IntRange(2, p.Partitions).Draw(t, "buffer")
		}
	}
	return p
}

// TestCachedDrawsAsMapped: batches of any graph and method of sampling are those of the mapped
// topology, whatever is held, by whatever order, and filled again.
func TestCachedDrawsAsMapped(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(r *rapid.T) {
		nodes := rapid.IntRange(3, 400).Draw(r, "nodes")
		raw := datasettest.Params{Nodes: nodes, AvgDegree: rapid.Float64Range(0, 60).Draw(r, "degree"), Seed: rapid.Uint64().Draw(r, "graph")}.Raw()
		n++
		at := filepath.Join(dir, fmt.Sprint(n))
		if err := os.Mkdir(at, 0o777); err != nil {
			r.Fatal(err)
		}
		defer os.RemoveAll(at)
		d := datasettest.Create(t, at, raw)
		p := params(r, nodes)
		seeds, err := sampler.Load(t.Context(), d, p, progress.Discard)
		if err != nil {
			r.Skip(err)
		}
		tops := [2]topology.Topology{}
		for i, level := range topology.Levels() {
			if tops[i], err = topology.Open(t.Context(), d, topology.Options{Level: level, IO: "pread"}, progress.Discard); err != nil {
				r.Fatal(err)
			}
			defer tops[i].Close()
		}
		by := rapid.SampledFrom([]topology.Order{topology.Degree, topology.Ginex, topology.Nodes([]uint32{1, 2, 1, 0})}).Draw(r, "order")
		var readers [2]topology.Reader
		var samplers [2]*sampler.Sampler
		for i, top := range tops {
			if readers[i], err = top.NewReader(); err != nil {
				r.Fatal(err)
			}
			defer readers[i].Free()
			samplers[i] = sampler.NewFrom(readers[i], p.Fanout, sampler.Options{Hash: i == 0})
		}
		for range 2 {
			bytes := rapid.Int64Range(0, 5*d.IndicesBytes()/4+8*int64(nodes)).Draw(r, "bytes")
			if _, _, err := tops[1].Fill(t.Context(), by, bytes, progress.Discard); err != nil {
				r.Fatal(err)
			}
			if most, _ := topology.Needs(d, topology.Cached); tops[1].Bytes() > most+bytes {
				r.Fatalf("%d bytes are held of %d and %d", tops[1].Bytes(), most, bytes)
			}
			count := seeds.Batches(sampler.Train) + seeds.Batches(sampler.Valid) + seeds.Batches(sampler.Test)
			for i := range min(count, 6) {
				id := seeds.Nth(count - 1 - i)
				want, err := samplers[0].Draw(t.Context(), seeds, id)
				if err != nil {
					r.Fatal(err)
				}
				got, err := samplers[1].Draw(t.Context(), seeds, id)
				if err != nil {
					r.Fatal(err)
				}
				if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
					r.Fatalf("%v: %s", id, d)
				}
			}
		}
		reads := readers[1].Reads()
		if q := readers[0].Reads(); q != (sampler.Reads{}) {
			r.Fatalf("mapped: %+v", q)
		}
		if reads.Useful > reads.Bytes {
			r.Fatalf("%+v", reads)
		}
	})
}

// TestOutsideTheHeap: what is taken outside Go's heap is what is said to be, and counts: the
// bounce buffers of the stack, and what is held.
func TestOutsideTheHeap(t *testing.T) {
	d := datasettest.Create(t, t.TempDir(), datasettest.Params{Nodes: 3000, AvgDegree: 9}.Raw())
	before := device.HostBytes()
	top, err := topology.Open(t.Context(), d, topology.Options{Level: topology.Cached}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	outside := func() int64 { return device.HostBytes() - before }
	tables := graph.OffsetsBytes(3000) + d.IndicesPageSumsBytes()
	if n := outside(); n == 0 || top.HostBytes() != n || top.Bytes() != tables+n {
		t.Errorf("%d bytes are taken, %d of %d counted", n, top.HostBytes(), top.Bytes()-tables)
	}
	none := top.Bytes()
	if _, _, err := top.Fill(t.Context(), topology.Degree, d.IndicesBytes()/2, progress.Discard); err != nil {
		t.Fatal(err)
	}
	if n := outside(); top.HostBytes() != n || top.Bytes()-none <= n-topology.StackBytes {
		t.Errorf("filled: %d bytes are taken, %d counted", n, top.HostBytes())
	}
	if err := top.Close(); err != nil || outside() != 0 {
		t.Errorf("closed: %d bytes are taken, %v", outside(), err)
	}
}
