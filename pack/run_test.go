package pack_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
)

// disk does not wait for the device: no plug is pulled here.
var disk = vfs.Unsynced(vfs.OS)

// inputs makes a dataset and samples of it.
func inputs(t *testing.T, p datasettest.Params) (ds, samples string) {
	t.Helper()
	dir := vfstest.TempDir(t)
	ds, samples = filepath.Join(dir, "D"), filepath.Join(dir, "S")
	if err := dataset.Create(disk, ds, p.Raw()); err != nil {
		t.Fatal(err)
	}
	sample(t, ds, samples, 1)
	return ds, samples
}

func sample(t *testing.T, ds, out string, seed uint64) {
	t.Helper()
	_, err := presample.Run(t.Context(), disk, presample.Options{
		Dataset: ds, Out: out, BatchSize: 2, Fanout: []int{3, 2}, Epochs: 3, Seed: seed, Workers: 2, Memory: 1 << 30,
	}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
}

// graphOf is large enough for more than one group of batches.
var graphOf = datasettest.Params{Nodes: 120, AvgDegree: 4, Dim: 9, Seed: 5}

func options(ds, samples, out string) pack.Options {
	return pack.Options{Dataset: ds, Samples: samples, Out: out, Workers: 2, Memory: 1 << 30}
}

// contents returns every file of a directory but run.json.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == stage.RunFile {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s: %s differs", what, name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d files, want %d", what, len(got), len(want))
	}
}

// TestSameBytes packs with different numbers of workers, budgets and ranges.
func TestSameBytes(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	dir := vfstest.TempDir(t)
	ref := filepath.Join(dir, "ref")
	before := device.HostBytes()
	res, err := pack.Run(t.Context(), disk, options(ds, samples, ref), progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if res.State != "new" || res.Batches <= packfile.GroupBatches(1) || res.ColdRows == 0 || res.EvalRows == 0 || res.HotRows == 0 {
		t.Fatalf("the graph does not exercise every file: %+v", res)
	}
	want := contents(t, ref)
	if held := device.HostBytes() - before; held != 0 {
		t.Errorf("%d bytes outside Go's heap are kept", held)
	}
	for _, workers := range []int{1, 2, 7} {
		for _, memory := range []int64{256 << 20, 1 << 30, 8 << 30} {
			for _, rows := range []int64{0, 1, 17} {
				o := options(ds, samples, filepath.Join(dir, "P"))
				o.Workers, o.Memory, o.RangeRows = workers, memory, rows
				if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
					t.Fatal(err)
				}
				same(t, o.Out, contents(t, o.Out), want)
				remove(t, o.Out)
			}
		}
	}
	if res, err = pack.Run(t.Context(), disk, options(ds, samples, ref), progress.Discard); err != nil || res.State != "done" {
		t.Errorf("again: state %s, %v", res.State, err)
	}
}

// TestEveryFailure fails each write operation in turn, alone and with all later
// ones, and checks that nothing passes for finished and that the next run ends
// with the same bytes.
func TestEveryFailure(t *testing.T) {
	small := graphOf
	small.Nodes = 40
	ds, samples := inputs(t, small)
	o := options(ds, samples, filepath.Join(t.TempDir(), "ref"))
	o.RangeRows = 15
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	want := contents(t, o.Out)
	resumed := 0
	for _, after := range []bool{false, true} {
		resumed += failing(t, o, want, 1, func(n int) *vfs.FailAt { return &vfs.FailAt{N: n, After: after} })
	}
	if resumed == 0 {
		t.Error("no run was resumed")
	}
}

// TestOneRowIsKept: a run that is interrupted when the first range, of one row, is durable goes on with the second.
func TestOneRowIsKept(t *testing.T) {
	small := graphOf
	small.Nodes = 40
	ds, samples := inputs(t, small)
	o := options(ds, samples, filepath.Join(t.TempDir(), "ref"))
	o.Cache, o.Bands = &budget.Size{Unit: budget.UnitPercent}, []float64{} // chunks have all rows, the first too
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	want := contents(t, o.Out)
	o.RangeRows, o.Out = 1, filepath.Join(t.TempDir(), "P")
	in := &vfs.FailAt{N: 1, Err: errors.New("boom"), Match: func(op vfs.Op, name string) bool {
		return op == vfs.OpCreate && strings.HasPrefix(filepath.Base(name), "ranges.tmp")
	}}
	if _, err := pack.Run(t.Context(), vfs.Inject(disk, in), o, progress.Discard); !errors.Is(err, in.Err) {
		t.Fatalf("not interrupted: %v", err)
	}
	res, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil || res.State != "resumed" {
		t.Fatalf("%s: %v", res.State, err)
	}
	same(t, "resumed", contents(t, o.Out), want)
}

// failing packs again and again into an empty directory, each time with the failure
// that inject makes for n = 0, step, …, until one does not happen any more. It checks
// that the failure is noticed and that the next run ends with the bytes wanted, and
// returns how many of these were resumed.
func failing(t *testing.T, o pack.Options, want map[string]string, step int, inject func(n int) *vfs.FailAt) (resumed int) {
	t.Helper()
	o.Out = filepath.Join(vfstest.TempDir(t), "P")
	for n := 0; ; n += step {
		in := inject(n)
		in.Err = errors.New("boom")
		_, err := pack.Run(t.Context(), vfs.Inject(disk, in), o, progress.Discard)
		if !in.Fired() {
			if err != nil {
				t.Fatal(err)
			}
			return resumed
		}
		if err == nil {
			t.Errorf("operation %d failed unnoticed (later ones too: %t)", n, in.After)
		}
		res, err := pack.Run(t.Context(), disk, o, progress.Discard)
		if err != nil {
			t.Fatalf("after failing operation %d (later ones too: %t): %v", n, in.After, err)
		}
		if res.State == "resumed" {
			resumed++
		}
		same(t, res.Out, contents(t, res.Out), want)
		remove(t, res.Out)
	}
}

// TestCompressedFailures fails operations on what compression writes, each with all later
// ones, and checks that the next run ends with the same bytes.
func TestCompressedFailures(t *testing.T) {
	ds, samples := inputs(t, graphOf) // more than one group
	for _, codec := range []string{packfile.CodecS2} {
		o := options(ds, samples, filepath.Join(t.TempDir(), "ref"))
		o.Compress = codec
		if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
			t.Fatal(err)
		}
		want := contents(t, o.Out)
		failing(t, o, want, 2, func(n int) *vfs.FailAt {
			return &vfs.FailAt{N: n, After: true, Match: func(op vfs.Op, name string) bool {
				base := filepath.Base(name)
				if op == vfs.OpWrite && strings.HasSuffix(base, ".raw.tmp") {
					return false // as without compression
				}
				return op != vfs.OpClose && (strings.HasPrefix(base, "compress") || strings.HasPrefix(base, "cold-"))
			}}
		})
	}
}

// TestCodecIsKept measures once: whatever codec a pack has, auto finds it done.
func TestCodecIsKept(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	for _, codec := range []string{packfile.CodecNone, packfile.CodecS2, packfile.CodecZstd} {
		o := options(ds, samples, filepath.Join(t.TempDir(), "P"))
		o.Compress = codec
		if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
			t.Fatal(err)
		}
		o.Compress = pack.CompressAuto
		if res, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil || res.State != "done" || res.Codec != codec {
			t.Errorf("%s: %s of codec %s, %v", codec, res.State, res.Codec, err)
		}
	}
	o := options(ds, samples, filepath.Join(t.TempDir(), "P"))
	o.Compress = pack.CompressAuto
	first, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil || res.State != "done" || res.Codec != first.Codec {
		t.Errorf("auto again: %s of codec %s, %v", res.State, res.Codec, err)
	}
}

// TestTouched removes, cuts and changes each file that an interrupted run left.
func TestTouched(t *testing.T) {
	small := graphOf
	small.Nodes = 40
	ds, samples := inputs(t, small)
	o := options(ds, samples, filepath.Join(t.TempDir(), "ref"))
	o.RangeRows = 15
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	want := contents(t, o.Out)
	// All rows are written, nothing is committed.
	interrupted := func(t *testing.T) []string {
		o.Out = filepath.Join(t.TempDir(), "P")
		boom := errors.New("boom")
		in := &vfs.FailAt{Err: boom, Match: func(op vfs.Op, name string) bool { return op == vfs.OpCreate && filepath.Base(name) == stage.RunFile }}
		if _, err := pack.Run(t.Context(), vfs.Inject(disk, in), o, progress.Discard); !errors.Is(err, boom) {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(o.Out + ".partial")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	type touch struct {
		what string
		do   func(string) error
	}
	removed := touch{"removed", os.Remove}
	cut := touch{"cut", func(name string) error { return os.Truncate(name, 5) }}
	changed := touch{"changed", func(name string) error {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		b[len(b)/2] ^= 1
		return os.WriteFile(name, b, 0o666)
	}}
	for _, o.Compress = range []string{packfile.CodecNone, packfile.CodecZstd} {
		if o.Compress != packfile.CodecNone {
			o.Out, o.Force = filepath.Join(t.TempDir(), "ref"), false
			if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
				t.Fatal(err)
			}
			want = contents(t, o.Out)
		}
		for _, name := range interrupted(t) {
			if o.Compress != packfile.CodecNone && !strings.HasPrefix(name, "cold-") && !strings.HasPrefix(name, "compress") {
				continue // as without compression
			}
			touches := []touch{removed, cut}
			if strings.HasSuffix(name, ".tmp") {
				touches = append(touches, changed) // other files have checksums that their readers check
			}
			for _, touch := range touches {
				interrupted(t)
				if err := touch.do(filepath.Join(o.Out+".partial", name)); err != nil {
					t.Fatal(err)
				}
				_, err := pack.Run(t.Context(), disk, o, progress.Discard)
				if err == nil {
					same(t, name+" "+touch.what, contents(t, o.Out), want)
					continue
				}
				says := name
				if name == "journal.json" {
					says = "not this program's" // what is there could be anybody's
				}
				if name == "compress.tmp" && touch.what == "removed" {
					says = "raw.tmp" // begun anew, without what was compressed already
				}
				if !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "remove ") {
					t.Errorf("%s %s: %v", name, touch.what, err)
				}
				if _, err := os.Stat(o.Out); err == nil {
					t.Errorf("%s %s: published", name, touch.what)
				}
			}
		}
	}
}

// TestScratch changes spilled hot rows between their writing and their reading.
func TestScratch(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	for _, at := range []int{0, 3, 4, 100} {
		o := options(ds, samples, filepath.Join(t.TempDir(), "P"))
		o.RangeRows = 15
		spill := filepath.Join(o.Out+".partial", "hot-00001.tmp")
		damaged := false
		in := &vfs.FailAt{N: -1, Match: func(op vfs.Op, name string) bool {
			if op != vfs.OpOpen || name != spill || damaged {
				return false
			}
			b, err := os.ReadFile(name)
			if err != nil {
				t.Error(err)
				return false
			}
			damaged = true
			b[at] ^= 0x40
			if err := os.WriteFile(name, b, 0o666); err != nil {
				t.Error(err)
			}
			return false
		}}
		_, err := pack.Run(t.Context(), vfs.Inject(disk, in), o, progress.Discard)
		if !damaged || !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "hot-00001.tmp") {
			t.Errorf("byte %d, damaged %t: %v", at, damaged, err)
		}
	}
}

func TestCancel(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	o := options(ds, samples, filepath.Join(t.TempDir(), "P"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pack.Run(ctx, disk, o, progress.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := os.Stat(o.Out); err == nil {
		t.Error("a cancelled run left a directory")
	}
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	other, _ := inputs(t, datasettest.Params{Nodes: 120, AvgDegree: 4, Dim: 9, Seed: 6})
	half, halfSamples := inputs(t, datasettest.Params{Nodes: 50, AvgDegree: 4, Dim: 9, DType: dtype.Float16})
	size := func(s string) *budget.Size {
		v, err := budget.ParseSize(s)
		if err != nil {
			t.Fatal(err)
		}
		return &v
	}
	for name, c := range map[string]struct {
		change func(o *pack.Options)
		kind   error
		says   string
	}{
		"another dataset":     {func(o *pack.Options) { o.Dataset = other }, fault.ErrLineage, other},
		"no dataset":          {func(o *pack.Options) { o.Dataset = "absent" }, fault.ErrInput, "absent"},
		"samples for dataset": {func(o *pack.Options) { o.Dataset = samples }, fault.ErrInput, "not a dataset"},
		"no samples":          {func(o *pack.Options) { o.Samples = "absent" }, fault.ErrInput, "absent"},
		"no policy":           {func(o *pack.Options) { o.Policy = "lru" }, fault.ErrUsage, "--policy lru is not one of static, min"},
		"bands under min":     {func(o *pack.Options) { o.Policy, o.Bands = "min", []float64{7} }, fault.ErrUsage, "--bands"},
		"disk budget of min":  {func(o *pack.Options) { o.Policy, o.MaxDisk = "min", size("1KiB") }, fault.ErrBudget, "--max-disk allows 1.0 KiB; allow more than that"},
		"disk budget of int4": {func(o *pack.Options) { o.DType, o.MaxDisk = "int4", size("1KiB") }, fault.ErrBudget, "allow that, or presample fewer"},
		"no codec":            {func(o *pack.Options) { o.Compress = "lz4" }, fault.ErrUsage, "--compress-chunks lz4 is not one of auto, none, s2, zstd"},
		"no backend":          {func(o *pack.Options) { o.IO = "tape" }, fault.ErrUsage, "tape"},
		"wider":               {func(o *pack.Options) { o.Dataset, o.Samples, o.DType = half, halfSamples, "float32" }, fault.ErrUsage, "wider"},
		"unknown type":        {func(o *pack.Options) { o.DType = "complex" }, fault.ErrUsage, "--dtype complex: unknown; use same, bf16, fp16, int8 or int4"},
		"a band":              {func(o *pack.Options) { o.Bands = []float64{0} }, fault.ErrUsage, "--bands"},
		"cache":               {func(o *pack.Options) { o.Cache = size("3x") }, fault.ErrUsage, "--cache"},
		"disk budget":         {func(o *pack.Options) { o.MaxDisk = size("1KiB") }, fault.ErrBudget, "--max-disk"},
		"a share of a disk":   {func(o *pack.Options) { o.MaxDisk = size("10%") }, fault.ErrUsage, "--max-disk"},
		"memory":              {func(o *pack.Options) { o.Memory = 1 << 20 }, fault.ErrBudget, "memory"},
		"no place":            {func(o *pack.Options) { o.Out = "run_test.go/P" }, fault.ErrUsage, "run_test.go"},
	} {
		o := options(ds, samples, filepath.Join(t.TempDir(), "P"))
		c.change(&o)
		_, err := pack.Run(t.Context(), disk, o, progress.Discard)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want a %q error that says %q", name, err, c.kind, c.says)
		}
		if left, err := filepath.Glob(o.Out + "*"); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

// TestBeyond packs a feature that is finite, yet not as the narrower type.
func TestBeyond(t *testing.T) {
	raw := graphOf.Raw()
	dir := t.TempDir()
	ds, samples := filepath.Join(dir, "D"), filepath.Join(dir, "S")
	binio.View[float32](raw.Features)[57*raw.Dim+3] = -65520
	if err := dataset.Create(disk, ds, raw); err != nil {
		t.Fatal(err)
	}
	sample(t, ds, samples, 1)
	o := options(ds, samples, filepath.Join(dir, "P"))
	o.DType = "fp16"
	_, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "features.bin: feature 3 of node 57 is more than float16 holds") {
		t.Error(err)
	}
	if _, err := os.Stat(o.Out); err == nil {
		t.Error("a pack with an infinite feature was published")
	}
	o.DType = "bf16"
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "--dtype was float16, now bfloat16") {
		t.Errorf("the graphs packed for another dtype were discarded unasked: %v", err)
	}
	o.Force = true
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
		t.Error(err)
	}
}

// TestDamagedInput changes a byte in the middle of every input file.
func TestDamagedInput(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	for _, name := range []string{filepath.Join(ds, dataset.FeaturesFile), filepath.Join(samples, "batches-00000.bin"), filepath.Join(samples, "hotness.bin"), filepath.Join(samples, "index.bin")} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bad := append([]byte(nil), b...)
		bad[len(bad)/2] ^= 4
		if err := os.WriteFile(name, bad, 0o666); err != nil {
			t.Fatal(err)
		}
		o := options(ds, samples, filepath.Join(t.TempDir(), "P"))
		_, err = pack.Run(t.Context(), disk, o, progress.Discard)
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), filepath.Base(name)) {
			t.Errorf("%s damaged: %v", name, err)
		}
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
