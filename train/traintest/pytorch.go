package traintest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"diskgnn/dataset"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
)

// PyTorch returns a Python that has PyTorch Geometric: python3, or the one that the
// environment variable PYG names. Without one the test is skipped.
func PyTorch(t *testing.T) string {
	t.Helper()
	python := os.Getenv("PYG")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import torch, torch_geometric, safetensors.torch").CombinedOutput(); err != nil {
		lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
		t.Skipf("not compared: %s lacks torch, torch_geometric or safetensors (PYG may name one that has them): %v: %s", python, err, lines[len(lines)-1])
	}
	return python
}

// GraphForPyTorch writes a graph in the format of docs/python/load.py, and returns the file.
func GraphForPyTorch(t *testing.T, d *dataset.Raw) string {
	t.Helper()
	x := make([]float32, len(d.Labels)*d.Dim)
	dtype.Convert(binio.Bytes(x), dtype.Float32, d.Features, d.DType)
	rows := make([][]float32, len(d.Labels))
	edges := [2][]int64{{}, {}}
	for v := range rows {
		rows[v] = x[v*d.Dim : (v+1)*d.Dim]
		for _, u := range d.Indices[d.Indptr[v]:d.Indptr[v+1]] {
			edges[0], edges[1] = append(edges[0], int64(u)), append(edges[1], int64(v))
		}
	}
	return JSONFile(t, map[string]any{"x": rows, "edge_index": edges})
}

// JSONFile writes a value to a new file.
func JSONFile(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "value.json")
	if err := os.WriteFile(file, text, 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// PyTorchLogits returns the logits that docs/python/load.py, the given script, computes from a run
// and a graph: a row per node.
func PyTorchLogits(t *testing.T, python, script, run, graph string) (logits [][]float64) {
	t.Helper()
	PythonJSON(t, &logits, python, script, run, graph)
	return logits
}

// PythonJSON runs Python, and decodes the JSON that it prints to result.
func PythonJSON(t *testing.T, result any, python string, arguments ...string) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(python, arguments...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	if err := json.Unmarshal(out, result); err != nil {
		t.Fatal(err)
	}
}
