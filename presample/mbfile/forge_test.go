package mbfile

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/presample/walk"
)

// forgery is a directory that is made to say what it should not, with all its checksums
// and the fingerprint along.
type forgery struct {
	params, facts map[string]any
	format        stage.Format
	index         *index
	hot           []uint32
	batches       map[string][]byte
	files         []stage.File // to list, unless nil
}

func forge(t testing.TB) *forgery {
	t.Helper()
	dir := filepath.Join(vfstest.TempDir(t), "S")
	if _, err := write(disk, dir, 3, progress.Discard); err != nil {
		t.Fatal(err)
	}
	return forgeryOf(t, dir)
}

// forgeryOf returns the content of a directory.
func forgeryOf(t testing.TB, dir string) *forgery {
	t.Helper()
	r, err := Open(disk, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := &forgery{format: r.meta.Format, index: &index{layers: r.index.layers, perFile: r.index.perFile, typed: r.index.typed, records: slices.Clone(r.index.records)}, batches: map[string][]byte{}}
	if f.hot, err = r.Hotness(); err != nil {
		t.Fatal(err)
	}
	for i := range r.index.files() {
		if f.batches[BatchesFile(i)], err = os.ReadFile(filepath.Join(dir, BatchesFile(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(json.Unmarshal(r.meta.Params, &f.params), json.Unmarshal(r.meta.Facts, &f.facts)); err != nil {
		t.Fatal(err)
	}
	return f
}

// commit writes the directory.
func (f *forgery) commit(t testing.TB) string {
	t.Helper()
	out := filepath.Join(vfstest.TempDir(t), "S")
	dir, _, err := stage.Begin(disk, out, stage.Spec{Format: f.format, Params: f.params}, false)
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := writeHotness(dir, nil, func(yield func([]uint32, error) bool) { yield(f.hot, nil) })
	if err != nil {
		t.Fatal(err)
	}
	b := f.index.encode()
	list = append(list, stage.File{Name: IndexFile, Size: int64(len(b)), Checksum: binio.Hash(b)})
	if err := vfs.WriteFile(disk, dir.File(IndexFile), b); err != nil {
		t.Fatal(err)
	}
	for i, name := range slices.Sorted(maps.Keys(f.batches)) {
		file := stage.File{Name: name, Size: int64(len(f.batches[name])), Checksum: binio.Hash(nil)}
		if i < f.index.files() {
			file.Checksum = binio.HashSums(f.index.crcs(f.index.fileSpan(i)))
		}
		list = append(list, file)
		if err := vfs.WriteFile(disk, dir.File(name), f.batches[name]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := dir.Commit(append(list, f.files...), f.facts, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

// use opens the directory and reads all that there is.
func use(t testing.TB, dir string) error {
	r, err := Open(disk, dir)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := r.Describe(); err != nil {
		return err
	}
	var buf []byte
	for i := range r.Facts().Batches() {
		if _, buf, err = r.Inputs(t.Context(), i, buf); err != nil {
			return err
		}
	}
	return r.Verify(t.Context(), progress.Discard)
}

// counts are the record's counts: nodes, then edges.
func (f *forgery) counts(batch int) []uint32 {
	n := f.index.recordBytes()
	return binio.View[uint32](f.index.records[batch*n+fixedPart : (batch+1)*n])
}

func (f *forgery) setSize(batch int, size uint64) {
	n := f.index.recordBytes()
	binary.LittleEndian.PutUint64(f.index.records[batch*n+8:], size)
}

func TestForgedSamples(t *testing.T) {
	set := func(key string, value any) func(*forgery) { return func(f *forgery) { f.facts[key] = value } }
	param := func(key string, value any) func(*forgery) { return func(f *forgery) { f.params[key] = value } }
	buffer := func(order string, partitions, buffer int, kind string) func(*forgery) {
		return func(f *forgery) {
			f.params["order"], f.params["partitions"], f.params["buffer"] = order, partitions, buffer
			if kind != "" {
				f.params["walk"] = kind
			}
		}
	}
	// summary changes train.max.src or another of the sums.
	summary := func(of string, change func(s map[string]any)) func(*forgery) {
		return func(f *forgery) { change(f.facts[of].(map[string]any)) }
	}
	for name, change := range map[string]func(*forgery){
		"nodes 0":      set("nodes", 0),
		"nodes 1<<62":  set("nodes", int64(1)<<62),
		"more nodes":   set("nodes", 7),
		"fewer nodes":  set("nodes", 5),
		"no layers":    set("layers", 0),
		"layers -1":    set("layers", -1),
		"layers 1<<40": set("layers", int64(1)<<40),
		"three layers": set("layers", 3),
		"no epochs":    set("epochs", 0),
		"three epochs": set("epochs", 3),
		"epochs 1<<62": set("epochs", int64(1)<<62),
		"products that overflow": func(f *forgery) {
			f.facts["epochs"], f.params["epochs"], f.facts["batches_per_epoch"] = int64(1)<<33, int64(1)<<33, int64(1)<<31
		},
		"batches per epoch":        set("batches_per_epoch", 3),
		"no batches per epoch":     set("batches_per_epoch", 0),
		"batches -1":               set("train_batches", -1),
		"batches 1<<62":            set("train_batches", int64(1)<<62),
		"batches that overflow":    func(f *forgery) { f.facts["valid_batches"], f.facts["test_batches"] = int64(1)<<62, int64(1)<<62 },
		"validation trains":        func(f *forgery) { f.facts["train_batches"], f.facts["valid_batches"] = 3, 0 },
		"a first file":             set("first_file", 1),
		"first file -1":            set("first_file", -1),
		"bytes of classes":         set("target_bytes", 1),
		"bytes of classes 1<<62":   func(f *forgery) { f.format, f.facts["target_bytes"] = MultiLabelFormat, int64(1)<<62 },
		"none in version 2":        func(f *forgery) { f.format = MultiLabelFormat },
		"facts of text":            set("nodes", "six"),
		"a seed type":              set("seed_type", 1),
		"input nodes of types":     set("type_input_nodes", []int{5}),
		"no maxima":                summary("train", func(s map[string]any) { s["max"] = nil }),
		"short maxima":             summary("train", func(s map[string]any) { s["max"] = map[string]any{"src": []int{3}, "dst": []int{2}, "edges": []int{1}} }),
		"uneven maxima":            summary("eval", func(s map[string]any) { s["max"].(map[string]any)["dst"] = []int{} }),
		"huge maxima":              summary("train", func(s map[string]any) { s["max"].(map[string]any)["src"] = []int64{1 << 50, 2} }),
		"negative means":           summary("train", func(s map[string]any) { s["mean"].(map[string]any)["edges"] = []int64{-1, 1} }),
		"more input nodes":         summary("train", func(s map[string]any) { s["input_nodes"] = 6 }),
		"bytes 1<<62":              summary("eval", func(s map[string]any) { s["bytes"] = int64(1) << 62 }),
		"batches of none":          param("batch_size", 0),
		"batches of one":           param("batch_size", 1),
		"batches of 1<<62":         param("batch_size", int64(1)<<62),
		"no fanout":                param("fanout", []int{}),
		"a longer fanout":          param("fanout", []int{1, 1, 1}),
		"fanout 0":                 param("fanout", []int{1, 0}),
		"fanout -2":                param("eval_fanout", []int{2, -2}),
		"fanouts of text":          param("fanout", "all"),
		"an unknown method":        param("method", "ladies"),
		"a number for a method":    param("method", 1),
		"uniform, by its name":     param("method", "uniform"),
		"uniform, dependent":       param("batch_dependency", 16),
		"uniform, layers alike":    param("layer_dependency", true),
		"dependency 1":             func(f *forgery) { f.params["method"], f.params["batch_dependency"] = Labor, 1 },
		"dependency -2":            func(f *forgery) { f.params["method"], f.params["batch_dependency"] = Labor, -2 },
		"dependency 2^20+1":        func(f *forgery) { f.params["method"], f.params["batch_dependency"] = Labor, MaxBatchDependency+1 },
		"dependency 1<<62":         func(f *forgery) { f.params["method"], f.params["batch_dependency"] = Labor, int64(1)<<62 },
		"partitions at random":     param("partitions", 3),
		"a buffer at random":       param("buffer", 2),
		"a walk at random":         param("walk", "beta"),
		"no partitions":            param("order", Dispersed),
		"one partition":            buffer(Dispersed, 1, 1, "beta"),
		"a buffer of one":          buffer(Sequential, 4, 1, ""),
		"a buffer of more":         buffer(Sequential, 4, 5, ""),
		"partitions beyond nodes":  buffer(Sequential, 1<<13, 2, ""),
		"partitions 1<<62":         buffer(Dispersed, 1<<62, 1<<61, "beta"),
		"an unknown walk":          buffer(Dispersed, 4, 2, "far"),
		"a walk by no name":        buffer(Dispersed, 4, 2, ""),
		"a walk on the spot":       buffer(Sequential, 4, 2, "beta"),
		"labor in a buffer":        func(f *forgery) { buffer(Sequential, 4, 2, "")(f); f.params["method"] = Labor },
		"a smaller fanout":         param("eval_fanout", []int{1, 1}),
		"hotness 2^32-1":           func(f *forgery) { f.hot[3] = 1<<32 - 1 },
		"hotness beyond batches":   func(f *forgery) { f.hot[0] = 3; f.hot[1], f.hot[2] = 0, 0 },
		"hotness moved":            func(f *forgery) { f.hot[3], f.hot[0] = 1, 0 },
		"hotness less":             func(f *forgery) { f.hot[0] = 0 },
		"hotness of fewer nodes":   func(f *forgery) { f.hot = f.hot[:5] },
		"a batch of 1<<61":         func(f *forgery) { f.setSize(3, 1<<61) },
		"a batch of one byte":      func(f *forgery) { f.setSize(3, 1) },
		"2^32-1 input nodes":       func(f *forgery) { f.counts(2)[0] = 1<<32 - 1 },
		"2^32-1 edges":             func(f *forgery) { f.counts(2)[3] = 1<<32 - 1 },
		"no seeds":                 func(f *forgery) { f.counts(3)[2] = 0 },
		"a missing file":           func(f *forgery) { delete(f.batches, BatchesFile(1)) },
		"another file":             func(f *forgery) { f.batches["zzz"] = []byte{1} },
		"a longer file":            func(f *forgery) { f.batches[BatchesFile(1)] = append(f.batches[BatchesFile(1)], 0) },
		"another number per file":  func(f *forgery) { f.index.perFile = 2 },
		"2^30 batches per file":    func(f *forgery) { f.index.perFile = 1 << 30 },
		"an index of fewer layers": func(f *forgery) { f.index.layers = 1 },
	} {
		f := forge(t)
		change(f)
		dir := f.commit(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := use(t, dir)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, fault.ErrCorrupt) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "is damaged: make it again, by its diskgnn presample with --force") {
			t.Errorf("%s: %v", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s: %d bytes were allocated", name, n)
		}
	}
	if err := use(t, forge(t).commit(t)); err != nil {
		t.Errorf("nothing forged: %v", err)
	}
	if p := (Params{Order: Sequential, Partitions: walk.MaxPartitions + 1, Buffer: 2}); !badPartitions(&p, 1<<20) {
		t.Errorf("%d partitions are accepted", p.Partitions)
	}
	for order, kind := range map[string]string{Dispersed: "comet", Sequential: ""} {
		f := forge(t)
		buffer(order, 4, 2, kind)(f)
		if err := use(t, f.commit(t)); err != nil {
			t.Errorf("%s: %v", order, err)
		}
	}
	for _, dependency := range []int{0, 2, MaxBatchDependency} {
		f := forge(t)
		f.params["method"], f.params["batch_dependency"], f.params["layer_dependency"] = Labor, dependency, dependency > 0
		if err := use(t, f.commit(t)); err != nil {
			t.Errorf("batch dependency %d: %v", dependency, err)
		}
	}
}

// FuzzSamples forges facts, parameters, the index and the hotness, checksums and
// fingerprint along, and reads what comes of it.
func FuzzSamples(f *testing.F) {
	good := forge(f)
	params, _ := json.Marshal(good.params)
	facts, _ := json.Marshal(good.facts)
	f.Add(params, facts, []byte(good.index.records), uint32(3), binio.Bytes(good.hot), good.batches[BatchesFile(0)])
	f.Add(params, []byte(`{"nodes":6,"layers":2,"epochs":1,"train_batches":4611686018427387904}`), []byte{}, uint32(1), []byte{0xff, 0xff, 0xff, 0xff}, []byte{})
	f.Fuzz(func(t *testing.T, params, facts, records []byte, perFile uint32, hot, batches []byte) {
		x := forge(t)
		if json.Unmarshal(params, &x.params) != nil || json.Unmarshal(facts, &x.facts) != nil || perFile == 0 || perFile > 1<<30 {
			t.Skip()
		}
		x.index.records = slices.Clone(records[:len(records)/recordBytes(2, false)*recordBytes(2, false)])
		x.index.perFile = int(perFile)
		x.hot = slices.Clone(binio.View[uint32](append([]byte{}, hot[:len(hot)/4*4]...)))
		x.batches[BatchesFile(0)] = batches
		// What is wrong with a batch's checksum is found out by others.
		for i := range x.index.batches() {
			info := x.index.info(i)
			file := x.batches[BatchesFile(i/x.index.perFile)]
			if info.Offset >= 0 && info.Size >= 0 && info.Offset <= int64(len(file)) && info.Size <= int64(len(file))-info.Offset {
				n := recordBytes(2, false)
				binary.LittleEndian.PutUint32(x.index.records[i*n+16:], binio.CRC(file[info.Offset:info.Offset+info.Size]))
			}
		}
		if err := use(t, x.commitSafely(t)); err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) && !errors.Is(err, fault.ErrInput) {
			t.Fatalf("an error of no kind: %v", err)
		}
	})
}

// commitSafely is commit for an index whose files need not chain.
func (f *forgery) commitSafely(t testing.TB) string {
	if f.index.validate() != nil {
		t.Skip()
	}
	return f.commit(t)
}
