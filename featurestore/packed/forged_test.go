package packed_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/pack/packfile"
)

// forgery is a pack that is to be changed such that its fingerprint and all checksums
// are right again.
type forgery struct {
	meta          *stage.Meta
	params, facts map[string]any
	files         map[string][]byte
}

// forge reads a pack.
func forge(t testing.TB, dir string) *forgery {
	t.Helper()
	f := &forgery{files: map[string][]byte{}}
	var err error
	if f.meta, err = stage.ReadMeta(vfs.OS, dir, "pack"); err != nil {
		t.Fatal(err)
	}
	decode := func(raw []byte) (m map[string]any) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	f.params, f.facts = decode(f.meta.Params), decode(f.meta.Facts)
	for _, file := range f.meta.Files {
		if f.files[file.Name], err = os.ReadFile(filepath.Join(dir, file.Name)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// set changes a parameter or fact; below an object by a name with a dot.
func (f *forgery) set(name string, value any) {
	m, last := f.facts, name
	if rest, ok := strings.CutPrefix(name, "params."); ok {
		m, last = f.params, rest
	} else if object, field, ok := strings.Cut(name, "."); ok {
		m, last = maps.Clone(f.facts[object].(map[string]any)), field
		f.facts[object] = m
	}
	m[last] = value
}

// write makes the directory out of it, with all checksums that follow from its bytes.
func (f *forgery) write(t testing.TB, out string) {
	t.Helper()
	form := packfile.Form{RowBytes: 1}
	raw, _ := json.Marshal(f.facts)
	_ = json.Unmarshal(raw, &struct {
		RowBytes *int `json:"row_bytes"`
	}{&form.RowBytes})
	form.Codec, _ = f.params["codec"].(string)
	sums := f.checksums(form)
	dir, _, err := stage.Begin(disk, out, stage.Spec{Format: f.meta.Format, Params: f.params, Parents: f.meta.Parents}, false)
	if err != nil {
		t.Fatal(err)
	}
	var files []stage.File
	for _, file := range f.meta.Files {
		b := f.files[file.Name]
		if sum, ok := sums[file.Name]; ok {
			file.Checksum = sum
		}
		file.Size = int64(len(b))
		files = append(files, file)
		if err := vfs.WriteFile(disk, dir.File(file.Name), b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := dir.Commit(files, f.facts, nil); err != nil {
		t.Fatal(err)
	}
}

// checksums puts the checksums inside files right, and returns those of the files.
func (f *forgery) checksums(form packfile.Form) map[string]string {
	sums := map[string]string{}
	for name, b := range f.files {
		if table := strings.HasSuffix(name, ".sums"); table || name == packfile.IndexFile {
			if len(b) > 28 {
				binary.LittleEndian.PutUint32(b[len(b)-4:], binio.CRC(b[:len(b)-4]))
			}
			if table && len(b) > 28 {
				sums[strings.TrimSuffix(name, "sums")+"bin"] = binio.Hash(b[24 : len(b)-4])
			}
			sums[name] = binio.Hash(b)
		}
	}
	x, err := packfile.DecodeIndex(f.files[packfile.IndexFile], form)
	if err != nil {
		return sums
	}
	cold, graphs := map[string][]uint32{}, map[string][]uint32{}
	for i := range x.Train {
		t, g := &x.Train[i], i/64
		cold[packfile.ColdFile(g)] = append(cold[packfile.ColdFile(g)], t.Sums...)
		graphs[packfile.GraphFile(g)] = packfile.AppendSums(graphs[packfile.GraphFile(g)], t.Graph)
	}
	for _, e := range slices.Concat(x.Valid, x.Test) {
		graphs[packfile.EvalGraphFile] = packfile.AppendSums(graphs[packfile.EvalGraphFile], e.Graph)
	}
	for _, m := range []map[string][]uint32{cold, graphs} {
		for name, crcs := range m {
			sums[name] = binio.HashSums(crcs)
		}
	}
	return sums
}

// change overwrites bytes of a file, and the checksum of a graph among them.
func (f *forgery) change(name string, at int, value []byte) {
	b := f.files[name]
	if len(b) == 0 {
		return
	}
	at %= len(b)
	copy(b[at:], value)
	form := packfile.Form{RowBytes: 1}
	raw, _ := json.Marshal(f.facts["row_bytes"])
	_ = json.Unmarshal(raw, &form.RowBytes)
	form.Codec, _ = f.params["codec"].(string)
	x, err := packfile.DecodeIndex(f.files[packfile.IndexFile], form)
	if err != nil || name == packfile.IndexFile {
		return
	}
	graph := func(off int64, sections []packfile.Section) {
		for i := range sections {
			end := off + int64(sections[i].Bytes)
			if end <= int64(len(b)) {
				sections[i].CRC = binio.CRC(b[off:end])
			}
			off = end
		}
	}
	for i := range x.Train {
		if t := &x.Train[i]; name == packfile.GraphFile(i/64) {
			graph(t.GraphOffset, t.Graph)
		}
	}
	for _, list := range [][]packfile.Eval{x.Valid, x.Test} {
		for i := range list {
			if name == packfile.EvalGraphFile {
				graph(list[i].GraphOffset, list[i].Graph)
			}
		}
	}
	if b, err := x.Encode(); err == nil {
		f.files[packfile.IndexFile] = b
	}
}

// refused reports whether an error is one that ends in exit code 3, in one line.
func refused(err error) bool {
	kind := errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrVersion) || errors.Is(err, fault.ErrInput)
	return kind && !strings.Contains(err.Error(), "\n")
}

// TestForged opens packs whose metadata say what cannot be, under right checksums: all
// are refused, before anything is allocated by it.
func TestForged(t *testing.T) {
	worlds := map[string]*world{"static": small(t, "same"), "sharing": sharing(t), "min": buildMin(t, "int8", "s2")}
	type field struct {
		name  string
		value any
	}
	none := map[string]any{}
	var list []field
	for name, values := range map[string][]any{
		"nodes":   {0, -1, 1 << 33, int64(1) << 62},
		"dim":     {0, -4, 1 << 25, int64(1) << 62},
		"dtype":   {"", "float64", "int8", "bfloat16", "float32"},
		"classes": {0, -1, 1 << 32}, "target_bytes": {1, -1, 1 << 40},
		"row_bytes": {0, -1, 1, 3, 1 << 40},
		"hot_rows":  {-1, 0, 1 << 31, int64(1) << 62}, "eval_rows": {-1, 0, 1 << 31, int64(1) << 62},
		"ssd_rows": {-1, 1 << 40}, "cold_rows": {-1, 0, 1 << 40},
		"segment": {0, -1, 1 << 40}, "segments": {-1, 0, 1 << 40},
		"train_batches": {-1, 0, 1, 1 << 40, int64(1) << 62}, "valid_batches": {-1, 0, 1 << 40}, "test_batches": {-1, 0, 1 << 40},
		"epochs": {-1, 0, 1 << 40}, "batches_per_epoch": {-1, 0, 1 << 40},
		"fanout": {[]int{}, []int{2}, make([]int, 65)}, "eval_fanout": {[]int{}, []int{2}},
		"train_sizes": {none}, "eval_sizes": {none}, "train_means": {none},
		"train_sizes.src": {[]int{}, []int{4}, []int{1, 1}, []int{1 << 40, 5}, []int{-1, -1}}, "train_sizes.dst": {[]int{}, []int{1 << 40, 1 << 40}, []int{0, 0}},
		"train_sizes.edges": {[]int{}, []int{1, 1}, []int{1 << 33, 1 << 33}, []int{1 << 31, 1 << 31}}, "train_means.edges": {[]int{1 << 31, 1 << 31}, []int{1}},
		"eval_sizes.src": {[]int{}, []int{1 << 40, 5}}, "eval_sizes.dst": {[]int{}, []int{-1, -1}}, "eval_sizes.edges": {[]int{}, []int{1 << 40, 1}},
		"chunk_bytes": {-1, 0, int64(1) << 44, int64(1) << 62}, "graph_bytes": {-1, 0, 1, int64(1) << 44, int64(1) << 62},
		"table_bytes": {-1}, "params.cache_rows": {-1}, "params.max_disk": {-1},
		"params.policy": {"", "lru"}, "params.codec": {"", "lz4"}, "params.dtype": {"", "float64", "bfloat16"},
	} {
		for _, v := range values {
			list = append(list, field{name, v})
		}
	}
	for what, w := range worlds {
		for i, c := range list {
			f := forge(t, w.pack)
			was := f.facts[c.name]
			if p, ok := strings.CutPrefix(c.name, "params."); ok {
				was = f.params[p]
			}
			if fmt.Sprint(was) == fmt.Sprint(c.value) {
				continue
			}
			f.set(c.name, c.value)
			out := filepath.Join(vfstest.TempDir(t), fmt.Sprint(i))
			f.write(t, out)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := packfile.Open(vfs.OS, out)
			runtime.ReadMemStats(&after)
			if !refused(err) {
				t.Errorf("%s, %s %v: %v", what, c.name, c.value, err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
				t.Errorf("%s, %s %v: %d bytes were allocated", what, c.name, c.value, n)
			}
		}
	}
}

// FuzzForged changes a parameter or a fact, and some bytes of a file, puts all checksums
// right, and reads everything. Whatever the pack says, it is read or refused.
func FuzzForged(f *testing.F) {
	worlds := []*world{small(f, "same"), sharing(f), buildMin(f, "int8", "s2")}
	stack := newStack(f)
	for which := range worlds {
		f.Add(uint8(which), uint8(0), int64(0), "", uint8(0), uint32(0), []byte{})
		f.Add(uint8(which), uint8(7), int64(1)<<44, "", uint8(3), uint32(40), []byte{255, 255, 255, 255})
		f.Add(uint8(which), uint8(20), int64(1)<<62, "float64", uint8(5), uint32(9), []byte{1})
	}
	f.Fuzz(func(t *testing.T, which, field uint8, number int64, text string, file uint8, at uint32, value []byte) {
		w := worlds[int(which)%len(worlds)]
		p := forge(t, w.pack)
		if fields := p.fields(); field > 0 {
			name := fields[int(field)%len(fields)]
			switch {
			case text != "":
				p.set(name, text)
			case number%3 == 0:
				p.set(name, []int64{number / 3, number / 9})
			default:
				p.set(name, number)
			}
		}
		names := slices.Sorted(maps.Keys(p.files))
		if len(value) > 0 {
			p.change(names[int(file)%len(names)], int(at), value)
		}
		out := filepath.Join(vfstest.TempDir(t), "P")
		p.write(t, out)
		r, err := packfile.Open(vfs.OS, out)
		if err == nil {
			err = readEverything(t.Context(), out, stack, len(r.Index().Edges)-1)
		}
		if err != nil && !refused(err) {
			t.Fatalf("an error of another kind: %v", err)
		}
	})
}

// fields lists what set can change.
func (f *forgery) fields() []string {
	var list []string
	for name := range f.params {
		list = append(list, "params."+name)
	}
	for name, v := range f.facts {
		list = append(list, name)
		if object, ok := v.(map[string]any); ok {
			for field := range object {
				list = append(list, name+"."+field)
			}
		}
	}
	slices.Sort(list)
	return list
}
