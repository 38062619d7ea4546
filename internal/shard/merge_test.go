package shard

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
	"golang.org/x/sys/unix"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// The stage of these tests writes the files a, b, c, one group each, and a file
// "sizes" that is made of all of them.
var (
	testFormat = stage.Format{Name: "diskgnn.test", Version: 3}
	groups     = []string{"a", "b", "c"}
	disk       = vfs.Unsynced(vfs.OS)
)

type params struct {
	Seed uint64 `json:"seed"`
	Big  uint64 `json:"big"` // beyond what a float64 holds
}

// longSeed makes files that are copied in several pieces.
const longSeed = 9

func content(seed uint64, name string) []byte {
	n := 1
	if seed == longSeed {
		n += int(name[0]-'a') << 20 / 3
	}
	return []byte(strings.Repeat(fmt.Sprintf("%s%d ", name, seed), n))
}

func specFor(seed uint64, parent string) stage.Spec {
	return stage.Spec{Format: testFormat, Params: params{seed, 1<<63 + seed}, Parents: map[string]string{stage.RoleDataset: parent}}
}

// runStage makes a shard, or the whole.
func runStage(fsys vfs.FS, out string, spec stage.Spec, s Shard, force ...bool) (err error) {
	seed := spec.Params.(params).Seed
	spec, err = s.Spec(spec)
	if err != nil {
		return err
	}
	spec.Check = func(dir string, m *stage.Meta, _ stage.Look) error {
		return checkAll(context.Background(), fsys, dir, m, stage.Bytes)
	}
	d, state, err := stage.Begin(fsys, s.DirName(out), spec, len(force) > 0)
	if err != nil || state == stage.StateDone {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	var files []stage.File
	lo, hi := s.Of(len(groups))
	sizes := ""
	for _, name := range groups[lo:hi] {
		b := content(seed, name)
		if err := vfs.WriteFile(fsys, d.File(name), b); err != nil {
			return err
		}
		files = append(files, stage.File{Name: name, Size: int64(len(b)), Checksum: binio.Hash(b)})
		sizes += fmt.Sprintln(len(b))
	}
	f, err := writeSizes(d, sizes)
	if err != nil {
		return err
	}
	_, err = d.Commit(append(files, f), map[string]int{"files": len(files)}, nil)
	return err
}

// checkAll is the test format's Check: every file is hashed.
func checkAll(ctx context.Context, fsys vfs.FS, dir string, m *stage.Meta, look stage.Look) error {
	for _, f := range m.Files {
		if look == stage.Tables && f.Name != "sizes" {
			continue
		}
		name := filepath.Join(dir, f.Name)
		if err := stage.CheckFile(ctx, fsys, name, f.Size, binio.CheckHash(name, f.Checksum), nil); err != nil {
			return err
		}
	}
	return nil
}

func writeSizes(d *stage.Dir, text string) (stage.File, error) {
	return stage.File{Name: "sizes", Size: int64(len(text)), Checksum: binio.Hash([]byte(text))}, vfs.WriteFile(d.FS(), d.File("sizes"), []byte(text))
}

// assemble is the test format's Assemble.
func assemble(ctx context.Context, d *stage.Dir, set *Set, rep progress.Reporter) (Assembled, error) {
	var sources []Source
	var files []stage.File
	sizes := ""
	for _, m := range set.Members {
		for _, f := range m.Meta.Files {
			if f.Name == "sizes" {
				b, err := vfs.ReadFile(d.FS(), filepath.Join(m.Dir, f.Name))
				if err == nil && binio.Hash(b) != f.Checksum {
					err = stage.Damaged(binio.BadRange(f.Name, 0, f.Size), m.Dir, m.Meta.Format)
				}
				if err != nil {
					return Assembled{}, err
				}
				sizes += string(b)
				continue
			}
			check := func(name string) (binio.Checker, error) { return binio.CheckHash(name, f.Checksum), nil }
			files, sources = append(files, f), append(sources, Source{m.Dir, f, check})
		}
	}
	f, err := writeSizes(d, sizes)
	if err != nil {
		return Assembled{}, err
	}
	adopted, err := Adopt(ctx, d, sources, rep)
	return Assembled{append(files, f), map[string]int{"files": len(files)}, adopted}, err
}

// shards makes all shards of a directory.
func shards(t *testing.T, out string, spec stage.Spec, n int) (dirs []string) {
	t.Helper()
	for i := range n {
		s := Shard{i, n}
		if err := runStage(disk, out, spec, s); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, s.DirName(out))
	}
	return dirs
}

func merge(fsys vfs.FS, out string, dirs ...string) (Result, error) {
	return Merge(context.Background(), fsys, mergeOptions(out, dirs), progress.Discard)
}

func mergeOptions(out string, dirs []string) Options {
	return Options{Out: out, Shards: dirs, Formats: map[stage.Format]Assemble{testFormat: assemble}, Checks: map[stage.Format]Check{testFormat: checkAll}}
}

// bytesOf returns what is in a directory, but for run.json.
func bytesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	names, err := vfs.OS.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		if n != stage.RunFile {
			all[n] = string(b)
		}
	}
	return all
}

func whole(t *testing.T, spec stage.Spec) map[string]string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "W")
	if err := runStage(disk, out, spec, Shard{}); err != nil {
		t.Fatal(err)
	}
	return bytesOf(t, out)
}

func TestMerge(t *testing.T) {
	spec := specFor(1, "d")
	want := whole(t, spec)
	for n := 1; n <= 5; n++ {
		out := filepath.Join(t.TempDir(), "X")
		dirs := shards(t, out, spec, n)
		slices.Reverse(dirs)
		r, err := merge(disk, out, dirs...)
		if err != nil || r.State != "new" || r.Shards != n || r.LinkedBytes+r.CopiedBytes+int64(len(want["sizes"])) != r.DiskBytes {
			t.Fatalf("%d shards: %+v, %v", n, r, err)
		}
		if d := cmp.Diff(want, bytesOf(t, out)); d != "" {
			t.Errorf("%d shards: %.500s", n, d)
		}
		if again, err := merge(disk, out, dirs...); err != nil || again.State != "done" || again.Fingerprint != r.Fingerprint {
			t.Errorf("%d shards, again: %+v, %v", n, again, err)
		}
	}
}

// linkless has places that take no links, and room for so many bytes.
type linkless struct {
	vfs.FS
	err  error
	free int64
}

func (l linkless) Link(string, string) error  { return l.err }
func (l linkless) Free(string) (int64, error) { return l.free, nil }

func TestCopies(t *testing.T) {
	spec := specFor(longSeed, "d")
	want := whole(t, spec)
	dir := t.TempDir()
	dirs := shards(t, filepath.Join(dir, "X"), spec, 2)
	for i, err := range []error{unix.EXDEV, unix.EPERM, unix.EOPNOTSUPP, unix.EMLINK} {
		out := filepath.Join(dir, fmt.Sprint(i))
		need := int64(len(want["a"]) + len(want["b"]) + len(want["c"]))
		if _, err := merge(linkless{disk, err, need - 1}, out, dirs...); !errors.Is(err, fault.ErrBudget) {
			t.Errorf("%v, and no room: %v", err, err)
		}
		r, err := merge(linkless{disk, err, need}, out, dirs...)
		if err != nil || r.State != "new" || r.LinkedBytes != 0 || r.CopiedBytes != need {
			t.Errorf("%+v, %v", r, err)
		}
		if d := cmp.Diff(want, bytesOf(t, out)); d != "" {
			t.Errorf("%.500s", d)
		}
	}
	if _, err := merge(linkless{disk, unix.EIO, 1 << 40}, filepath.Join(dir, "io"), dirs...); !errors.Is(err, unix.EIO) {
		t.Errorf("a disk that fails: %v", err)
	}
}

// canceller cancels when the first piece of a file is copied.
type canceller struct {
	progress.Reporter
	cancel context.CancelFunc
}

func (c canceller) Task(string, int64, progress.Unit) progress.Task { return c }
func (c canceller) Add(int64)                                       { c.cancel() }
func (c canceller) Done()                                           {}

func TestCancel(t *testing.T) {
	spec := specFor(longSeed, "d")
	dir := t.TempDir()
	dirs := shards(t, filepath.Join(dir, "X"), spec, 2)
	ctx, cancel := context.WithCancel(t.Context())
	o := mergeOptions(filepath.Join(dir, "X"), dirs)
	fsys := linkless{disk, unix.EXDEV, 1 << 40}
	if _, err := Merge(ctx, fsys, o, canceller{progress.Discard, cancel}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while it copies: %v", err)
	}
	if _, err := Merge(ctx, disk, o, progress.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	if r, err := merge(fsys, o.Out, dirs...); err != nil || r.State != "resumed" {
		t.Errorf("%+v, %v", r, err)
	}
	if d := cmp.Diff(whole(t, spec), bytesOf(t, o.Out)); d != "" {
		t.Errorf("%.500s", d)
	}
}

// TestEveryFailure fails each operation of a merging in turn: nothing may pass for
// finished that is not, the next run must end with the right bytes, and the shards
// must stay what they are.
func TestEveryFailure(t *testing.T) {
	spec := specFor(1, "d")
	want := whole(t, spec)
	dir := t.TempDir()
	dirs := shards(t, filepath.Join(dir, "X"), spec, 2)
	before := []map[string]string{bytesOf(t, dirs[0]), bytesOf(t, dirs[1])}
	boom := errors.New("boom")
	for _, fsys := range []vfs.FS{disk, linkless{disk, unix.EXDEV, 1 << 40}} {
		for _, after := range []bool{false, true} {
			for n := 0; ; n++ {
				out := filepath.Join(dir, "Y")
				in := &vfs.FailAt{N: n, After: after, Err: boom}
				_, err := merge(vfs.Inject(fsys, in), out, dirs...)
				if (err != nil) != in.Fired() {
					t.Fatalf("%v: fired %t, %v", in, in.Fired(), err)
				}
				if !in.Fired() {
					break
				}
				if m, err := stage.Open(disk, out, "test", testFormat); err == nil && m.Fingerprint == "" {
					t.Errorf("%v: finished, and not", in)
				}
				// In between, the stage itself may go about the whole: it must not go
				// on where the merging stopped, for its files may be the shards'.
				if n%2 == 0 {
					if err := runStage(disk, out, spec, Shard{}); err != nil && !errors.Is(err, fault.ErrExists) {
						t.Fatalf("%v: %v", in, err)
					}
					if err := runStage(disk, out, spec, Shard{}, true); err != nil {
						t.Fatalf("%v: %v", in, err)
					}
				}
				if _, err := merge(fsys, out, dirs...); err != nil {
					t.Fatalf("after %v: %v", in, err)
				}
				if d := cmp.Diff(want, bytesOf(t, out)); d != "" {
					t.Fatalf("after %v: %.500s", in, d)
				}
				if err := os.RemoveAll(out); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.RemoveAll(filepath.Join(dir, "Y")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, d := range dirs {
		if d := cmp.Diff(before[i], bytesOf(t, d)); d != "" {
			t.Errorf("shard %d changed: %.500s", i, d)
		}
	}
}

// TestAnotherWay interrupts a merging that has linked its files, then has the
// stage make the whole, which writes to files of the same names in place.
func TestAnotherWay(t *testing.T) {
	spec := specFor(1, "d")
	dir := t.TempDir()
	out := filepath.Join(dir, "X")
	dirs := shards(t, out, spec, 1)
	before := bytesOf(t, dirs[0])
	in := &vfs.FailAt{Err: errors.New("boom"), After: true, Match: func(op vfs.Op, name string) bool { return op == vfs.OpCreate && filepath.Base(name) == stage.RunFile }}
	if _, err := merge(vfs.Inject(disk, in), out, dirs...); err == nil {
		t.Fatal("no failure")
	}
	if _, err := os.Stat(filepath.Join(out+".partial", "a")); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "C")
	if _, err := merge(vfs.Inject(linkless{disk, unix.EXDEV, 1 << 40}, in), copied, dirs...); err == nil {
		t.Fatal("no failure")
	}
	if _, _, err := stage.Begin(disk, copied, spec, false); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "it was made by diskgnn merge, now by its own command") {
		t.Errorf("copies are gone on with: %v", err)
	}
	d, state, err := stage.Begin(disk, out, spec, false)
	if err != nil || state != stage.StateNew || d.Note() == "" {
		t.Fatalf("state %v, %v", state, err)
	}
	defer d.Close()
	if err := vfs.WriteFile(disk, d.File("a"), []byte("another")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, bytesOf(t, dirs[0])); d != "" {
		t.Errorf("the shard changed: %.500s", d)
	}
}

func TestWrongSets(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	three := shards(t, at("three"), specFor(1, "d"), 3)
	two := shards(t, at("two"), specFor(1, "d"), 2)
	seed := shards(t, at("seed"), specFor(2, "d"), 3)
	parent := shards(t, at("parent"), specFor(1, "e"), 3)
	other := specFor(1, "d")
	other.Format.Name = "diskgnn.other"
	others := shards(t, at("other"), other, 1)
	old := specFor(1, "d")
	old.Format.Version = 2
	olds := shards(t, at("old"), old, 1)
	if err := runStage(disk, at("whole"), specFor(1, "d"), Shard{}); err != nil {
		t.Fatal(err)
	}
	copied := at("copied")
	if err := os.CopyFS(copied, os.DirFS(three[1])); err != nil {
		t.Fatal(err)
	}
	damaged := at("damaged")
	if err := os.CopyFS(damaged, os.DirFS(three[0])); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(damaged, "a"), 1); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dirs []string
		kind error
		says string
	}{
		"none":            {nil, fault.ErrUsage, "no shards"},
		"one missing":     {[]string{three[2], three[0]}, fault.ErrUsage, "1/3"},
		"two missing":     {three[1:2], fault.ErrUsage, "0/3, 2/3"},
		"one twice":       {[]string{three[0], three[1], three[0], three[2]}, fault.ErrUsage, "are both shard 0/3"},
		"one copied":      {[]string{three[0], three[1], copied, three[2]}, fault.ErrUsage, "are both shard 1/3"},
		"other counts":    {[]string{three[0], two[1]}, fault.ErrUsage, "is shard 1/2"},
		"other params":    {[]string{three[0], seed[1], three[2]}, fault.ErrLineage, "seed is 2, not 1"},
		"other parent":    {[]string{three[0], parent[1], three[2]}, fault.ErrLineage, "its dataset is e…, not d…"},
		"other formats":   {[]string{others[0], three[0]}, fault.ErrUsage, "diskgnn.other"},
		"unknown format":  {others, fault.ErrInput, "diskgnn.other"},
		"another version": {olds, fault.ErrVersion, "version 2"},
		"a whole":         {[]string{at("whole")}, fault.ErrInput, "no shard"},
		"nothing":         {[]string{at("nowhere")}, fault.ErrInput, "no shard at"},
		"a damaged one":   {[]string{damaged, three[1], three[2]}, fault.ErrCorrupt, "damaged"},
	} {
		_, err := merge(disk, at("out"), c.dirs...)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		for _, left := range []string{"out", "out.partial"} {
			if _, err := os.Stat(at(left)); err == nil {
				t.Errorf("%s: %s is there", name, left)
			}
		}
	}
	if _, err := merge(disk, three[0], three...); !errors.Is(err, fault.ErrExists) {
		t.Errorf("into a shard: %v", err)
	}
	_, err := stage.Open(disk, three[0], "test directory", testFormat)
	if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "diskgnn merge") {
		t.Errorf("opened as a whole: %v", err)
	}
}
