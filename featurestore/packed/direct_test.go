package packed_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore/packed"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
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
	for _, w := range []*world{small(t, "same"), small(t, "bf16"), small(t, "int8"), sharing(t)} {
		stack := &toDevice{Stack: newStack(t), gpu: gpu, landed: make(map[*iostack.Group][]landing)}
		for through := range w.reader.Index().Edges {
			w.check(t, stack, through, gpu, 0.5)
		}
		stack.damage = true
		edges := w.reader.Index().Edges
		least := budget.Size{Value: float64(edges[len(edges)-1] * int64(w.reader.Facts().RowBytes))}
		l, err := packed.Plan(w.reader, packed.PlanOptions{Cache: &least, Memory: 1 << 30, Slots: 1, GPU: gpu, GPUMemory: 1 << 30,
			GPUCache: new(budget.Size), Direct: true, MostSlots: 1})
		if err != nil {
			t.Fatal(err)
		}
		s, err := packed.Open(vfs.OS, w.reader, stack, l)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Preload(t.Context(), progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		sl, err := s.NewSlot()
		if err != nil {
			t.Fatal(err)
		}
		for i := range w.reader.Index().Train {
			err := load(t.Context(), s, sl, i)
			if l.GPUSlotBytes > 0 && w.reader.Index().Train[i].ColdRows(l.Through) > 0 && !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("a damaged chunk of %d rows of %s (%s): %v", w.reader.Index().Train[i].ColdRows(l.Through), w.reader.Facts().DType, w.reader.Form().Codec, err)
			}
		}
		sl.Free()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
