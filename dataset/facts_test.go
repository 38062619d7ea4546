package dataset_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"diskgnn/internal/stage/stagetest"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs/vfstest"
)

// forge commits a directory of the given files and facts: fingerprint, sizes and
// checksums are right, whatever the facts say. Files of nil are there with the size that
// meta.json is to say, all zeros.
func forge(t *testing.T, out string, format stage.Format, facts any, contents map[string][]byte) {
	t.Helper()
	dir, _, err := stage.Begin(datasettest.FS, out, stage.Spec{Format: format, Params: map[string]any{"source": "import", "importer": 1, "content_sha256": strings.Repeat("0", 64)}}, true)
	if err != nil {
		t.Fatal(err)
	}
	var list []stage.File
	for name, content := range contents {
		save(t, dir.File(name), content)
		f := stage.File{Name: name, Size: int64(len(content)), Checksum: binio.Hash(content)}
		if !strings.HasSuffix(name, ".sums") && !strings.HasSuffix(name, ".frames") {
			sum := binio.NewSummer(dataset.Granule)
			_, _ = sum.Write(content)
			sums := sum.Sums()
			f.Checksum = sums.Checksum()
		}
		list = append(list, f)
	}
	if _, err := dir.Commit(list, facts, nil); err != nil {
		t.Fatal(err)
	}
}

// tables returns the files of a directory with fresh tables of checksums, where a file
// Has one.
func tables(contents map[string][]byte) map[string][]byte {
	for name, content := range contents {
		if _, ok := contents[name+".sums"]; ok {
			sum := binio.NewSummer(dataset.Granule)
			_, _ = sum.Write(content)
			sums := sum.Sums()
			contents[name+".sums"] = sums.Encode()
		}
	}
	return contents
}

// contentOf returns the files of a dataset but for its metadata, and its facts.
func contentOf(t *testing.T, d *dataset.Dataset) (map[string][]byte, map[string]any) {
	t.Helper()
	contents := map[string][]byte{}
	for name, b := range stagetest.Files(t, d.Dir()) {
		if name != stage.MetaFile {
			contents[name] = []byte(b)
		}
	}
	var facts map[string]any
	if err := json.Unmarshal(d.Meta().Facts, &facts); err != nil {
		t.Fatal(err)
	}
	return contents, facts
}

// TestForgedFacts changes one fact at a time, fingerprint and checksums along: each is
// refused in one line, and nothing much is allocated for it.
func TestForgedFacts(t *testing.T) {
	d := datasettest.Create(t, t.TempDir(), datasettest.Tiny(t))
	for name, c := range map[string]struct {
		change func(f map[string]any)
		kind   error
	}{
		"nothing":                  {func(f map[string]any) {}, nil},
		"no nodes":                 {func(f map[string]any) { f["nodes"] = 0 }, fault.ErrCorrupt},
		"nodes 1<<62":              {func(f map[string]any) { f["nodes"] = int64(1) << 62 }, fault.ErrCorrupt},
		"nodes 1<<63-1":            {func(f map[string]any) { f["nodes"] = int64(math.MaxInt64) }, fault.ErrCorrupt},
		"2^32 nodes":               {func(f map[string]any) { f["nodes"] = int64(1) << 32 }, fault.ErrCorrupt},
		"negative nodes":           {func(f map[string]any) { f["nodes"] = -8 }, fault.ErrCorrupt},
		"nodes of text":            {func(f map[string]any) { f["nodes"] = "8" }, fault.ErrCorrupt},
		"edges 1<<62":              {func(f map[string]any) { f["edges"] = int64(1) << 62 }, fault.ErrCorrupt},
		"more edges":               {func(f map[string]any) { f["edges"] = 18 }, fault.ErrCorrupt},
		"dim 0":                    {func(f map[string]any) { f["dim"] = 0 }, fault.ErrCorrupt},
		"dim -3":                   {func(f map[string]any) { f["dim"] = -3 }, fault.ErrCorrupt},
		"dim 1<<62":                {func(f map[string]any) { f["dim"] = int64(1) << 62 }, fault.ErrCorrupt},
		"an unknown dtype":         {func(f map[string]any) { f["dtype"] = "complex128" }, fault.ErrCorrupt},
		"int8":                     {func(f map[string]any) { f["dtype"] = "int8" }, fault.ErrCorrupt},
		"no dtype":                 {func(f map[string]any) { delete(f, "dtype") }, fault.ErrCorrupt},
		"twice as wide, half type": {func(f map[string]any) { f["dim"], f["dtype"] = 6, "float16" }, nil}, // other numbers, finite ones
		"no classes":               {func(f map[string]any) { f["classes"] = 0 }, fault.ErrCorrupt},
		"classes 1<<40":            {func(f map[string]any) { f["classes"] = int64(1) << 40 }, fault.ErrCorrupt},
		"one class":                {func(f map[string]any) { f["classes"] = 1 }, fault.ErrCorrupt},
		"an empty split":           {func(f map[string]any) { f["train"] = 0 }, fault.ErrCorrupt},
		"a larger split":           {func(f map[string]any) { f["train"] = 4 }, fault.ErrCorrupt},
		"a negative split":         {func(f map[string]any) { f["valid"] = -1 }, fault.ErrCorrupt},
		"split 1<<62":              {func(f map[string]any) { f["test"] = int64(1) << 62 }, fault.ErrCorrupt},
		"all unlabelled":           {func(f map[string]any) { f["unlabelled"] = 8 }, fault.ErrCorrupt},
		"none unlabelled":          {func(f map[string]any) { f["unlabelled"] = 0 }, fault.ErrCorrupt},
		"multi-hot":                {func(f map[string]any) { f["label_kind"] = "multi-hot" }, fault.ErrCorrupt},
		"unknown labels":           {func(f map[string]any) { f["label_kind"] = strings.Repeat("x", 1<<17) }, fault.ErrVersion},
		"unknown metric":           {func(f map[string]any) { f["metric"] = "bleu" }, fault.ErrVersion},
		"compressed":               {func(f map[string]any) { f["compression"] = "zstd" }, fault.ErrCorrupt},
		"8-byte ids":               {func(f map[string]any) { f["node_id_bytes"] = 8 }, fault.ErrVersion},
		"node types":               {func(f map[string]any) { f["node_types"] = []string{"a"} }, fault.ErrVersion},
	} {
		contents, facts := contentOf(t, d)
		c.change(facts)
		out := filepath.Join(vfstest.TempDir(t), "D")
		forge(t, out, dataset.Format, facts, contents)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := openAndVerify(t, out)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.kind) || c.kind != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 600) {
			t.Errorf("%s: %.300v", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
			t.Errorf("%s: %d bytes were allocated", name, n)
		}
	}
}

// TestForgedContent changes content, checksums along: verify tells what the format
// promises.
func TestForgedContent(t *testing.T) {
	nan := math.Float32bits(float32(math.NaN()))
	f32 := func(b []byte) []uint32 { return binio.View[uint32](b) }
	for name, c := range map[string]struct {
		change func(c map[string][]byte)
		says   string // "" where nothing is wrong
	}{
		"nothing":             {func(map[string][]byte) {}, ""},
		"NaN":                 {func(c map[string][]byte) { f32(c["features.bin"])[3*4+1] = nan }, "features.bin: feature 1 of node 4 is infinite or not a number"},
		"an infinity":         {func(c map[string][]byte) { f32(c["features.bin"])[23] = 0xFF800000 }, "features.bin: feature 2 of node 7"},
		"the largest":         {func(c map[string][]byte) { f32(c["features.bin"])[0] = 0x7F7FFFFF }, ""},
		"descending":          {func(c map[string][]byte) { i := f32(c["indices.bin"]); i[10], i[11] = i[11], i[10] }, "in-neighbours of node 4 do not ascend: 3 follows 5 at edge 11"},
		"the last descends":   {func(c map[string][]byte) { i := f32(c["indices.bin"]); i[15], i[16] = i[16], i[15] }, "node 6"},
		"parallel edges":      {func(c map[string][]byte) { i := f32(c["indices.bin"]); i[11] = i[10] }, ""},
		"an edge from beyond": {func(c map[string][]byte) { f32(c["indices.bin"])[5] = 8 }, "comes from node 8, but the graph has 8 nodes"},
		"a column begins low": {func(c map[string][]byte) { f32(c["indices.bin"])[3] = 0 }, ""}, // the first of node 1, after 7 of node 0
		"a label beyond":      {func(c map[string][]byte) { f32(c["labels.bin"])[2] = 2 }, "node 2 has the class 2, but there are only 2 classes"},
		"one label less":      {func(c map[string][]byte) { binio.View[int32](c["labels.bin"])[0] = -1 }, "train.bin: node 0 has no label"},
		"one label more":      {func(c map[string][]byte) { f32(c["labels.bin"])[7] = 1 }, "0 nodes have no label instead of the 1"},
		"in two splits":       {func(c map[string][]byte) { f32(c["valid.bin"])[1] = 4; f32(c["valid.bin"])[0] = 2 }, "node 4 is in two splits, train and valid"},
		"a split descends":    {func(c map[string][]byte) { copy(c["train.bin"], binio.Bytes([]uint32{4, 1, 0})) }, "train.bin: node 1 follows node 4"},
		"a split beyond":      {func(c map[string][]byte) { f32(c["test.bin"])[1] = 8 }, "test.bin: node 8 follows node 3: out of order, or not a node of the 8"},
	} {
		d := datasettest.Create(t, t.TempDir(), datasettest.Tiny(t))
		contents, facts := contentOf(t, d)
		c.change(contents)
		out := filepath.Join(vfstest.TempDir(t), "D")
		forge(t, out, dataset.Format, facts, tables(contents))
		err := openAndVerify(t, out)
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		says := func(err error) {
			if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "make it again, by its diskgnn generate or import with --force") {
				t.Errorf("%s: %v", name, err)
			}
		}
		says(err)
		if strings.Contains(c.says, "indptr") || strings.Contains(c.says, "edge ") { // as readers of single nodes find it
			says(readAdjacency(t, out))
		}
	}
}

// readAdjacency reads what those who read the in-neighbours of single nodes begin with.
func readAdjacency(t *testing.T, dir string) error {
	t.Helper()
	d, err := dataset.Open(datasettest.FS, dir)
	if err != nil {
		return err
	}
	o, err := d.Offsets(t.Context(), progress.Discard)
	if err != nil {
		return err
	}
	_, _, err = d.IndicesPageSums(t.Context(), progress.Discard, o)
	return err
}

// TestNotFinite writes features that are not finite, of each type.
func TestNotFinite(t *testing.T) {
	for _, c := range []struct {
		t   dtype.Type
		bad []byte
	}{
		{dtype.Float32, binio.Bytes([]uint32{0x7F800000})},
		{dtype.Float32, binio.Bytes([]uint32{0xFFC00001})},
		{dtype.Float16, binio.Bytes([]uint16{0x7C00})},
		{dtype.Float16, binio.Bytes([]uint16{0xFC01})},
		{dtype.BFloat16, binio.Bytes([]uint16{0xFF80})},
		{dtype.BFloat16, binio.Bytes([]uint16{0x7FC0})},
	} {
		raw := datasettest.Params{Nodes: 5000, Dim: 7, DType: c.t, Seed: 1}.Raw()
		const node, element = 4321, 5
		copy(raw.Features[(node*7+element)*c.t.Size():], c.bad)
		out := filepath.Join(vfstest.TempDir(t), "D")
		err := dataset.Create(datasettest.FS, out, raw)
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "features.bin: feature 5 of node 4321 is infinite or not a number") {
			t.Errorf("%s % x: %v", c.t, c.bad, err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Error("something was written")
		}
		// Written by a program that does not look.
		copy(raw.Features[(node*7+element)*c.t.Size():], make([]byte, c.t.Size()))
		contents, facts := contentOf(t, datasettest.Create(t, vfstest.TempDir(t), raw))
		copy(contents["features.bin"][(node*7+element)*c.t.Size():], c.bad)
		forge(t, out, dataset.Format, facts, tables(contents))
		if err := openAndVerify(t, out); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "features.bin: feature 5 of node 4321 is infinite or not a number") {
			t.Errorf("verify: %s % x: %v", c.t, c.bad, err)
		}
	}
}

// TestOrderAcrossSteps has neighbours that descend where one goroutine's part of the
// indices ends and another's begins.
func TestOrderAcrossSteps(t *testing.T) {
	const step = 4 * dataset.Granule / 4 // edges
	raw := datasettest.Params{Nodes: 30, Seed: 1}.Raw()
	n := step + 100
	raw.Indptr = make([]int64, 31)
	for v := 11; v <= 30; v++ {
		raw.Indptr[v] = int64(n) // all are node 10's
	}
	raw.Indices = make([]uint32, n)
	for i := range raw.Indices {
		raw.Indices[i] = uint32(i * 20 / n)
	}
	d := datasettest.Create(t, vfstest.TempDir(t), raw)
	for at, ok := range map[int]bool{step - 1: false, step: false, step + 1: false, 7: false, -1: true} {
		contents, facts := contentOf(t, d)
		if at >= 0 {
			ids := binio.View[uint32](contents["indices.bin"])
			ids[at] = ids[at] - 1
			if at == step-1 {
				ids[at] += 2
			}
			if at == 7 {
				ids[at] = 5
			}
		}
		out := filepath.Join(vfstest.TempDir(t), "D")
		forge(t, out, dataset.Format, facts, tables(contents))
		f, err := dataset.Open(datasettest.FS, out)
		if err != nil {
			t.Fatal(err)
		}
		if err := readAdjacency(t, out); ok != (err == nil) || !ok && !strings.Contains(err.Error(), "in-neighbours of node 10 do not ascend") {
			t.Errorf("page by page, edge %d: %v", at, err)
		}
		for _, workers := range []int{1, 2} {
			top, err := f.Topology(t.Context(), progress.Discard, workers)
			if ok != (err == nil) || !ok && !strings.Contains(err.Error(), "in-neighbours of node 10 do not ascend") {
				t.Errorf("edge %d: %v", at, err)
			}
			if err == nil {
				_ = top.Close()
			}
		}
	}
}

// FuzzFacts forges facts, fingerprint and checksums along, and opens and verifies what
// comes of it: it is what the format promises, or an error of a kind.
func FuzzFacts(f *testing.F) {
	d := datasettest.Create(f, f.TempDir(), datasettest.Tiny(f))
	f.Add([]byte(d.Meta().Facts), 1, "labels.bin", []byte{1})
	f.Add([]byte(`{"nodes":4611686018427387904,"dim":0,"dtype":"x","classes":-1}`), 2, "features.zst.frames", []byte("DGNNFRM1"))
	f.Add([]byte(`{"nodes":8,"edges":17,"dim":3,"dtype":"float32","classes":2,"label_kind":"multi-hot","metric":"f1","train":3,"valid":2,"test":2,"unlabelled":1,"node_id_bytes":4}`), 1, "targets.bin", make([]byte, 8))
	f.Fuzz(func(t *testing.T, facts []byte, version int, name string, content []byte) {
		if !json.Valid(facts) || strings.ContainsAny(name, "/\\\x00") || name == "" || len(name) > 40 || strings.HasPrefix(name, ".") {
			t.Skip()
		}
		contents, _ := contentOf(t, d)
		if _, ok := contents[name]; ok || strings.HasSuffix(name, ".bin") || strings.HasSuffix(name, ".sums") || strings.HasSuffix(name, ".frames") {
			contents[name] = content
		}
		out := filepath.Join(vfstest.TempDir(t), "D")
		forge(t, out, stage.Format{Name: dataset.Format.Name, Version: version}, json.RawMessage(facts), tables(contents))
		err := openAndVerify(t, out)
		for _, kind := range []error{nil, fault.ErrCorrupt, fault.ErrVersion, fault.ErrInput} {
			if errors.Is(err, kind) {
				return
			}
		}
		t.Fatalf("an error of no kind: %v", err)
	})
}
