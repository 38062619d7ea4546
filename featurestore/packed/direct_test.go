package packed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore/packed"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	"diskgnn/pack"
	"diskgnn/presample"
)

// toDevice is a stack whose reads may land in a device's memory, through the host's.
type toDevice struct {
	iostack.Stack
	gpu    *cuda.Device
	landed map[*iostack.Group][]landing
	damage bool // flip a bit of every chunk on its way
}

type landing struct {
	at  cuda.Buffer
	mem []byte
}

func (s *toDevice) Caps() iostack.Caps {
	c := s.Stack.Caps()
	c.Device = true
	return c
}

func (s *toDevice) Submit(g *iostack.Group, reqs []iostack.Request) error {
	reqs = slices.Clone(reqs)
	for i := range reqs {
		if r := &reqs[i]; r.Device.Bytes() > 0 {
			r.Buf = make([]byte, r.Device.Bytes())
			s.landed[g] = append(s.landed[g], landing{r.Device, r.Buf})
			r.Device = cuda.Buffer{}
		}
	}
	return s.Stack.Submit(g, reqs)
}

func (s *toDevice) Wait(ctx context.Context, g *iostack.Group) error {
	err := s.Stack.Wait(ctx, g)
	detach, attached := s.gpu.Attach()
	if err = errors.Join(err, attached); err != nil {
		return err
	}
	defer detach()
	stream, err := s.gpu.NewStream()
	if err != nil {
		return err
	}
	defer stream.Free()
	for _, l := range s.landed[g] {
		if s.damage {
			l.mem[len(l.mem)/2] ^= 4
		}
		err = errors.Join(err, stream.CopyIn(l.at, l.mem), stream.Synchronize())
	}
	delete(s.landed, g)
	return err
}

// Chunks that are read into the GPU's memory give the same matrices, and are checked
// there.
func TestDirect(t *testing.T) {
	gpu := cudatest.Open(t)
	whole := build(t, t.TempDir(), datasettest.Params{Nodes: 90, AvgDegree: 4, Dim: 40, Seed: 3}.Raw(), // one cache has all rows
		presample.Options{BatchSize: 6, Fanout: []int{3, 3}, Memory: 1 << 30, Workers: 1},
		pack.Options{Cache: &budget.Size{Value: 10, Unit: budget.UnitPercent}, Bands: []float64{100}, Memory: 1 << 30, Workers: 1})
	t.Cleanup(whole.close)
	for _, w := range []*world{small(t, "same"), small(t, "bf16"), small(t, "int8"), sharing(t), whole} {
		stack := &toDevice{Stack: newStack(t), gpu: gpu, landed: make(map[*iostack.Group][]landing)}
		for through := range w.reader.Index().Edges {
			w.check(t, stack, through, gpu, 0.5)
		}
		stack.damage = true
		l, err := packed.Plan(w.reader, packed.PlanOptions{Cache: leastCache(w), Memory: 1 << 30, Slots: 1, GPU: gpu, GPUMemory: 1 << 30,
			GPUCache: new(budget.Size), Direct: true, MostSlots: 1})
		if err != nil {
			t.Fatal(err)
		}
		if direct := l.GPUSlotBytes > 0; direct == w.reader.Form().Compressed() {
			t.Fatalf("chunks of codec %q are read into the GPU's memory: %t", w.reader.Form().Codec, direct)
		}
		s := w.open(t, stack, l)
		_, err = s.Preload(t.Context(), progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		sl := newSlot(t, s)
		for i := range w.reader.Index().Train {
			err := load(t.Context(), s, sl, i)
			tr := &w.reader.Index().Train[i]
			if l.GPUSlotBytes == 0 || tr.ColdRows(l.Through) == 0 {
				continue
			}
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("a damaged chunk of %d rows of %s: %v", tr.ColdRows(l.Through), w.reader.Facts().DType, err)
			}
			var from, to int64
			_, where, _ := strings.Cut(err.Error(), ": bytes ")
			if _, e := fmt.Sscanf(where, "%d to %d", &from, &to); e != nil {
				t.Fatal(err, e)
			}
			if at := tr.ChunkOffset + tr.Extent(w.reader.Form(), l.Through)/2; at < from || at >= to {
				t.Errorf("byte %d is damaged: %v", at, err)
			}
		}
		sl.Free()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
