package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
)

// sampled makes blocks of a small graph, and returns their folder, the batch that they are
// of, and the graph.
func sampled(t *testing.T) (dir string, b *graph.Batch, raw dataset.Raw) {
	t.Helper()
	raw = datasettest.Params{Nodes: 300, AvgDegree: 8, Dim: 12, Classes: 5, Seed: 4}.Raw()
	samples, dir := filepath.Join(t.TempDir(), "S"), filepath.Join(t.TempDir(), "B")
	data := datasettest.Create(t, t.TempDir(), raw).Dir()
	_, err := presample.Run(t.Context(), vfs.Unsynced(vfs.OS), presample.Options{
		Dataset: data, Out: samples, BatchSize: 20, Fanout: []int{2, 3, 4}, Epochs: 1, Workers: 1, Memory: 1 << 30}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"step", dir, "-make", samples, "-dataset", data, "-batch", "1"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	r, err := mbfile.Open(vfs.OS, samples)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b = new(graph.Batch)
	if _, err := r.Read(t.Context(), 1, nil, b); err != nil {
		t.Fatal(err)
	}
	return dir, b, raw
}

// TestBlocks: what is timed is the batch that was sampled, with the graph's degrees.
func TestBlocks(t *testing.T) {
	dir, want, raw := sampled(t)
	got, x, dim, classes, err := loadBlocks(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Blocks, want.Blocks) || !reflect.DeepEqual(got.Labels, want.Labels) || !reflect.DeepEqual(got.Degree, want.Degree) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if dim != 12 || classes != 5 {
		t.Errorf("%d features and %d classes", dim, classes)
	}
	for i, v := range want.Input {
		if d := raw.Indptr[v+1] - raw.Indptr[v]; int64(got.Degree[i]) != d {
			t.Errorf("node %d: degree %d, in the graph %d", v, got.Degree[i], d)
		}
		if row := binio.Bytes(x[i*12 : (i+1)*12]); !bytes.Equal(row, raw.Features[48*v:48*v+48]) {
			t.Errorf("node %d: another row than the graph's", v)
		}
	}
}

// TestReadNPY: what is not the array that was named is refused.
func TestReadNPY(t *testing.T) {
	dir := t.TempDir()
	if err := writeNPY(dir, "whole", "<i8", binio.Bytes([]int64{1, -2, 3}), 3); err != nil {
		t.Fatal(err)
	}
	if got, err := readNPY[int64](dir, "whole", "<i8"); err != nil || !reflect.DeepEqual(got, []int64{1, -2, 3}) {
		t.Errorf("%v, %v", got, err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "whole.npy"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"empty": "", "magic": "PK" + string(whole[2:]), "header": string(whole[:40]), "torn": string(whole[:len(whole)-3]),
		"columns": strings.Replace(string(whole), "False", "True ", 1), "type": strings.Replace(string(whole), "<i8", "<f8", 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".npy"), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		if got, err := readNPY[int64](dir, name, "<i8"); err == nil || !strings.Contains(err.Error(), name+".npy") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestAgainst: two libraries take turns.
func TestAgainst(t *testing.T) {
	dir, _, _ := sampled(t)
	if err := run(t.Context(), []string{"step", dir, "-blas", "gonum", "-against", "gonum", "-steps", "2", "-warmup", "1", "-threads", "1"}, io.Discard); err != nil {
		t.Error(err)
	}
	if err := run(t.Context(), []string{"step", dir, "-against", "mkl", "-steps", "1"}, io.Discard); err == nil || !strings.Contains(err.Error(), "mkl") {
		t.Errorf("against mkl: %v", err)
	}
}

// TestGCNNeedsDegrees: without them every edge would weigh nothing, and a step would
// compute nothing.
func TestGCNNeedsDegrees(t *testing.T) {
	dir, _, _ := sampled(t)
	if err := os.Remove(filepath.Join(dir, "degree.npy")); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"step", dir, "-model", "gcn"}, io.Discard); err == nil || !strings.Contains(err.Error(), "no degrees") {
		t.Errorf("gcn without degrees: %v", err)
	}
	if err := run(t.Context(), []string{"step", dir, "-model", "sage", "-steps", "1", "-bound=false"}, io.Discard); err != nil {
		t.Errorf("sage without degrees: %v", err)
	}
}

// TestGPUSavesTheSame: the GPU engine begins with the CPU's weights and finds its losses,
// and a single step is timed as well as many.
func TestGPUSavesTheSame(t *testing.T) {
	dir, _, _ := sampled(t)
	for _, kind := range []string{"sage", "gcn", "gat"} {
		o := steps{harness: &harness{out: io.Discard, threads: 1}, model: kind, hidden: 16, heads: 2, steps: 1, order: "auto", blas: "gonum", engine: "cpu", precision: "float32", save: t.TempDir()}
		if err := errors.Join(o.load(dir), o.measure(t.Context())); err != nil {
			t.Fatal(err)
		}
		cpu := o.save
		o.engine, o.device, o.dropout, o.save = "gpu", cudatest.Open(t), 0.5, t.TempDir()
		if err := o.measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		decoding := o
		decoding.inBits, decoding.save = true, ""
		if err := decoding.measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		read := func(dir string) (weights []byte, l losses) {
			weights, err := os.ReadFile(filepath.Join(dir, kind+".safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, kind+".json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &l); err != nil || len(l.Losses) != checked {
				t.Fatalf("%+v, %v", l, err)
			}
			return weights, l
		}
		weights, ours := read(cpu)
		others, theirs := read(o.save)
		if !bytes.Equal(weights, others) {
			t.Errorf("%s: the engines begin with different weights", kind)
		}
		for i, loss := range ours.Losses {
			if d := math.Abs(theirs.Losses[i]/loss - 1); d > 1e-5 {
				t.Errorf("%s: step %d: %v and %v", kind, i, loss, theirs.Losses[i])
			}
		}
	}
}

// TestPeersComputeTheSame: from equal weights, DGL's and PyTorch Geometric's first losses
// are ours; from others, peer.py times nothing.
func TestPeersComputeTheSame(t *testing.T) {
	dir, _, _ := sampled(t)
	weights := t.TempDir()
	ran := false
	for _, lib := range []struct{ name, python, needs string }{
		{"pyg", os.Getenv("PYG"), "torch, torch_geometric"}, {"pyg-bipartite", os.Getenv("PYG"), "torch, torch_geometric"}, {"dgl", os.Getenv("GB"), "torch, dgl"},
	} {
		if lib.python == "" {
			lib.python = "python3"
		}
		if exec.Command(lib.python, "-c", "import "+lib.needs).Run() != nil {
			t.Logf("%s is not compared: %s lacks %s (PYG and GB may name others)", lib.name, lib.python, lib.needs)
			continue
		}
		ran = true
		for _, model := range []string{"sage", "gcn", "gat"} {
			if lib.name == "pyg-bipartite" && model != "gcn" {
				continue
			}
			if err := run(t.Context(), []string{"step", dir, "-model", model, "-hidden", "16", "-heads", "2", "-steps", "1", "-bound=false", "-save", weights}, io.Discard); err != nil {
				t.Fatal(err)
			}
			peer := func() (string, error) {
				out, err := exec.Command(lib.python, "step/peer.py", dir, weights, "--lib", lib.name, "--model", model, "--steps", "1", "--dropout", "0.5").CombinedOutput()
				return string(out), err
			}
			if out, err := peer(); err != nil {
				t.Errorf("%s, %s: %v\n%s", lib.name, model, err, out)
			}
			name := filepath.Join(weights, model+".safetensors")
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			raw[len(raw)-1] ^= 0x41 // exponent and sign of a weight
			if err := os.WriteFile(name, raw, 0o666); err != nil {
				t.Fatal(err)
			}
			if out, err := peer(); err == nil || !strings.Contains(out, "not the same function") {
				t.Errorf("%s, %s: timed with other weights: %v\n%s", lib.name, model, err, out)
			}
		}
	}
	if !ran {
		t.Skip("no Python has DGL or PyTorch Geometric")
	}
}
