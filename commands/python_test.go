package commands

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
	"diskgnn/train/rundir"
	"diskgnn/train/safetensors"
)

// numpy returns a Python that has NumPy: python3, or the one that the environment variable PYG
// names. Without one the test is skipped.
func numpy(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", os.Getenv("PYG")} {
		if python != "" && exec.Command(python, "-c", "import numpy").Run() == nil {
			return python
		}
	}
	t.Skip("not compared: neither python3 nor the Python that PYG names has NumPy")
	return ""
}

// readInPython prints what the Python package has of a dataset and its samples, and compares its
// packs with these: the features of the ends of every sampled edge, and all else.
const readInPython = `
import json, sys
import numpy as np
from diskgnn import Dataset, Pack, Samples

dataset, samples, *packs = sys.argv[1:]
d = Dataset(dataset)
n_classes = d.facts["classes"]
s = Samples(samples, n_classes)

def of(b):
    return {"input": b.input.tolist(), "degree": b.degree.tolist(), "labels": b.labels.tolist(),
            "targets": [] if b.targets is None else b.targets.tolist(),
            "blocks": [{"src": k.edge_index[0].tolist(), "dst": k.edge_index[1].tolist(), "size": list(k.size), "places": k.dst.tolist()} for k in b.blocks]}

for pack in packs:
    p = Pack(pack, n_classes)
    assert len(p) == s.facts["train_batches"], (len(p), s.facts)
    for i, b in enumerate(p):
        a = s[i]
        a.x = d.features[a.input].astype("f4")
        k, outer = a.blocks[0], b.blocks[0]
        near = {"float32": 0, "bfloat16": 0.01, "int8": 0.02, "int4": 0.08}[p.facts["dtype"]] * np.abs(a.x).max()
        assert np.array_equal(k.edge_index[1], outer.edge_index[1])
        for x, y in ((a.x[k.edge_index[0]], b.x[outer.edge_index[0]]), (a.x[k.dst], b.x[outer.dst])):
            assert x.shape == y.shape and (x.size == 0 or np.abs(x - y).max() <= near), (pack, i)
        assert of(a)["blocks"][1:] == of(b)["blocks"][1:] and of(a)["labels"] == of(b)["labels"] and of(a)["targets"] == of(b)["targets"]
        assert np.array_equal(a.degree[k.edge_index[0]], b.degree[outer.edge_index[0]])
print(json.dumps({"edges": d.edge_index().tolist(), "features": d.features[:].astype("f8").tolist(), "labels": d.labels.tolist(),
                  "splits": [d.train.tolist(), d.valid.tolist(), d.test.tolist()], "hotness": s.hotness.tolist(), "batches": [of(b) for b in s],
                  "ssd": [Pack(p).facts["ssd_rows"] for p in packs]}))
`

// pythonBatch and pythonDataset are what readInPython prints.
type (
	pythonBlock struct {
		Src, Dst, Places []uint32
		Size             []int
	}
	pythonBatch struct {
		Input, Degree []uint32
		Labels        []int32
		Targets       [][]byte
		Blocks        []pythonBlock
	}
	pythonDataset struct {
		Edges    [2][]uint32
		Features [][]float32
		Labels   []int32
		Splits   [3][]uint32
		Hotness  []uint32
		Batches  []json.RawMessage
		SSD      []int64
	}
)

// TestPython compares what the Python package reads with what Go does.
func TestPython(t *testing.T) {
	python := numpy(t)
	module := absolute(t, "../python")
	t.Chdir(t.TempDir())
	for name, c := range map[string]struct {
		generate string
		ssd      bool
		packs    []string
	}{
		// Rows of a page, so that the budget decides about segments, not about padding.
		"segments": {"--nodes 300 --avg-degree 6 --dim 256 --classes 3 --train-ratio 0.4", true, []string{"--cache 5% --bands 30,10 --max-disk 4x", "--cache 0 --bands none", "--cache 10% --dtype int8", "--cache 10% --dtype int4"}},
		"classes":  {"--nodes 300 --avg-degree 4 --dim 5 --classes 11 --multi-label --dtype bfloat16 --train-ratio 0.5", false, []string{"--cache 5%"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, s := name+"-d", name+"-s"
			do(t, "generate --out "+d+" "+c.generate)
			do(t, "presample --dataset "+d+" --out "+s+" --batch-size 16 --fanout 3,4 --epochs 2")
			args := []string{"-c", readInPython, d, s}
			for i, flags := range c.packs {
				p := name + "-p" + string(rune('0'+i))
				do(t, "pack --dataset "+d+" --samples "+s+" --out "+p+" "+flags)
				args = append(args, p)
			}
			out := runPython(t, python, module, args...)
			var got pythonDataset
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			if c.ssd != (got.SSD[0] > 0) {
				t.Errorf("rows of the SSD level: %d", got.SSD)
			}
			compareDataset(t, d, &got)
			compareSamples(t, s, &got)
		})
	}
	// What the module does not read is refused by name.
	do(t, "generate --out zd --nodes 100 --compress")
	do(t, "generate --out pd --nodes 100")
	do(t, "presample --dataset pd --out ps --batch-size 2 --fanout 2")
	do(t, "pack --dataset pd --samples ps --out pz --compress-chunks zstd --cache 5%")
	do(t, "pack --dataset pd --samples ps --out pm --policy min --cache 5%")
	for args, says := range map[string]string{
		"Dataset('zd')": "zd is diskgnn.dataset, version 2: this reads diskgnn.dataset, (1, 3), without compression",
		"Pack('pz')":    "pz: its chunks are compressed (zstd): pack with --compress-chunks none",
		"Pack('pm')":    "pm: its policy is min: pack with --policy static",
		"Pack('ps')":    "ps is diskgnn.samples, version 1: this reads diskgnn.pack",
	} {
		out := runPython(t, python, module, "-c", "from diskgnn import *\ntry:\n    "+args+"\nexcept ValueError as e:\n    print(e)")
		if !strings.Contains(string(out), says) {
			t.Errorf("%s: %s; want %q", args, out, says)
		}
	}
}

func do(t *testing.T, line string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "diskgnn", append(strings.Fields(line), "--quiet")...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

func runPython(t *testing.T, python, module string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+module, "PYTHONDONTWRITEBYTECODE=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	return out
}

func compareDataset(t *testing.T, dir string, got *pythonDataset) {
	t.Helper()
	d, err := dataset.Open(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	f := d.Facts()
	raw := make([]byte, f.Nodes*int64(f.RowBytes()))
	if err := d.ReadFeatures(t.Context(), 0, f.Nodes, raw); err != nil {
		t.Fatal(err)
	}
	x := make([]float32, f.Nodes*int64(f.Dim))
	dtype.Convert(binio.Bytes(x), dtype.Float32, raw, f.DType)
	var want pythonDataset
	for v := range f.Nodes {
		want.Features = append(want.Features, x[v*int64(f.Dim):][:f.Dim])
	}
	if want.Labels, err = d.Labels(); err != nil {
		t.Fatal(err)
	}
	for i, name := range dataset.SplitNames {
		if want.Splits[i], err = d.Split(name); err != nil {
			t.Fatal(err)
		}
	}
	indptr, err := os.ReadFile(filepath.Join(dir, dataset.IndptrFile))
	if err != nil {
		t.Fatal(err)
	}
	indices, err := os.ReadFile(filepath.Join(dir, dataset.IndicesFile))
	if err != nil {
		t.Fatal(err)
	}
	want.Edges[0] = binio.View[uint32](indices)
	at := binio.View[int64](indptr)
	for v := range f.Nodes {
		for range at[v+1] - at[v] {
			want.Edges[1] = append(want.Edges[1], uint32(v))
		}
	}
	got.SSD, want.Hotness, want.Batches = nil, got.Hotness, got.Batches
	if d := cmp.Diff(&want, got); d != "" {
		t.Errorf("the dataset: %.2000s", d)
	}
}

func compareSamples(t *testing.T, dir string, got *pythonDataset) {
	t.Helper()
	r, err := mbfile.Open(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, n := r.Test(); n != len(got.Batches) {
		t.Fatalf("%d batches of %d", len(got.Batches), n)
	}
	if hotness, err := r.Hotness(); err != nil || !slices.Equal(hotness, got.Hotness) {
		t.Errorf("the hotness differs: %v", err)
	}
	for i, text := range got.Batches {
		var b graph.Batch
		if _, err := r.Read(t.Context(), i, nil, &b); err != nil {
			t.Fatal(err)
		}
		var have pythonBatch
		if err := json.Unmarshal(text, &have); err != nil {
			t.Fatal(err)
		}
		want := pythonBatch{Input: b.Input, Degree: b.Degree, Labels: b.Labels, Targets: have.Targets}
		for l := range b.Blocks {
			k := &b.Blocks[l]
			block := pythonBlock{Src: k.Indices, Size: []int{k.NumSrc, k.NumDst}}
			for v := range k.NumDst {
				for range k.Indptr[v+1] - k.Indptr[v] {
					block.Dst = append(block.Dst, uint32(v))
				}
				block.Places = append(block.Places, uint32(v))
			}
			want.Blocks = append(want.Blocks, block)
		}
		if d := cmp.Diff(want, have); d != "" {
			t.Fatalf("batch %d: %.2000s", i, d)
		}
		for v, row := range have.Targets {
			for c, one := range row {
				if n := len(b.Targets) / len(b.Labels); one != b.Targets[v*n+c/8]>>(c%8)&1 {
					t.Fatalf("batch %d, seed node %d, class %d: %d", i, v, c, one)
				}
			}
		}
	}
}

// TestPythonIDs reads original ids.
func TestPythonIDs(t *testing.T) {
	python := numpy(t)
	module := absolute(t, "../python")
	numbers, names := datasettest.Tiny(t), datasettest.Tiny(t)
	numbers.NodeIDs = []int64{7, 1, 0, 6, 2, 5, 3, 4}
	names.Names = []string{"a", "bb", "ü", "d", "e", "f", "g", "h"}
	args := []string{"-c", "import sys; from diskgnn import Dataset\nfor p in sys.argv[1:]: i = Dataset(p).ids; print(i if i is None else list(i))"}
	for _, raw := range []dataset.Raw{datasettest.Tiny(t), numbers, names} {
		args = append(args, datasettest.Create(t, t.TempDir(), raw).Dir())
	}
	cmd := exec.Command(python, args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+module, "PYTHONIOENCODING=utf-8")
	out, err := cmd.Output()
	got := strings.ReplaceAll(strings.ReplaceAll(string(out), "np.int64(", ""), ")", "")
	if want := "None\n[7, 1, 0, 6, 2, 5, 3, 4]\n['a', 'bb', 'ü', 'd', 'e', 'f', 'g', 'h']\n"; err != nil || got != want {
		t.Errorf("%q, %v", out, err)
	}
}

// readRunInPython prints a run's epochs and weights, and the changes of a byte of the weights that it does not notice.
const readRunInPython = `
import json, sys
from diskgnn import Run

path = sys.argv[1]
r = Run(path)
def of(name):
    return {k: {"shape": w.shape, "data": w.ravel().astype("f8").tolist()} for k, w in r.weights(name).items()}
print(json.dumps({"dims": r.info["params"]["network"]["dims"], "epochs": [e["epoch"] for e in r.epochs], "weights": of("weights"), "final": of("final")}))
name = path + "/weights.safetensors"
good = open(name, "rb").read()
for i in range(len(good)):
    with open(name, "wb") as f:
        f.write(good[:i] + bytes([good[i] ^ 1]) + good[i + 1:])
    try:
        r.weights()
        sys.exit(f"byte {i} of {len(good)} is not checked")
    except ValueError as e:
        assert name in str(e), e
for data, version, says in ((good[:5], 3, "is damaged"), (b"\2\0\0\0\0\0\0\0{}", 3, "differs from its checksum"), (b"\2\0\0\0\0\0\0\0{}", 2, None),
                            (b'\x0f\0\0\0\0\0\0\0{"a":{"dtype":"F16"}}', 2, "is damaged"), (b'\x15\0\0\0\0\0\0\0{"a":{"dtype":"F16"}}', 2, "a is F16: this reads F32")):
    with open(name, "wb") as f:
        f.write(data)
    r.info["format"]["version"] = version
    try:
        assert r.weights() == {} and says is None, (data, says)
    except ValueError as e:
        assert says and says in str(e), (data, says, e)
`

// TestPythonRun compares a run in Python with the same in Go.
func TestPythonRun(t *testing.T) {
	python := numpy(t)
	module := absolute(t, "../python")
	t.Chdir(t.TempDir())
	do(t, "generate --out graph --nodes 200 --dim 3 --classes 2 --train-ratio 0.4")
	do(t, "presample --dataset graph --out samples --batch-size 30 --fanout 2,2")
	do(t, "pack --dataset graph --samples samples --out pack")
	do(t, "train --pack pack --out run --hidden 2 --epochs 3")
	type tensor struct {
		Shape []int
		Data  []float32
	}
	type content struct {
		Dims, Epochs   []int
		Weights, Final map[string]tensor
	}
	read := func(name string) map[string]tensor {
		t.Helper()
		b, err := os.ReadFile(filepath.Join("run", name))
		if err != nil {
			t.Fatal(err)
		}
		list, _, err := safetensors.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		out := make(map[string]tensor)
		for _, w := range list {
			out[w.Name] = tensor{w.Shape, w.Data}
		}
		return out
	}
	want := content{[]int{3, 2, 2}, []int{0, 1, 2}, read(rundir.WeightsFile), read(rundir.FinalFile)}
	out := runPython(t, python, module, "-c", readRunInPython, "run")
	var got content
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	out = runPython(t, python, module, "-c", `
from diskgnn import Run
import os, shutil
os.remove("run/metrics.jsonl")
print(Run("run").epochs)
with open("run/metrics.jsonl", "w") as f:
    f.write('{"epoch": 0}\n{"epo')
print(Run("run").epochs)
shutil.copy("pack/meta.json", "run/run.json")
try:
    Run("run")
except ValueError as e:
    print(e)
`)
	if want := "[]\n[{'epoch': 0}]\nrun is diskgnn.pack: this reads diskgnn.run\n"; string(out) != want {
		t.Errorf("%s, want %s", out, want)
	}
}
