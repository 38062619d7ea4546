package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// exists reports whether a file or directory is there.
func exists(t *testing.T, name string) bool {
	t.Helper()
	ok, err := vfs.Exists(vfs.OS, name)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// TestEndKeepsWhatIsFinished ends transactions that were not committed: those of which nothing
// is finished leave nothing, also of an earlier process, unless they were interrupted.
func TestEndKeepsWhatIsFinished(t *testing.T) {
	for name, c := range map[string]struct {
		before func(out string)
		during func(d *Dir) error
		ends   error // errBoom, if nil
		keeps  bool
	}{
		"begun": {},
		"scratch": {during: func(d *Dir) error {
			return errors.Join(d.fs.MkdirAll(d.File("sub")), vfs.WriteFile(d.fs, d.File("sub/scratch"), []byte("x")))
		}},
		"settled":     {during: func(d *Dir) error { return d.Settle(params{1}) }},
		"interrupted": {ends: fmt.Errorf("read: %w", context.Canceled), keeps: true},
		"too late":    {ends: fmt.Errorf("read: %w", context.DeadlineExceeded), keeps: true},
		"a signal":    {ends: fmt.Errorf("read: %w", fault.ErrInterrupted), keeps: true},
		"finished":    {during: func(d *Dir) error { return d.SaveProgress([]File{}) }, keeps: true},
		"finished and forgotten": {during: func(d *Dir) error {
			return errors.Join(d.SaveProgress([]File{}), d.SaveProgress(nil))
		}, keeps: true},
		"begun by another process":        {before: func(out string) { interrupt(t, out, 1, at(vfs.OpCreate, "b.bin")) }},
		"of other parameters, unfinished": {before: func(out string) { interrupt(t, out, 2, at(vfs.OpCreate, "b.bin")) }},
		"finished by another process":     {before: func(out string) { interrupt(t, out, 1, at(vfs.OpCreate, "a.bin")) }, keeps: true},
		"a commit that fails": {during: func(d *Dir) error {
			if _, err := d.Commit([]File{{Name: "missing"}}, nil, nil); err == nil {
				return errors.New("committed")
			}
			return nil
		}, keeps: true},
	} {
		out := filepath.Join(vfstest.TempDir(t), "X")
		if c.before != nil {
			c.before(out)
		}
		d, _, err := Begin(disk, out, specOf(1), false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.during != nil {
			err = c.during(d)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		ends := cmp.Or(c.ends, errBoom)
		if err := d.End(ends); err == nil || err.Error() != ends.Error() || d.End(nil) != nil {
			t.Errorf("%s: ended by %v", name, err)
		}
		if exists(t, out+partialSuffix) != c.keeps || exists(t, out) {
			t.Errorf("%s: kept %t", name, !c.keeps)
		}
	}
}

// TestDiscardFails leaves, of a directory that cannot be removed, what the next run takes: the
// journal goes last.
func TestDiscardFails(t *testing.T) {
	out := filepath.Join(vfstest.TempDir(t), "X")
	for _, failing := range []string{"scratch", journalFile, lockFile, "X" + partialSuffix} {
		in := &vfs.FailAt{Err: errBoom, Match: at(vfs.OpRemove, failing)}
		d, state, err := Begin(vfs.Inject(disk, in), out, specOf(1), false)
		if err != nil {
			t.Fatal(failing, state, err)
		}
		if err := errors.Join(vfs.WriteFile(disk, d.File("scratch"), nil), d.End(errBoom)); err.Error() != errBoom.Error() {
			t.Error(failing, err)
		}
		if !in.Fired() || !exists(t, out+partialSuffix) {
			t.Errorf("%s: removed", failing)
		}
	}
	if _, _, err := runStage(disk, out, 1, false); err != nil {
		t.Error(err)
	}
}

// TestRefusedBeginLeavesNothing fails the first write of a transaction.
func TestRefusedBeginLeavesNothing(t *testing.T) {
	out := filepath.Join(vfstest.TempDir(t), "X")
	in := &vfs.FailAt{Err: errBoom, Match: at(vfs.OpCreate, journalFile+vfs.TempSuffix)}
	if _, _, err := Begin(vfs.Inject(disk, in), out, specOf(1), false); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	if exists(t, out+partialSuffix) {
		t.Error("a .partial was left behind")
	}
}

// TestAgrees compares Agrees with what Begin says afterwards, and with what was there before.
func TestAgrees(t *testing.T) {
	for name, c := range map[string]struct {
		before func(out string)
		force  bool
		kind   error
	}{
		"nothing":                           {},
		"finished":                          {before: func(out string) { finish(t, out, 1) }},
		"finished otherwise":                {before: func(out string) { finish(t, out, 2) }, kind: fault.ErrExists},
		"finished otherwise, force":         {before: func(out string) { finish(t, out, 2) }, force: true},
		"begun":                             {before: func(out string) { interrupt(t, out, 1, at(vfs.OpCreate, RunFile)) }},
		"begun otherwise":                   {before: func(out string) { interrupt(t, out, 2, at(vfs.OpCreate, RunFile)) }, kind: fault.ErrExists},
		"begun otherwise, nothing finished": {before: func(out string) { interrupt(t, out, 2, at(vfs.OpCreate, "b.bin")) }},
		"damaged": {before: func(out string) {
			finish(t, out, 1)
			write(t, filepath.Join(out, "a.bin"), []byte("longer"))
		}, kind: fault.ErrCorrupt},
		"a wrong byte, force": {before: func(out string) {
			finish(t, out, 1)
			write(t, filepath.Join(out, "b.bin"), []byte("xx"))
		}, force: true},
		"a damaged journal": {before: func(out string) {
			interrupt(t, out, 1, at(vfs.OpCreate, RunFile))
			write(t, filepath.Join(out+partialSuffix, journalFile), []byte(`"params_sha256":"`))
		}, kind: fault.ErrCorrupt},
		"the user's": {before: func(out string) {
			mkdir(t, out+partialSuffix)
			write(t, filepath.Join(out+partialSuffix, "letter"), nil)
		}, kind: fault.ErrExists},
		"an empty .partial": {before: func(out string) { mkdir(t, out+partialSuffix) }},
	} {
		dir := vfstest.TempDir(t)
		out := filepath.Join(dir, "X")
		if c.before != nil {
			c.before(out)
		}
		before := tree(t, dir)
		err := Agrees(disk, out, specOf(1), c.force)
		if (err == nil) != (c.kind == nil) || !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
		if d := gocmp.Diff(before, tree(t, dir)); d != "" {
			t.Errorf("%s: something was written: %s", name, d)
		}
		d, _, begins := Begin(disk, out, specOf(1), c.force)
		if (begins == nil) != (err == nil) || err != nil && begins.Error() != err.Error() {
			t.Errorf("%s: Begin says %v, Agrees said %v", name, begins, err)
		}
		if d != nil {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestMade reads by which specification something was made, or begun.
func TestMade(t *testing.T) {
	out := filepath.Join(vfstest.TempDir(t), "X")
	if _, ok := Made(disk, out); ok {
		t.Error("made of nothing")
	}
	interrupt(t, out, 3, at(vfs.OpCreate, "b.bin"))
	if s, ok := Made(disk, out); !ok || Agrees(disk, out, s, false) != nil || s.Parents[RoleDataset] != "abc" {
		t.Error("begun:", s, ok)
	}
	finish(t, out, 3)
	if s, ok := Made(disk, out); !ok || Agrees(disk, out, s, false) != nil || s.Parents[RoleDataset] != "abc" {
		t.Error("finished:", s, ok)
	}
}

func finish(t *testing.T, out string, seed int) {
	t.Helper()
	if _, _, err := runStage(disk, out, seed, false); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
}

// tree returns the files below a directory, with their contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			files[name] = ""
			return err
		}
		files[name] = string(read(t, name))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestForceChecksBytes finds a finished directory with a wrong byte that no table shows: with force it
// is made again, unless the check is interrupted. A sound directory stays.
func TestForceChecksBytes(t *testing.T) {
	out := filepath.Join(vfstest.TempDir(t), "X")
	finish(t, out, 1)
	sound := tree(t, out)
	state := func(want State, force bool) {
		t.Helper()
		if _, got, err := runStage(disk, out, 1, force); err != nil || got != want {
			t.Errorf("force %t: %v, %v; want %v", force, got, err, want)
		}
	}
	state(StateDone, true)
	write(t, filepath.Join(out, "b.bin"), []byte("xx"))
	state(StateDone, false)

	damaged := tree(t, out)
	for _, ends := range []error{context.Canceled, fault.ErrInterrupted, syscall.EMFILE} {
		spec, checks := specOf(1), 0
		spec.Check = func(string, *Meta, Look) error { checks++; return ends }
		if _, _, err := Begin(disk, out, spec, true); !errors.Is(err, ends) || checks != 1 {
			t.Errorf("%v: %v after %d checks", ends, err, checks)
		}
	}
	if d := gocmp.Diff(damaged, tree(t, out)); d != "" || exists(t, out+partialSuffix) {
		t.Errorf("an interrupted check changed the directory: %s", d)
	}

	spec, looks := specOf(1), []Look{}
	spec.Check = func(dir string, m *Meta, look Look) error {
		looks = append(looks, look)
		return checkFiles(disk, dir, m.Files, look)
	}
	d, _, err := Begin(disk, out, spec, true)
	if err != nil || len(looks) != 1 || looks[0] != Bytes {
		t.Fatal(err, looks)
	}
	if want := out + " is damaged (b.bin: other bytes): --force makes it again"; d.Note() != want {
		t.Errorf("%q, want %q", d.Note(), want)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	state(StateResumed, true)
	for name, was := range sound {
		if base := filepath.Base(name); base == "b.bin" && string(read(t, name)) != was {
			t.Errorf("%s is not made again", name)
		}
	}
	state(StateDone, true)
}
