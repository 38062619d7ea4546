package iostacktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// stripe writes content striped over n files and returns their paths.
func stripe(t testing.TB, content []byte, n, unit int) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	s := iostack.Striping{Files: n, Unit: unit}
	parts := make([][]byte, n)
	for at := 0; at < len(content); {
		file, _, length := s.Locate(int64(at))
		end := min(at+length, len(content))
		parts[file] = append(parts[file], content[at:end]...)
		at = end
	}
	for i, part := range parts {
		path := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(path, part, 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// testStriped reads random ranges of a striped file, and the same ranges of the plain file.
func testStriped(t *testing.T, s iostack.Stack, copies bool) {
	const files, unit = 3, 16 << 10
	path, content := WriteFile(t, 600<<10+77)
	plain := OpenFile(t, s, path)
	paths := stripe(t, content, files, unit)
	f, err := iostack.OpenStriped(s, paths, unit)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Name() != strings.Join(paths, ",") || f.Size() != int64(len(content)) {
		t.Errorf("Name %q, Size %d, want %d", f.Name(), f.Size(), len(content))
	}
	a := newArena(t, 2<<20)
	rapid.Check(t, func(t *rapid.T) {
		a.reset()
		var g iostack.Group
		var reqs []iostack.Request
		for range rapid.IntRange(1, 5).Draw(t, "requests") {
			file := rapid.SampledFrom([]iostack.File{f, f, plain}).Draw(t, "file")
			offset := rapid.IntRange(0, len(content)).Draw(t, "offset")
			n := rapid.IntRange(0, min(200<<10, len(content)-offset)).Draw(t, "length")
			skip := rapid.SampledFrom([]int{0, offset % 4096, 7}).Draw(t, "skip")
			reqs = append(reqs, iostack.Request{File: file, Offset: int64(offset), Buf: a.buf(skip, n)})
		}
		submit(t, s, &g, reqs...)
		wait(t, s, &g)
		for _, r := range reqs {
			compare(t, r, content)
		}
		a.check(t)
	})

	a.reset()
	var g iostack.Group
	beyond := iostack.Request{File: f, Offset: int64(len(content) - 100), Buf: a.buf(0, 100<<10)}
	submit(t, s, &g, iostack.Request{File: f, Buf: a.buf(0, 10)}, beyond)
	checkTruncated(t, waitForFailure(t, s, &g), beyond, 1, "100 of 102400 bytes")

	// The second file loses its end: the error has offsets of the logical file.
	if err := os.Truncate(paths[1], 5000); err != nil {
		t.Fatal(err)
	}
	lost := iostack.Request{File: f, Offset: 1000, Buf: a.buf(0, 100<<10)}
	if !copies {
		submit(t, s, &g, lost)
		checkTruncated(t, waitForFailure(t, s, &g), lost, 0, strconv.Itoa(unit+5000-1000)+" of 102400 bytes")
		a.check(t)
	}

	for name, c := range map[string]struct {
		paths []string
		unit  int
		want  error
	}{
		"no files":            {nil, unit, fault.ErrUsage},
		"a crooked unit":      {paths, 5000, fault.ErrUsage},
		"sizes that disagree": {paths, unit, fault.ErrInput},
		"a missing file":      {append(paths[:2:2], paths[2]+".missing"), unit, os.ErrNotExist},
		"the first missing":   {append([]string{paths[0] + ".missing"}, paths[1:]...), unit, os.ErrNotExist},
		"the first no file":   {append([]string{filepath.Dir(paths[0])}, paths[1:]...), unit, fault.ErrInput},
	} {
		before := descriptors(t)
		if f, err := iostack.OpenStriped(s, c.paths, c.unit); !errors.Is(err, c.want) || f != nil {
			t.Errorf("%s: %v, %v", name, f, err)
		}
		if after := descriptors(t); after != before {
			t.Errorf("%s: the first descriptors were %s, are %s", name, before, after)
		}
	}

	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	submit(t, s, &g, lost)
	if err := s.Wait(context.Background(), &g); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file is closed: %v", err)
	}
}

// descriptors lists the process's first descriptors, which the stack must not close.
func descriptors(t *testing.T) (text string) {
	t.Helper()
	for fd := range 3 {
		to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if _, e := os.Stat("/proc/self/fd"); e != nil {
			return ""
		}
		text += fmt.Sprintf("%d: %s %v; ", fd, to, err)
	}
	return text
}
