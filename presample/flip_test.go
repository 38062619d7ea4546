package presample

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/presample/mbfile"
)

// flipped changes a byte of a file.
func flipped(t *testing.T, name string, at int) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[at%len(b)] ^= 1 << (at % 8)
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// flippedBytes interrupts a stage at every operation, changes a byte of each file that is
// there, one at a time, and resumes: what comes of it has the files of want, or there is
// an error that says what to do.
func flippedBytes(t *testing.T, dir string, want map[string]string, run func(fsys vfs.FS, out string, force bool) error) {
	t.Helper()
	tried := 0
	var last map[string]string
	for n := 0; ; n++ {
		out := filepath.Join(dir, fmt.Sprint(n))
		in := &vfs.FailAt{N: n, After: true, Err: errors.New("boom")}
		_ = run(vfs.Inject(disk, in), out, false)
		if !in.Fired() {
			break
		}
		partial, left := out+".partial", filepath.Join(dir, "left")
		if err := os.Rename(partial, left); err != nil {
			continue // the name was given already
		}
		there := files(t, left)
		if maps.Equal(there, last) {
			there = nil
		} else {
			last = there
		}
		for _, name := range slices.Sorted(maps.Keys(there)) {
			if there[name] == "" {
				continue
			}
			tried++
			if err := os.CopyFS(partial, os.DirFS(left)); err != nil {
				t.Fatal(err)
			}
			at := n*31 + tried*17
			flipped(t, filepath.Join(partial, name), at)
			if err := run(disk, out, false); err != nil {
				if name != "journal.json" || !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "--force discards it") {
					t.Fatalf("operation %d, byte %d of %s: %v", n, at, name, err)
				}
				if err := run(disk, out, true); err != nil {
					t.Fatalf("operation %d, byte %d of %s: with force: %v", n, at, name, err)
				}
			}
			if d := cmp.Diff(want, files(t, out)); d != "" {
				t.Fatalf("operation %d, byte %d of %s: other samples: %.300s", n, at, name, d)
			}
			if err := os.RemoveAll(out); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.RemoveAll(left); err != nil {
			t.Fatal(err)
		}
	}
	if tried < 40 {
		t.Errorf("only %d bytes were changed", tried)
	}
}

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
	flippedBytes(t, dir, files(t, o.Out), func(fsys vfs.FS, out string, force bool) error {
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
		flippedBytes(t, sub, files(t, o.Out), func(fsys vfs.FS, out string, force bool) error {
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
			flipped(t, filepath.Join(d, name), 1234)
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
			flipped(t, filepath.Join(d, name), 1234)
		}
	}
}

func mergeOptions(out string, dirs []string, force bool) shard.Options {
	return shard.Options{
		Out: out, Shards: dirs, Force: force,
		Formats: map[stage.Format]shard.Assemble{mbfile.Format: mbfile.Merge, mbfile.MultiLabelFormat: mbfile.Merge},
		Checks:  map[stage.Format]shard.Check{mbfile.Format: mbfile.Check, mbfile.MultiLabelFormat: mbfile.Check},
	}
}
