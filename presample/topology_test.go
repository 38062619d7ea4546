package presample

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample/sampler/topology"
)

func cachedIn(size *budget.Size, order string) topology.Choice {
	return topology.Choice{Level: topology.Cached, Memory: size, Order: order}
}

// TestCachedTopologyMakesTheSameSamples: whatever is held of the topology, by whatever order,
// and for any number of workers, of every order of batches and method of sampling.
func TestCachedTopologyMakesTheSameSamples(t *testing.T) {
	percent := func(n float64) *budget.Size { return &budget.Size{Value: n, Unit: budget.UnitPercent} }
	dir := t.TempDir()
	base := testOptions(t, dir)
	for name, change := range map[string]func(o *Options){
		"uniform":   func(*Options) {},
		"labor":     func(o *Options) { o.Sampler, o.BatchDependency = SamplerLabor, 4 },
		"all":       func(o *Options) { o.EvalFanout = "all" },
		"overlap":   func(o *Options) { o.Order = OrderOverlap },
		"dispersed": func(o *Options) { o.Order, o.Partitions, o.Buffer = OrderDispersed, 8, 3 },
	} {
		o := base
		change(&o)
		o.Out = filepath.Join(dir, name)
		want, err := Run(t.Context(), disk, o, progress.Discard)
		if err != nil {
			t.Fatal(name, err)
		}
		if want.Topology != topology.Mapped || want.TopologyMemory+want.TopologyRead+want.TopologyRequests+want.TopologyHeld+want.TopologyMissed != 0 {
			t.Errorf("%s, mapped: %+v", name, want)
		}
		for i, c := range []topology.Choice{cachedIn(percent(0), ""), cachedIn(percent(40), topology.ByDegree), cachedIn(&budget.Size{Value: 12 << 10}, topology.ByGinex), cachedIn(percent(100), ""), cachedIn(nil, "")} {
			p := o
			p.Topology, p.Workers = c, 1+i
			p.Out = filepath.Join(dir, fmt.Sprint(name, i))
			got, err := Run(t.Context(), disk, p, progress.Discard)
			if err != nil {
				t.Fatal(name, i, err)
			}
			whole := i > 2
			if got.Fingerprint != want.Fingerprint || got.Topology != topology.Cached || (got.TopologyMissed == 0) != whole || (got.TopologyRead == 0) != whole || (got.TopologyRequests == 0) != whole || (got.TopologyHeld == 0) != (i == 0) {
				t.Errorf("%s, %d: %+v", name, i, got)
			}
		}
	}
}

// TestCachedTopologyIsChecked: a page that is damaged after its checksum was made is an error
// that names it, where it is read.
func TestCachedTopologyIsChecked(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.Topology = cachedIn(&budget.Size{}, "")
	if _, err := Run(t.Context(), disk, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(o.Dataset, dataset.IndicesFile)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
	o.Out += "2"
	_, err = Run(t.Context(), disk, o, progress.Discard)
	page := len(b) / 2 / 4096 * 4096
	if want := fmt.Sprintf("indices.bin: bytes %d to %d do not match their checksum", page, min(page+4096, len(b))); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "make it again") {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestCachedTopologyRefusals names the flag, or what would be enough.
func TestCachedTopologyRefusals(t *testing.T) {
	o := testOptions(t, t.TempDir())
	for want, c := range map[string]topology.Choice{
		"--topology pinned is not one of mapped, cached":                                       {Level: "pinned"},
		"--topology-memory 4.0 KiB: needs --topology cached":                                   {Memory: &budget.Size{Value: 4096}},
		"--topology-order ginex: needs --topology cached":                                      {Order: topology.ByGinex},
		"--topology-order random is not one of reach, degree, ginex":                           {Level: topology.Cached, Order: "random"},
		"--topology-memory 300%: needs bytes, like 2GiB, or a share of the topology, like 10%": {Level: topology.Cached, Memory: &budget.Size{Value: 300, Unit: budget.UnitPercent}},
	} {
		o.Topology = c
		if _, err := Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	// Where neighbours are held since the user says so, fewer of them are a way out.
	for i, size := range []*budget.Size{nil, {Unit: budget.UnitPercent}, {Value: 100, Unit: budget.UnitPercent}} {
		kinds := map[string]bool{}
		o.Out, o.Workers, o.Topology, o.Memory = fmt.Sprint(o.Out, i), 2, cachedIn(size, ""), budget.Reserve
		for err := error(fault.ErrBudget); err != nil; o.Memory += 64 << 10 {
			if _, err = Run(t.Context(), disk, o, progress.Discard); err == nil {
				break
			}
			if !errors.Is(err, fault.ErrBudget) || strings.Contains(err.Error(), ": lower that with --topology-memory") != (i == 2 && !strings.Contains(err.Error(), "labels")) {
				t.Errorf("%v of memory %d: %v", size, o.Memory, err)
			}
			kind, _, _ := strings.Cut(err.Error(), " needs ")
			kinds[kind] = true
		}
		t.Log(kinds)
	}
}
