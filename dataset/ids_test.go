package dataset_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/stage/stagetest"
	"diskgnn/internal/vfs/vfstest"
)

func TestIDsByValue(t *testing.T) {
	plain := datasettest.Create(t, t.TempDir(), datasettest.Tiny(t))
	if f := plain.Facts(); f.OriginalIDs != "" || plain.Meta().Format != dataset.Format {
		t.Errorf("%+v, %s", f, plain.Meta().Format)
	}
	if _, err := plain.IDs(); !errors.Is(err, fault.ErrUsage) {
		t.Error(err)
	}

	raw := datasettest.Tiny(t)
	raw.NodeIDs = []int64{7, 1, 0, 6, 2, 5, 3, 4}
	d := datasettest.Create(t, t.TempDir(), raw)
	if f := d.Facts(); f.OriginalIDs != dataset.IDNumbers || d.Meta().Format.Version != 3 {
		t.Errorf("%+v, %s", f, d.Meta().Format)
	}
	if b := stagetest.Files(t, d.Dir())["node_ids.bin"]; b != string(binio.Bytes(raw.NodeIDs)) {
		t.Errorf("node_ids.bin is % x", b)
	}
	if got := datasettest.IDs(t, d); !slices.Equal(got, []string{"7", "1", "0", "6", "2", "5", "3", "4"}) {
		t.Errorf("%q", got)
	}
	if nodes, err := d.Nodes(t.Context(), []string{"4", "x", "0", "08", "4"}); err != nil || !slices.Equal(nodes, []int64{7, -1, 2, -1, 7}) {
		t.Error(nodes, err)
	}

	raw = datasettest.Tiny(t)
	raw.Compress = true
	raw.Names = []string{"anna", "Bé", "c,d", "4", "\"", "e f", "g", "ß"}
	d = datasettest.Create(t, t.TempDir(), raw)
	if f := d.Facts(); f.OriginalIDs != dataset.IDNames || f.NameBytes != 18 || d.Meta().Format.Version != 4 {
		t.Errorf("%+v, %s", f, d.Meta().Format)
	}
	files := stagetest.Files(t, d.Dir())
	if files["names.bin"] != "annaBéc,d4\"e fgß" || files["name_offsets.bin"] != string(binio.Bytes([]int64{0, 4, 7, 10, 11, 12, 15, 16, 18})) {
		t.Errorf("%q % x", files["names.bin"], files["name_offsets.bin"])
	}
	if got := datasettest.IDs(t, d); !slices.Equal(got, raw.Names) {
		t.Errorf("%q", got)
	}
	if nodes, err := d.Nodes(t.Context(), []string{"ß", "Anna", "4"}); err != nil || !slices.Equal(nodes, []int64{7, -1, 3}) {
		t.Error(nodes, err)
	}
	if err := d.Verify(t.Context(), progress.Discard, 2); err != nil {
		t.Error(err)
	}
	// A reader of the versions before refuses it in one line.
	if _, err := stage.Open(datasettest.FS, d.Dir(), "dataset", dataset.Format, dataset.CompressedFormat); !errors.Is(err, fault.ErrVersion) || !strings.Contains(err.Error(), "is version 4, this program reads version 1 and 2") {
		t.Error(err)
	}
}

// TestIDsWithoutLabels has them in a dataset to predict on, too.
func TestIDsWithoutLabels(t *testing.T) {
	for _, named := range []bool{false, true} {
		raw := datasettest.Tiny(t)
		raw.Labels, raw.Classes, raw.Train, raw.Valid, raw.Test = nil, 0, nil, nil, nil
		want := []string{"7", "1", "0", "6", "2", "5", "3", "4"}
		if named {
			raw.Names = want
		} else {
			raw.NodeIDs = []int64{7, 1, 0, 6, 2, 5, 3, 4}
		}
		dir := filepath.Join(t.TempDir(), "D")
		if err := dataset.Create(datasettest.FS, dir, raw); err != nil {
			t.Fatal(err)
		}
		if err := openAndVerify(t, dir); err != nil {
			t.Fatal(err)
		}
		d, err := dataset.Open(datasettest.FS, dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := datasettest.IDs(t, d); !slices.Equal(got, want) {
			t.Errorf("named %v: %q", named, got)
		}
		ids, err := d.IDs()
		if err != nil {
			t.Fatal(err)
		}
		err = ids.To(8)
		if err := errors.Join(err, ids.Close()); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "original ids end at node 7") {
			t.Errorf("named %v: behind the last node: %v", named, err)
		}
	}
}

func TestIDsRefuses(t *testing.T) {
	for says, change := range map[string]func(*dataset.Raw){
		"3 original ids and 0 names":   func(r *dataset.Raw) { r.NodeIDs = []int64{0, 1, 2} },
		"node 1 has the original id 0": func(r *dataset.Raw) { r.NodeIDs = make([]int64, 8) },
		"node 0 has the original id 8": func(r *dataset.Raw) { r.NodeIDs = []int64{8, 1, 2, 3, 4, 5, 6, 7} },
		"node 2 is \"\": it is":        func(r *dataset.Raw) { r.Names = []string{"a", "b", "", "d", "e", "f", "g", "h"} },
		"not UTF-8":                    func(r *dataset.Raw) { r.Names = []string{"a", "b", "\xff", "d", "e", "f", "g", "h"} },
		"control character":            func(r *dataset.Raw) { r.Names = []string{"a", "b", "c\n", "d", "e", "f", "g", "h"} },
		"two nodes are called \"a\"":   func(r *dataset.Raw) { r.Names = []string{"a", "b", "c", "d", "e", "f", "g", "a"} },
		"more than 4096 bytes":         func(r *dataset.Raw) { r.Names = slices.Repeat([]string{strings.Repeat("x", 4097)}, 8) },
	} {
		raw := datasettest.Tiny(t)
		change(&raw)
		if err := dataset.Create(datasettest.FS, filepath.Join(t.TempDir(), "D"), raw); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// TestForgedIDs changes ids and facts, checksums along.
func TestForgedIDs(t *testing.T) {
	numbers, names := datasettest.Tiny(t), datasettest.Tiny(t)
	numbers.NodeIDs = []int64{7, 1, 0, 6, 2, 5, 3, 4}
	names.Names = []string{"a", "b", "c", "d", "e", "f", "g", "hi"}
	ids := func(b []byte) []int64 { return binio.View[int64](b) }
	for name, c := range map[string]struct {
		raw    dataset.Raw
		change func(c map[string][]byte, f map[string]any)
		kind   error
		says   string
	}{
		"a number twice":  {numbers, func(c map[string][]byte, _ map[string]any) { ids(c["node_ids.bin"])[3] = 7 }, fault.ErrCorrupt, "node_ids.bin: node 3 has the original id 7, which another node has too"},
		"a number beyond": {numbers, func(c map[string][]byte, _ map[string]any) { ids(c["node_ids.bin"])[3] = 8 }, fault.ErrCorrupt, "node 3 has the original id 8, but the graph has 8 nodes"},
		"a negative one":  {numbers, func(c map[string][]byte, _ map[string]any) { ids(c["node_ids.bin"])[3] = -1 }, fault.ErrCorrupt, "node 3 has the original id -1, but the graph has 8 nodes"},
		"one too few":     {numbers, func(c map[string][]byte, _ map[string]any) { c["node_ids.bin"] = c["node_ids.bin"][8:] }, fault.ErrCorrupt, "node_ids.bin has 56 bytes"},
		"no such kind":    {numbers, func(_ map[string][]byte, f map[string]any) { f["original_ids"] = "uuid" }, fault.ErrVersion, "original ids are of the kind \"uuid\""},
		"none":            {numbers, func(_ map[string][]byte, f map[string]any) { delete(f, "original_ids") }, fault.ErrCorrupt, "original ids: false"},
		"names":           {numbers, func(_ map[string][]byte, f map[string]any) { f["original_ids"], f["name_bytes"] = "name", 9 }, fault.ErrCorrupt, "does not list name_offsets.bin"},
		"bytes of none":   {numbers, func(_ map[string][]byte, f map[string]any) { f["name_bytes"] = 9 }, fault.ErrCorrupt, "9 bytes of names"},
		"few bytes":       {names, func(_ map[string][]byte, f map[string]any) { f["name_bytes"] = 7 }, fault.ErrCorrupt, "7 bytes of names"},
		"many bytes":      {names, func(_ map[string][]byte, f map[string]any) { f["name_bytes"] = int64(1) << 60 }, fault.ErrCorrupt, "bytes of names"},
		"begins late":     {names, func(c map[string][]byte, _ map[string]any) { ids(c["name_offsets.bin"])[0] = 1 }, fault.ErrCorrupt, "begins at byte 1"},
		"descends":        {names, func(c map[string][]byte, _ map[string]any) { ids(c["name_offsets.bin"])[3] = 1 }, fault.ErrCorrupt, "name of node 2 is from byte 2 to 1, which is impossible in 9 bytes"},
		"an empty name":   {names, func(c map[string][]byte, _ map[string]any) { ids(c["name_offsets.bin"])[3] = 2 }, fault.ErrCorrupt, "name of node 2 is from byte 2 to 2, which is impossible in 9 bytes"},
		"ends early":      {names, func(c map[string][]byte, _ map[string]any) { ids(c["name_offsets.bin"])[8] = 8 }, fault.ErrCorrupt, "name of node 7 is from byte 7 to 8, which is impossible in 9 bytes"},
		"a far end":       {names, func(c map[string][]byte, _ map[string]any) { ids(c["name_offsets.bin"])[2] = 1 << 62 }, fault.ErrCorrupt, "name of node 1"},
		"a line's end":    {names, func(c map[string][]byte, _ map[string]any) { c["names.bin"][4] = '\n' }, fault.ErrCorrupt, "names.bin: the name of node 4 is \"\\n\": it has a control character"},
		"a name twice":    {names, func(c map[string][]byte, _ map[string]any) { c["names.bin"][4] = 'b' }, fault.ErrCorrupt, "names.bin: nodes 1 and 4 are both called \"b\""},
		"half a rune":     {names, func(c map[string][]byte, _ map[string]any) { c["names.bin"][4] = 0xC3 }, fault.ErrCorrupt, "not UTF-8"},
	} {
		d := datasettest.Create(t, t.TempDir(), c.raw)
		contents, facts := contentOf(t, d)
		c.change(contents, facts)
		out := filepath.Join(vfstest.TempDir(t), "D")
		forge(t, out, dataset.IDsFormat, facts, tables(contents))
		if err := openAndVerify(t, out); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIDsOfManyWords has more nodes than a word of bits, and gives one id twice.
func TestIDsOfManyWords(t *testing.T) {
	raw := datasettest.Params{Nodes: 128, Dim: 1, Seed: 1}.Raw()
	for v := range int64(128) {
		raw.NodeIDs = append(raw.NodeIDs, v*5%128)
	}
	d := datasettest.Create(t, t.TempDir(), raw)
	if err := openAndVerify(t, d.Dir()); err != nil {
		t.Error(err)
	}
	for _, id := range []int64{63, 64} {
		contents, facts := contentOf(t, d)
		ids := binio.View[int64](contents["node_ids.bin"])
		at := slices.Index(ids, id)
		ids[at+1] = id
		out := filepath.Join(vfstest.TempDir(t), "D")
		forge(t, out, dataset.IDsFormat, facts, tables(contents))
		if err := openAndVerify(t, out); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("node %d has the original id %d, which another node has too", at+1, id)) {
			t.Error(err)
		}
	}
}

// TestNamesDamaged changes the bytes of names after the dataset was opened.
func TestNamesDamaged(t *testing.T) {
	raw := datasettest.Tiny(t)
	raw.Names = []string{"a", "b", "c", "d", "e", "f", "g", "hi"}
	d := datasettest.Create(t, t.TempDir(), raw)
	if err := os.WriteFile(filepath.Join(d.Dir(), "names.bin"), []byte("abcdefgho"), 0o666); err != nil {
		t.Fatal(err)
	}
	ids, err := d.IDs()
	if err == nil {
		err = errors.Join(ids.To(0), ids.Close())
	}
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "names.bin") {
		t.Error(err)
	}
}

// TestIDsOfManyGranules has names that straddle granules, and reads some of them.
func TestIDsOfManyGranules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		raw := datasettest.Params{Nodes: 900, Dim: 1, Seed: 1}.Raw()
		wide := rapid.IntRange(1, 4000).Draw(rt, "width")
		for v := range raw.NumNodes() {
			raw.Names = append(raw.Names, fmt.Sprintf("%0*d", 1+(v*wide)%4000, v))
		}
		d := datasettest.Create(t, vfstest.TempDir(t), raw)
		ids, err := d.IDs()
		if err != nil {
			rt.Fatal(err)
		}
		defer ids.Close()
		some := rapid.MapOfN(rapid.Int64Range(0, 899), rapid.Just(true), 0, 50).Draw(rt, "some")
		for _, v := range slices.Sorted(maps.Keys(some)) {
			if err := ids.To(v); err != nil || string(ids.Append(nil)) != raw.Names[v] {
				rt.Fatalf("node %d: %q, %v", v, ids.Append(nil), err)
			}
		}
	})
}

// FuzzNames reads names of any bytes: they are what the format promises, or corrupt.
func FuzzNames(f *testing.F) {
	raw := datasettest.Tiny(f)
	raw.Names = []string{"a", "b", "c", "d", "e", "f", "g", "hi"}
	d := datasettest.Create(f, f.TempDir(), raw)
	f.Add(binio.Bytes([]int64{0, 1, 2, 3, 4, 5, 6, 7, 9}), []byte("abcdefghi"))
	f.Add(binio.Bytes([]int64{0, 1, 2, 3, 4, 5, 6, 7, 1 << 62}), []byte("abcdefghi"))
	f.Add(binio.Bytes([]int64{0, 3, 2, 3, 4, 5, 6, 7, 9}), []byte("abcdefg\xc3\xbf"))
	f.Fuzz(func(t *testing.T, offsets, text []byte) {
		if len(offsets) != 72 || len(text) > 1<<16 {
			t.Skip()
		}
		contents, facts := contentOf(t, d)
		contents["name_offsets.bin"], contents["names.bin"] = offsets, text
		facts["name_bytes"] = len(text)
		out := filepath.Join(vfstest.TempDir(t), "D")
		forge(t, out, dataset.IDsFormat, facts, tables(contents))
		err := openAndVerify(t, out)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) || strings.Contains(err.Error(), "\n") {
				t.Fatal(err)
			}
			return
		}
		forged, err := dataset.Open(datasettest.FS, out)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(datasettest.IDs(t, forged), ""); got != string(text) {
			t.Fatalf("%q of %q", got, text)
		}
	})
}
