package train

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"diskgnn/featurestore/ginex"
	singlerows "diskgnn/featurestore/rows"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/presample/sampler/topology"
	"diskgnn/train/rundir"
)

// cachedTopology holds a share of the neighbours.
func cachedTopology(percent float64) func(*Options) {
	return func(o *Options) {
		o.Topology = topology.Choice{Level: topology.Cached, Memory: &budget.Size{Value: percent, Unit: budget.UnitPercent}}
		o.Given = append(slices.Clip(o.Given), "topology", "topology-memory")
	}
}

// TestCachedTopologyTrainsTheSame: losses and weights are those of the mapped topology, on any
// store and with whatever is held; what is read is counted. A run that is resumed keeps its
// topology, unless it is given another.
func TestCachedTopologyTrainsTheSame(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 400, dim: 20, epochs: 2})
	whole := w.options("", w.live, func(o *Options) { o.LayerOrder, o.Dropout = "aggregate", 0.5 })
	mapped, want := w.mustRun(whole, nil)
	if e := mapped.Epochs[0]; mapped.Topology != "" || mapped.TopologySize != 0 || e.TopologyBytesRead+e.TopologyRequests != 0 {
		t.Errorf("mapped: %+v", mapped)
	}
	end := w.ending(whole.Out)
	for _, store := range []string{"auto", singlerows.Name, ginex.Name} {
		for _, percent := range []float64{0, 100} {
			o := w.fresh(whole, cachedTopology(percent), func(o *Options) { o.Store = store })
			r, losses := w.mustRun(o, nil)
			got, e := w.ending(o.Out), r.Epochs[1]
			got.metrics, end.metrics = "", ""
			if !slices.Equal(losses, want) || got != end {
				t.Errorf("%s, %g%%: losses %v, want %v", store, percent, losses, want)
			}
			if r.Topology != topology.Cached || (r.TopologySize > 0) != (percent > 0) || (e.TopologyBytesRead > 0) != (percent == 0) || (e.TopologyRequests > 0) != (percent == 0) || e.TopologyBytesRead > e.GraphBytesRead || e.GraphBytesRead > e.BytesRead {
				t.Errorf("%s, %g%%: %+v", store, percent, r)
			}
		}
	}
	part := w.fresh(whole, cachedTopology(0))
	w.interrupt(part, 7)
	w.interrupt(Options{Stores: builtin, Out: part.Out, Resume: true}, 3)
	if f := state(t, part.Out); f.Setup.Topology != topology.Cached || f.Preferences.Topology.Level != topology.Cached || f.Preferences.Topology.Memory == nil {
		t.Errorf("resumed: %+v, %+v", f.Setup, f.Preferences)
	}
	log := new(logged)
	r, err := w.run(t.Context(), Options{Stores: builtin, Out: part.Out, Resume: true, Resources: rundir.Resources{Topology: topology.Choice{Level: topology.Mapped}}, Given: []string{"topology"}}, log, nil)
	if err != nil || r.Topology != "" || !strings.Contains(log.String(), "topology mapped (was cached)") {
		t.Fatalf("%q, %v, reported %v", r.Topology, err, log)
	}
	if got := w.ending(part.Out); got.weights != end.weights {
		t.Error("another ending")
	}
}

// TestTopologyRefusals: a topology is for batches that are drawn while training.
func TestTopologyRefusals(t *testing.T) {
	w := newWorld(t, worldParams{})
	for want, change := range map[string]func(*Options){
		"--topology cached needs --fanout, which draws batches while training": func(o *Options) { w.fromSamples(o); o.Topology.Level = topology.Cached },
		"--topology disk is not one of mapped, cached":                         func(o *Options) { w.live(o); o.Topology.Level = "disk" },
		"--topology-memory 10%: needs --topology cached":                       func(o *Options) { w.live(o); cachedTopology(10)(o); o.Topology.Level = topology.Mapped },
		"--topology-order id is not one of reach, degree, ginex":               func(o *Options) { w.live(o); cachedTopology(10)(o); o.Topology.Order = "id" },
	} {
		o := w.options("", change)
		if _, err := w.run(context.Background(), o, &logged{}, nil); !errors.Is(err, fault.ErrUsage) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestRefusalsNameHeldNeighbours: where memory does not suffice and a part of it holds
// neighbours that no store chooses, each refusal names the flag by which fewer are held.
func TestRefusalsNameHeldNeighbours(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 3000})
	const hint = "lower that with --topology-memory"
	for _, c := range []struct {
		topology func(*Options)
		store    string
		named    bool
	}{{cachedTopology(100), "memory", true}, {cachedTopology(0), "memory", false}, {func(o *Options) { o.Topology.Level = topology.Cached }, "hyperion", false}} {
		o := w.options("", w.live, c.topology, func(o *Options) { o.Store, o.Engine, o.Epochs, o.Threads = c.store, EngineNone, 1, 1 })
		kinds := map[string]bool{}
		for o.Memory = budget.Reserve; ; o.Memory += 512 << 10 {
			_, err := w.run(t.Context(), o, &logged{}, nil)
			if err == nil {
				break
			}
			for _, kind := range []string{"reading the labels", "--topology cached needs", "batch 0 of epoch 0 needs", "does not suffice"} {
				if strings.Contains(err.Error(), kind) {
					kinds[kind] = true
				}
			}
			if named := c.named && !strings.Contains(err.Error(), "labels"); !errors.Is(err, fault.ErrBudget) || strings.HasSuffix(err.Error(), hint) != named {
				t.Errorf("%s, %d bytes: %v", c.store, o.Memory, err)
			}
		}
		if len(kinds) < 3 {
			t.Errorf("%s: refused by %v alone", c.store, kinds)
		}
	}
}
