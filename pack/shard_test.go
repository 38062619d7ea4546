package pack_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
)

// merge makes the whole of shards.
func merge(fsys vfs.FS, t *testing.T, out string, dirs []string) (shard.Result, error) {
	return shard.Merge(t.Context(), fsys, shard.Options{
		Out: out, Shards: dirs, Formats: map[stage.Format]shard.Assemble{packfile.Format: packfile.Merge, packfile.MultiLabelFormat: packfile.Merge, packfile.TypedFormat: packfile.Merge},
	}, progress.Discard)
}

// packShards packs n shards, each with other workers, memory and ranges.
func packShards(t *testing.T, o pack.Options, n int) (dirs []string) {
	t.Helper()
	for i := range n {
		o.Shard = shard.Shard{Index: i, Count: n}
		o.Workers, o.Memory, o.RangeRows = 1+i%3, 256<<20<<(i%4), []int64{17, 0, 50}[i%3]
		res, err := pack.Run(t.Context(), disk, o, progress.Discard)
		if err != nil {
			t.Fatalf("shard %v: %v", o.Shard, err)
		}
		r, err := packfile.OpenShard(disk, res.Out)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Verify(t.Context(), disk, progress.Discard); err != nil {
			t.Error(err)
		}
		if d := r.Describe(); d.Batches != res.Batches || d.DiskBytes != res.DiskBytes {
			t.Errorf("described as %+v, packed as %+v", d, res)
		}
		dirs = append(dirs, res.Out)
	}
	return dirs
}

// groupsOf is large enough for two or three groups of batches, with rows that are worth sharing.
var groupsOf = datasettest.Params{Nodes: 200, AvgDegree: 4, Dim: 300, Seed: 5}

func TestShardsOfMultiLabelBatches(t *testing.T) {
	p := groupsOf
	p.MultiLabel, p.Classes = true, 20
	inShards(t, p, packfile.MultiLabelFormat)
}

func TestShardsOfTypedBatches(t *testing.T) {
	p := groupsOf
	p.Typed, p.Nodes = true, 400
	inShards(t, p, packfile.TypedFormat)
}

// inShards packs in two shards, and compares the merged pack with one that a single run packs.
func inShards(t *testing.T, p datasettest.Params, format stage.Format) {
	t.Helper()
	ds, samples := inputs(t, p)
	o := options(ds, samples, filepath.Join(vfstest.TempDir(t), "P"))
	whole, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := contents(t, o.Out)
	o.Out = filepath.Join(vfstest.TempDir(t), "P")
	if res, err := merge(disk, t, o.Out, packShards(t, o, 2)); err != nil || res.Fingerprint != whole.Fingerprint {
		t.Fatalf("%+v, %v", res, err)
	}
	same(t, "2 shards", contents(t, o.Out), want)
	if m, err := stage.ReadMeta(disk, o.Out, "pack"); err != nil || m.Format != format {
		t.Errorf("%v, %v", m.Format, err)
	}
}

// TestShards packs in shards what one run packs, and merges them.
func TestShards(t *testing.T) {
	ds, samples := inputs(t, groupsOf)
	for name, change := range map[string]func(o *pack.Options){
		"static":   func(*pack.Options) {},
		"max-disk": func(o *pack.Options) { o.MaxDisk = &budget.Size{Value: 3_400_000} },
		"min":      func(o *pack.Options) { *o = minOptions(ds, samples, o.Out) },
		"int8":     func(o *pack.Options) { o.DType = "int8" },
		"int4":     func(o *pack.Options) { o.DType = "int4" },
		"s2":       func(o *pack.Options) { o.Compress = packfile.CodecS2 },
		"all hot":  func(o *pack.Options) { o.Cache = &budget.Size{Value: 100, Unit: budget.UnitPercent} },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(ds, samples, filepath.Join(vfstest.TempDir(t), "P"))
			change(&o)
			whole, err := pack.Run(t.Context(), disk, o, progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			want := contents(t, o.Out)
			if name == "max-disk" && whole.SSDRows == 0 || want[packfile.GraphFile(1)] == "" {
				t.Fatalf("no rows are shared, or there is one group: %+v", whole)
			}
			for _, n := range []int{1, 2, 5} { // of the last, some have no group
				o.Out = filepath.Join(vfstest.TempDir(t), "P")
				dirs := packShards(t, o, n)
				slices.Reverse(dirs)
				res, err := merge(disk, t, o.Out, dirs)
				if err != nil || res.Fingerprint != whole.Fingerprint {
					t.Fatalf("%d shards: %+v, %v", n, res, err)
				}
				same(t, fmt.Sprint(n, " shards"), contents(t, o.Out), want)
				if again, err := pack.Run(t.Context(), disk, withoutShard(o), progress.Discard); err != nil || again.State != "done" {
					t.Errorf("%d shards: packing the whole: %+v, %v", n, again, err)
				}
			}
		})
	}
}

func withoutShard(o pack.Options) pack.Options {
	o.Shard = shard.Shard{}
	return o
}

// TestShardFailures fails operations of a shard's packing, each with all later ones, and
// checks that the next run ends with the same bytes.
func TestShardFailures(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	for name, o := range map[string]pack.Options{
		"static": options(ds, samples, ""),
		"min":    minOptions(ds, samples, ""),
	} {
		for i := range 2 {
			o.Shard = shard.Shard{Index: i, Count: 2}
			o.Out = filepath.Join(vfstest.TempDir(t), "ref")
			o.Compress, o.RangeRows = packfile.CodecS2, 50
			ref, err := pack.Run(t.Context(), disk, o, progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			resumed := failing(t, o, contents(t, ref.Out), 97, func(n int) *vfs.FailAt { return &vfs.FailAt{N: 7 + n, After: true} })
			if resumed == 0 {
				t.Errorf("%s %v: no run was resumed", name, o.Shard)
			}
		}
	}
}

func TestShardRefusals(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	o := options(ds, samples, filepath.Join(vfstest.TempDir(t), "P"))
	for says, change := range map[string]func(o *pack.Options){
		"--plan-file":        func(o *pack.Options) { o.Compress = pack.CompressAuto },
		"--shard: shard 2/2": func(o *pack.Options) { o.Shard.Index = 2 },
	} {
		bad := o
		bad.Shard = shard.Shard{Index: 1, Count: 2}
		change(&bad)
		if _, err := pack.Run(t.Context(), disk, bad, progress.Discard); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: %v", says, err)
		}
	}
	o.Shard = shard.Shard{Index: 1, Count: 2}
	if _, err := pack.MakePlan(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("a plan of a shard: %v", err)
	}
	res, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := packfile.Open(disk, res.Out); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "diskgnn merge") {
		t.Errorf("a shard taken for a pack: %v", err)
	}
	// What a plan chose, every shard may have.
	o.Compress, o.Out, o.PlanFile = pack.CompressAuto, filepath.Join(vfstest.TempDir(t), "P"), filepath.Join(vfstest.TempDir(t), "plan.json")
	if _, err := pack.MakePlan(t.Context(), disk, withoutShard(o), progress.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
		t.Error(err)
	}
}

// TestShardMeta merges shards that list what is not theirs, or lack what is: none was
// ever written like that.
func TestShardMeta(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	o := options(ds, samples, filepath.Join(vfstest.TempDir(t), "P"))
	dirs := packShards(t, o, 2)
	for _, c := range []struct {
		shard int
		says  string
		files func(of []stage.File) []stage.File
	}{
		{0, "does not list hot.bin", func(of []stage.File) []stage.File {
			return slices.DeleteFunc(of, func(f stage.File) bool { return f.Name == packfile.HotFile })
		}},
		{1, "hot.bin is not a file of a shard", func(of []stage.File) []stage.File {
			return append(of, stage.File{Name: packfile.HotFile, Checksum: binio.Hash(nil)})
		}},
	} {
		m, err := stage.ReadMeta(disk, dirs[c.shard], "shard")
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(vfstest.TempDir(t), "forged")
		dir, _, err := stage.Begin(disk, out, stage.Spec{Format: m.Format, Params: m.Params, Parents: m.Parents}, false)
		if err != nil {
			t.Fatal(err)
		}
		files := c.files(slices.Clone(m.Files))
		for _, f := range files {
			err := disk.Link(filepath.Join(dirs[c.shard], f.Name), dir.File(f.Name))
			if errors.Is(err, fs.ErrNotExist) {
				err = vfs.WriteFile(disk, dir.File(f.Name), nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := dir.Commit(files, m.Facts, nil); err != nil {
			t.Fatal(err)
		}
		forged := slices.Clone(dirs)
		forged[c.shard] = out
		if _, err = merge(disk, t, o.Out, forged); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("want %q: %v", c.says, err)
		}
		if _, err := os.Stat(o.Out); err == nil {
			t.Error("merged all the same")
		}
	}
}

// TestMergeFailures fails each operation of a merging in turn.
func TestMergeFailures(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	o := options(ds, samples, filepath.Join(vfstest.TempDir(t), "P"))
	dirs := packShards(t, o, 3)
	var want map[string]string
	for n := -1; ; n++ {
		out := filepath.Join(vfstest.TempDir(t), "W")
		in := &vfs.FailAt{N: n, Err: errors.New("boom")}
		_, err := merge(vfs.Inject(disk, in), t, out, dirs)
		if (err != nil) != in.Fired() {
			t.Fatalf("operation %d: fired %t, %v", n, in.Fired(), err)
		}
		if n >= 0 && !in.Fired() {
			return
		}
		if _, err := merge(disk, t, out, dirs); err != nil {
			t.Fatalf("after failing operation %d: %v", n, err)
		}
		if got := contents(t, out); want == nil {
			want = maps.Clone(got)
		} else {
			same(t, fmt.Sprint("operation ", n), got, want)
		}
	}
}
