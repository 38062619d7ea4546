package stage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

var (
	errBoom = errors.New("boom")
	disk    = vfs.Unsynced(vfs.OS)
)

// interrupt runs the stage until an operation at which it dies.
func interrupt(t *testing.T, out string, seed int, match func(op vfs.Op, name string) bool) {
	t.Helper()
	in := &vfs.FailAt{After: true, Err: errBoom, Match: match}
	if _, _, err := runStage(vfs.Inject(disk, in), out, seed, false); !errors.Is(err, errBoom) {
		t.Fatalf("not interrupted: %v", err)
	}
}

func at(op vfs.Op, base string) func(vfs.Op, string) bool {
	return func(o vfs.Op, name string) bool { return o == op && filepath.Base(name) == base }
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestFlippedBytes interrupts the stage at every operation, changes a byte of each file
// that is there, of longer ones several, one at a time, and resumes: what comes of it is
// the directory that an uninterrupted run makes, or an error that says what to do.
func TestFlippedBytes(t *testing.T) {
	dir := vfstest.TempDir(t)
	ref := filepath.Join(dir, "ref")
	want, _, err := runStage(disk, ref, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		out := filepath.Join(dir, fmt.Sprint(n))
		in := &vfs.FailAt{N: n, After: true, Err: errBoom}
		_, _, err := runStage(vfs.Inject(disk, in), out, 1, false)
		if !in.Fired() {
			break
		}
		if err == nil {
			t.Fatalf("operation %d failed unnoticed", n)
		}
		partial := out + partialSuffix
		if _, err := os.Stat(partial); err != nil {
			continue // the name was given already
		}
		left := filepath.Join(dir, "left")
		if err := os.Rename(partial, left); err != nil {
			t.Fatal(err)
		}
		for _, name := range names(t, left) {
			content := read(t, filepath.Join(left, name))
			step := max(len(content)/5, 1)
			for i := n % step; i < len(content); i += step {
				if err := os.CopyFS(partial, os.DirFS(left)); err != nil {
					t.Fatal(err)
				}
				bad := bytes.Clone(content)
				bad[i] ^= 1 << (i % 8)
				write(t, filepath.Join(partial, name), bad)
				fp, _, err := runStage(disk, out, 1, false)
				if err != nil {
					if name != journalFile || !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "--force discards it") {
						t.Fatalf("operation %d, byte %d of %s: %v", n, i, name, err)
					}
					if fp, _, err = runStage(disk, out, 1, true); err != nil {
						t.Fatalf("operation %d, byte %d of %s: with force: %v", n, i, name, err)
					}
				}
				m, err := Open(disk, out, "test", testFormat)
				if err == nil {
					err = checkFiles(disk, out, m.Files, Bytes)
				}
				if err != nil || m.Fingerprint != want || fp != "" && fp != want {
					t.Fatalf("operation %d, byte %d of %s: another directory was published: %v", n, i, name, err)
				}
				if err := os.RemoveAll(out); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.RemoveAll(left); err != nil {
			t.Fatal(err)
		}
	}
}

// TestJournalBytes changes every byte of a journal, and cuts it everywhere.
func TestJournalBytes(t *testing.T) {
	j := journal{Format: testFormat, Hash: "ab", Params: json.RawMessage(`{"seed":1}`), By: "merge", Progress: json.RawMessage(`[1,2]`)}
	good, err := j.encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := decodeJournal(good)
	if d := cmp.Diff(j, back); d != "" || err != nil {
		t.Fatal(d, err)
	}
	for i := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			if _, err := decodeJournal(bad); !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
		if _, err := decodeJournal(good[:i]); err == nil {
			t.Fatalf("the first %d bytes", i)
		}
	}
}

// TestBegunOtherwise meets directories that were begun by something else: they are
// refused in the user's words, and discarded with force alone.
func TestBegunOtherwise(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Spec)
		says   string
	}{
		"a parameter": {func(s *Spec) { s.Params = map[string]any{"seed": 2} }, "(--seed was 1, now 2)"},
		"parameters": {func(s *Spec) {
			s.Params = map[string]any{"seed": 1, "batch_size": 3, "fanout": []int{1, 2}, "compress": true}
		}, "(--batch-size was not given, now 3; --compress was not given, now given; --fanout was not given, now 1,2)"},
		"a parent":  {func(s *Spec) { s.Parents = map[string]string{RoleDataset: "def"} }, "(--dataset was another (abc, now def))"},
		"the way":   {func(s *Spec) { s.By = "merge" }, "(it was made by its own command, now by diskgnn merge)"},
		"a version": {func(s *Spec) { s.Format.Version = 2 }, "(it was of version 1, now 2)"},
		"words": {func(s *Spec) {
			s.Params = map[string]any{"seed": 2, "left": "out"}
			s.Words = func(param string, v json.RawMessage) (string, string) {
				return map[string]string{"seed": "--luck"}[param], "<" + string(v) + ">"
			}
		}, "(--luck was <1>, now <2>)"},
	} {
		out := filepath.Join(t.TempDir(), "X")
		interrupt(t, out, 1, at(vfs.OpCreate, RunFile))
		before := names(t, out+partialSuffix)
		spec := specOf(1)
		c.change(&spec)
		_, _, err := Begin(disk, out, spec, false)
		if !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "--force to discard it") {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(before, names(t, out+partialSuffix)); d != "" {
			t.Errorf("%s: a refusal changed the directory: %s", name, d)
		}
		if d, state, err := Begin(disk, out, spec, true); err != nil || state != StateNew || d.Note() == "" {
			t.Errorf("%s, force: %v, %v", name, state, err)
		} else if err := d.Close(); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff([]string{journalFile, lockFile}, names(t, out+partialSuffix)); d != "" {
			t.Errorf("%s, force: %s", name, d)
		}
		if d, _, err := Begin(disk, out, spec, false); err != nil {
			t.Errorf("%s, again: %v", name, err)
		} else if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestBegunAlone meets a directory that was begun otherwise and of which nothing is
// finished: nobody loses anything by it.
func TestBegunAlone(t *testing.T) {
	out := filepath.Join(t.TempDir(), "X")
	interrupt(t, out, 1, at(vfs.OpCreate, "b.bin"))
	d, state, err := Begin(disk, out, specOf(2), false)
	if err != nil || state != StateNew || !strings.Contains(d.Note(), "nothing of it is finished") {
		t.Fatal(state, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, state, err := runStage(disk, out, 2, false); err != nil || state != StateResumed {
		t.Error(state, err)
	}
}

// TestForeignJournals leaves what no stage wrote, whatever it is called.
func TestForeignJournals(t *testing.T) {
	for _, content := range []string{"", "{}", `{"name":"a diary"}`, "\x00\x00\x00"} {
		out := filepath.Join(t.TempDir(), "X")
		if err := os.Mkdir(out+partialSuffix, 0o777); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(out+partialSuffix, journalFile), []byte(content))
		write(t, filepath.Join(out+partialSuffix, "precious"), nil)
		for _, force := range []bool{false, true} {
			if _, _, err := runStage(disk, out, 1, force); !errors.Is(err, fault.ErrExists) {
				t.Errorf("%q, force %t: %v", content, force, err)
			}
		}
		read(t, filepath.Join(out+partialSuffix, "precious"))
	}
	// A journal as earlier versions wrote it.
	out := filepath.Join(t.TempDir(), "X")
	if err := os.Mkdir(out+partialSuffix, 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(out+partialSuffix, journalFile), []byte(`{"format":{"name":"diskgnn.test","version":1},"params_sha256":"00"}`))
	if _, _, err := runStage(disk, out, 1, false); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "earlier version") {
		t.Error(err)
	}
	if _, state, err := runStage(disk, out, 1, true); err != nil || state != StateNew {
		t.Error(state, err)
	}
}

// TestDamagedTables calls nothing finished whose tables are damaged.
func TestDamagedTables(t *testing.T) {
	out := filepath.Join(t.TempDir(), "X")
	if _, _, err := runStage(disk, out, 1, false); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(out, "a.bin"), []byte{9, 9})
	if _, state, err := runStage(disk, out, 1, false); !errors.Is(err, fault.ErrCorrupt) || !strings.HasSuffix(err.Error(), "a.bin: other bytes; use --force to make it again") {
		t.Errorf("state %v, %v", state, err)
	}
	if _, _, err := runStage(disk, out, 1, true); err != nil {
		t.Error(err)
	}
	if _, state, err := runStage(disk, out, 1, false); err != nil || state != StateDone {
		t.Errorf("state %v, %v", state, err)
	}
}

// TestCrashesUnderForce dies at every operation of a replacement: the next run of the
// same command leaves nothing beside the directory, and one of the two is always there.
func TestCrashesUnderForce(t *testing.T) {
	dir := vfstest.TempDir(t)
	for _, again := range []bool{false, true} { // with --force
		for n := 0; ; n++ {
			out := filepath.Join(dir, fmt.Sprint(again, n))
			if _, _, err := runStage(disk, out, 1, false); err != nil {
				t.Fatal(err)
			}
			in := &vfs.FailAt{N: n, After: true, Err: errBoom}
			_, _, err := runStage(vfs.Inject(disk, in), out, 2, true)
			if !in.Fired() {
				break
			}
			there := 0
			for _, suffix := range []string{"", partialSuffix, replacedSuffix} {
				if m, err := ReadMeta(disk, out+suffix, "test"); err == nil && m.checkSizes(disk, out+suffix) == nil {
					there++
				}
			}
			if there == 0 {
				t.Fatalf("operation %d (%v): both directories are gone", n, err)
			}
			was, err := ReadMeta(disk, out, "test")
			replaced := err == nil && !bytes.Contains(was.Params, []byte("1"))
			if _, _, err := runStage(disk, out, 2, again || !replaced); err != nil {
				t.Fatalf("after operation %d: %v", n, err)
			}
			if m, err := Open(disk, out, "test", testFormat); err != nil || !bytes.Contains(m.Params, []byte("2")) {
				t.Fatalf("after operation %d: %v", n, err)
			}
			for _, suffix := range []string{partialSuffix, replacedSuffix} {
				if _, err := os.Stat(out + suffix); err == nil {
					t.Errorf("after operation %d: %s was left behind", n, suffix)
				}
			}
			if d := cmp.Diff([]string{"a.bin", "b.bin", MetaFile, RunFile}, names(t, out)); d != "" {
				t.Errorf("after operation %d: %s", n, d)
			}
		}
	}
}

// TestReplacedIsNotOurs has something of the user's where a directory would be moved.
func TestReplacedIsNotOurs(t *testing.T) {
	out := filepath.Join(t.TempDir(), "X")
	if _, _, err := runStage(disk, out, 1, false); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(out+replacedSuffix, "precious")
	if err := os.Mkdir(out+replacedSuffix, 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, precious, nil)
	if _, _, err := runStage(disk, out, 2, true); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "X.replaced is in the way") {
		t.Error(err)
	}
	if _, state, err := runStage(disk, out, 1, false); err != nil || state != StateDone {
		t.Error(state, err)
	}
	read(t, precious)
}

// TestClaims tells a format from those whose names begin alike.
func TestClaims(t *testing.T) {
	for format, want := range map[Format]bool{{"diskgnn.samples", 1}: true, {"diskgnn.samples-shard", 1}: false, {"diskgnn.sample", 1}: false} {
		out := filepath.Join(t.TempDir(), "X")
		spec := Spec{Format: format, Params: params{1}}
		d, _, err := Begin(disk, out, spec, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Commit(nil, nil, nil); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(out, MetaFile), 100); err != nil {
			t.Fatal(err)
		}
		spec.Format = Format{"diskgnn.samples", 1}
		if d, _, err = Begin(disk, out, spec, true); (err == nil) != want {
			t.Errorf("a damaged %s replaced by samples: %v", format.Name, err)
		}
		if err == nil {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Stat(filepath.Join(out, MetaFile)); err != nil {
			t.Error(err)
		}
	}
}

// vanishing is a file system in which another process finishes a directory in the moment
// before it is locked, so many times.
type vanishing struct {
	vfs.FS
	times  int
	finish func(dir string)
}

func (v *vanishing) Lock(name string) (io.Closer, error) {
	if v.times > 0 {
		v.times--
		v.finish(filepath.Dir(name))
	}
	return v.FS.Lock(name)
}

// TestBeginBesideOthers begins while another process finishes, or gives up.
func TestBeginBesideOthers(t *testing.T) {
	remove := func(dir string) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "X")
	if _, state, err := runStage(&vanishing{disk, 3, remove}, out, 1, false); err != nil || state != StateNew {
		t.Errorf("gone three times: %v, %v", state, err)
	}
	out = filepath.Join(t.TempDir(), "X")
	if _, _, err := runStage(&vanishing{disk, 1 << 20, remove}, out, 1, false); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("gone again and again: %v", err)
	}
	// Another process makes the same, from beginning to end.
	out = filepath.Join(t.TempDir(), "X")
	finish := func(dir string) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if _, _, err := runStage(disk, out, 1, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, state, err := runStage(&vanishing{disk, 1, finish}, out, 1, false); err != nil || state != StateDone {
		t.Errorf("finished meanwhile: %v, %v", state, err)
	}
	// It does so after this one has made the directory to lock.
	out = filepath.Join(t.TempDir(), "X")
	other := filepath.Join(t.TempDir(), "O")
	finish = func(string) {
		if _, _, err := runStage(disk, other, 1, false); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(other, out); err != nil {
			t.Fatal(err)
		}
	}
	if _, state, err := runStage(&vanishing{disk, 1, finish}, out, 1, false); err != nil || state != StateDone {
		t.Errorf("finished meanwhile: %v, %v", state, err)
	}
	if _, err := os.Stat(out + partialSuffix); err == nil {
		t.Error("an empty .partial was left behind")
	}
}

// TestNothingIsAbandoned finds the directory finished otherwise behind an interrupted
// run's back: its .partial stays.
func TestNothingIsAbandoned(t *testing.T) {
	out := filepath.Join(t.TempDir(), "X")
	interrupt(t, out, 1, at(vfs.OpCreate, RunFile))
	before := names(t, out+partialSuffix)
	finish := func(string) {
		other := filepath.Join(t.TempDir(), "O")
		if _, _, err := runStage(disk, other, 2, false); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(other, out); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := runStage(&vanishing{disk, 1, finish}, out, 1, false); !errors.Is(err, fault.ErrExists) {
		t.Error(err)
	}
	if d := cmp.Diff(before, names(t, out+partialSuffix)); d != "" {
		t.Error(d)
	}
}

// tidier removes what is about to be removed: another process does the same.
type tidier struct{}

func (tidier) Before(op vfs.Op, name string) error {
	if base := filepath.Base(name); op == vfs.OpRemove && (base == journalFile || base == lockFile) {
		return os.Remove(name)
	}
	return nil
}

// TestTidyInTwoProcesses finishes a directory that another process, which found it
// finished, tidies at the same time.
func TestTidyInTwoProcesses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "X")
	if _, _, err := runStage(vfs.Inject(disk, tidier{}), out, 1, false); err != nil {
		t.Error(err)
	}
	// A run died before it had tidied.
	write(t, filepath.Join(out, journalFile), nil)
	write(t, filepath.Join(out, lockFile), nil)
	if _, state, err := runStage(vfs.Inject(disk, tidier{}), out, 1, false); err != nil || state != StateDone {
		t.Error(state, err)
	}
	if d := cmp.Diff([]string{"a.bin", "b.bin", MetaFile, RunFile}, names(t, out)); d != "" {
		t.Error(d)
	}
	// One that lives is still at it.
	write(t, filepath.Join(out, journalFile), nil)
	l, err := disk.Lock(filepath.Join(out, lockFile))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, state, err := runStage(disk, out, 1, false); err != nil || state != StateDone {
		t.Error(state, err)
	}
	read(t, filepath.Join(out, journalFile))
}

// readOnly is a file system that takes no locks.
type readOnly struct{ vfs.FS }

func (readOnly) Lock(name string) (io.Closer, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestFinishedOnReadOnlyDisk(t *testing.T) {
	out := filepath.Join(t.TempDir(), "X")
	if _, _, err := runStage(disk, out, 1, false); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(out, lockFile), nil)
	if _, state, err := runStage(readOnly{disk}, out, 1, false); err != nil || state != StateDone {
		t.Error(state, err)
	}
}

// TestFingerprint compares the fingerprint, written member by member, with the hash of
// the canonical JSON of the whole.
func TestFingerprint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"b":1,"a":[1.50,"<&>"]}`), json.RawMessage("null"), json.RawMessage(`""`)})
		m := Meta{
			Format:  Format{rapid.String().Draw(t, "name"), rapid.Int().Draw(t, "version")},
			Params:  object.Draw(t, "params"),
			Parents: rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "parents"),
			Facts:   object.Draw(t, "facts"),
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "files") {
			m.Files = append(m.Files, File{fmt.Sprint(9-i, rapid.String().Draw(t, "file")), rapid.Int64().Draw(t, "size"), rapid.String().Draw(t, "sum")})
		}
		if rapid.Bool().Draw(t, "empty") && m.Files == nil {
			m.Files = []File{}
		}
		got, err := m.fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		for i, j := 0, len(m.Files)-1; i < j; i, j = i+1, j-1 {
			m.Files[i], m.Files[j] = m.Files[j], m.Files[i]
		}
		if want, err := hashJSON(m); err != nil || got != want {
			t.Fatalf("%s, of the whole %s, %v", got, want, err)
		}
	})
}

// TestHugeMeta reads meta.json that would take gigabytes.
func TestHugeMeta(t *testing.T) {
	entry := `{"name":"f%08d","size":0,"checksum":"` + binio.Hash(nil) + `"},`
	var files strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&files, entry, i)
	}
	const long = 4 << 20
	for name, c := range map[string]struct {
		text string
		most uint64 // bytes to allocate
	}{
		"too long":              {strings.Repeat(" ", maxMeta) + "{}", 1 << 20},
		"50,000 files":          {`{"files":[` + strings.TrimSuffix(files.String(), ",") + `]}`, 100 << 20},
		"files without a name":  {`{"files":[` + strings.Repeat("{},", long/3) + `{}]}`, 64 << 20},
		"no list of files":      {`{"files":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, 1 << 20},
		"nested parameters":     {`{"params":` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + `}`, 10 << 20},
		"long parameters":       {`{"params":[` + strings.Repeat("1,", long/2) + `1]}`, 64 << 20},
		"long facts":            {`{"facts":[` + strings.Repeat("1,", long/2) + `1]}`, 64 << 20},
		"parameters at a limit": {`{"params":[` + strings.Repeat("1,", maxRaw/2-8) + `1]}`, 64 << 20},
		"many parents":          {`{"parents":{` + strings.Repeat(`"":"",`, long/6) + `"":""}}`, 64 << 20},
		"unknown members":       {`{` + strings.Repeat(`"":0,`, long/5) + `"":0}`, 64 << 20},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, MetaFile), []byte(c.text))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ReadMeta(disk, dir, "test")
		runtime.ReadMemStats(&after)
		if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrInput) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
			t.Errorf("%s: %.200v", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > c.most {
			t.Errorf("%s: %d MiB were allocated of a text of %d", name, n>>20, len(c.text)>>20)
		}
	}
}

// TestForgedMeta reads lists of files whose fingerprint is right.
func TestForgedMeta(t *testing.T) {
	sum := binio.Hash(nil)
	for name, files := range map[string][]File{
		"no name":       {{"", 0, sum}},
		"above":         {{"../a", 0, sum}},
		"absolute":      {{"/etc/passwd", 0, sum}},
		"twice":         {{"a", 0, sum}, {"a", 0, sum}},
		"itself":        {{MetaFile, 0, sum}},
		"no checksum":   {{"a", 0, ""}},
		"a longer one":  {{"a", 0, sum + "00"}},
		"not a number":  {{"a", 0, strings.Repeat("x", 64)}},
		"negative size": {{"a", -1, sum}},
	} {
		dir := t.TempDir()
		m := Meta{Format: testFormat, Files: files}
		var err error
		if m.Fingerprint, err = m.fingerprint(); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, MetaFile), b)
		if _, err := Open(disk, dir, "test", testFormat); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDamagedSaysWhatToDo(t *testing.T) {
	corrupt := fault.New(fault.ErrCorrupt, "a.bin: bytes 0 to 7")
	for format, says := range map[Format]string{
		{"diskgnn.dataset", 2}:       "; D is damaged: make it again, by its diskgnn generate or import with --force, or from a copy",
		{"diskgnn.samples", 1}:       "by its diskgnn presample with --force",
		{"diskgnn.samples-shard", 1}: "by its diskgnn presample --shard with --force",
		{"diskgnn.pack", 1}:          "by its diskgnn pack with --force",
		{}:                           "by the command that made it with --force",
	} {
		err := Damaged(fmt.Errorf("read: %w", corrupt), "D", format)
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "read: a.bin: bytes 0 to 7; ") {
			t.Errorf("%v: %v", format, err)
		}
		if again := Damaged(fmt.Errorf("once more: %w", err), "E", format); strings.Count(again.Error(), "damaged") != 1 {
			t.Error(again)
		}
		if plain := plainly(err); plain.Error() != "read: a.bin: bytes 0 to 7" {
			t.Error(plain)
		}
	}
	if err := Damaged(errBoom, "D", testFormat); err != errBoom {
		t.Error(err)
	}
	if err := Damaged(nil, "D", testFormat); err != nil {
		t.Error(err)
	}
}

func FuzzMeta(f *testing.F) {
	m := Meta{Format: testFormat, Params: json.RawMessage(`{"seed":1}`), Files: []File{{"a", 1, binio.Hash(nil)}}, Parents: map[string]string{"a": "b"}}
	b, err := json.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"files":null,"params":[[]],"facts":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		fp, err := m.fingerprint()
		if err != nil {
			return
		}
		if want, err := hashJSON(Meta{m.Format, m.Params, m.Parents, m.Facts, m.Files, ""}); err == nil && fp != want {
			t.Fatalf("fingerprint %s, of the whole %s", fp, want)
		}
	})
}

func FuzzJournal(f *testing.F) {
	j := journal{Format: testFormat, Hash: "ab", Params: json.RawMessage("{}")}
	b, err := j.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		// The checksum is made to fit.
		if sum := len(journalHead) + 64; len(b) > sum {
			b = append([]byte(journalHead+binio.Hash(b[sum:])), b[sum:]...)
		}
		if _, err := decodeJournal(b); err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrExists) {
			t.Fatal(err)
		}
	})
}
