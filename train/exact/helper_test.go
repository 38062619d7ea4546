package exact

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/all"
	"diskgnn/train/decide"
	"diskgnn/train/exact/grid"
	"diskgnn/train/model"
	"diskgnn/train/rundir"
	"diskgnn/train/safetensors"
)

// Small tiles and blocks, so that small graphs have many.
func init() { grid.Group, grid.GPUGroup = 4, 4 }

// groups sets the length of groups for a test.
func groups(t *testing.T, n int) {
	before, onGPU := grid.Group, grid.GPUGroup
	grid.Group, grid.GPUGroup = n, n
	t.Cleanup(func() { grid.Group, grid.GPUGroup = before, onGPU })
}

// disk does not wait for the device: no plug is pulled here.
var disk = vfs.Unsynced(vfs.OS)

// world is a graph, and a run whose weights nobody trained.
type world struct {
	dir    string
	raw    dataset.Raw
	model  model.Model
	params [][]float64 // in the order of model.Params, a row per input

	fingerprint string // of the dataset
}

// newWorld makes both in a new directory. dims are those of the hidden layers.
func newWorld(t datasettest.TB, dir string, raw dataset.Raw, hidden ...int) *world {
	t.Helper()
	return newWorldOf(t, dir, raw, model.Model{Kind: model.SAGE, Dims: append(append([]int{raw.Dim}, hidden...), raw.Classes), Dropout: 0.5})
}

func newWorldOf(t datasettest.TB, dir string, raw dataset.Raw, m model.Model) *world {
	t.Helper()
	w := &world{dir: dir, raw: raw, model: m}
	d := datasettest.Create(t, dir, raw)
	w.fingerprint = d.Fingerprint()
	rng := rand.New(rand.NewPCG(1, uint64(len(raw.Labels))))
	var tensors []safetensors.Tensor
	for _, p := range w.model.Params() {
		values := make([]float64, p.Len())
		tensor := safetensors.Tensor{Name: p.Name, Shape: p.Shape, Data: make([]float32, p.Len())}
		for i := range p.Rows {
			for o := range p.Cols {
				v := float32(rng.NormFloat64() / float64(1+p.Rows))
				if p.Role == model.RunningVar {
					v = 0.5 + v*v
				}
				values[i*p.Cols+o], tensor.Data[p.Place(i, o)] = float64(v), v
			}
		}
		tensors, w.params = append(tensors, tensor), append(w.params, values)
	}
	w.writeRun(t, tensors, w.fingerprint)
	return w
}

func (w *world) writeRun(t datasettest.TB, tensors []safetensors.Tensor, fingerprint string) {
	t.Helper()
	run, err := rundir.Encode(map[string]any{
		"format": rundir.Format, "state": "finished", "dataset": fingerprint,
		"params": map[string]any{"metric": "accuracy", "network": w.model}, "setup": map[string]any{"engine": "cpu"},
	})
	check(t, err)
	check(t, os.MkdirAll(w.path("run"), 0o777))
	check(t, os.WriteFile(w.path("run/run.json"), run, 0o666))
	f, err := os.Create(w.path("run/weights.safetensors"))
	check(t, err)
	check(t, safetensors.Write(f, tensors, nil))
	check(t, f.Close())
}

func check(t datasettest.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// options returns those of a quick evaluation, by pread: io_uring pins buffers, which costs more than it.
// Every tenth of TestEqualsThePlainPass takes what auto takes.
func (w *world) options() Options {
	return Options{Run: w.path("run"), Dataset: w.path("dataset"), Engine: decide.EngineCPU, Threads: 2, BLAS: "gonum", IO: "pread", Memory: 1 << 30, MaxRead: &budget.Size{Unit: budget.UnitUnlimited}}
}

// reference returns the output of layer last for all nodes, in float64.
func (w *world) reference(last int) [][]float64 {
	wide := make([]float32, len(w.raw.Labels)*w.raw.Dim)
	dtype.Convert(binio.Bytes(wide), dtype.Float32, w.raw.Features, w.raw.DType)
	x := make([][]float64, len(w.raw.Labels))
	for v := range x {
		for _, f := range wide[v*w.raw.Dim : (v+1)*w.raw.Dim] {
			x[v] = append(x[v], float64(f))
		}
	}
	for l := range last + 1 {
		y := make([][]float64, len(x))
		for v := range y {
			mean := make([]float64, w.model.In(l))
			from := w.raw.Indices[w.raw.Indptr[v]:w.raw.Indptr[v+1]]
			for _, u := range from {
				for i := range mean {
					mean[i] += x[u][i] / float64(len(from))
				}
			}
			y[v] = w.row(l, mean, x[v])
		}
		x = y
	}
	return x
}

// row applies layer l to one node.
func (w *world) row(l int, mean, own []float64) []float64 {
	out := w.model.Out(l)
	y := make([]float64, out)
	neighbour, self, bias := w.params[3*l], w.params[3*l+1], w.params[3*l+2]
	for o := range y {
		y[o] = bias[o]
		for i := range mean {
			y[o] += mean[i]*neighbour[i*out+o] + own[i]*self[i*out+o]
		}
		if l < w.model.Layers()-1 {
			y[o] = max(y[o], 0)
		}
	}
	return y
}

// predict predicts and reads what was written.
func (w *world) predict(t datasettest.TB, o PredictOptions, room int64) ([]float32, Prediction) {
	t.Helper()
	if o.Options.Run == "" {
		o.Options = w.options()
	}
	if o.Out == "" {
		o.Out, o.Force = w.path("out.npy"), true
	}
	before := device.HostBytes()
	p, err := predict(context.Background(), disk, o, progress.Discard, parts{stack: all.Open, room: room})
	check(t, err)
	if n := device.HostBytes(); n != before {
		t.Fatalf("%d bytes of host memory were not given back", n-before)
	}
	if _, err := os.Stat(w.path("run.scratch")); err == nil {
		t.Fatalf("the scratch directory is still there")
	}
	values, shape := readNPY(t, o.Out)
	if shape[0] != p.Rows || len(shape) > 1 && shape[1] != int64(p.Columns) {
		t.Fatalf("the file is of shape %v, %d × %d was written", shape, p.Rows, p.Columns)
	}
	return values, p
}

var npyText = regexp.MustCompile(`^\{'descr': '<([fi])4', 'fortran_order': False, 'shape': \((\d+),(?: (\d+))?\), \} *\n$`)

// readNPY reads a file by the format's rules, written down anew.
func readNPY(t datasettest.TB, name string) (values []float32, shape []int64) {
	t.Helper()
	b, err := os.ReadFile(name)
	check(t, err)
	if len(b) < 10 || string(b[:8]) != "\x93NUMPY\x01\x00" {
		t.Fatalf("%s is no array", name)
	}
	end := 10 + int(b[8]) + int(b[9])<<8
	m := npyText.FindStringSubmatch(string(b[10:end]))
	if m == nil || end%64 != 0 {
		t.Fatalf("header %q of %d bytes", b[10:end], end)
	}
	count := int64(1)
	for _, s := range m[2:] {
		if s != "" {
			n, err := strconv.ParseInt(s, 10, 64)
			check(t, err)
			shape, count = append(shape, n), count*n
		}
	}
	if int64(len(b)-end) != 4*count {
		t.Fatalf("%d bytes for the shape %v", len(b)-end, shape)
	}
	words := make([]uint32, count)
	copy(binio.Bytes(words), b[end:])
	values = make([]float32, count)
	copy(binio.Bytes(values), b[end:])
	if m[1] == "i" {
		for i, word := range words {
			values[i] = float32(int32(word))
		}
	}
	return values, shape
}

// compare checks rows against the reference's rows of the nodes.
func compare(t datasettest.TB, got []float32, want [][]float64, nodes []uint32) {
	t.Helper()
	at := 0
	for _, v := range nodes {
		for c, y := range want[v] {
			if d := float64(got[at]) - y; !(d < 1e-4 && d > -1e-4) {
				t.Fatalf("node %d, column %d: %v, want %v", v, c, got[at], y)
			}
			at++
		}
	}
	if at != len(got) {
		t.Fatalf("%d values, want %d", len(got), at)
	}
}

func everyNode(raw *dataset.Raw) []uint32 {
	ids := make([]uint32, len(raw.Labels))
	for i := range ids {
		ids[i] = uint32(i)
	}
	return ids
}
