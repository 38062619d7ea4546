package exact

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/iostack/pieces"
	"diskgnn/train/model"
	"diskgnn/train/trained"
)

// holding is a storage stack that holds 12345 bytes.
type holding struct{ iostack.Stack }

func (holding) Held() int64 { return 12345 }

// What is held besides the steps, by hand: for 2000 nodes of 16 bytes 12 bytes of checksums; of states of
// 750 floats 22 whole granules' checksums; 4 bytes a node where edges are counted; and what the caller
// holds.
func TestFixedByHand(t *testing.T) {
	raw := datasettest.Params{Nodes: 2000, AvgDegree: 2, Dim: 4, Classes: 2, Seed: 1}.Raw()
	w := newWorldOf(t, vfstest.TempDir(t), raw, model.Model{Kind: model.GCN, Dims: []int{4, 750, 2}, GCNNorm: model.BlockNorm})
	o := w.options()
	o.EnsureDefaults()
	j := &job{fs: disk, options: o, report: progress.Discard, parts: parts{stack: func(kind string, so iostack.Options) (iostack.Stack, string, error) {
		s, how, err := all.Open(kind, so)
		return holding{s}, how, err
	}}}
	check(t, j.open(t.Context()))
	defer func() { check(t, j.close()) }()
	e, engine, err := j.run.NewEngine(trained.EngineOptions{Orders: j.model.Orders, Threads: o.Threads, BLAS: o.BLAS}, 0, o.Memory)
	check(t, err)
	e.Close()
	if engine == 0 {
		t.Fatal("the engine takes nothing")
	}
	if want := budget.Reserve + 12345 + engine + pieces.Memory(dataset.Granule, false) + 12; j.fixed != want {
		t.Errorf("opened: %d bytes, want %d", j.fixed, want)
	}
	before := j.fixed
	check(t, j.prepare(t.Context(), 1, targets{nodes: 2000}, 1000))
	if got, want := j.fixed-before, int64(1000+22*8+4*2000); got != want {
		t.Errorf("prepared: %d bytes more, want %d", got, want)
	}
}

// Where nothing fits beside what is held anyway, nothing more is taken: labels, which would
// be, are not even looked at.
func TestRefusedBeforeLabelsAreHeld(t *testing.T) {
	raw := datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 4, Classes: 2, Seed: 1}.Raw()
	w := newWorld(t, vfstest.TempDir(t), raw, 3)
	o := w.options()
	name := filepath.Join(w.path("dataset"), dataset.LabelsFile)
	labels, err := os.ReadFile(name)
	check(t, err)
	labels[3] ^= 1
	check(t, os.WriteFile(name, labels, 0o666))
	if _, err := Evaluate(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("with memory to spare: %v", err)
	}
	o.Memory = budget.Reserve // more than the labels take, less than is held besides
	if _, err := Evaluate(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("%v", err)
	}
}
