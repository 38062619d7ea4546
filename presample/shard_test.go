package presample

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/presample/mbfile"
)

// sampleShards draws all shards of a sampling.
func sampleShards(o Options, n int) (dirs []string, batches int, err error) {
	for i := range n {
		o.Shard = shard.Shard{Index: i, Count: n}
		r, err := Run(context.Background(), disk, o, progress.Discard)
		if err != nil {
			return nil, 0, err
		}
		dirs, batches = append(dirs, r.Out), batches+r.Batches
	}
	return dirs, batches, nil
}

func merge(fsys vfs.FS, out string, dirs []string) (shard.Result, error) {
	return shard.Merge(context.Background(), fsys, mergeOptions(out, dirs, false), progress.Discard)
}

func TestShards(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := testOptions(t, dir)
	whole := mustRun(t, o)
	want := files(t, o.Out)
	for _, n := range []int{1, 2, 5, 40} { // 40 are more than there are files
		o.Out = filepath.Join(dir, fmt.Sprint("merged", n))
		dirs, batches, err := sampleShards(o, n)
		if err != nil || batches != whole.Batches {
			t.Fatalf("%d shards: %d batches of %d, %v", n, batches, whole.Batches, err)
		}
		if want := fmt.Sprintf("%s.shard-0-of-%d", o.Out, n); dirs[0] != want {
			t.Errorf("%s, not %s", dirs[0], want)
		}
		for _, d := range dirs {
			if _, err := mbfile.Open(disk, d); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "diskgnn merge") {
				t.Errorf("%s opened as samples: %v", d, err)
			}
			r, err := mbfile.OpenShard(disk, d)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(r.Verify(t.Context(), progress.Discard), r.Close()); err != nil {
				t.Error(err)
			}
		}
		slices.Reverse(dirs)
		r, err := merge(disk, o.Out, dirs)
		if err != nil || r.Fingerprint != whole.Fingerprint {
			t.Fatalf("%d shards: %+v, %v", n, r, err)
		}
		if d := cmp.Diff(want, files(t, o.Out)); d != "" {
			t.Errorf("%d shards: %.300s", n, d)
		}
		if again := mustRun(t, o); again.State != "done" {
			t.Errorf("%d shards, merged, are not what one run makes: %+v", n, again)
		}
	}
}

// TestShardProperties draws graphs, parameters, numbers of shards and where files
// are cut.
func TestShardProperties(t *testing.T) {
	dir := vfstest.TempDir(t)
	rapid.Check(t, func(t *rapid.T) {
		tmp, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(tmp)
		raw := datasettest.Params{Nodes: rapid.IntRange(1, 60).Draw(t, "nodes"), AvgDegree: 4, Seed: rapid.Uint64().Draw(t, "graph")}.Raw()
		if len(raw.Train) == 0 {
			t.Skip("no training nodes")
		}
		o := Options{
			Dataset: create(t, tmp, raw).Dir(), Out: filepath.Join(tmp, "S"), Fanout: []int{2, 2}, Workers: 2,
			BatchSize:      rapid.IntRange(1, 20).Draw(t, "batch"),
			Epochs:         rapid.IntRange(1, 3).Draw(t, "epochs"),
			batchesPerFile: rapid.IntRange(1, 9).Draw(t, "per file"),
		}
		whole, err := Run(context.Background(), disk, o, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		dirs, _, err := sampleShards(o, rapid.IntRange(1, 6).Draw(t, "shards"))
		if err != nil {
			t.Fatal(err)
		}
		// Equal fingerprints say that names, sizes and checksums of all files are
		// equal; that they are those of the files, Verify says.
		r, err := merge(disk, filepath.Join(tmp, "M"), dirs)
		if err != nil || r.Fingerprint != whole.Fingerprint {
			t.Fatalf("%+v, %v", r, err)
		}
		m, err := mbfile.Open(disk, filepath.Join(tmp, "M"))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(m.Verify(context.Background(), progress.Discard), m.Close()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestShardResumes interrupts a shard in the middle of the samples.
func TestShardResumes(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := testOptions(t, dir)
	o.batchesPerFile, o.Shard = 4, shard.Shard{Index: 1, Count: 2}
	want := files(t, mustRun(t, o).Out)
	resumed := 0
	for at := 1; at < 12; at += 5 {
		o.Out = filepath.Join(dir, fmt.Sprint("cancel", at))
		ctx, cancel := context.WithCancel(t.Context())
		c := &canceller{Reporter: progress.Discard, cancel: cancel}
		c.left.Store(int64(at))
		if _, err := Run(ctx, disk, o, c); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled at batch %d: %v", at, err)
		}
		log := new(logger)
		r, err := Run(t.Context(), disk, o, log)
		if err != nil {
			t.Fatal(err)
		}
		if said := fmt.Sprintf("resuming: %d of %d batches are sampled already", r.Resumed, r.Batches); r.Resumed > 0 && !strings.Contains(log.String(), said) {
			t.Errorf("cancelled at batch %d: log %q, want %q", at, log, said)
		}
		resumed += r.Resumed
		if d := cmp.Diff(want, files(t, r.Out)); d != "" {
			t.Fatalf("cancelled at batch %d: %.300s", at, d)
		}
	}
	if resumed == 0 {
		t.Error("no run went on where another had stopped")
	}
}

// TestMergeFailures fails each operation of a merging: the next one must end with
// the whole's bytes.
func TestMergeFailures(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := testOptions(t, dir)
	mustRun(t, o)
	want := files(t, o.Out)
	dirs, _, err := sampleShards(o, 3)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "M")
	for n := 0; ; n++ {
		in := &vfs.FailAt{N: n, After: true, Err: errors.New("boom")}
		_, err := merge(vfs.Inject(disk, in), out, dirs)
		if (err != nil) != in.Fired() {
			t.Fatalf("%v: fired %t, %v", in, in.Fired(), err)
		}
		if !in.Fired() {
			break
		}
		if _, err := merge(disk, out, dirs); err != nil {
			t.Fatalf("after %v: %v", in, err)
		}
		if d := cmp.Diff(want, files(t, out)); d != "" {
			t.Fatalf("after %v: %.300s", in, d)
		}
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBadShards merges shards that are damaged, or cut in other places, as a
// program would make them that reckons otherwise.
func TestBadShards(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := testOptions(t, dir)
	dirs, _, err := sampleShards(o, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{mbfile.IndexFile, mbfile.SumsFile, mbfile.HotnessFile} {
		path := filepath.Join(dirs[1], name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bad := slices.Clone(good)
		bad[len(bad)/2] ^= 1
		if err := os.WriteFile(path, bad, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := merge(disk, o.Out, dirs); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.WriteFile(path, good, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	o.Out, o.batchesPerFile = filepath.Join(dir, "other"), 4
	others, _, err := sampleShards(o, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := merge(disk, o.Out, []string{dirs[0], others[1]}); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "not shards of the same samples") {
		t.Errorf("cut in other places: %v", err)
	}
}

// roomFor is a disk with so many bytes free.
type roomFor struct {
	vfs.FS
	free int64
}

func (r roomFor) Free(string) (int64, error) { return r.free, nil }

// TestFullDisk checks that what a disk has room for is drawn, and that what it has
// not is refused, which leaves nothing.
func TestFullDisk(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := testOptions(t, dir)
	bytes := mustRun(t, o).DiskBytes
	o.Out = filepath.Join(dir, "full")
	_, err := Run(t.Context(), roomFor{disk, bytes / 2}, o, progress.Discard)
	if !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "of disk") {
		t.Errorf("half the room: %v", err)
	}
	if there, err := vfs.Exists(vfs.OS, o.Out+".partial"); err != nil || there {
		t.Errorf("a refusal left its directory: %t, %v", there, err)
	}
	// Batches are about, not exactly, as large as the first.
	if _, err := Run(t.Context(), roomFor{disk, bytes * 6 / 5}, o, progress.Discard); err != nil {
		t.Errorf("a fifth more than needed: %v", err)
	}
}

func TestShardsOfMultiLabelBatches(t *testing.T) {
	inShards(t, datasettest.Params{Nodes: 200, AvgDegree: 4, Classes: 20, Seed: 6, MultiLabel: true}, mbfile.MultiLabelFormat)
}

func TestShardsOfTypedBatches(t *testing.T) {
	inShards(t, datasettest.Params{Nodes: 400, AvgDegree: 4, Seed: 6, Typed: true}, mbfile.TypedFormat)
}

// inShards samples in three shards, and compares the merged samples with the samples of a single run.
func inShards(t *testing.T, p datasettest.Params, format stage.Format) {
	t.Helper()
	dir := vfstest.TempDir(t)
	d := create(t, dir, p.Raw())
	o := Options{Dataset: d.Dir(), Out: filepath.Join(dir, "S"), Fanout: []int{2, 3}, BatchSize: 7, Epochs: 2, batchesPerFile: 3}
	whole := mustRun(t, o)
	want := files(t, o.Out)
	o.Out = filepath.Join(dir, "M")
	dirs, _, err := sampleShards(o, 3)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := merge(disk, o.Out, dirs); err != nil || r.Fingerprint != whole.Fingerprint {
		t.Fatalf("%+v, %v", r, err)
	}
	if d := cmp.Diff(want, files(t, o.Out)); d != "" {
		t.Error(d)
	}
	m, err := stage.ReadMeta(disk, o.Out, "samples")
	if err != nil || m.Format != format {
		t.Errorf("%v, %v", m.Format, err)
	}
}
