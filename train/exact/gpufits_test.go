package exact

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack/all"
	"diskgnn/train/decide"
)

// Layers that do not fit on the GPU are the CPU's where the choice is open: with its bits, a note, the same memory, and
// shards that the CPU makes, also again. A named GPU is refused.
func TestAutoTakesTheCPUWhereLayersDoNotFit(t *testing.T) {
	w := newWorld(t, vfstest.TempDir(t), datasettest.Params{Nodes: 40, AvgDegree: 3, Dim: 4, Classes: 2, Seed: 1}.Raw(), 3)
	d := cudatest.Open(t)
	want, byCPU := w.predict(t, PredictOptions{}, 0)
	_, least := w.roomOnGPU(t, d)
	o := PredictOptions{Options: w.options(), Out: w.path("out.npy"), Force: true}
	o.Engine = decide.EngineAuto
	with := parts{stack: all.Open, gpu: d, gpuRoom: least - 1}
	lines := &heard{Reporter: progress.Discard}
	p, err := predict(t.Context(), disk, o, lines, with)
	check(t, err)
	got, _ := readNPY(t, o.Out)
	if !slices.Equal(binio.Bytes(got), binio.Bytes(want)) || p.Engine != decide.EngineCPU || p.BLAS != byCPU.BLAS {
		t.Errorf("%+v", p.Outcome)
	}
	const note = "the GPU is not used: layer "
	if !slices.ContainsFunc(lines.lines, func(l string) bool {
		return strings.HasPrefix(l, note) && strings.Contains(l, "of the GPU's memory, but ")
	}) {
		t.Errorf("%q", lines.lines)
	}
	planned := func(with parts) (plan Plan, fixed int64) {
		j := &job{fs: vfs.ReadOnly(disk), options: o.Options, report: progress.Discard, parts: with, scores: true}
		j.options.EnsureDefaults()
		plan, err := j.planned(t.Context(), func(ctx context.Context) (int64, error) {
			_, err := j.examine(ctx, j.decide)
			return 0, err
		})
		check(t, err)
		return plan, j.fixed
	}
	plan, fixed := planned(with)
	if plan.Engine != decide.EngineCPU || !strings.HasPrefix(plan.Note, note) || plan.Layers[0].GPUBytes != 0 {
		t.Errorf("%+v", plan)
	}
	o.Engine = decide.EngineCPU
	if cpu, never := planned(with); cpu.Note != "" || fixed != never || cpu.MemoryBytes != plan.MemoryBytes {
		t.Errorf("%d bytes are held at all times, without a GPU %d; %d and %d at most", fixed, never, plan.MemoryBytes, cpu.MemoryBytes)
	}
	for _, state := range []string{"new", "done"} {
		for i, engine := range []string{decide.EngineAuto, decide.EngineCPU} {
			o := PredictOptions{Options: w.options(), Out: w.path("p" + engine + ".npy"), Shard: shard.Shard{Index: 0, Count: 2}}
			o.Engine = engine
			p, err := predict(t.Context(), disk, o, progress.Discard, with)
			if check(t, err); p.State != state || p.Rows != 20 {
				t.Errorf("%s %d: %+v", engine, i, p)
			}
		}
	}
	same(t, "a shard", contents(t, w.path("pauto.npy.shard-0-of-2"), "rows"), contents(t, w.path("pcpu.npy.shard-0-of-2"), "rows"))
	o.Engine = decide.EngineGPU
	if _, err := predict(t.Context(), disk, o, progress.Discard, with); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "--engine cpu needs no GPU") {
		t.Errorf("%v", err)
	}
	with.gpuRoom = least
	p, err = predict(t.Context(), disk, o, progress.Discard, with)
	if check(t, err); p.Engine != decide.EngineGPU {
		t.Errorf("%+v", p.Outcome)
	}
	if device, pinned := d.Held(); device != 0 || pinned != 0 {
		t.Errorf("%d bytes of the GPU and %d pinned were not given back", device, pinned)
	}
	// A file is finished for the engine that made it, or where the engine is open.
	for engine, done := range map[string]bool{decide.EngineGPU: true, decide.EngineCPU: false, decide.EngineAuto: true} {
		o := PredictOptions{Options: w.options(), Out: o.Out}
		if o.Engine, o.BLAS = engine, ""; engine == decide.EngineCPU {
			o.BLAS = "auto"
		}
		if was, err := Finished(t.Context(), disk, o); err != nil || (was != nil) != done {
			t.Errorf("made by the GPU, for %s: %v, %v", engine, was, err)
		}
	}
	w.predict(t, PredictOptions{}, 0)
	for engine, done := range map[string]bool{decide.EngineGPU: false, decide.EngineCPU: true, decide.EngineAuto: true} {
		o := PredictOptions{Options: w.options(), Out: o.Out}
		o.Engine = engine
		if was, err := Finished(t.Context(), disk, o); err != nil || (was != nil) != done {
			t.Errorf("made by the CPU, for %s: %v, %v", engine, was, err)
		}
	}
}

// heard collects lines.
type heard struct {
	progress.Reporter
	lines []string
}

func (h *heard) Logf(format string, args ...any) {
	h.lines = append(h.lines, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// An interrupted shard leaves nothing, as it says.
func TestInterruptedShardLeavesNothing(t *testing.T) {
	w := smallWorld(t)
	for n, stopped := 0, 0; ; n++ {
		o := PredictOptions{Options: w.options(), Out: w.path("out.npy"), Shard: shard.Shard{Index: 0, Count: 2}}
		ctx, cancel := context.WithCancelCause(t.Context())
		seen := 0
		_, err := predict(ctx, vfs.Inject(disk, watch(func(op vfs.Op, name string) error {
			if seen++; seen == n+1 {
				cancel(errors.New("interrupt signal received"))
			}
			return nil
		})), o, progress.Discard, parts{stack: all.Open})
		cancel(nil)
		if seen <= n {
			if stopped < 10 {
				t.Errorf("interrupted %d times", stopped)
			}
			return
		}
		if err == nil {
			check(t, os.RemoveAll(w.path("out.npy.shard-0-of-2")))
			continue
		}
		stopped++
		if _, left := os.Stat(w.path("out.npy.shard-0-of-2.partial")); left == nil || !strings.Contains(err.Error(), "nothing was kept") {
			t.Errorf("operation %d: %v, a directory stays: %t", n, err, left == nil)
		}
	}
}
