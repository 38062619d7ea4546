package stage

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// says checks that an error is of a kind and has some text; nil without a kind.
func says(t *testing.T, what string, err, kind error, text string) {
	t.Helper()
	if kind == nil && err == nil {
		return
	}
	if kind == nil || !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, not %q", what, err, text)
	}
}

// TestListOfFiles: what the list of files of a meta.json may be.
func TestListOfFiles(t *testing.T) {
	entry := func(name string, size int) string {
		return fmt.Sprintf(`{"name":%q,"size":%d,"checksum":%q}`, name, size, binio.Hash(nil))
	}
	for _, c := range []struct {
		list string
		n    int    // files; -1: nil
		says string // "": it is one
	}{
		{"", -1, ""},
		{"null", -1, ""},
		{"[]", 0, ""},
		{"[" + entry("a", 0) + "]", 1, ""},
		{"[" + entry("a", 5) + "," + entry("b/c", 0) + "]", 2, ""},
		{"{}", 0, "files are no list"},
		{"7", 0, "files are no list"},
		{"[7]", 0, "cannot unmarshal number"},
		{"[" + entry("", 0) + "]", 0, `file name ""`},
		{"[" + entry("../a", 0) + "]", 0, `file name "../a"`},
		{"[" + entry("/a", 0) + "]", 0, `file name "/a"`},
		{"[" + entry("a", -1) + "]", 0, "a has the invalid size of -1 bytes"},
		{`[{"name":"a","size":0,"checksum":"00"}]`, 0, `a has the invalid checksum "00"`},
		{`[{"name":"a","size":0,"checksum":"` + strings.Repeat("g", 64) + `"}]`, 0, `a has the invalid checksum "ggg`},
		{"[" + entry("a", 0) + "," + entry("a", 0) + "]", 0, "a is listed twice, or out of order"},
		{"[" + entry("b", 0) + "," + entry("a", 0) + "]", 0, "a is listed twice, or out of order"},
		{"[" + entry("META.json", 0) + "]", 0, "META.json is listed twice"},
	} {
		files, err := decodeFiles(json.RawMessage(c.list))
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, not %q", c.list, err, c.says)
			}
			continue
		}
		if err != nil || len(files) != max(0, c.n) || (files == nil) != (c.n < 0) {
			t.Errorf("%s: %v, %v", c.list, files, err)
		}
	}
}

// TestMetaLimits: parameters, facts and parents may be as long as they may, and no byte longer.
func TestMetaLimits(t *testing.T) {
	text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	parents := func(n int) string { return `{"a":"` + strings.Repeat("x", n-8) + `"}` }
	for _, c := range []struct{ meta, says string }{
		{`{"params":` + text(256<<10) + `,"facts":` + text(256<<10) + `,"parents":` + parents(64<<10) + `}`, ""},
		{`{"params":` + text(256<<10+1) + `}`, "parameters of 262145 bytes, facts of 0 or parents of 0 exceed their limits"},
		{`{"facts":` + text(256<<10+1) + `}`, "parameters of 0 bytes, facts of 262145 or parents of 0 exceed their limits"},
		{`{"parents":` + parents(64<<10+1) + `}`, "parameters of 0 bytes, facts of 0 or parents of 65537 exceed their limits"},
		{`{"parents":7}`, "cannot unmarshal number"},
		{`[]`, "cannot unmarshal array"},
	} {
		m, err := decodeMeta([]byte(c.meta))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.20s: %v, not %q", c.meta, err, c.says)
		}
		if err == nil && len(m.Parents["a"]) != 64<<10-8 {
			t.Errorf("%.20s: %d parents", c.meta, len(m.Parents))
		}
	}
}

// TestMetaParts: what is asked of a Meta by hand.
func TestMetaParts(t *testing.T) {
	m := Meta{Params: json.RawMessage(`{"seed":3}`), Facts: json.RawMessage(`[]`), Files: []File{{"a", 5, "x"}, {"b", 7, "y"}}}
	if n := m.Bytes(); n != 12 {
		t.Errorf("%d bytes", n)
	}
	for name, want := range map[string]File{"a": m.Files[0], "b": m.Files[1], "c": {}} {
		if f, ok := m.File(name); f != want || ok != (name != "c") {
			t.Errorf("%s: %+v, %v", name, f, ok)
		}
	}
	var p params
	if err := m.DecodeParams(&p); err != nil || p.Seed != 3 {
		t.Errorf("%+v, %v", p, err)
	}
	says(t, "facts", m.DecodeFacts(&p), fault.ErrCorrupt, "meta.json: facts: json: cannot unmarshal array")
	m.Params = json.RawMessage(`7`)
	says(t, "params", m.DecodeParams(&p), fault.ErrCorrupt, "meta.json: params: json: cannot unmarshal number")
}

// TestWhatOpenRefuses: of what is there instead of a finished directory, each has a sentence.
func TestWhatOpenRefuses(t *testing.T) {
	made := func(t *testing.T, name string, version int) string {
		dir := t.TempDir()
		m := Meta{Format: Format{name, version}, Files: []File{{"a.bin", 2, binio.Hash([]byte{1, 2})}}}
		var err error
		if m.Fingerprint, err = m.fingerprint(); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, MetaFile), b)
		write(t, filepath.Join(dir, "a.bin"), []byte{1, 2})
		return dir
	}
	for name, c := range map[string]struct {
		dir  func(t *testing.T) string
		kind error
		says string
	}{
		"whole":     {func(t *testing.T) string { return made(t, "diskgnn.test", 1) }, nil, ""},
		"version 3": {func(t *testing.T) string { return made(t, "diskgnn.test", 3) }, nil, ""},
		"version 2": {func(t *testing.T) string { return made(t, "diskgnn.test", 2) }, fault.ErrVersion, "diskgnn.test is version 2, this program reads version 1 and 3: "},
		"a shard":   {func(t *testing.T) string { return made(t, "diskgnn.test-shard", 1) }, fault.ErrInput, "is one shard of a thing: combine all its shards"},
		"another":   {func(t *testing.T) string { return made(t, "diskgnn.other", 1) }, fault.ErrInput, "is a other directory, not a thing"},
		"a shorter file": {func(t *testing.T) string {
			dir := made(t, "diskgnn.test", 1)
			write(t, filepath.Join(dir, "a.bin"), []byte{1})
			return dir
		}, fault.ErrCorrupt, "a.bin has 1 bytes instead of 2"},
		"no file": {func(t *testing.T) string {
			dir := made(t, "diskgnn.test", 1)
			if err := os.Remove(filepath.Join(dir, "a.bin")); err != nil {
				t.Fatal(err)
			}
			return dir
		}, fault.ErrCorrupt, "a.bin is missing"},
		"a directory in its place": {func(t *testing.T) string {
			dir := made(t, "diskgnn.test", 1)
			name := filepath.Join(dir, "a.bin")
			if err := errors.Join(os.Remove(name), os.Mkdir(name, 0o777)); err != nil {
				t.Fatal(err)
			}
			return dir
		}, fault.ErrCorrupt, "a.bin is no regular file (d"},
		"a file": {func(t *testing.T) string {
			name := filepath.Join(t.TempDir(), "x")
			write(t, name, nil)
			return name
		}, fault.ErrInput, "x is a file, not a thing"},
		"an empty directory": {func(t *testing.T) string { return t.TempDir() }, fault.ErrInput, "is no finished thing: it has no meta.json"},
		"a directory for meta.json": {func(t *testing.T) string {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, MetaFile), 0o777); err != nil {
				t.Fatal(err)
			}
			return dir
		}, fault.ErrInput, "it has no readable meta.json ("},
		"one under way": {func(t *testing.T) string {
			dir := filepath.Join(t.TempDir(), "x")
			if err := os.Mkdir(dir+".partial", 0o777); err != nil {
				t.Fatal(err)
			}
			return dir
		}, fault.ErrInput, "x is not finished yet: "},
		"one interrupted": {func(t *testing.T) string {
			dir := filepath.Join(t.TempDir(), "x")
			if err := os.Mkdir(dir+".partial", 0o777); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir+".partial", lockFile), nil)
			return dir
		}, fault.ErrInput, "x.partial is under way or was interrupted; run its command again to resume"},
		"one that another process makes": {func(t *testing.T) string {
			dir := filepath.Join(t.TempDir(), "x")
			d, _, err := Begin(vfs.OS, dir, specOf(1), false)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() })
			return dir
		}, fault.ErrLocked, "x is not finished yet: another process works on "},
		"nothing": {func(t *testing.T) string { return filepath.Join(t.TempDir(), "x") }, fault.ErrInput, "no thing at "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(disk, c.dir(t), "thing", Format{"diskgnn.test", 1}, Format{"diskgnn.test", 3})
			says(t, name, err, c.kind, c.says)
		})
	}
	if got := Kind(disk, made(t, "diskgnn.test", 9)) + "," + Kind(disk, t.TempDir()); got != "test," {
		t.Errorf("kinds are %q", got)
	}
}

// TestVersions: the versions of a format in their order, whatever their number of digits.
func TestVersions(t *testing.T) {
	v := Versions[string]{10: "ten", 2: "two", 1: "one"}
	if got := fmt.Sprint(v.Formats("f")); got != "[f, version 1 f, version 2 f, version 10]" {
		t.Error(got)
	}
	if d, err := v.Of("DIR", Format{"f", 2}); d != "two" || err != nil {
		t.Error(d, err)
	}
	_, err := v.Of("DIR", Format{"f", 3})
	says(t, "of", err, fault.ErrVersion, "DIR: f is version 3, this program reads version 1 and 2 and 10: make it again")
	_, err = v.Decoder(4, "%d of %s")
	says(t, "decoder", err, fault.ErrVersion, "4 of 1 and 2 and 10")
}
