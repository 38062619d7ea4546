package pack_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
)

// copying is a file system that takes no links.
type copying struct{ vfs.FS }

func (copying) Link(string, string) error { return errors.ErrUnsupported }

// flipped changes a byte of a file.
func flipped(t *testing.T, name string, at int) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) == 0 {
		return
	}
	b[at%len(b)] ^= 1 << (at % 8)
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestMergeChecksBytes changes a byte of each file of the shards, one at a time, and
// merges, by links and by copies: the file is named, and how the shard is made again.
func TestMergeChecksBytes(t *testing.T) {
	ds, samples := inputs(t, groupsOf)
	for name, change := range map[string]func(o *pack.Options){
		"max-disk": func(o *pack.Options) { o.MaxDisk = &budget.Size{Value: 3_400_000} },
		"min":      func(o *pack.Options) { *o = minOptions(ds, samples, o.Out) },
		"s2":       func(o *pack.Options) { o.Compress = packfile.CodecS2 },
	} {
		o := options(ds, samples, filepath.Join(t.TempDir(), "P"))
		change(&o)
		dirs := packShards(t, o, 2)
		tried := 0
		for _, dir := range dirs {
			m, err := stage.ReadMeta(disk, dir, "shard")
			if err != nil {
				t.Fatal(err)
			}
			for i, f := range m.Files {
				if f.Size == 0 {
					continue
				}
				tried++
				at := int(f.Size) / 7 * (i%6 + 1)
				flipped(t, filepath.Join(dir, f.Name), at)
				for _, fsys := range []vfs.FS{disk, copying{disk}} {
					_, err := merge(fsys, t, o.Out, dirs)
					if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), f.Name) || !strings.Contains(err.Error(), dir+" is damaged: make it again, by its diskgnn pack --shard with --force") {
						t.Errorf("%s, byte %d of %s: %v", name, at, f.Name, err)
					}
					if err := os.RemoveAll(o.Out + ".partial"); err != nil {
						t.Fatal(err)
					}
				}
				flipped(t, filepath.Join(dir, f.Name), at)
			}
		}
		if tried < 8 {
			t.Errorf("%s: only %d files were changed", name, tried)
		}
	}
}

// TestFinishedIsLookedAt calls no pack finished whose tables are damaged, and publishes
// none that lacks only its name when a byte of it has changed.
func TestFinishedIsLookedAt(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	o := options(ds, samples, filepath.Join(t.TempDir(), "P"))
	res, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{packfile.IndexFile, packfile.HotSums, packfile.EvalSums} {
		flipped(t, filepath.Join(o.Out, name), 100)
		if _, err := pack.Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrCorrupt) || !strings.HasSuffix(err.Error(), "use --force to make it again") {
			t.Errorf("%s: %v", name, err)
		}
		flipped(t, filepath.Join(o.Out, name), 100)
	}
	if again, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil || again.State != "done" {
		t.Error(again.State, err)
	}
	out := filepath.Join(t.TempDir(), "P")
	o.Out = out
	in := &vfs.FailAt{After: true, Err: errors.New("boom"), Match: func(op vfs.Op, name string) bool { return op == vfs.OpRename && name == out }}
	if _, err := pack.Run(t.Context(), vfs.Inject(disk, in), o, progress.Discard); err == nil {
		t.Fatal("not interrupted")
	}
	flipped(t, filepath.Join(out+".partial", packfile.HotFile), 100)
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err == nil {
		m, err := stage.Open(disk, out, "pack", packfile.Format)
		if err != nil || m.Fingerprint != res.Fingerprint {
			t.Fatal(err)
		}
		if err := packfile.Check(t.Context(), disk, out, m, stage.Bytes); err != nil {
			t.Errorf("a changed byte was published: %v", err)
		}
	} else if !errors.Is(err, fault.ErrCorrupt) {
		t.Error(err)
	}
}
