package train

import (
	"context"
	"errors"
	"testing"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore/packed"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/pack/packfile"
	"diskgnn/train/engine"
)

// TestOneDevice: the storage stack and the engine of a run get the same device.
func TestOneDevice(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150})
	d := cudatest.Open(t)
	o := w.options(w.pack(20), func(o *Options) { o.Engine, o.Epochs = EngineGPU, 1 })
	var stacks, engines device.GPU
	g := &gpuDevice{device: d, stacks: func(kind string, o iostack.Options) (s iostack.Stack, how string, err error) {
		if stacks, err = o.Device(); err != nil {
			return nil, "", err
		}
		return all.Open(kind, o)
	}}
	_, err := w.run(context.Background(), o, progress.Discard, func(p *parts) {
		p.stack = g.openStack
		p.engine = func(w engineWish) (engine.Engine, engineNeeds, error) {
			e, needs, err := g.newEngine(w)
			if err == nil {
				engines = needs.gpu
			}
			return e, needs, err
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if stacks != d || engines != d {
		t.Errorf("the stack has %p, the engine %p, want %p", stacks, engines, d)
	}
}

// TestDeviceIsGivenBack: a device that only the engine would have used is closed when the
// engine cannot be made; one that the stack reads into stays open.
func TestDeviceIsGivenBack(t *testing.T) {
	for _, shared := range []bool{false, true} {
		opened := 0
		g := gpuDevice{from: func(int, cuda.Options) (*cuda.Device, error) {
			opened++
			return cudatest.OpenFaulty(t, cuda.Options{}, func(call string) *cuda.Fault {
				if call == "alloc" {
					return &cuda.Fault{Why: "none left", OutOfMemory: true}
				}
				return nil
			}), nil
		}}
		if shared {
			if _, err := g.open(); err != nil {
				t.Fatal(err)
			}
		}
		w := newWorld(t, worldParams{nodes: 150})
		p := w.pack(20)
		r, err := packfile.Open(disk, p)
		if err != nil {
			t.Fatal(err)
		}
		facts := *packed.Facts(r)
		o := w.options(p, func(o *Options) { o.Engine = EngineGPU })
		o.EnsureDefaults()
		if err := o.resolve(facts, false); err != nil {
			t.Fatal(err)
		}
		if _, _, err = g.newEngine(o.wish(&facts, false)); !errors.Is(err, fault.ErrBudget) {
			t.Errorf("an engine of no memory: %v", err)
		}
		if open := g.device != nil; open != shared || opened != 1 {
			t.Errorf("shared %v: open %v, after %d times", shared, open, opened)
		}
	}
}
