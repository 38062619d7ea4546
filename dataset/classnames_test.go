package dataset_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage/stagetest"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// named is the hand-drawn graph with names of its two classes.
func named(t *testing.T, names ...string) dataset.Raw {
	raw := datasettest.Tiny(t)
	raw.ClassNames = names
	return raw
}

// TestClassNamesByValue stores names, which change nothing else of a dataset.
func TestClassNamesByValue(t *testing.T) {
	plain := datasettest.Create(t, t.TempDir(), datasettest.Tiny(t))
	if names, err := plain.ClassNames(); names != nil || err != nil || plain.Facts().ClassNameBytes != 0 || bytes.Contains(plain.Meta().Facts, []byte("class_name")) || bytes.Contains(plain.Meta().Params, []byte("class_name")) {
		t.Errorf("without names: %q, %v, %s", names, err, plain.Meta().Facts)
	}
	want := []string{"dog, \"wet\"", "Bär"}
	d := datasettest.Create(t, t.TempDir(), named(t, want...))
	names, err := d.ClassNames()
	if err != nil || !slices.Equal(names, want) || d.Facts().ClassNameBytes != 16 || d.Meta().Format != dataset.Format || d.Fingerprint() == plain.Fingerprint() {
		t.Errorf("%q, %v, %+v, %s", names, err, d.Facts(), d.Meta().Format)
	}
	if err := d.Verify(t.Context(), progress.Discard, 2); err != nil {
		t.Error(err)
	}
	files, others := stagetest.Files(t, d.Dir()), stagetest.Files(t, plain.Dir())
	if files["class_names.txt"] != "dog, \"wet\"\nBär\n" || len(files) != len(others)+2 {
		t.Errorf("%q, %d files and %d", files["class_names.txt"], len(files), len(others))
	}
	for name, content := range others {
		if name != "meta.json" && files[name] != content {
			t.Errorf("%s differs by the names", name)
		}
	}
	// A reader that does not know the names finds the content parameters that it knows.
	var a, b struct {
		Content string `json:"content_sha256"`
	}
	if err := errors.Join(json.Unmarshal(d.Meta().Params, &a), json.Unmarshal(plain.Meta().Params, &b)); err != nil || a != b || a.Content == "" {
		t.Errorf("content %s, without names %s: %v", a, b, err)
	}
	// Names of others have another fingerprint.
	if other := datasettest.Create(t, t.TempDir(), named(t, "dog, \"wet\"", "Bar!")); other.Fingerprint() == d.Fingerprint() {
		t.Error("other names, the same fingerprint")
	}
}

func TestClassNamesOfMultiLabel(t *testing.T) {
	raw := datasettest.Params{MultiLabel: true, Classes: 9, Seed: 2}.Raw()
	for c := range 9 {
		raw.ClassNames = append(raw.ClassNames, fmt.Sprint("c", c))
	}
	d := datasettest.Create(t, t.TempDir(), raw)
	if err := d.Verify(t.Context(), progress.Discard, 1); err != nil {
		t.Fatal(err)
	}
	if names, err := d.ClassNames(); err != nil || !slices.Equal(names, raw.ClassNames) {
		t.Errorf("%q, %v", names, err)
	}
}

func TestClassNamesRefuses(t *testing.T) {
	for says, names := range map[string][]string{
		"has 1 names of classes, but 2 classes":       {"a"},
		"has 3 names of classes, but 2 classes":       {"a", "b", "c"},
		"the name of class 1 is \"\": it is empty":    {"a", ""},
		"the name of class 0 is \"a\\n\": it has a":   {"a\n", "b"},
		"class 1 is \"\\xff\": it is not UTF-8":       {"a", "\xff"},
		"classes 0 and 1 are both called \"a\"":       {"a", "a"},
		"class 0 is \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": {strings.Repeat("x", 4097), "b"},
	} {
		if err := dataset.Create(datasettest.FS, filepath.Join(t.TempDir(), "D"), named(t, names...)); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	raw := named(t)
	raw.Labels, raw.Classes, raw.Train, raw.Valid, raw.Test, raw.ClassNames = nil, 0, nil, nil, nil, []string{}
	if err := dataset.Create(datasettest.FS, filepath.Join(t.TempDir(), "D"), raw); !errors.Is(err, fault.ErrInput) {
		t.Errorf("names without labels: %v", err)
	}
	if _, err := dataset.EncodeClassNames([]string{"a", "b", "c", "b", "d"}); err == nil || !strings.Contains(err.Error(), "classes 1 and 3 are both called") {
		t.Error(err)
	}
	// The longest names, and the most bytes in all.
	names := make([]string, 256)
	for c := range names {
		names[c] = fmt.Sprintf("%04095d", c)
	}
	if b, err := dataset.EncodeClassNames(names); err != nil || len(b) != dataset.MaxClassNames {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	names[3] += "x"
	if _, err := dataset.EncodeClassNames(names); !errors.Is(err, fault.ErrInput) || err.Error() != "the names of 256 classes have 1048577 bytes, more than 1048576" {
		t.Error(err)
	}
}

// TestForgedClassNames changes names and facts, checksums along.
func TestForgedClassNames(t *testing.T) {
	d := datasettest.Create(t, t.TempDir(), named(t, "cat", "dog"))
	text := func(s string) func(map[string][]byte, map[string]any) {
		return func(c map[string][]byte, f map[string]any) {
			c["class_names.txt"], f["class_name_bytes"] = []byte(s), len(s)
		}
	}
	for name, c := range map[string]struct {
		change func(c map[string][]byte, f map[string]any)
		says   string
	}{
		"nothing":            {func(map[string][]byte, map[string]any) {}, ""},
		"other names":        {text("a\nb\n"), ""},
		"a name less":        {text("catdog!\n"), "class_names.txt: it has 1 lines instead of one for each of 2 classes"},
		"a name more":        {text("a\nb\nc\n"), "class_names.txt: it has 3 lines"},
		"no end":             {text("cat\ndogs"), "class_names.txt: it has 2 lines instead of one for each of 2 classes, or ends within one"},
		"an empty name":      {text("cat\n\n"), "class_names.txt: the name of class 1 is \"\": it is empty"},
		"a name twice":       {text("cat\ncat\n"), "class_names.txt: classes 0 and 1 are both called \"cat\""},
		"a carriage return":  {text("cat\r\ndog\n"), "class_names.txt: the name of class 0 is \"cat\\r\": it has a control character"},
		"half a rune":        {text("ca\xc3\ndog\n"), "not UTF-8"},
		"a long name":        {text(strings.Repeat("x", 4097) + "\ny\n"), "it has more than 4096 bytes"},
		"a byte per class":   {text("a\n\n"), "it has 3 bytes of class names, which is impossible for 2 classes of class labels"},
		"negative":           {func(_ map[string][]byte, f map[string]any) { f["class_name_bytes"] = -8 }, "it has -8 bytes of class names"},
		"2^62 bytes":         {func(_ map[string][]byte, f map[string]any) { f["class_name_bytes"] = int64(1) << 62 }, "it has 4611686018427387904 bytes of class names"},
		"a byte too many":    {text(strings.Repeat("x", 1<<20) + "\n"), "it has 1048577 bytes of class names"},
		"another size":       {func(_ map[string][]byte, f map[string]any) { f["class_name_bytes"] = 9 }, "class_names.txt has 8 bytes instead of the 9"},
		"no file":            {func(c map[string][]byte, _ map[string]any) { delete(c, "class_names.txt") }, "does not list class_names.txt"},
		"no table":           {func(c map[string][]byte, _ map[string]any) { delete(c, "class_names.txt.sums") }, "does not list class_names.txt"},
		"names, but no fact": {func(_ map[string][]byte, f map[string]any) { delete(f, "class_name_bytes") }, ""},
	} {
		contents, facts := contentOf(t, d)
		c.change(contents, facts)
		out := filepath.Join(vfstest.TempDir(t), "D")
		forge(t, out, dataset.Format, facts, tables(contents))
		err := openAndVerify(t, out)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	// A dataset from memory has a hash of the names.
	raw := stagetest.Files(t, d.Dir())
	if !strings.Contains(raw["meta.json"], "class_names_sha256") {
		t.Errorf("meta.json: %s", raw["meta.json"])
	}
}

// TestClassNamesFlipped changes bytes of the names and of their table: each is found.
func TestClassNamesFlipped(t *testing.T) {
	d := datasettest.Create(t, t.TempDir(), named(t, "cat", "dog"))
	for _, name := range []string{"class_names.txt", "class_names.txt.sums"} {
		content := []byte(stagetest.Files(t, d.Dir())[name])
		for i := range content {
			content[i] ^= 1
			save(t, filepath.Join(d.Dir(), name), content)
			for what, err := range map[string]error{"verify": openAndVerify(t, d.Dir()), "read": func() error { _, err := d.ClassNames(); return err }()} {
				if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "class_names.txt") {
					t.Errorf("%s, byte %d of %s: %v", what, i, name, err)
				}
			}
			content[i] ^= 1
		}
		save(t, filepath.Join(d.Dir(), name), content)
	}
	if err := openAndVerify(t, d.Dir()); err != nil {
		t.Error(err)
	}
}

// TestClassNamesFail fails each operation of writing them in turn; a later run has the same bytes.
func TestClassNamesFail(t *testing.T) {
	datasettest.EveryFailure(t, []bool{false, true}, func(fsys vfs.FS, out string) error {
		return dataset.Create(fsys, out, named(t, "cat", "dog"))
	})
}

// TestRecordedClassNames reads the names in a pack's run.json, 64 KiB at most.
func TestRecordedClassNames(t *testing.T) {
	dir := t.TempDir()
	long := func(n int) string { // of n bytes with line feeds, in 16 names
		var names []string
		for c := range 16 {
			names = append(names, fmt.Sprintf("%0*d", n/16-1, c))
		}
		b, err := json.Marshal(map[string]any{"class_names": names})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for text, want := range map[string]int{
		`{"class_names": ["a", "b"], "host": "h"}`: 2, `{"host": "h"}`: 0, `{"class_names": []}`: 0, `{"class_names": null}`: 0,
		`{"class_names": "a"}`: 0, `{"class_names": ["a", "a"]}`: 0, `{"class_names": ["a\n"]}`: 0, `{`: 0,
		long(64 << 10): 16, long(64<<10 + 16): 0,
	} {
		save(t, filepath.Join(dir, "run.json"), []byte(text))
		if got := dataset.RecordedClassNames(datasettest.FS, dir); len(got) != want || want == 2 && !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("%.40s: %.40q", text, got)
		}
	}
	if got := dataset.RecordedClassNames(datasettest.FS, t.TempDir()); got != nil {
		t.Errorf("without run.json: %q", got)
	}
	// The same limit holds for the names of a dataset.
	for size, carried := range map[int]bool{64 << 10: true, 64<<10 + 1: false} {
		raw := datasettest.Params{Classes: 17, Seed: 1}.Raw()
		left := size
		for c := range 16 {
			raw.ClassNames = append(raw.ClassNames, fmt.Sprintf("%04000d", c))
			left -= 4001
		}
		raw.ClassNames = append(raw.ClassNames, strings.Repeat("x", left-1))
		d := datasettest.Create(t, t.TempDir(), raw)
		if got, err := d.CarriedClassNames(); err != nil || (got != nil) != carried {
			t.Errorf("%d bytes: carried %t, %v", size, got != nil, err)
		}
	}
}
