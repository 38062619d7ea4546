package shard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// told keeps what a merging reports.
type told struct {
	progress.Reporter
	tasks, lines []string
}

func (r *told) Task(name string, total int64, _ progress.Unit) progress.Task {
	r.tasks = append(r.tasks, fmt.Sprint(name, " ", total))
	return progress.Discard.Task("", 0, "")
}

func (r *told) Logf(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// counting counts the files that are open.
type counting struct {
	vfs.FS
	mu   sync.Mutex
	open int
	err  error // of closing a file that was made
}

type counted struct {
	vfs.File
	c    *counting
	made bool
}

func (c *counting) count(f vfs.File, err error, made bool) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	return &counted{f, c, made}, nil
}

func (c *counting) Create(name string) (vfs.File, error) {
	f, err := c.FS.Create(name)
	return c.count(f, err, strings.HasSuffix(name, vfs.TempSuffix))
}

func (c *counting) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	return c.count(f, err, false)
}

func (f *counted) Close() error {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.c.open--
	err := f.File.Close()
	if f.made && f.c.err != nil {
		return f.c.err
	}
	return err
}

// TestLinksFirst: where names can be given, nothing is copied, whatever lies there from an
// interrupted merging.
func TestLinksFirst(t *testing.T) {
	spec := specFor(1, "d")
	dir := t.TempDir()
	dirs := shards(t, filepath.Join(dir, "X"), spec, 2)
	out := filepath.Join(dir, "Y")
	boom := errors.New("boom")
	dead := false // as after a crash
	in := &vfs.FailAt{Err: boom, After: true, Match: func(op vfs.Op, name string) bool {
		dead = dead || op == vfs.OpLink && filepath.Base(name) == "b"
		return dead
	}}
	if _, err := merge(vfs.Inject(disk, in), out, dirs...); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out+".partial", "b"), nil, 0o666); err != nil { // of another size
		t.Fatal(err)
	}
	r, err := merge(disk, out, dirs...)
	if err != nil || r.CopiedBytes != 0 || r.LinkedBytes != int64(len(content(1, "a"))+len(content(1, "b"))+len(content(1, "c"))) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestSaysWhatIsDiscarded: what was begun for something else is discarded, and that is told;
// where there was nothing, nothing is.
func TestSaysWhatIsDiscarded(t *testing.T) {
	spec := specFor(1, "d")
	dir := t.TempDir()
	dirs := shards(t, filepath.Join(dir, "X"), spec, 2)
	for _, begun := range []bool{false, true} {
		o := Options{Out: filepath.Join(dir, fmt.Sprint(begun)), Shards: dirs, Force: true, Formats: map[stage.Format]Assemble{testFormat: assemble}}
		if begun {
			d, _, err := stage.Begin(disk, o.Out, specFor(2, "d"), false)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(d.SaveProgress(true), d.Close()); err != nil {
				t.Fatal(err)
			}
		}
		log := &told{Reporter: progress.Discard}
		if _, err := Merge(t.Context(), disk, o, log); err != nil {
			t.Fatal(err)
		}
		if said := slices.ContainsFunc(log.lines, func(s string) bool { return strings.Contains(s, o.Out+".partial") }); said != begun || slices.Contains(log.lines, "") {
			t.Errorf("begun %v: %q", begun, log.lines)
		}
		if want := []string{"check and take files 9"}; !slices.Equal(log.tasks, want) {
			t.Errorf("tasks: %q, want %q", log.tasks, want)
		}
	}
}

// TestCopiesAreClosed: files are closed once they are copied, and what closing says counts.
func TestCopiesAreClosed(t *testing.T) {
	dir := t.TempDir()
	dirs := shards(t, filepath.Join(dir, "X"), specFor(1, "d"), 2)
	c := &counting{FS: linkless{disk, unix.EXDEV, 1 << 40}}
	if _, err := merge(c, filepath.Join(dir, "Y"), dirs...); err != nil || c.open != 0 {
		t.Errorf("%d files are left open (%v)", c.open, err)
	}
	c.err = errors.New("boom")
	if _, err := merge(c, filepath.Join(dir, "Z"), dirs...); !errors.Is(err, c.err) || c.open != 0 {
		t.Errorf("%d files are left open (%v)", c.open, err)
	}
}

// TestNamesTheCause: where a file cannot be made, that is what the error says.
func TestNamesTheCause(t *testing.T) {
	dir := t.TempDir()
	dirs := shards(t, filepath.Join(dir, "X"), specFor(1, "d"), 2)
	boom := errors.New("boom")
	for n := 0; ; n++ {
		in := &vfs.FailAt{N: n, Err: boom, Match: func(op vfs.Op, _ string) bool { return op == vfs.OpCreate }}
		_, err := merge(vfs.Inject(linkless{disk, unix.EXDEV, 1 << 40}, in), filepath.Join(dir, fmt.Sprint(n)), dirs...)
		if !in.Fired() {
			if err != nil || n < 6 {
				t.Errorf("%d files were made (%v)", n, err)
			}
			break
		}
		if !errors.Is(err, boom) {
			t.Errorf("file %d: %v", n, err)
		}
	}
}

// TestMissingShards: up to eight are named.
func TestMissingShards(t *testing.T) {
	dir := t.TempDir()
	for n, says := range map[int]string{
		9:  ": 1/9, 2/9, 3/9, 4/9, 5/9, 6/9, 7/9, 8/9; 1/9",
		10: ": 1/10, 2/10, 3/10, 4/10, 5/10, 6/10, 7/10, 8/10, … (9 in all); 1/10",
	} {
		dirs := shards(t, filepath.Join(dir, fmt.Sprint(n)), specFor(1, "d"), n)
		if _, err := OpenSet(disk, dirs[:1]); !errors.Is(err, fault.ErrUsage) || !strings.HasSuffix(err.Error(), says+" is made by the command that made it --shard "+strings.Split(says, "; ")[1]+", with the other flags of the shards that are there") {
			t.Errorf("one of %d: %v", n, err)
		}
	}
	three, other := shards(t, filepath.Join(dir, "x"), specFor(1, "d"), 3), shards(t, filepath.Join(dir, "y"), specFor(2, "d"), 3)
	want := fmt.Sprintf("%s and %s are parts of different directories", three[0], other[2])
	if _, err := OpenSet(disk, []string{three[0], three[1], other[2]}); !errors.Is(err, fault.ErrLineage) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s…", err, want)
	}
}

// TestMoreThanShards: what says that it is a shard, and does not say which, is damaged.
func TestMoreThanShards(t *testing.T) {
	for what, params := range map[string]any{
		"a list":   []int{1},
		"nothing":  map[string]int{"seed": 1},
		"a number": map[string]int{"seed": 1, paramKey: 3},
	} {
		out := filepath.Join(t.TempDir(), "X")
		d, _, err := stage.Begin(disk, out, stage.Spec{Format: testFormat.Shard(), Params: params}, false)
		if err != nil {
			t.Fatal(err)
		}
		f, err := writeSizes(d, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Commit([]stage.File{f}, nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenSet(disk, []string{out}); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("params are %s: %v", what, err)
		}
	}
}

// TestLimits: there may be one to 65536 shards, counted from zero.
func TestLimits(t *testing.T) {
	for s, says := range map[Shard]string{
		{0, 1}: "", {65535, 65536}: "", {40000, 50000}: "",
		{0, 65537}: "there may be 1 to 65536", {1, 0}: "there may be 1 to 65536", {0, -1}: "there may be 1 to 65536",
		{5, 5}: "from 0, here to 4", {-1, 5}: "from 0, here to 4",
	} {
		err := s.Validate()
		if (err == nil) != (says == "") || err != nil && (!errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%v: %v", s, err)
		}
	}
}
