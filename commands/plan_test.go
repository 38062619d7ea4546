package commands

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"diskgnn/dataset/importer"
	"diskgnn/internal/dtype"
	"diskgnn/pack"
	"diskgnn/pack/cut"
	"diskgnn/presample"
	"diskgnn/train"
	"diskgnn/train/exact"
)

// hugePlan has the longest figures that can be expected.
func hugePlan() cut.Plan {
	c := cut.Choice{DType: string(dtype.BFloat16), CacheRows: 1_234_567_890, HotRows: 1 << 30, Segment: 12345, DiskBytes: 990 << 30, Blowup: 123.45,
		RAMBytes: 990 << 30, EpochBytes: 990 << 30, Amplification: 12.34, EpochSeconds: 1485, BytesRead: 990 << 30, BytesWritten: 990 << 30,
		Seconds: 123456, BreakEven: 12345.6, MaxDisk: 990 << 30}
	return cut.Plan{Nodes: 1 << 33, FreeBytes: 989 << 30, Chosen: c, Choices: []cut.Choice{c, c}, Recommended: 1, Why: strings.Repeat("for reasons ", 20),
		Drive: cut.Drive{Backend: "uring", Sequential: 9.99e9, Write: 9.99e9, Pages: 9_999_999, Seconds: 123.4, Drained: 123.4}}
}

// Plans fit in 80 columns, but for commands to be copied.
func TestPlansFit(t *testing.T) {
	outcomes := map[string]outcome{
		"pack":      packPlan(pack.Options{Dataset: "d", Samples: "s", Out: "p", DType: pack.DTypeSame}, hugePlan()),
		"presample": {lines: samplesPlan(presample.Plan{Epochs: 1000, TrainBatches: 1_234_567, ValidBatches: 12_345, TestBatches: 12_345, Measured: 3, InputNodes: 12_345_678, Edges: 123_456_789, BatchBytes: 1 << 30, Workers: 128, MemoryBytes: 1 << 40, DiskBytes: 1 << 45, FreeBytes: 1 << 44, EpochSeconds: 1e5, Seconds: 1e6, VerifySeconds: 1e4}, 1<<40)},
		"predict": inferencePlan(exact.Plan{MemoryBytes: 1023 << 30, DiskBytes: 1 << 45, FreeBytes: 1 << 44, BytesRead: 1 << 50, FeatureBytes: 1 << 34,
			Layers: []exact.LayerPlan{{Nodes: 1_234_567_890, Ranges: 1_234_567, BytesRead: 1 << 45, Seconds: 1e7, ReadSeconds: 1e7, ComputeSeconds: 1e7, WriteSeconds: 1e7}}, Seconds: 1e7, ReadRate: 9.99e9, Engine: "gpu"}, 1<<40),
		"train": runPlan(train.Plan{Store: "gnndrive", Engine: "gpu", Epochs: 1000, BatchesPerEpoch: 1_234_567, Measured: 3, Slots: 6, MemoryBytes: 1023 << 30, CacheBytes: 1023 << 30, GPUBytes: 1 << 37, DiskBytes: 1 << 45, FreeBytes: 1 << 44,
			PreloadBytes: 1 << 45, PreloadSeconds: 1e4, EpochBytes: 1 << 45, EpochSeconds: 1e5, ValidSeconds: 1e4, Bound: "read features", Seconds: 1e7, EmptyCache: true,
			Links: []train.LinkSeconds{{Link: "load graph", Seconds: 0.999}, {Link: "read features", Seconds: 0.999}, {Link: "assemble", Seconds: 0.999}, {Link: "compute", Seconds: 0.999}}}, 1<<40),
	}
	for name, o := range outcomes {
		o.next = ""
		var out strings.Builder
		o.human(&out)
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
	}
}

// Lines break between items alone.
func TestInLines(t *testing.T) {
	items := []string{"load graph 999 µs", "launch 763 µs", "compute 1 ms"}
	for width, want := range map[int]string{
		80: "load graph 999 µs, launch 763 µs, compute 1 ms",
		46: "load graph 999 µs, launch 763 µs, compute 1 ms",
		45: "load graph 999 µs, launch 763 µs,|compute 1 ms",
		20: "load graph 999 µs,|launch 763 µs,|compute 1 ms",
		1:  "load graph 999 µs,|launch 763 µs,|compute 1 ms",
	} {
		if got := strings.Join(inLines(items, width), "|"); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
	if got := inLines(nil, 80); got != nil {
		t.Errorf("of nothing: %q", got)
	}
}

// Of rates that were measured briefly nobody may think that the drive keeps them up.
func TestPlanSaysHowItMeasured(t *testing.T) {
	for _, c := range []struct {
		drive cut.Drive
		want  string
	}{
		{cut.Drive{Direct: true, Seconds: 0.5}, "measured  briefly, for 500 ms: a drive that was idle may exceed its sustained rate\ndisk"},
		{cut.Drive{Direct: true, Seconds: 3, Drained: 2}, "measured  for 3.00 s each, after 2.00 s of load\ndisk"},
		{cut.Drive{Seconds: 3, Drained: 2}, "measured  for 3.00 s each, after 2.00 s of load\n          through the page cache, which may have served the reads\ndisk"},
	} {
		var out strings.Builder
		o := packPlan(pack.Options{}, cut.Plan{Drive: c.drive, Chosen: cut.Choice{DiskBytes: 2 << 20, Blowup: 1.5}, FreeBytes: 1 << 20, Recommended: cut.None})
		o.human(&out)
		if !strings.Contains(out.String(), c.want) || !strings.Contains(out.String(), "\ndisk      2.0 MiB, but only 1.0 MiB is free\nblow-up   1.50 times the features\n") {
			t.Errorf("%+v: %s", c.drive, &out)
		}
	}
}

// The command that is printed makes the recommended choice.
func TestPlanIsCopied(t *testing.T) {
	same := cut.Choice{DType: "float32", CacheRows: 100, Segment: 1}
	for _, c := range []struct {
		o      pack.Options
		choice cut.Choice
		codec  string
		want   string
	}{
		{pack.Options{DType: pack.DTypeSame}, same, "none", " --cache 10%"},
		{pack.Options{DType: "float32"}, same, "none", " --cache 10% --dtype float32"},
		{pack.Options{DType: pack.DTypeSame}, cut.Choice{DType: "int8", CacheRows: 123, Segment: 1}, "zstd", " --cache 12.3% --dtype int8 --compress-chunks zstd"},
		{pack.Options{DType: pack.DTypeSame}, cut.Choice{DType: "float32", CacheRows: 333, Segment: 4, MaxDisk: 5<<10 + 1}, "none", " --cache 33.3% --max-disk 6KiB"},
	} {
		c.o.Dataset, c.o.Samples, c.o.Out = "d", "s", "a p"
		p := cut.Plan{Nodes: 1000, Chosen: same, Choices: []cut.Choice{c.choice}}
		p.Params.Codec = c.codec
		if got, want := packPlan(c.o, p).next, "diskgnn pack --dataset d --samples s --out 'a p'"+c.want; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A line of a run's plan ends between links, not between a figure and its unit.
func TestRunPlanBreaksLines(t *testing.T) {
	links := []train.LinkSeconds{{Link: "load graph", Seconds: 103e-6}, {Link: "read features", Seconds: 2e-6}, {Link: "assemble", Seconds: 51e-6}, {Link: "compute", Seconds: 138e-6}}
	var got []string
	for _, l := range runPlan(train.Plan{Links: links}, 0).lines {
		if strings.Contains(l.text, "compute") || strings.Contains(l.text, "assemble") {
			got = append(got, l.text)
		}
	}
	want := []string{"load graph 103 µs, read features 2 µs, assemble 51 µs,", "compute 138 µs"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The plan of an import in lines: each thing that is known of it, and of names no control characters.
func TestImportPlan(t *testing.T) {
	p := importer.Plan{
		Format: "snap", SourceBytes: 2048, Nodes: 1234, Edges: 5678, Dim: 8, SourceDType: dtype.Float16, DType: dtype.Float32,
		LabelKind: "class", Classes: 3, Train: 10, Valid: 20, Test: 30, Unlabelled: 1174,
		MemoryBytes: 3 << 20, ScratchBytes: 1 << 10, DiskBytes: 5 << 10, NeededBytes: 7 << 10,
	}
	want := []line{
		{"source", "snap, 2.0 KiB"},
		{"graph", "1,234 nodes, at most 5,678 edges"},
		{"features", "8 × float32, read as float16"},
		{"labels", "3 classes, 1,174 nodes unlabelled"},
		{"splits", "10 train, 20 validation, 30 test"},
		{"memory", "3.0 MiB at least"},
		{"disk", "5.0 KiB, 7.0 KiB during the import, of which 1.0 KiB to sort edges"},
	}
	same := func(what string) {
		t.Helper()
		if got := importPlan(p).lines; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	same("exact")
	p.Estimated, want[1].text = true, "1,234 nodes, at most about 5,678 edges"
	same("estimated")
	plain := slices.Clip(want)
	p.OriginalIDs, want = "number", append(plain, line{"ids", "nodes are renumbered; the dataset keeps the numbers of the source"})
	same("numbers")
	p.OriginalIDs, want = "name", append(plain, line{"ids", "nodes have names, which the dataset keeps"})
	same("names")
	p.Notes, p.Problems = []string{"a\x1bb", "c"}, []string{"d\ne"}
	want = append(want, line{"note", `a\x1bb`}, line{"note", "c"}, line{"problem", "d; e"})
	same("notes and problems")
	p, want = importer.Plan{Format: "pyg", Problems: []string{"e"}}, []line{{"source", "pyg"}, {"problem", "e"}}
	same("a source that cannot be read")
}
