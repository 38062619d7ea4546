package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/all"
	"diskgnn/iostack/faultio"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/ranks"
	"diskgnn/train/rundir"
)

var (
	illegal  = &cuda.Fault{Why: "CUDA_ERROR_ILLEGAL_ADDRESS", Lost: true}
	refused  = &cuda.Fault{Why: "CUDA_ERROR_INVALID_VALUE"}
	noMemory = &cuda.Fault{Why: "CUDA_ERROR_OUT_OF_MEMORY", OutOfMemory: true}
)

// useFaulty makes runs use a late device that answers its call number n, counted from 0,
// with the fault. It returns all calls, in order.
func useFaulty(t *testing.T, n int, with *cuda.Fault) (use func(*parts), calls *[]string) {
	calls = new([]string)
	d := cudatest.OpenLateFaulty(t, uint64(n+1), func(call string) *cuda.Fault {
		*calls = append(*calls, call)
		if len(*calls)-1 == n {
			return with
		}
		return nil
	})
	return onDevice(d), calls
}

// onDevice makes runs use a device as --engine gpu does.
func onDevice(d *cuda.Device) func(*parts) {
	return func(p *parts) {
		p.engine = func(w engineWish) (engine.Engine, engineNeeds, error) {
			e, needs, err := newGPUEngineOn(d, w)
			return e, needs, noGPUEngine(err)
		}
	}
}

// gpuWorld is a run of a few batches with a checkpoint after every other one, and what it
// ends with.
func gpuWorld(t *testing.T) (*world, Options, ending) {
	w := newWorld(t, worldParams{nodes: 120, batch: 15, epochs: 1})
	o := w.options(w.pack(20), gpuRun, func(o *Options) { o.Epochs, o.Hidden, o.CheckpointEvery = 2, 4, rundir.Interval{Batches: 2} })
	w.mustRun(o, onDevice(cudatest.Open(t)))
	return w, o, w.ending(o.Out)
}

// resumed goes on with a run that failed, on a device that works.
func (w *world) resumed(t *testing.T, o Options, what any, want ending) {
	o.Resume = true
	if _, err := w.run(context.Background(), o, &logged{}, onDevice(cudatest.Open(t))); err != nil {
		t.Fatalf("%v, then: %v", what, err)
	}
	w.ending(o.Out).compare(t, what, want)
}

// begun tells whether a run has left a directory.
func begun(o Options) bool {
	_, err := os.Stat(o.Out)
	return err == nil
}

// Whatever the device is asked when it fails, the run says what that was and where it goes
// on, and does so to the bytes of a run on a device that works. Before there is a run, no
// directory is left.
func TestGPUFailsAnywhere(t *testing.T) {
	w, first, want := gpuWorld(t)
	o := w.fresh(first)
	use, calls := useFaulty(t, -1, nil)
	w.mustRun(o, use)
	all := slices.Clone(*calls)
	seen := make(map[string]int)
	for n, call := range all {
		// The first few of each, and some of the rest.
		if seen[call]++; seen[call] != 1 && seen[call] != 9 && n%97 != 0 {
			continue
		}
		for _, with := range []*cuda.Fault{illegal, refused} {
			if with == refused && seen[call] != 1 {
				continue
			}
			t.Run(fmt.Sprintf("%d %s", n, call), func(t *testing.T) { // whose device goes with it
				o := w.fresh(first)
				use, calls := useFaulty(t, n, with)
				_, err := w.run(context.Background(), o, &logged{}, use)
				if len(*calls) <= n {
					t.Fatalf("only %d calls of %d: %v", len(*calls), n, err)
				}
				text := message(err)
				if !errors.Is(err, fault.ErrDevice) || !strings.Contains(text, with.Why) || strings.Contains(text, "\n") {
					t.Errorf("%v", err)
				}
				if !begun(o) {
					if !strings.Contains(text, "--engine cpu needs no GPU") {
						t.Errorf("before the run: %v", err)
					}
					return
				}
				if !strings.HasSuffix(text, "with: diskgnn train --out "+o.Out+" --resume") {
					t.Errorf("%v", err)
				}
				w.unfinished(o.Out, rundir.StateFailed)
				w.resumed(t, o, call, want)
			})
		}
	}
	for _, call := range []string{"alloc", "pin", "register", "stream", "event", "cublas", "copy in", "copy out", "launch", "product", "capture", "launch graph", "wait"} {
		if seen[call] == 0 {
			t.Errorf("no run asks for %q", call)
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A kernel that fails does so while the processor waits: the error tells what was under
// way, in which batch, and the checkpoint that is left.
func TestGPUFaultMidEpoch(t *testing.T) {
	w, first, want := gpuWorld(t)
	o := w.fresh(first)
	armed := atomic.Bool{}
	d := cudatest.OpenFaulty(t, cuda.Options{}, func(call string) *cuda.Fault {
		if call == "wait" && armed.Load() {
			return illegal
		}
		return nil
	})
	steps := 0
	_, err := w.run(context.Background(), o, &logged{}, func(p *parts) {
		onDevice(d)(p)
		wrapEngine(p, func(e engine.Engine) engine.Engine {
			return &bad{Engine: e, before: func() error {
				armed.Store(steps == 3)
				steps++
				return nil
			}}
		})
	})
	text := message(err)
	for _, part := range []string{"epoch 0, batch 3: launch: GPU work (", "training step", "wait: CUDA_ERROR_ILLEGAL_ADDRESS; go on from the checkpoint after 0 of 2 epochs and 2 of 4 batches with: "} {
		if !strings.Contains(text, part) {
			t.Errorf("%s: no %q", text, part)
		}
	}
	armed.Store(false)
	w.resumed(t, o, "a kernel's fault", want)
}

// A kernel whose launch is refused is named.
func TestGPURefusesAKernel(t *testing.T) {
	w, first, want := gpuWorld(t)
	o := w.fresh(first)
	use, calls := useFaulty(t, -1, nil)
	w.mustRun(o, use)
	n := slices.Index(*calls, "launch")
	o = w.fresh(first)
	use, _ = useFaulty(t, n, refused)
	_, err := w.run(context.Background(), o, &logged{}, use)
	if text := message(err); !strings.Contains(text, "launch: gather: launch: CUDA_ERROR_INVALID_VALUE; there is no checkpoint yet: begin anew with: ") {
		t.Errorf("%v", err)
	}
	w.resumed(t, o, "a kernel refused", want)
}

// Too little memory on the device, by its size or as the driver finds it, is an error ahead
// of the run that says what takes less.
func TestGPUMemory(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120, batch: 15})
	p := w.pack(20)
	for _, call := range []string{"alloc", "pin", "cublas"} {
		o := w.options(p, gpuRun)
		d := cudatest.OpenFaulty(t, cuda.Options{}, func(c string) *cuda.Fault {
			if c == call {
				return noMemory
			}
			return nil
		})
		_, err := w.run(context.Background(), o, &logged{}, onDevice(d))
		if text := message(err); !errors.Is(err, fault.ErrBudget) || !strings.HasPrefix(text, "--engine gpu: ") || !strings.Contains(text, "CUDA_ERROR_OUT_OF_MEMORY; a smaller --hidden takes less") || begun(o) {
			t.Errorf("%s: %v", call, err)
		}
	}
	o := w.options(p, gpuRun)
	d := cudatest.OpenFaulty(t, cuda.Options{DeviceBytes: 1 << 20}, func(string) *cuda.Fault { return nil })
	_, err := w.run(context.Background(), o, &logged{}, onDevice(d))
	if text := message(err); !errors.Is(err, fault.ErrBudget) || !strings.HasPrefix(text, "--engine gpu: ") || !strings.Contains(text, " more of GPU memory: ") || !strings.Contains(text, "; a smaller --hidden") || begun(o) {
		t.Errorf("more than the device has: %v", err)
	}
}

// A read that fails in the middle of an epoch ends a run on the GPU as one on the CPU: it
// goes on from its checkpoint.
func TestGPURunAndTheDiskFails(t *testing.T) {
	w, first, want := gpuWorld(t)
	for _, c := range []struct {
		nth  int
		from string
	}{{0, "; there is no checkpoint yet: begin anew with: "}, {6, "; go on from the checkpoint after 1 of 2 epochs and 2 of 4 batches with: "}} {
		o := w.fresh(first)
		var s *faultio.Stack
		_, err := w.run(context.Background(), o, &logged{}, func(p *parts) {
			onDevice(cudatest.Open(t))(p)
			withSlots(1, 1)(p) // what is read ahead of a step is known then
			faulty(&s, faultio.On(faultio.Nth(c.nth, faultio.File("cold-*.bin")), faultio.Fail(syscall.EIO)))(p)
		})
		if text := message(err); !errors.Is(err, syscall.EIO) || !strings.Contains(text, "cold-") || !strings.Contains(text, c.from) || strings.Contains(text, "\n") {
			t.Errorf("read %d: %v", c.nth, err)
		}
		w.unfinished(o.Out, rundir.StateFailed)
		w.resumed(t, o, "a failed read", want)
	}
	// A disk that is full is no different.
	o := w.fresh(first)
	in := &vfs.FailAt{N: 30, Err: syscall.ENOSPC}
	p := parts{stack: all.Open, decide: decide.Decide, join: ranks.Join}
	onDevice(cudatest.Open(t))(&p)
	_, err := run(context.Background(), vfs.Inject(disk, in), o, &logged{}, p)
	if !in.Fired() || !errors.Is(err, syscall.ENOSPC) || !strings.HasSuffix(message(err), " --resume") {
		t.Errorf("a full disk: %v", err)
	}
	w.resumed(t, o, "a full disk", want)
}

// A signal that meets a device which has just failed is still a signal: the run goes on
// from the checkpoint before.
func TestGPUFaultUnderASignal(t *testing.T) {
	w, first, want := gpuWorld(t)
	o := w.fresh(first)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	armed := atomic.Bool{}
	d := cudatest.OpenFaulty(t, cuda.Options{}, func(call string) *cuda.Fault {
		if armed.Load() {
			return illegal
		}
		return nil
	})
	steps, log := 0, &logged{}
	_, err := w.run(ctx, o, log, func(p *parts) {
		onDevice(d)(p)
		wrapEngine(p, func(e engine.Engine) engine.Engine {
			return &bad{Engine: e, before: func() error {
				if steps++; steps == 4 {
					armed.Store(true)
					cancel()
					return ctx.Err()
				}
				return nil
			}}
		})
	})
	if !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(log.String(), "the work since the latest checkpoint is lost: ") {
		t.Errorf("%v, after\n%s", err, log)
	}
	armed.Store(false)
	w.unfinished(o.Out, rundir.StateInterrupted)
	w.resumed(t, o, "a signal", want)
}

// A step that was asked for in part is no state to go on from, whatever else ends the run.
func TestGPUSignalWithinAStep(t *testing.T) {
	w, first, want := gpuWorld(t)
	o := w.fresh(first, func(o *Options) { o.CheckpointEvery = rundir.Interval{Batches: 3} })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	steps, armed := 0, false
	d := cudatest.OpenFaulty(t, cuda.Options{}, func(call string) *cuda.Fault {
		if !armed || call != "copy out" { // of what a step has found, when it has changed the weights
			return nil
		}
		armed = false
		cancel()
		return refused
	})
	log := &logged{}
	_, err := w.run(ctx, o, log, func(p *parts) {
		onDevice(d)(p)
		wrapEngine(p, func(e engine.Engine) engine.Engine {
			return &bad{Engine: e, before: func() error {
				steps++
				armed = steps == 3
				return nil
			}}
		})
	})
	if !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(log.String(), "the work since the latest checkpoint is lost: ") {
		t.Errorf("%v, after\n%s", err, log)
	}
	w.unfinished(o.Out, rundir.StateInterrupted)
	w.resumed(t, o, "a signal within a step", want)
}
