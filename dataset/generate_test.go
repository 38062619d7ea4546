package dataset_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

func generate(t *testing.T, fsys vfs.FS, out string, o dataset.GenerateOptions) dataset.Result {
	t.Helper()
	res, err := dataset.Generate(t.Context(), fsys, out, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestGenerate(t *testing.T) {
	out := filepath.Join(t.TempDir(), "D")
	o := dataset.GenerateOptions{Nodes: 40_000, Dim: 32, Classes: 8, Seed: 1, TrainRatio: 0.05}
	res := generate(t, datasettest.FS, out, o)
	d := datasettest.Verified(t, out)
	f := d.Facts()
	if f.Nodes != 40_000 || f.Edges != 600_000 || f.Dim != 32 || f.Classes != 8 || f.DType != dtype.Float32 ||
		f.Train != 2000 || f.Valid != 400 || f.Test != 400 || f.Unlabelled != 0 {
		t.Errorf("facts %+v", f)
	}
	if res.State != "new" || res.Edges != f.Edges || res.Fingerprint != d.Fingerprint() {
		t.Errorf("result %+v", res)
	}
	// 400 test nodes: a standard error of 2.4 points.
	if a := res.FeaturesAlone; a == nil || *a < 0.33 || *a > 0.47 {
		t.Errorf("features alone score %v, want about 0.40", a)
	}
	again := generate(t, datasettest.FS, out, o)
	if again.State != "done" || again.Fingerprint != res.Fingerprint || again.FeaturesAlone == nil || *again.FeaturesAlone != *res.FeaturesAlone {
		t.Errorf("again: %+v", again)
	}
	o.Seed = 2
	if _, err := dataset.Generate(t.Context(), datasettest.FS, out, o, progress.Discard); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "--seed was 1, now 2") {
		t.Errorf("other parameters: %v", err)
	}
	o.Force = true
	if other := generate(t, datasettest.FS, out, o); other.Fingerprint == res.Fingerprint {
		t.Error("another seed gave the same graph")
	}
}

// TestGenerateTwice checks that neither workers nor memory change a byte, over
// several blocks of nodes and rows.
func TestGenerateTwice(t *testing.T) {
	for _, dt := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
		o := dataset.GenerateOptions{Nodes: 35_000, AvgDegree: 3, Dim: 15, Classes: 5, DType: dt, Seed: 11}
		dir := t.TempDir()
		ref := filepath.Join(dir, "ref")
		generate(t, datasettest.FS, ref, o)
		for i, use := range []dataset.Resources{{Workers: 1}, {Workers: 2, Memory: 8 << 30}, {Workers: 7, Memory: 256 << 20}, {Workers: 3, Memory: 40 << 20}} {
			o.Resources = use
			out := filepath.Join(dir, fmt.Sprint(i))
			generate(t, datasettest.FS, out, o)
			datasettest.Same(t, ref, out)
		}
	}
}

func TestGenerateSmall(t *testing.T) {
	for _, nodes := range []int64{8, 9, 60, 100, 500} {
		out := filepath.Join(t.TempDir(), "D")
		o := dataset.GenerateOptions{Nodes: nodes, AvgDegree: 1.5, Dim: 3, Classes: 2, Seed: 3}
		res := generate(t, datasettest.FS, out, o)
		datasettest.Verified(t, out)
		if least := min(32, nodes/8); res.Train < least || res.Valid < least || res.Test < least {
			t.Errorf("%d nodes: splits of %d, %d, %d", nodes, res.Train, res.Valid, res.Test)
		}
	}
}

func TestGenerateSplits(t *testing.T) {
	for _, c := range []struct {
		nodes             int64
		ratio             float64
		train, valid, tst int64
	}{
		{100_000, 0.01, 1000, 200, 200}, {250_000, 0.02, 5000, 1000, 1000}, {1000, 0.5, 500, 100, 100},
		{1000, 0.9, 900, 50, 50}, {1000, 0.99, 936, 32, 32}, {1000, 0.01, 32, 32, 32}, {8, 0.01, 1, 1, 1},
	} {
		out := filepath.Join(t.TempDir(), "D")
		res := generate(t, datasettest.FS, out, dataset.GenerateOptions{Nodes: c.nodes, AvgDegree: 1, Dim: 1, Classes: 2, TrainRatio: c.ratio})
		if res.Train != c.train || res.Valid != c.valid || res.Test != c.tst {
			t.Errorf("%g of %d nodes: splits of %d, %d, %d; want %d, %d, %d", c.ratio, c.nodes, res.Train, res.Valid, res.Test, c.train, c.valid, c.tst)
		}
	}
}

func TestGenerateRefuses(t *testing.T) {
	for flag, o := range map[string]dataset.GenerateOptions{
		"--nodes":       {Nodes: 1<<32 + 1},
		"--nodes 7":     {Nodes: 7, AvgDegree: 1, Classes: 2},
		"--avg-degree":  {Nodes: 20, AvgDegree: 15, Classes: 2},
		"--dim":         {Dim: -1},
		"--classes":     {Classes: 1},
		"--classes 9":   {Nodes: 16, AvgDegree: 1, Classes: 9},
		"--dtype int8":  {DType: dtype.Int8},
		"--train-ratio": {TrainRatio: 1},
		"--workers":     {Resources: dataset.Resources{Workers: -1}},
		"--memory":      {Resources: dataset.Resources{Memory: -1}},
	} {
		out := filepath.Join(t.TempDir(), "D")
		_, err := dataset.Generate(t.Context(), datasettest.FS, out, o, progress.Discard)
		if !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	out := filepath.Join(t.TempDir(), "D")
	_, err := dataset.Generate(t.Context(), datasettest.FS, out, dataset.GenerateOptions{Resources: dataset.Resources{Memory: 1 << 20}}, progress.Discard)
	if !errors.Is(err, fault.ErrBudget) {
		t.Errorf("1 MiB of memory: %v", err)
	}
	full := datasettest.FreeSpace{FS: datasettest.FS, Bytes: 1 << 20}
	_, err = dataset.Generate(t.Context(), full, out, dataset.GenerateOptions{}, progress.Discard)
	if !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "of disk") {
		t.Errorf("1 MiB of disk: %v", err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("something passes for a dataset")
	}
}

func TestGenerateCancel(t *testing.T) {
	o := dataset.GenerateOptions{Nodes: 100_000, AvgDegree: 4, Dim: 16, Classes: 4, Seed: 1}
	dir := t.TempDir()
	ref, out := filepath.Join(dir, "ref"), filepath.Join(dir, "out")
	generate(t, datasettest.FS, ref, o)
	for n := 1; n < 30; n += 4 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := dataset.Generate(ctx, vfs.Inject(datasettest.FS, &datasettest.CancelAt{N: n, Cancel: cancel}), out, o, progress.Discard)
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled at write %d: %v", n, err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Fatal("something passes for a dataset")
		}
	}
	generate(t, datasettest.FS, out, o)
	datasettest.Same(t, ref, out)
}

// TestGenerateFailures fails every operation in turn, alone and with all later
// ones, and checks that the next run finishes with the same bytes.
func TestGenerateFailures(t *testing.T) {
	o := dataset.GenerateOptions{Nodes: 300, AvgDegree: 2, Dim: 4, Classes: 2, Seed: 8}
	datasettest.EveryFailure(t, []bool{false, true}, func(fsys vfs.FS, out string) error {
		_, err := dataset.Generate(t.Context(), fsys, out, o, progress.Discard)
		return err
	})
}

func BenchmarkGenerate(b *testing.B) {
	const nodes = 200_000
	o := dataset.GenerateOptions{Nodes: nodes}
	for i := range b.N {
		o.Seed = uint64(i)
		res, err := dataset.Generate(b.Context(), datasettest.FS, filepath.Join(b.TempDir(), "D"), o, progress.Discard)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(res.DiskBytes)
	}
	b.ReportMetric(nodes*float64(b.N)/b.Elapsed().Seconds(), "nodes/s")
}
