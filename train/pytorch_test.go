package train

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/featurestore/packed"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
	"diskgnn/train/engine"
	"diskgnn/train/rundir"
	"diskgnn/train/traintest"
)

// PyTorch Geometric, given a run by docs/python/load.py, computes the logits that the
// engine does: on whole neighbourhoods, where its full-graph layers and sampled blocks
// are the same thing.
func TestPyTorchComputesTheSame(t *testing.T) {
	python := traintest.PyTorch(t)
	w := newWorld(t, worldParams{fanout: []int{1000, 1000}})
	pack, graphFile := w.pack(10), traintest.GraphForPyTorch(t, &w.dataset)
	for name, change := range map[string]func(o *Options){
		"sage":          func(o *Options) {},
		"sage sum":      func(o *Options) { o.Aggregator, o.Norm, o.InputProjection = "sum", "layer", true },
		"sage max":      func(o *Options) { o.Aggregator, o.Activation = "max", "elu" },
		"gcn":           func(o *Options) { o.Model = "gcn" },
		"gcn, residual": func(o *Options) { o.Model, o.Norm, o.Residual = "gcn", "batch", true },
		"gat":           func(o *Options) { o.Model, o.Heads = "gat", 4 },
		"gat, residual": func(o *Options) { o.Model, o.Heads, o.Norm, o.Residual = "gat", 2, "layer", true },
	} {
		t.Run(name, func(t *testing.T) {
			o := w.options(pack, change)
			w.mustRun(o, nil)
			ours, theirs := w.logits(o), traintest.PyTorchLogits(t, python, "../docs/python/load.py", o.Out, graphFile)
			most := 0.0
			for v, logits := range ours {
				for c := range logits {
					most = max(most, math.Abs(float64(logits[c])-theirs[v][c]))
				}
			}
			if len(ours) < 20 || !(most < 1e-4) {
				t.Errorf("%d nodes' logits differ by up to %v", len(ours), most)
			}
			t.Logf("%d nodes' logits differ by at most %.2g", len(ours), most)
		})
	}
}

// load.py refuses what a network has that it does not know, whatever key it is. That needs no
// PyTorch: stand-ins take its place.
func TestPyTorchRefusesTheUnknown(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("not tested: there is no python3: ", err)
	}
	const stub = `
import runpy, sys
from types import SimpleNamespace
from unittest.mock import MagicMock
for m in ("safetensors", "safetensors.torch", "torch.nn", "torch.nn.functional", "torch_geometric", "torch_geometric.nn", "torch_geometric.utils"):
    sys.modules[m] = MagicMock()
sys.modules["torch.nn"].ModuleList = list
sys.modules["torch"] = SimpleNamespace(nn=SimpleNamespace(Module=object))
script, *runs = sys.argv[1:]
load = runpy.run_path(script)["load"]
for run in runs:
    try:
        load(run)
    except SystemExit as e:
        print(str(e).removeprefix(run + ": "))
`
	args := []string{"-c", stub, "../docs/python/load.py"}
	var want strings.Builder
	for _, c := range []struct{ network, says string }{
		{`"kind": "mlp"`, "kind mlp is not known here"},
		{`"kind": "sage", "norm": "instance"`, "norm instance is not known here"},
		{`"kind": "gcn", "activation": "gelu"`, "activation gelu is not known here"},
		{`"kind": "sage", "aggregator": "lstm"`, "aggregator lstm is not known here"},
		{`"kind": "gcn", "gcn_norm": "right"`, "gcn_norm right is not known here"},
		{`"kind": "sage", "width": 3`, "the network has what this script does not know: width"},
	} {
		run := t.TempDir()
		text := `{"params": {"network": {"dims": [4, 2], "dropout": 0, ` + c.network + `}}}`
		if err := os.WriteFile(filepath.Join(run, "run.json"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		args = append(args, run)
		fmt.Fprintln(&want, c.says)
	}
	out, err := exec.Command(python, args...).CombinedOutput()
	if err != nil || string(out) != want.String() {
		t.Errorf("%v: %s, want %s", err, out, want.String())
	}
}

// logits computes, with the engine and a run's best weights, the logits of the nodes
// to validate and to test with.
func (w *world) logits(o Options) map[int][]float32 {
	w.t.Helper()
	r, err := packfile.Open(disk, o.Pack)
	if err != nil {
		w.t.Fatal(err)
	}
	f := *packed.Facts(r)
	if err := o.resolve(f, false); err != nil {
		w.t.Fatal(err)
	}
	e, _, err := newCPUEngine(o.wish(&f, false))
	if err != nil {
		w.t.Fatal(err)
	}
	defer e.Close()
	if err := e.Restore(w.snapshot(e, o.Out)); err != nil {
		w.t.Fatal(err)
	}
	samples, err := mbfile.Open(disk, w.path("samples"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer samples.Close()
	d := &w.dataset
	all := make([]float32, len(d.Features)/d.DType.Size())
	widen(all, d)
	lo, _ := samples.Valid()
	_, hi := samples.Test()
	logits := make(map[int][]float32)
	work, err := e.NewWork(true, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := lo; i < hi; i++ {
		var b graph.Batch
		if _, err := samples.Read(context.Background(), i, nil, &b); err != nil {
			w.t.Fatal(err)
		}
		x := make([]float32, 0, len(b.Input)*d.Dim)
		for _, v := range b.Input {
			x = append(x, all[int(v)*d.Dim:(int(v)+1)*d.Dim]...)
		}
		if err := work.Prepare(&b); err != nil {
			w.t.Fatal(err)
		}
		out, err := e.Infer(context.Background(), work, engine.Rows(x))
		if err != nil {
			w.t.Fatal(err)
		}
		for k, v := range b.Input[:b.NumSeeds()] { // destinations come first in samples
			logits[int(v)] = append([]float32(nil), out[k*f.Classes:(k+1)*f.Classes]...)
		}
	}
	return logits
}

// snapshot returns a run's best weights in the order of Engine.Snapshot.
func (w *world) snapshot(e engine.Engine, out string) []float32 {
	w.t.Helper()
	tensors := w.weights(out, rundir.WeightsFile)
	var flat []float32
	for _, p := range e.Params() {
		t, ok := tensors[p.Name]
		if !ok {
			w.t.Fatal(fault.New(fault.ErrInput, "no tensor %s", p.Name))
		}
		for in := range p.Rows {
			for out := range p.Cols {
				flat = append(flat, t.Data[p.Place(in, out)])
			}
		}
	}
	return flat
}
