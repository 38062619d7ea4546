package stage

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

var testFormat = Format{"diskgnn.test", 1}

type params struct {
	Seed int `json:"seed"`
}

func specOf(seed int) Spec {
	return Spec{Format: testFormat, Params: params{seed}, Parents: map[string]string{RoleDataset: "abc"}}
}

// runStage runs a whole small stage: two files, a journal entry after each. Files that
// an earlier run finished are kept if their bytes are what the journal says.
func runStage(fsys vfs.FS, out string, seed int, force bool) (fingerprint string, state State, err error) {
	spec := specOf(seed)
	spec.Check = func(dir string, m *Meta, look Look) error { return checkFiles(fsys, dir, m.Files, look) }
	d, state, err := Begin(fsys, out, spec, force)
	if err != nil || state == StateDone {
		return "", state, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	var done []File
	if _, err := d.Progress(&done); err != nil {
		return "", state, err
	}
	files := []File{}
	for i, name := range []string{"b.bin", "a.bin"} {
		content := []byte{byte(seed), byte(i)}
		if i >= len(done) || checkFiles(fsys, d.Path(), done[i:i+1], Bytes) != nil {
			if err := vfs.WriteFile(fsys, d.File(name), content); err != nil {
				return "", state, err
			}
		}
		files = append(files, File{name, int64(len(content)), binio.Hash(content)})
		if i >= len(done) {
			if err := d.SaveProgress(files); err != nil {
				return "", state, err
			}
		}
	}
	if err := vfs.WriteFile(fsys, d.File("scratch"), nil); err != nil {
		return "", state, err
	}
	fingerprint, err = d.Commit(files, map[string]int{"n": 2}, map[string]string{"host": "x"})
	return fingerprint, state, err
}

// checkFiles is the Check of the test's stage. It has no tables: the first file stands
// for one.
func checkFiles(fsys vfs.FS, dir string, files []File, look Look) error {
	for _, f := range files {
		if look == Tables && f.Name != "a.bin" {
			continue
		}
		b, err := vfs.ReadFile(fsys, filepath.Join(dir, f.Name))
		if err != nil {
			return err
		}
		if binio.Hash(b) != f.Checksum {
			return fault.New(fault.ErrCorrupt, "%s: other bytes", f.Name)
		}
	}
	return nil
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	l, err := vfs.OS.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLifecycle(t *testing.T) {
	out := filepath.Join(t.TempDir(), "X")
	fp, state, err := runStage(vfs.OS, out, 1, false)
	if err != nil || state != StateNew {
		t.Fatalf("first run: state %v, %v", state, err)
	}
	if d := cmp.Diff([]string{"a.bin", "b.bin", MetaFile, RunFile}, names(t, out)); d != "" {
		t.Error(d)
	}
	m, err := Open(vfs.OS, out, "test directory", testFormat)
	if err != nil || m.Fingerprint != fp {
		t.Fatalf("Open: %v, fingerprint %s, committed %s", err, m.Fingerprint, fp)
	}
	if _, state, err = runStage(vfs.OS, out, 1, false); err != nil || state != StateDone {
		t.Errorf("equal parameters: state %v, %v", state, err)
	}
	if _, _, err = runStage(vfs.OS, out, 2, false); !errors.Is(err, fault.ErrExists) {
		t.Errorf("other parameters: %v", err)
	} else if want := "--seed was 1, now 2"; !contains(err.Error(), want) {
		t.Errorf("%q does not say %q", err, want)
	}
	if fp2, _, err := runStage(vfs.OS, out, 2, true); err != nil || fp2 == fp {
		t.Errorf("--force: fingerprint %s, %v", fp2, err)
	}
	if _, err := os.Stat(out + ".replaced"); err == nil {
		t.Error("the replaced directory was left behind")
	}
}

func contains(s, sub string) bool {
	for i := 0; i+len(sub) <= len(s); i++ {
		if s[i:i+len(sub)] == sub {
			return true
		}
	}
	return false
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "X")
	if _, _, err := runStage(vfs.OS, filepath.Join("stage_test.go", "X"), 1, false); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("below a file: %v", err)
	}
	if err := os.Mkdir(out, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "precious"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, force := range []bool{false, true} {
		if _, _, err := runStage(vfs.OS, out, 1, force); !errors.Is(err, fault.ErrExists) {
			t.Errorf("a directory of the user's, force %t: %v", force, err)
		}
	}
	locked := filepath.Join(dir, "Y")
	d, _, err := Begin(vfs.OS, locked, specOf(1), false)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, _, err := Begin(vfs.OS, locked, specOf(1), false); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("second writer: %v", err)
	}
	if _, err := Open(vfs.OS, locked, "dataset", testFormat); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("open of a directory that is being made: %v", err)
	}
}

// TestNothingElseIsReplaced offers, with --force, what is not this stage's to
// replace.
func TestNothingElseIsReplaced(t *testing.T) {
	write := func(t *testing.T, name, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, precious string
		prepare        func(t *testing.T, out string)
	}{
		{"another format", "X/a.bin", func(t *testing.T, out string) {
			spec := specOf(1)
			spec.Format.Name = "diskgnn.parent"
			d, _, err := Begin(vfs.OS, out, spec, false)
			if err != nil {
				t.Fatal(err)
			}
			if err := vfs.WriteFile(vfs.OS, d.File("a.bin"), nil); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Commit([]File{{"a.bin", 0, binio.Hash(nil)}}, nil, nil); err != nil {
				t.Fatal(err)
			}
		}},
		{"somebody else's meta.json", "X/precious", func(t *testing.T, out string) {
			write(t, filepath.Join(out, MetaFile), `{"name": "a web page"}`)
			write(t, filepath.Join(out, "precious"), "")
		}},
		{"somebody else's .partial", "X.partial/precious", func(t *testing.T, out string) {
			write(t, filepath.Join(out+partialSuffix, "precious"), "")
		}},
	} {
		dir := t.TempDir()
		out := filepath.Join(dir, "X")
		c.prepare(t, out)
		for _, force := range []bool{false, true} {
			if _, _, err := runStage(vfs.OS, out, 1, force); !errors.Is(err, fault.ErrExists) {
				t.Errorf("%s, force %t: %v", c.name, force, err)
			}
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(c.precious))); err != nil {
				t.Errorf("%s, force %t: %v", c.name, force, err)
			}
		}
	}
}

// TestDamaged meets finished and interrupted directories whose files were
// touched: force makes the former again, the latter are never published.
func TestDamaged(t *testing.T) {
	for _, damage := range []func(string) error{
		func(dir string) error { return os.Truncate(filepath.Join(dir, "a.bin"), 1) },
		func(dir string) error { return os.Remove(filepath.Join(dir, "b.bin")) },
		func(dir string) error { return os.Truncate(filepath.Join(dir, MetaFile), 80) },
	} {
		out := filepath.Join(t.TempDir(), "X")
		want, _, err := runStage(vfs.OS, out, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := damage(out); err != nil {
			t.Fatal(err)
		}
		if _, state, err := runStage(vfs.OS, out, 1, false); err == nil {
			t.Errorf("a damaged directory passes for finished: state %v", state)
		}
		if fp, _, err := runStage(vfs.OS, out, 1, true); err != nil || fp != want {
			t.Errorf("force: %v", err)
		}
		if _, err := Open(vfs.OS, out, "test", testFormat); err != nil {
			t.Error(err)
		}
	}

	out := filepath.Join(t.TempDir(), "X")
	d, _, err := Begin(vfs.OS, out, specOf(1), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFile(vfs.OS, d.File("b.bin"), make([]byte, 7)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Commit([]File{{"b.bin", 6, binio.Hash(nil)}}, nil, nil); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a file of another size: %v", err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a directory with a file of another size was published")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestEveryFailure fails each operation in turn, alone and with all later ones,
// and checks that nothing passes for finished, and that the next run finishes
// with the same bytes.
func TestEveryFailure(t *testing.T) {
	ref := filepath.Join(t.TempDir(), "ref")
	want, _, err := runStage(vfs.OS, ref, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			out := filepath.Join(t.TempDir(), "X")
			in := &vfs.FailAt{N: n, After: after, Err: errors.New("boom")}
			_, _, err := runStage(vfs.Inject(vfs.OS, in), out, 1, false)
			if !in.Fired() {
				if err != nil {
					t.Fatalf("no failure injected, yet %v", err)
				}
				break
			}
			if err == nil {
				t.Errorf("operation %d failed unnoticed", n)
			}
			if m, err := Open(vfs.OS, out, "test", testFormat); err == nil && m.Fingerprint != want {
				t.Errorf("operation %d: a wrong directory passes for finished", n)
			}
			if _, _, err := runStage(vfs.OS, out, 1, false); err != nil {
				t.Fatalf("after failing operation %d (later too: %t): %v", n, after, err)
			}
			m, err := Open(vfs.OS, out, "test", testFormat)
			if err != nil || m.Fingerprint != want {
				t.Fatalf("operation %d: %v", n, err)
			}
			if d := cmp.Diff(names(t, ref), names(t, out)); d != "" {
				t.Errorf("operation %d: %s", n, d)
			}
		}
	}
}

func TestTampering(t *testing.T) {
	out := filepath.Join(t.TempDir(), "X")
	if _, _, err := runStage(vfs.OS, out, 1, false); err != nil {
		t.Fatal(err)
	}
	meta := filepath.Join(out, MetaFile)
	b, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	change := func(i int, to byte) {
		t.Helper()
		bad := append([]byte(nil), b...)
		bad[i] = to
		if err := os.WriteFile(meta, bad, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(vfs.OS, out, "test", testFormat); err == nil {
			t.Errorf("byte %d of meta.json, %q, became %q unnoticed", i, b[i], to)
		}
	}
	for i, c := range b {
		if c >= '0' && c <= '9' {
			change(i, '0'+(c-'0'+1)%10)
		}
		for bit := range 8 {
			// Space for space is no change.
			if to := c ^ 1<<bit; !bytes.ContainsRune([]byte(" \n\t\r"), rune(c)) || !bytes.ContainsRune([]byte(" \n\t\r"), rune(to)) {
				change(i, to)
			}
		}
	}
	if err := os.WriteFile(meta, b, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(out, "a.bin"), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(vfs.OS, out, "test", testFormat); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("truncated file: %v", err)
	}
}

// TestPipes puts named pipes, which nobody writes to, in the place of files.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	pipe := func(name string) {
		t.Helper()
		_ = os.Remove(name)
		if err := unix.Mkfifo(name, 0o666); err != nil {
			t.Skip(err)
		}
	}
	out := filepath.Join(dir, "X")
	if _, _, err := runStage(vfs.OS, out, 1, false); err != nil {
		t.Fatal(err)
	}
	pipe(filepath.Join(out, "a.bin"))
	if _, err := Open(vfs.OS, out, "test", testFormat); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a file: %v", err)
	}
	pipe(filepath.Join(out, MetaFile))
	if _, err := Open(vfs.OS, out, "test", testFormat); !errors.Is(err, fault.ErrInput) {
		t.Errorf("%s: %v", MetaFile, err)
	}
	if _, _, err := runStage(vfs.OS, out, 1, true); !errors.Is(err, fault.ErrExists) {
		t.Errorf("%s of an output: %v", MetaFile, err)
	}
	partial := filepath.Join(dir, "Y"+partialSuffix)
	if err := os.Mkdir(partial, 0o777); err != nil {
		t.Fatal(err)
	}
	pipe(filepath.Join(partial, journalFile))
	for _, force := range []bool{false, true} {
		if _, _, err := runStage(vfs.OS, filepath.Join(dir, "Y"), 1, force); !errors.Is(err, fault.ErrExists) {
			t.Errorf("%s, force %t: %v", journalFile, force, err)
		}
	}
}

// TestLinks: a stage works where a link leads, and the link stays. One that leads nowhere is refused
// before the work.
func TestLinks(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.MkdirAll("big/out", 0o777), os.Symlink("big/out", "out"), os.Symlink("big/gone", "gone")); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		seed  int
		force bool
		state State
	}{{1, false, StateNew}, {1, false, StateDone}, {2, true, StateNew}} {
		if _, state, err := runStage(vfs.OS, "out", c.seed, c.force); err != nil || state != c.state {
			t.Fatalf("%d: %v %v, want %v", i, state, err, c.state)
		}
		if st, err := os.Lstat("out"); err != nil || st.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%d: the link is gone: %v", i, err)
		}
		if got := names(t, "big"); !cmp.Equal(got, []string{"out"}) {
			t.Errorf("%d: beside the target: %v", i, got)
		}
		if got := names(t, "big/out"); len(got) != 4 {
			t.Errorf("%d: the target has %v", i, got)
		}
	}
	if _, _, err := runStage(vfs.OS, "gone", 1, false); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("a link to nothing: %v", err)
	}
	if got := names(t, "."); !cmp.Equal(got, []string{"big", "gone", "out"}) {
		t.Errorf("the directory has %v", got)
	}
}

// TestWatch: what a directory is made of is looked at before every journal entry and before
// meta.json. Where it changed, neither is written.
func TestWatch(t *testing.T) {
	out := filepath.Join(t.TempDir(), "d")
	d, _, err := Begin(vfs.OS, out, specOf(1), false)
	if err != nil {
		t.Fatal(err)
	}
	var looks int
	var changed error
	d.Watch(func() error { looks++; return changed })
	if err := d.SaveProgress(1); err != nil || looks != 1 {
		t.Fatalf("%d looks, %v", looks, err)
	}
	changed = errors.New("changed")
	if err := d.SaveProgress(2); !errors.Is(err, changed) {
		t.Errorf("journal: %v", err)
	}
	if _, err := d.Commit(nil, nil, nil); !errors.Is(err, changed) || looks != 3 {
		t.Errorf("%d looks, commit: %v", looks, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{out, filepath.Join(Partial(out), MetaFile)} {
		if ok, err := vfs.Exists(vfs.OS, name); ok || err != nil {
			t.Errorf("%s is there (%v)", name, err)
		}
	}
	d, state, err := Begin(vfs.OS, out, specOf(1), false)
	if err != nil || state != StateResumed {
		t.Fatalf("%v, %v", state, err)
	}
	var kept int
	if _, err := d.Progress(&kept); err != nil || kept != 1 {
		t.Errorf("the journal has %d, %v", kept, err)
	}
	d.Watch(func() error { return nil })
	if _, err := d.Commit(nil, nil, nil); err != nil {
		t.Error(err)
	}
}

func TestCheckFree(t *testing.T) {
	d, _, err := Begin(vfs.OS, filepath.Join(t.TempDir(), "X"), specOf(1), false)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.CheckFree(1); err != nil {
		t.Error(err)
	}
	if err := d.CheckFree(1 << 62); !errors.Is(err, fault.ErrBudget) {
		t.Error(err)
	}
}

func TestCheckParent(t *testing.T) {
	m := &Meta{Parents: map[string]string{RoleDataset: "aaaaaaaaaaaaaaaa"}}
	if err := CheckParent("S", m, RoleDataset, "D", "aaaaaaaaaaaaaaaa"); err != nil {
		t.Error(err)
	}
	for role, says := range map[string]string{
		RoleDataset: "S was made from the dataset aaaaaaaaaaaa…, but D is bbbbbbbbbbbb…: it changed since, or is another one",
		RoleSamples: "S records no samples (it records dataset)",
	} {
		if err := CheckParent("S", m, role, "D", "bbbbbbbbbbbbbbbb"); !errors.Is(err, fault.ErrLineage) || err.Error() != says {
			t.Errorf("%s: %v", role, err)
		}
	}
}
