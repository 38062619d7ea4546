package presample

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/stage/stagetest"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/presample/mbfile"
)

// flipOptions is a run of ten batches in five files.
func flipOptions(t *testing.T, dir string) Options {
	d := create(t, dir, datasettest.Params{Nodes: 60, AvgDegree: 3, Seed: 9}.Raw())
	return Options{
		Dataset: d.Dir(), Out: filepath.Join(dir, "S"), BatchSize: 10, Fanout: []int{2, 2}, Epochs: 2, Seed: 4,
		Workers: 1, Memory: 1 << 30, batchesPerFile: 2,
	}
}

func verifySamples(t *testing.T, dir string) {
	t.Helper()
	r := open(t, dir)
	if err := r.Verify(t.Context(), progress.Discard); err != nil {
		t.Error(err)
	}
}

func TestFlippedBytes(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := flipOptions(t, dir)
	mustRun(t, o)
	verifySamples(t, o.Out)
	stagetest.FlippedBytes(t, disk, dir, files(t, o.Out), 40, func(fsys vfs.FS, out string, force bool) error {
		o.Out, o.Force = out, force
		_, err := Run(t.Context(), fsys, o, progress.Discard)
		return err
	})
}

// copying is a file system that takes no links.
type copying struct{ vfs.FS }

func (copying) Link(string, string) error { return errors.ErrUnsupported }

func TestMergeFlippedBytes(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := flipOptions(t, dir)
	mustRun(t, o)
	dirs, _, err := sampleShards(o, 2)
	if err != nil {
		t.Fatal(err)
	}
	before := []map[string]string{files(t, dirs[0]), files(t, dirs[1])}
	for _, links := range []bool{true, false} {
		sub := vfstest.TempDir(t)
		stagetest.FlippedBytes(t, disk, sub, files(t, o.Out), 40, func(fsys vfs.FS, out string, force bool) error {
			if !links {
				fsys = copying{fsys}
			}
			_, err := shard.Merge(t.Context(), fsys, mergeOptions(out, dirs, force), progress.Discard)
			return err
		})
	}
	for i, d := range dirs {
		if d := cmp.Diff(before[i], files(t, d)); d != "" {
			t.Errorf("shard %d changed: %.300s", i, d)
		}
	}
	// Every file of a shard, in its place: nothing is published.
	for i, d := range dirs {
		for name := range before[i] {
			stagetest.Flip(t, filepath.Join(d, name), 1234)
			for _, fsys := range []vfs.FS{disk, copying{disk}} {
				out := filepath.Join(dir, "M")
				_, err := merge(fsys, out, dirs)
				if !errors.Is(err, fault.ErrCorrupt) && name != stage.MetaFile || err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %v", name, err)
				}
				if errors.Is(err, fault.ErrCorrupt) && !strings.Contains(err.Error(), "is damaged: make it again") {
					t.Errorf("%s: no word of what to do: %v", name, err)
				}
				if _, err := os.Stat(out); err == nil {
					t.Errorf("%s: published", name)
				}
				if err := os.RemoveAll(out + ".partial"); err != nil {
					t.Fatal(err)
				}
			}
			stagetest.Flip(t, filepath.Join(d, name), 1234)
		}
	}
}

func mergeOptions(out string, dirs []string, force bool) shard.Options {
	return shard.Options{
		Out: out, Shards: dirs, Force: force,
		Formats: map[stage.Format]shard.Assemble{mbfile.Format: mbfile.Merge, mbfile.MultiLabelFormat: mbfile.Merge, mbfile.TypedFormat: mbfile.Merge},
		Checks:  map[stage.Format]shard.Check{mbfile.Format: mbfile.Check, mbfile.MultiLabelFormat: mbfile.Check, mbfile.TypedFormat: mbfile.Check},
	}
}
