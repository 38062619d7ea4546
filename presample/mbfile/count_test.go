package mbfile

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs/vfstest"
)

// writerOf begins a directory.
func writerOf(t *testing.T, l Layout) *Writer {
	t.Helper()
	d, _, err := stage.Begin(disk, filepath.Join(vfstest.TempDir(t), "S"), stage.Spec{Format: Format, Params: testParams}, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	w, err := NewWriter(t.Context(), d, l, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

var sixNodes = Layout{Nodes: 6, Layers: 2, Train: 2, Valid: 1, Test: 1, BatchesPerFile: 3}

// TestCountedOnce encodes batches 0 and 1 in any order, takes one back, and encodes it again; batch 2 is not one of
// training. Append counts only batches that Encode did not.
func TestCountedOnce(t *testing.T) {
	w, b := writerOf(t, sixNodes), testBatches()
	counts := func(want ...uint32) {
		t.Helper()
		if !slices.Equal(w.hot, want) {
			t.Errorf("counts %v, want %v", w.hot, want)
		}
	}
	var e [3]Encoded
	for _, i := range []int{1, 0, 2} {
		if err := w.Encode(&e[i], i, b[i]); err != nil {
			t.Fatal(err)
		}
	}
	counts(1, 1, 1, 0, 1, 1)
	w.Discard(&e[1])
	w.Discard(&e[1])
	counts(1, 1, 0, 0, 1, 0)
	for range 2 { // the second takes the first back
		if err := w.Encode(&e[1], 1, b[1]); err != nil {
			t.Fatal(err)
		}
		counts(1, 1, 1, 0, 1, 1)
	}
	for i := range e {
		if err := w.Append(&e[i]); err != nil {
			t.Fatal(err)
		}
		w.Discard(&e[i]) // it is written
	}
	e[0].Encode(b[3])
	if err := w.Append(&e[0]); err != nil {
		t.Fatal(err)
	}
	counts(1, 1, 1, 0, 1, 1)
}

// TestCountRefuses: a node that is out of range is an error, and changes no count; a counted batch cannot be
// written as another one.
func TestCountRefuses(t *testing.T) {
	w, b := writerOf(t, sixNodes), testBatches()
	b[0].Input[1] = 6
	var e Encoded
	if err := w.Encode(&e, 0, b[0]); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("node 6 of 6: %v", err)
	}
	if slices.Max(w.hot) != 0 {
		t.Errorf("counts %v", w.hot)
	}
	if err := w.Encode(&e, 1, b[1]); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("batch 1 is written as batch 0")
		}
	}()
	_ = w.Append(&e)
}

// TestCountsOfManyGoroutines compares the counts of batches that goroutines encode, and partly take back, with counts one
// after the other.
func TestCountsOfManyGoroutines(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const nodes = 300
		inputs := rapid.SliceOfN(rapid.SliceOfN(rapid.Uint32Range(0, nodes-1), 0, 200), 1, 12).Draw(rt, "inputs")
		train := rapid.IntRange(0, len(inputs)).Draw(rt, "train")
		w, want := writerOf(t, Layout{Nodes: nodes, Layers: 1, Train: train, Valid: len(inputs) - train, BatchesPerFile: 1}), make([]uint32, nodes)
		var wait sync.WaitGroup
		errs := make([]error, len(inputs))
		for i, input := range inputs {
			back := i%3 == 0
			for _, v := range input {
				if i < train && !back {
					want[v]++
				}
			}
			b := &graph.Batch{Blocks: []graph.Block{{NumSrc: len(input), NumDst: len(input), Indptr: make([]uint32, len(input)+1)}},
				Input: input, Degree: make([]uint32, len(input)), Labels: make([]int32, len(input))}
			wait.Go(func() {
				var e Encoded
				if errs[i] = w.Encode(&e, i, b); back {
					w.Discard(&e)
				}
			})
		}
		wait.Wait()
		if err := errors.Join(errs...); err != nil || !slices.Equal(w.hot, want) {
			rt.Fatalf("%v, counts %v, want %v", err, w.hot, want)
		}
	})
}

// TestCloseFreesTheCounts: the memory of the counts ends with the writer.
func TestCloseFreesTheCounts(t *testing.T) {
	before := device.HostBytes()
	w := writerOf(t, sixNodes)
	if device.HostBytes() == before {
		t.Error("the counts take no memory outside the heap")
	}
	for range 2 {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := device.HostBytes() - before; n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// Counting allocates nothing.
func TestEncodeAllocatesNothing(t *testing.T) {
	w, b := writerOf(t, sixNodes), testBatches()
	var e Encoded
	if n := testing.AllocsPerRun(100, func() { _ = w.Encode(&e, 0, b[0]) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
