package onthefly

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler/topology"
)

// cachedShare holds a share of the topology.
func cachedShare(percent float64) topology.Choice {
	return topology.Choice{Level: topology.Cached, Memory: &budget.Size{Value: percent, Unit: budget.UnitPercent}}
}

// TestCachedTopologyDrawsTheSame: facts, ranks, batches and windows are those of the mapped
// topology, whatever is held. Bytes are counted, for windows apart, and nothing is left.
func TestCachedTopologyDrawsTheSame(t *testing.T) {
	data := create(t, datasettest.Params{Nodes: 3000, AvgDegree: 9, Seed: 4})
	before := device.HostBytes()
	for _, p := range []mbfile.Params{params(64, 2, []int{3, 4}, []int{mbfile.AllNeighbours, 4}), func() mbfile.Params {
		p := params(64, 2, []int{3, 4}, []int{3, 4})
		p.Method = mbfile.Labor
		return p
	}()} {
		of := Options{Dataset: data, Params: p, DryEpochs: 1}
		mapped := open(t, of)
		for _, percent := range []float64{0, 30, 100} {
			of.Topology = cachedShare(percent)
			s, err := Open(t.Context(), disk, withDefaults(of), progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(s.Facts(), mapped.Facts()) || s.Lineage() != mapped.Lineage() || !slices.Equal(s.hotness, mapped.hotness) {
				t.Errorf("%g%%: %+v, want %+v", percent, s.Facts(), mapped.Facts())
			}
			if held := s.TopologyBytes(); held > 4*s.data.Facts().Edges+32<<10 || (held == 0) != (percent == 0) || s.TableBytes() <= mapped.TableBytes() || s.HostBytes() > held+topology.StackBytes {
				t.Errorf("%g%%: %d bytes are held, %d outside the heap", percent, held, s.HostBytes())
			}
			var trains, evals [2]featurestore.Loader
			var windows [2]featurestore.Window
			for i, s := range []*Source{mapped, s} {
				var of *loaders
				trains[i], evals[i], of = newLoaders(t, s)
				if windows[i], err = of.NewWindow(2); err != nil {
					t.Fatal(err)
				}
			}
			for _, ref := range refs(s.Facts()) {
				from := trains
				if ref.Split != featurestore.Train {
					from = evals
				}
				var batches [2]*graph.Batch
				for i, l := range from {
					if batches[i], err = load(l, ref); err != nil {
						t.Fatal(err)
					}
				}
				if d := cmp.Diff(batches[0], batches[1], cmpopts.EquateEmpty()); d != "" {
					t.Fatalf("%g%%, %v: %s", percent, ref, d)
				}
				c := from[1].Counts()
				if none := (featurestore.Counts{}); from[0].Counts() != none || (c == none) != (percent == 100) {
					t.Fatalf("%g%%, %v: %+v", percent, ref, c)
				}
				if c.BytesRead != c.TopologyRead || c.GraphRead != c.TopologyRead || c.TopologyRead > 4096*c.TopologyRequests*128 || c.UsefulBytes > c.BytesRead {
					t.Fatalf("%g%%, %v: %+v", percent, ref, c)
				}
			}
			for i, w := range windows {
				read, err := w.Seek(t.Context(), 3)
				more, err2 := w.Advance(t.Context())
				if err != nil || err2 != nil || (read > 0) != (i == 1 && percent < 100) || (more > 0) != (i == 1 && percent < 100) {
					t.Errorf("%g%%, window %d: %d and %d bytes read; %v, %v", percent, i, read, more, err, err2)
				}
			}
			for k := range 3 {
				if !slices.Equal(windows[0].Inputs(k), windows[1].Inputs(k)) {
					t.Errorf("%g%%: the windows differ", percent)
				}
			}
			a, _, err := mapped.Inputs(t.Context(), featurestore.Ref{Index: 1}, nil)
			b, _, err2 := s.Inputs(t.Context(), featurestore.Ref{Index: 1}, nil)
			if err != nil || err2 != nil || !slices.Equal(a, b) {
				t.Error("input nodes differ", err, err2)
			}
			for i := range trains {
				trains[i].Free()
				evals[i].Free()
				windows[i].Free()
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if left := device.HostBytes() - before; left != 0 {
		t.Errorf("%d bytes are left", left)
	}
}

func withDefaults(o Options) Options {
	o.Workers, o.Memory = 3, 1<<30
	return o
}

// TestHoldAnother: what is held may be chosen after the dry pass.
func TestHoldAnother(t *testing.T) {
	o := Options{Dataset: create(t, datasettest.Params{Nodes: 3000, AvgDegree: 9, Seed: 4}), Params: params(64, 2, []int{3, 4}, []int{3, 4}), DryEpochs: 1, Topology: cachedShare(0)}
	s := open(t, o)
	train, eval, _ := newLoaders(t, s)
	defer train.Free()
	defer eval.Free()
	if _, err := load(train, featurestore.Ref{}); err != nil || train.Counts().TopologyRead == 0 {
		t.Fatal(err, train.Counts())
	}
	whole := cachedShare(100)
	if err := s.Hold(t.Context(), topology.Degree, whole.Bytes(s.data, 0), progress.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := load(train, featurestore.Ref{}); err != nil || train.Counts() != (featurestore.Counts{}) {
		t.Fatal(err, train.Counts())
	}
}

// TestCachedTopologyDamage: pages that were changed, or cut off, since their checksums were
// made are errors that name them. Too little memory and what makes no sense are refused.
func TestCachedTopologyDamage(t *testing.T) {
	o := withDefaults(Options{Dataset: create(t, datasettest.Params{Nodes: 60_000, AvgDegree: 4}), Params: params(16, 2, []int{3}, []int{3}), DryEpochs: 0.01, Topology: cachedShare(0)})
	s := open(t, o)
	name := filepath.Join(o.Dataset, "indices.bin")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	damaged := func(what string, err error, want string) {
		t.Helper()
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "make it again, by its diskgnn generate or import") {
			t.Errorf("%s: %v", what, err)
		}
	}
	train, eval, _ := newLoaders(t, s)
	defer train.Free()
	defer eval.Free()
	for i := 0; i < len(b); i += 4096 {
		b[i] ^= 1
	}
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = load(train, featurestore.Ref{})
	damaged("changed", err, "do not match their checksum")
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	_, err = load(train, featurestore.Ref{})
	damaged("cut off", err, "shrank or was truncated")
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
	o.Topology = cachedShare(100)
	o.Memory = budget.Reserve + 300<<10
	if _, err = Open(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrBudget) {
		t.Error(err)
	}
	o.Topology = topology.Choice{Level: "pinned"}
	if _, err = Open(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrUsage) || !strings.Contains(fmt.Sprint(err), "--topology pinned") {
		t.Error(err)
	}
}
