package train

import (
	"math"
	"math/rand/v2"
	"testing"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/train/cpu"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/traintest"
)

// replayScript takes steps of the typed models of docs/python/load.py on blocks. A destination's own row comes first
// among the rows of its type; the block's sources follow, for every type again.
const replayScript = `
import json, runpy, sys, torch
Net = runpy.run_path(sys.argv[1])["Net"]
def train(case):
    net = Net(**case["network"])
    net.load_state_dict({name: torch.tensor(t["data"]).view(t["shape"]) for name, t in case["weights"].items()})
    names, relations = net.types["node_types"], net.relations()
    adam = torch.optim.Adam(net.parameters(), lr=case["lr"])
    labels = torch.tensor(case["labels"])
    losses = []
    for step in range(3):
        h, alive = torch.tensor(case["x"]).view(-1, case["network"]["dims"][0]), set(names)
        for l, block in enumerate(case["blocks"]):
            x = {n: torch.cat([h[own], h]) for n, own in zip(names, block["own"]) if n in alive}
            edges = [torch.tensor(e, dtype=torch.long) + torch.tensor([[len(block["own"][names.index(s)])], [0]]) for (s, _, _), e in zip(relations, block["edges"])]
            y = net.relate(net.convs[l], x, edges)
            alive, width = set(y), case["network"]["dims"][l + 1]
            h = torch.cat([y[n][:len(own)] if n in y else torch.zeros(len(own), width) for n, own in zip(names, block["own"])])
            if l < len(case["blocks"]) - 1:
                h = net.activation(h)
        loss = torch.nn.functional.cross_entropy(h, labels, ignore_index=-1)
        losses.append(loss.item())
        adam.zero_grad()
        loss.backward()
        adam.step()
    return losses

with open(sys.argv[2]) as f:
    json.dump([train(case) for case in json.load(f)], sys.stdout)
`

// TestPyTorchTrainsTheSame compares the losses of typed models, from equal weights, with PyTorch Geometric's on the
// same blocks: at first, and after one and two steps.
func TestPyTorchTrainsTheSame(t *testing.T) {
	python := traintest.PyTorch(t)
	var ours [][]float64
	var cases []any
	models := []model.Model{{Kind: model.RSAGE}, {Kind: model.RGCN}, {Kind: model.RGCN, Bases: 3}, {Kind: model.RGAT, Heads: 4}}
	for i, m := range models {
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		m.Dims, m.Activation = []int{6, 8, 8, 4}, m.Unit()
		var types *graph.Types
		for m.Types == nil || m.Validate() != nil || len(m.Types.Nodes) < 3 {
			types = graphtest.Types(rng, 1000)
			m.Types = recipe.Types(types, 0)
		}
		b := graphtest.Shape{Seeds: 40, Classes: 4, Layers: 3, MaxDegree: 4, Fresh: 30}.Typed(rng, types)
		b.Labels[3] = graph.Unlabelled
		x := graphtest.Features(b, 6, rng)[:6*len(b.Input)]
		losses, weights := trainTyped(t, m, b, x)
		ours, cases = append(ours, losses), append(cases, typedCase(m, b, x, weights))
	}
	for i, theirs := range replayed(t, python, cases) {
		for step, loss := range theirs {
			if !(math.Abs(ours[i][step]-loss) < 2e-5) {
				t.Errorf("%s, step %d: loss %v, PyTorch Geometric's %v", models[i].Kind, step, ours[i][step], loss)
			}
		}
		t.Logf("%s: losses %v, PyTorch Geometric's %v", models[i].Kind, ours[i], theirs)
	}
}

// PyTorch Geometric, given a run of a typed graph by docs/python/load.py, computes the logits of the engine.
func TestPyTorchComputesTypedTheSame(t *testing.T) {
	python := traintest.PyTorch(t)
	w := newWorld(t, worldParams{typed: true, fanout: []int{1000, 1000}})
	pack, graphFile := w.pack(10), typedGraphForPyTorch(t, &w.dataset)
	for _, m := range []string{"rsage", "rgcn", "rgat"} {
		o := w.options(pack, func(o *Options) {
			if o.Model, o.Hidden, o.Heads = m, 8, 4; m == "rgcn" {
				o.Bases = 2
			}
		})
		w.mustRun(o, nil)
		ours, theirs := w.logits(o), traintest.PyTorchLogits(t, python, "../docs/python/load.py", o.Out, graphFile)
		most := 0.0
		for v, logits := range ours {
			for c := range logits {
				most = max(most, math.Abs(float64(logits[c])-theirs[v][c]))
			}
		}
		if len(ours) < 10 || !(most < 1e-4) {
			t.Errorf("%s: %d nodes' logits differ by up to %v", m, len(ours), most)
		}
		t.Logf("%s: %d nodes' logits differ by at most %.2g", m, len(ours), most)
	}
}

// typedGraphForPyTorch writes a typed graph in the format of docs/python/load.py, and returns the file.
func typedGraphForPyTorch(t *testing.T, d *dataset.Raw) string {
	t.Helper()
	all := make([]float32, len(d.Features)/d.DType.Size())
	widen(all, d)
	x, edges := map[string][][]float32{}, make([][2][]int64, len(d.Types.Relations))
	for kind, k := range d.Types.Nodes {
		lo, hi := d.Types.Range(kind)
		for v := lo; v < hi; v++ {
			row := make([]float32, d.Dim)
			if k.Features {
				copy(row, all[int(v)*d.Dim:])
			}
			x[k.Name] = append(x[k.Name], row)
		}
	}
	for r := range edges {
		edges[r] = [2][]int64{{}, {}}
	}
	for row := range d.Types.NumRows() {
		v, r := d.Types.RowOf(row)
		from, _ := d.Types.Range(d.Types.Relations[r].Source)
		to, _ := d.Types.Range(d.Types.Relations[r].Destination)
		for _, u := range d.Indices[d.Indptr[row]:d.Indptr[row+1]] {
			edges[r][0], edges[r][1] = append(edges[r][0], int64(u)-from), append(edges[r][1], int64(v)-to)
		}
	}
	return traintest.JSONFile(t, map[string]any{"x": x, "edge_index": edges})
}

const typedRate = 0.01

// trainTyped returns the losses of three steps on one batch, and the weights before them.
func trainTyped(t *testing.T, m model.Model, b *graph.Batch, x []float32) (losses []float64, before []float32) {
	t.Helper()
	e, err := cpu.New(engine.Config{Network: m, Sizes: graphtest.Roomy(b), Recipe: recipe.Recipe{LR: typedRate, Seed: 5}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if before, err = e.Snapshot(nil); err != nil {
		t.Fatal(err)
	}
	w, err := e.NewWork(false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Prepare(b); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		o, err := e.Backward(t.Context(), w, engine.Rows(x), engine.Place{Batch: i})
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, o.Loss)
		if err := e.Apply(); err != nil {
			t.Fatal(err)
		}
	}
	return losses, before
}

// typedCase describes a model with its batch and weights to replayScript.
func typedCase(m model.Model, b *graph.Batch, x, weights []float32) any {
	type tensor struct {
		Shape []int     `json:"shape"`
		Data  []float32 `json:"data"`
	}
	type block struct {
		Own   [][]uint32    `json:"own"`   // by type: the sources that are the destinations
		Edges [][2][]uint32 `json:"edges"` // by relation: sources, and destinations within their type
	}
	tensors, blocks := map[string]tensor{}, []block{}
	for _, p := range rundir.ToTensors(m.Params(), weights) {
		tensors[p.Name] = tensor{p.Shape, p.Data}
	}
	for l := range b.Blocks {
		k, row, from := &b.Blocks[l], 0, uint32(0)
		q := block{Edges: make([][2][]uint32, len(b.Types.Relations))}
		for r := range q.Edges {
			q.Edges[r] = [2][]uint32{{}, {}}
		}
		for kind, end := range b.DstEnds(l) {
			q.Own = append(q.Own, append([]uint32{}, k.Dst[from:end]...))
			first, n := b.Types.Into(kind)
			for i := range end - from {
				for r := first; r < first+n; r, row = r+1, row+1 {
					for _, s := range k.Indices[k.Indptr[row]:k.Indptr[row+1]] {
						q.Edges[r][0], q.Edges[r][1] = append(q.Edges[r][0], s), append(q.Edges[r][1], i)
					}
				}
			}
			from = end
		}
		blocks = append(blocks, q)
	}
	return map[string]any{"network": m, "weights": tensors, "x": x, "labels": b.Labels, "lr": typedRate, "blocks": blocks}
}

// replayed returns PyTorch Geometric's losses, of each case.
func replayed(t *testing.T, python string, cases []any) (losses [][]float64) {
	t.Helper()
	file := traintest.JSONFile(t, cases)
	traintest.PythonJSON(t, &losses, python, "-W", "ignore", "-c", replayScript, "../docs/python/load.py", file)
	return losses
}
