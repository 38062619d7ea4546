package train

import (
	"context"
	"slices"
	"strings"
	"testing"

	"diskgnn/featurestore/hyperion"
	"diskgnn/presample/sampler/topology"
)

// A run whose memory is divided between rows and lists of neighbours ends as one that holds all
// rows on a mapped topology, also when it was interrupted, and reads what it would have read.
// What is said of the topology is not divided.
func TestDividedMemory(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 400, dim: 20, epochs: 3})
	dividing := func(o *Options) {
		w.live(o)
		o.Store, o.Topology.Level = hyperion.Name, topology.Cached
	}
	plain := w.options("", w.live)
	_, want := w.mustRun(plain, nil)
	ended := w.ending(plain.Out)
	whole := w.fresh(plain, dividing)
	r, losses := w.mustRun(whole, nil)
	got := w.ending(whole.Out)
	if !slices.Equal(losses, want) || got.final != ended.final || r.CacheRows == 0 || r.CacheRows == 400 && r.Epochs[0].TopologyBytesRead != 0 {
		t.Errorf("losses %v, in memory %v; %+v", losses, want, r.Setup)
	}
	o := w.fresh(whole)
	w.interrupt(o, 7)
	o.Resume = true
	var log logged
	again, err := w.run(context.Background(), o, &log, nil)
	if err != nil {
		t.Fatal(err)
	}
	if w.ending(o.Out) != got || again.CacheRows != r.CacheRows {
		t.Errorf("resumed: another ending, or %d rows instead of %d", again.CacheRows, r.CacheRows)
	}
	if !strings.Contains(log.String(), "hold lists of neighbours") || strings.Count(log.String(), "topology: holding the in-neighbours") != 2 {
		t.Errorf("reported %s", log.String())
	}
	given := w.fresh(plain, dividing, func(o *Options) { o.Topology.Order = topology.ByDegree })
	log = logged{}
	if _, err := w.run(context.Background(), given, &log, nil); err != nil || !strings.Contains(log.String(), "the cache holds rows, and no lists") {
		t.Errorf("with an order: %v, %s", err, log.String())
	}
}
