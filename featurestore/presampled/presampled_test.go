package presampled

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
)

var disk = vfs.Unsynced(vfs.OS)

// newSource makes a dataset and samples of it, and finds them. change, if any, changes the
// batches, which are written again, one in each file.
func newSource(t *testing.T, change func(b *graph.Batch)) (s *Source, dir string) {
	t.Helper()
	dir = t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	raw := datasettest.Params{Nodes: 300, AvgDegree: 4, Dim: 3, Seed: 2}.Raw()
	raw.Valid, raw.Test = raw.Valid[:7], append(raw.Test, raw.Valid[7:]...)
	slices.Sort(raw.Test)
	datasettest.Create(t, dir, raw)
	data, samples := filepath.Join(dir, "dataset"), filepath.Join(dir, "samples")
	_, err := presample.Run(context.Background(), disk, presample.Options{Dataset: data, Out: samples, BatchSize: 6, Epochs: 2, Fanout: []int{2, 3}}, progress.Discard)
	must(err)
	if change != nil {
		again := filepath.Join(dir, "again")
		must(rewrite(samples, again, change))
		samples = again
	}
	s, err = Find(disk, data, samples)
	must(err)
	if f := s.Facts(); f.EpochSeeds != int64(len(raw.Train)) || f.EvalSeeds != int64(len(raw.Test)) || len(raw.Test) <= len(raw.Valid) {
		t.Fatalf("%d seed nodes an epoch, %d of evaluation; there are %d, %d and %d", f.EpochSeeds, f.EvalSeeds, len(raw.Train), len(raw.Valid), len(raw.Test))
	}
	return s, samples
}

// rewrite copies samples batch by batch, each to a file of its own.
func rewrite(from, to string, change func(b *graph.Batch)) (err error) {
	r, err := mbfile.Open(disk, from)
	if err != nil {
		return err
	}
	defer r.Close()
	f := r.Facts()
	d, _, err := stage.Begin(disk, to, stage.Spec{Format: mbfile.Format, Params: r.Params(), Parents: r.Meta().Parents}, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	w, err := mbfile.NewWriter(context.Background(), d, mbfile.Layout{Nodes: f.Nodes, Layers: f.Layers, Train: f.TrainBatches, Valid: f.ValidBatches, Test: f.TestBatches, BatchesPerFile: 1}, progress.Discard)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	var b graph.Batch
	var e mbfile.Encoded
	var buf []byte
	for i := range f.Batches() {
		if buf, err = r.Read(context.Background(), i, buf, &b); err != nil {
			return err
		}
		change(&b)
		e.Encode(&b)
		if err := w.Append(&e); err != nil {
			return err
		}
	}
	files, facts, err := w.Finish(f.Epochs)
	if err != nil {
		return err
	}
	_, err = d.Commit(files, facts, nil)
	return err
}

// counting is a stack that counts its open files.
type counting struct {
	iostack.Stack
	open int
}

type countedFile struct {
	iostack.File
	in *counting
}

func (c *counting) Open(path string) (iostack.File, error) {
	f, err := c.Stack.Open(path)
	if err != nil {
		return nil, err
	}
	c.open++
	return &countedFile{f, c}, nil
}

func (f *countedFile) Close() error {
	f.in.open--
	return f.File.Close()
}

func (c *counting) Submit(g *iostack.Group, reqs []iostack.Request) error {
	inner := slices.Clone(reqs)
	for i := range inner {
		inner[i].File = inner[i].File.(*countedFile).File
	}
	return c.Stack.Submit(g, inner)
}

// open returns a loader of training batches, which leaves no file open at the end.
func open(t *testing.T, s *Source) (featurestore.Loaders, featurestore.Loader, *counting) {
	t.Helper()
	stack, _, err := all.Open("pread", iostack.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stack.Close() })
	counted := &counting{Stack: stack}
	l, err := s.Open(counted)
	if err != nil {
		t.Fatal(err)
	}
	one, err := l.NewLoader(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		one.Free()
		if err := l.Close(); err != nil || counted.open != 0 {
			t.Errorf("closed with %d files open: %v", counted.open, err)
		}
	})
	return l, one, counted
}

// Batches may lie in more files than are kept open: those that nobody reads any more are
// closed, and opened again. Input nodes that are read by themselves
// are those of the graph.
func TestManyFiles(t *testing.T) {
	s, _ := newSource(t, func(*graph.Batch) {})
	_, one, stack := open(t, s)
	if s.Facts().Train <= iostack.MaxIdleFiles+2 {
		t.Fatalf("%d batches are too few", s.Facts().Train)
	}
	var buf []byte
	for range 2 {
		for i := range s.Facts().Train {
			ref := featurestore.Ref{Index: i}
			if err := errors.Join(one.Start(ref), one.Wait(t.Context())); err != nil {
				t.Fatal(err)
			}
			b, err := one.Decode()
			if err != nil {
				t.Fatal(err)
			}
			nodes, again, err := s.Inputs(t.Context(), ref, buf)
			if buf = again; err != nil || !slices.Equal(nodes, b.Input) {
				t.Fatalf("batch %d has the input nodes %v, by themselves %v, %v", i, b.Input, nodes, err)
			}
			if c := one.Counts(); c.UsefulBytes != s.samples.Info(i).Size || c.BytesRead < c.UsefulBytes || c.GraphRead != c.BytesRead {
				t.Errorf("batch %d: %+v", i, c)
			}
			if stack.open > iostack.MaxIdleFiles+1 {
				t.Fatalf("%d files are open", stack.open)
			}
		}
	}
}

// What a file has lost since it was found, and a class that the dataset has not, are damage
// of the samples.
func TestDamage(t *testing.T) {
	s, dir := newSource(t, func(b *graph.Batch) { b.Labels[0] = math.MaxInt32 })
	_, one, _ := open(t, s)
	damaged := func(what, says string, err error) {
		t.Helper()
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), dir+" is damaged: make it again, by its diskgnn presample") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := errors.Join(one.Start(featurestore.Ref{}), one.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	_, err := one.Decode()
	damaged("a class", "seed node 0 of batch 0 has class 2147483647", err)
	if err := os.Truncate(s.samples.Path(1), s.samples.Info(1).Size-1); err != nil {
		t.Fatal(err)
	}
	damaged("a short file", "it was truncated", one.Start(featurestore.Ref{Index: 1}))
	if err := one.Wait(t.Context()); err != nil {
		t.Errorf("nothing to wait for: %v", err)
	}
}
