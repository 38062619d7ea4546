package exact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack/all"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// shares predicts all n shares of o, and returns their directories.
func shares(t *testing.T, o PredictOptions, n int) (dirs []string) {
	t.Helper()
	for i := range n {
		o.Shard = shard.Shard{Index: i, Count: n}
		p, err := Predict(t.Context(), disk, o, progress.Discard)
		check(t, err)
		if p.State != "new" || p.Shard != fmt.Sprintf("%d/%d", i, n) || p.Out != o.Shard.DirName(o.Out) || p.Fingerprint == "" || p.Lineage != nil {
			t.Fatalf("%+v", p)
		}
		dirs = append(dirs, p.Out)
	}
	return dirs
}

// contents returns the files of a directory with names that begin with out, by name; directories are left out.
func contents(t *testing.T, dir, out string) map[string]string {
	t.Helper()
	found := map[string]string{}
	entries, err := os.ReadDir(dir)
	check(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), out) && !e.IsDir() {
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			check(t, err)
			found[e.Name()] = string(b)
		}
	}
	return found
}

// same compares the files of a merged prediction with the files of a whole one.
func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s: %s has other bytes: %d, want %d", what, name, len(got[name]), len(want[name]))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d files, want %d", what, len(got), len(want))
	}
}

// Shares give the files of the whole prediction to the bit, lineage and ids included: for any number of shares, any
// model, all outputs and forms, nodes that are all, a split, or fewer than there are shares, and any kind of ids.
func TestSharesEqualTheWhole(t *testing.T) {
	plain := datasettest.Params{Nodes: 45, AvgDegree: 4, Dim: 5, Classes: 3, Seed: 3}.Raw()
	multigraph(&plain, 3, 90, 1)
	named, numbered, classed, many := plain, plain, plain, plain
	many.Targets = make([]byte, len(plain.Labels))
	many.Labels = slices.Clone(plain.Labels)
	for v, y := range many.Labels {
		many.Labels[v] = min(y, 0)
		numbered.NodeIDs = append(slices.Clone(numbered.NodeIDs), int64(44-v))
		named.Names = append(slices.Clone(named.Names), strings.Repeat(string(rune('a'+v%26)), 1+v/26)+[]string{"", ",\"x", " y"}[v%3])
	}
	classed.ClassNames = []string{"ant", "b,c", "#d"}
	dims := []int{5, 8, 3}
	types := fewTypes()
	typed := typedRaw(rand.New(rand.NewPCG(1, 1)), types, 1, 5, 3, 6, 80)
	words := typed
	for v := range typed.Labels {
		words.Names = append(words.Names, fmt.Sprintf("node %d", v))
	}
	for name, c := range map[string]struct {
		raw    dataset.Raw
		m      model.Model
		output string
		nodes  string
	}{
		"sage":     {plain, model.Model{Kind: model.SAGE, Dims: dims, Norm: model.LayerNorm, Residual: true}, Logits, AllNodes},
		"max":      {classed, model.Model{Kind: model.SAGE, Dims: dims, Aggregator: model.Max}, Classes, AllNodes},
		"gcn":      {numbered, model.Model{Kind: model.GCN, Dims: dims, GCNNorm: model.BlockNorm, InputProjection: 6}, Logits, dataset.Train},
		"gat":      {named, model.Model{Kind: model.GAT, Dims: dims, Heads: 2}, Classes, AllNodes},
		"gat, few": {plain, model.Model{Kind: model.GAT, Dims: dims, Heads: 2, Orders: orders(model.Aggregate, 2)}, Embeddings, "list"},
		"rgat":     {typed, model.Model{Kind: model.RGAT, Dims: dims, Heads: 2, Types: recipe.Types(types, 1)}, Logits, AllNodes},
		"rsage":    {words, model.Model{Kind: model.RSAGE, Dims: dims, Types: recipe.Types(types, 1)}, Classes, dataset.Test},
		"many":     {many, model.Model{Kind: model.SAGE, Dims: dims}, Classes, dataset.Test},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, vfstest.TempDir(t), c.raw, c.m)
			o := PredictOptions{Options: w.options(), Output: c.output, Nodes: c.nodes}
			if c.nodes == "list" {
				o.Nodes = w.path("list")
				check(t, os.WriteFile(o.Nodes, []byte("44\n3\n9\n8\n17\n"), 0o666))
			}
			want := map[string]map[string]string{}
			for _, suffix := range []string{".npy", ".csv", ".parquet"} {
				o.Out = w.path("out" + suffix)
				_, err := Predict(t.Context(), disk, o, progress.Discard)
				check(t, err)
				want[suffix] = contents(t, w.dir, "out")
				for name := range want[suffix] {
					check(t, os.Remove(w.path(name)))
				}
			}
			for _, n := range []int{1, 2, 3, 7} {
				o.Out, o.Threads = w.path("out.npy"), n
				dirs := shares(t, o, n)
				slices.Reverse(dirs)
				for suffix, want := range want {
					r, err := Merge(t.Context(), disk, MergeOptions{Out: w.path("out" + suffix), Shards: dirs}, progress.Discard)
					check(t, err)
					made := contents(t, w.dir, "out")
					same(t, fmt.Sprintf("%d shares, %s", n, suffix), made, want)
					if r.State != "new" || r.Shards != n || r.DiskBytes != int64(len(want["out"+suffix])) || r.Fingerprint != w.sum(t, "out"+suffix) || r.Format != "diskgnn.prediction" {
						t.Errorf("%+v", r)
					}
					for name := range made {
						check(t, os.Remove(w.path(name)))
					}
				}
				for _, dir := range dirs {
					check(t, os.RemoveAll(dir))
				}
			}
		})
	}
	if n := device.HostBytes(); n != 0 {
		t.Errorf("%d bytes of host memory were not given back", n)
	}
}

// By hand: 45 rows are 12 groups of 4; the shares of 5 have 2, 2, 3, 2 and 3 of them, and a share of 13 is empty.
func TestRowsOfShares(t *testing.T) {
	for n, want := range map[int][]int64{1: {45}, 2: {24, 21}, 5: {8, 8, 12, 8, 9}, 13: {0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1}} {
		p := shareParams{Rows: 45, Group: 4}
		first := int64(0)
		for i, rows := range want {
			s := shard.Shard{Index: i, Count: n}
			a := targets{nodes: 45}
			a.cut(s, 4)
			if got := p.count(s); got != rows || int64(a.len()) != rows || rows > 0 && int64(a.at(0)) != first {
				t.Errorf("share %s has %d rows, %d targets, want %d from %d on", s, got, a.len(), rows, first)
			}
			first += rows
		}
	}
}

// A share that is empty computes nothing, one that is finished is not computed again, one that differs is refused,
// and the plan of a share is for its nodes.
func TestSharesAgain(t *testing.T) {
	w := smallWorld(t)
	check(t, os.WriteFile(w.path("list"), []byte("3\n"), 0o666))
	o := PredictOptions{Options: w.options(), Out: w.path("new/out.csv"), Nodes: w.path("list"), Shard: shard.Shard{Index: 0, Count: 2}}
	p, err := Predict(t.Context(), disk, o, progress.Discard)
	if err != nil || p.Rows != 0 || p.BytesRead != 0 || len(p.Layers) != 0 {
		t.Errorf("an empty share: %+v, %v", p, err)
	}
	plan, err := PlanPrediction(t.Context(), disk, o, progress.Discard)
	if b, _ := json.Marshal(plan.Layers); err != nil || plan.BytesRead != 0 || string(b) != "[]" {
		t.Errorf("its plan: %+v, %v", plan, err)
	}
	o.Shard.Index = 1
	p, err = Predict(t.Context(), disk, o, progress.Discard)
	if err != nil || p.Rows != 1 || p.BytesRead == 0 || p.Columns != 3 || p.LineageFile != "" || p.IDs != "" {
		t.Errorf("the other: %+v, %v", p, err)
	}
	again, err := Predict(t.Context(), disk, o, progress.Discard)
	if err != nil || again.State != "done" || again.BytesRead != 0 || again.Fingerprint != p.Fingerprint || again.Rows != 1 {
		t.Errorf("again: %+v, %v", again, err)
	}
	other := o
	other.Output = Embeddings
	if _, err := Predict(t.Context(), disk, other, progress.Discard); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "--output") || !strings.Contains(err.Error(), "--force") {
		t.Errorf("another output: %v", err)
	}
	o.Nodes, o.Shard = AllNodes, shard.Shard{Index: 2, Count: 3}
	plan, err = PlanPrediction(t.Context(), disk, o, progress.Discard)
	if err != nil || plan.Layers[2].Nodes != 20 || plan.Layers[1].Nodes != 60 {
		t.Errorf("the plan of 20 nodes: %+v, %v", plan, err)
	}
	o.Shard = shard.Shard{Index: 3, Count: 3}
	if _, err := Predict(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("the fourth of three: %v", err)
	}
	o.Shard = shard.Shard{Index: 0, Count: 3}
	tiny := datasettest.FreeSpace{FS: disk, Bytes: 20*3*4 - 1}
	if _, err := Predict(t.Context(), tiny, o, progress.Discard); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "out.csv takes ") {
		t.Errorf("without room: %v", err)
	}
	if left, err := filepath.Glob(w.path("new/*0-of-3*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A merge that is repeated does nothing; it replaces no other file, unless it has to.
func TestMergeAgain(t *testing.T) {
	w := smallWorld(t)
	o := PredictOptions{Options: w.options(), Out: w.path("out.npy"), Nodes: dataset.Test}
	m := MergeOptions{Out: o.Out, Shards: shares(t, o, 2)}
	merge := func() (shard.Result, error) { return Merge(t.Context(), disk, m, progress.Discard) }
	first, err := merge()
	check(t, err)
	again, err := merge()
	if err != nil || again.State != "done" || again.Fingerprint != first.Fingerprint || again.DiskBytes != first.DiskBytes || again.CopiedBytes != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
	done, err := Finished(t.Context(), disk, o)
	if err != nil || done == nil || done.Rows != int64(len(w.raw.Test)) {
		t.Errorf("the prediction is %+v, %v", done, err)
	}
	want := contents(t, w.dir, "out")
	for _, name := range []string{"out.npy", "out.nodes.npy"} {
		if name == "out.npy" {
			check(t, os.WriteFile(w.path(name), []byte("other"), 0o666))
		} else {
			check(t, os.Remove(w.path(name)))
		}
		m.Force = false
		if _, err := merge(); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "--force") {
			t.Errorf("another file: %v", err)
		}
		m.Force = true
		r, err := merge()
		if err != nil || r.State != "new" || r.CopiedBytes != int64(len(w.raw.Test))*3*4 {
			t.Errorf("forced: %+v, %v", r, err)
		}
		same(t, "forced", contents(t, w.dir, "out"), want)
	}
	m.Out = w.path("more.npy")
	room := datasettest.FreeSpace{FS: disk, Bytes: int64(len(w.raw.Test))*3*4 - 1}
	if _, err := Merge(t.Context(), room, m, progress.Discard); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("without room: %v", err)
	}
	if IsShare(disk, w.path("dataset")) || IsShare(disk, w.path("absent")) || !IsShare(disk, m.Shards[0]) {
		t.Error("what is a share?")
	}
}

// forge changes the description of a share, or its files, and gives it a fingerprint again.
func forge(t *testing.T, dir string, change func(m *stage.Meta, params map[string]any)) {
	t.Helper()
	m, err := stage.ReadMeta(disk, dir, "shard")
	check(t, err)
	var params map[string]any
	check(t, json.Unmarshal(m.Params, &params))
	change(m, params)
	d, _, err := stage.Begin(disk, dir+"-forged", stage.Spec{Format: m.Format, Params: params}, false)
	check(t, err)
	for _, f := range m.Files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name))
		check(t, err)
		check(t, os.WriteFile(d.File(f.Name), slices.Concat(b, make([]byte, 100))[:f.Size], 0o666))
	}
	_, err = d.Commit(m.Files, nil, nil)
	check(t, d.End(err))
	check(t, os.RemoveAll(dir))
	check(t, os.Rename(dir+"-forged", dir))
}

// Shares that are missing, doubled, of other predictions, damaged or forged make no file.
func TestMergeRefuses(t *testing.T) {
	w := smallWorld(t)
	raw := w.raw
	raw.Names = nil
	for v := range raw.Labels {
		raw.Names = append(raw.Names, fmt.Sprint("n", v))
	}
	raw.ClassNames = []string{"a", "b", "c"}
	named := newWorld(t, vfstest.TempDir(t), raw, 4, 6)
	flip := func(name string, at int) func(t *testing.T, dirs []string) []string {
		return func(t *testing.T, dirs []string) []string {
			b, err := os.ReadFile(filepath.Join(dirs[1], name))
			check(t, err)
			b[(at+len(b))%len(b)] ^= 1
			check(t, os.WriteFile(filepath.Join(dirs[1], name), b, 0o666))
			return dirs
		}
	}
	each := func(change func(m *stage.Meta, params map[string]any)) func(t *testing.T, dirs []string) []string {
		return func(t *testing.T, dirs []string) []string {
			for _, dir := range dirs {
				forge(t, dir, change)
			}
			return dirs
		}
	}
	param := func(name string, to any) func(t *testing.T, dirs []string) []string {
		return each(func(_ *stage.Meta, params map[string]any) { params[name] = to })
	}
	alsoOf := func(change func(o *PredictOptions)) func(t *testing.T, dirs []string) []string {
		return func(t *testing.T, dirs []string) []string {
			o := PredictOptions{Options: named.options(), Out: named.path("other.npy"), Nodes: dataset.Train, Output: Classes, Shard: shard.Shard{Index: 1, Count: 2}}
			change(&o)
			p, err := Predict(t.Context(), disk, o, progress.Discard)
			check(t, err)
			return []string{dirs[0], p.Out}
		}
	}
	const again = "make it again, by its diskgnn predict --shard with --force"
	for name, c := range map[string]struct {
		change func(t *testing.T, dirs []string) []string
		kind   error
		says   string
	}{
		"missing":           {func(_ *testing.T, dirs []string) []string { return dirs[1:] }, fault.ErrUsage, "0/2; 0/2 is made by its diskgnn predict --shard 0/2, with"},
		"twice":             {func(_ *testing.T, dirs []string) []string { return append(dirs, dirs[0]) }, fault.ErrUsage, "are both shard 0/2"},
		"no shard":          {func(_ *testing.T, dirs []string) []string { return append(dirs, named.path("dataset")) }, fault.ErrInput, "is a whole directory"},
		"of three":          {alsoOf(func(o *PredictOptions) { o.Shard.Count = 3 }), fault.ErrUsage, "parts of different directories"},
		"other output":      {alsoOf(func(o *PredictOptions) { o.Output = Logits }), fault.ErrLineage, "--output is logits, not classes"},
		"other nodes":       {alsoOf(func(o *PredictOptions) { o.Nodes = dataset.Test }), fault.ErrLineage, "--nodes is test, not train"},
		"other states":      {alsoOf(func(o *PredictOptions) { o.StateDType = StateBF16 }), fault.ErrLineage, "--state-dtype is bf16"},
		"other run":         {alsoOf(func(o *PredictOptions) { o.Run, o.Accept = w.path("run"), []string{AcceptAll} }), fault.ErrLineage, "trained"},
		"other graph":       {alsoOf(func(o *PredictOptions) { o.Options = w.options() }), fault.ErrLineage, "dataset"},
		"a wrong byte":      {flip(shareRows, 5), fault.ErrCorrupt, again},
		"a wrong class":     {flip(shareRows, -1), fault.ErrCorrupt, "there is no class"},
		"a wrong name":      {flip(shareNames, 1), fault.ErrCorrupt, again},
		"a name that ended": {flip(shareNames, -1), fault.ErrCorrupt, again},
		"shrunk": {func(t *testing.T, dirs []string) []string {
			check(t, os.Truncate(filepath.Join(dirs[1], shareRows), 4))
			return dirs
		}, fault.ErrCorrupt, shareRows},
		"no file": {func(t *testing.T, dirs []string) []string {
			check(t, os.Remove(filepath.Join(dirs[1], shareNames)))
			return dirs
		}, fault.ErrCorrupt, shareNames},
		"damaged":           {flip(stage.MetaFile, 40), fault.ErrCorrupt, stage.MetaFile},
		"too many rows":     {param("rows", int64(1)<<40), fault.ErrCorrupt, "are no prediction"},
		"negative rows":     {param("rows", -1), fault.ErrCorrupt, "are no prediction"},
		"no columns":        {param("columns", 0), fault.ErrCorrupt, "are no prediction"},
		"many columns":      {param("columns", 1<<30), fault.ErrCorrupt, "are no prediction"},
		"two columns":       {param("columns", 2), fault.ErrCorrupt, "2 columns of classes"},
		"no group":          {param("group", 0), fault.ErrCorrupt, "are no prediction"},
		"a wide group":      {param("group", int64(1)<<33), fault.ErrCorrupt, "are no prediction"},
		"another group":     {param("group", 64), fault.ErrCorrupt, "does not have the 0 rows of shard 0/2"},
		"other rows":        {param("rows", 100), fault.ErrCorrupt, "does not have the 48 rows"},
		"new ids":           {param("ids", "colours"), fault.ErrVersion, "a newer program: its ids are of the kind \"colours\""},
		"no ids":            {param("ids", "nodes"), fault.ErrCorrupt, shareIDs + " does not have"},
		"new output":        {param("output", "poems"), fault.ErrVersion, "a newer program: its output is \"poems\""},
		"names of logits":   {param("output", "logits"), fault.ErrCorrupt, "names of classes"},
		"few names":         {param("class_names", []string{"a"}), fault.ErrCorrupt, "there is no class"},
		"text for a number": {param("rows", "many"), fault.ErrCorrupt, "rows"},
		"no number":         {param("shard", "x"), fault.ErrCorrupt, "does not say which shard it is"},
		"a new version":     {each(func(m *stage.Meta, _ map[string]any) { m.Format.Version = 2 }), fault.ErrVersion, "is a shard of a diskgnn.prediction, version 2, this program merges version 1: make the shards again"},
		"another format":    {each(func(m *stage.Meta, _ map[string]any) { m.Format.Name = "diskgnn.pack-shard" }), fault.ErrInput, "is no shard of a prediction"},
		"no rows at all":    {each(func(m *stage.Meta, _ map[string]any) { m.Files = m.Files[:1] }), fault.ErrCorrupt, "does not have"},
		"more names": {each(func(m *stage.Meta, _ map[string]any) {
			i := slices.IndexFunc(m.Files, func(f stage.File) bool { return f.Name == shareNames })
			m.Files[i].Size++
		}), fault.ErrCorrupt, shareNames},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.npy")
			dirs := shares(t, PredictOptions{Options: named.options(), Out: out, Nodes: dataset.Train, Output: Classes}, 2)
			dirs = c.change(t, dirs)
			for _, suffix := range []string{".npy", ".csv", ".parquet"} {
				out := strings.TrimSuffix(out, ".npy") + suffix
				_, err := Merge(t.Context(), disk, MergeOptions{Out: out, Shards: dirs}, progress.Discard)
				if !errors.Is(err, c.kind) || !strings.Contains(fmt.Sprint(err), c.says) {
					t.Errorf("%s: %v", suffix, err)
				}
			}
			if left, err := filepath.Glob(filepath.Dir(out) + "/out.[cnp]*[vyet]*"); err != nil || slices.ContainsFunc(left, func(name string) bool { return !strings.Contains(name, ".shard-") }) {
				t.Errorf("left: %v, %v", left, err)
			}
			_ = os.RemoveAll(named.path("other.npy.shard-1-of-2"))
			_ = os.RemoveAll(named.path("other.npy.shard-1-of-3"))
		})
	}
	if _, err := Merge(t.Context(), disk, MergeOptions{Out: w.path("out.txt"), Shards: []string{"x"}}, progress.Discard); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("another suffix: %v", err)
	}
}

// By hand: the bounds of rows and columns, and a file of names with one more than there are rows.
func TestBoundsOfShares(t *testing.T) {
	for _, c := range []struct {
		rows    int64
		columns int
		group   int
		ok      bool
	}{
		{1 << 32, 1 << 20, 1, true}, {1<<32 + 1, 1, 1, false}, {0, 1<<20 + 1, 1, false}, {0, 1, 1<<32 - 1, true}, {0, 1, 1 << 32, false}, {-1, 1, 1, false}, {0, 0, 1, false}, {0, 1, 0, false},
	} {
		p := shareParams{Origin: Origin{Output: Logits}, Rows: c.rows, Columns: c.columns, Group: c.group}
		if err := p.check(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
	raw := datasettest.Params{Nodes: 9, AvgDegree: 2, Dim: 3, Classes: 2, Seed: 1}.Raw()
	raw.Names = strings.Split("a b c d e f g h i", " ")
	w := newWorld(t, vfstest.TempDir(t), raw, 3)
	dirs := shares(t, PredictOptions{Options: w.options(), Out: w.path("out.csv")}, 1)
	m, err := stage.Open(disk, dirs[0], "shard", ShareFormat)
	check(t, err)
	for _, look := range []stage.Look{stage.Tables, stage.Bytes} {
		check(t, CheckShare(t.Context(), disk, dirs[0], m, look))
	}
	b, err := os.ReadFile(filepath.Join(dirs[0], shareRows))
	check(t, err)
	b[7] ^= 4
	check(t, os.WriteFile(filepath.Join(dirs[0], shareRows), b, 0o666))
	check(t, CheckShare(t.Context(), disk, dirs[0], m, stage.Tables))
	if err := CheckShare(t.Context(), disk, dirs[0], m, stage.Bytes); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a wrong byte: %v", err)
	}
	b[7] ^= 4
	check(t, os.WriteFile(filepath.Join(dirs[0], shareRows), b, 0o666))
	names := "a\nb\nc\nd\ne\nf\ng\nh\ni\nmore\n"
	check(t, os.WriteFile(filepath.Join(dirs[0], shareNames), []byte(names[:18]), 0o666))
	forge(t, dirs[0], func(m *stage.Meta, _ map[string]any) {
		check(t, os.WriteFile(filepath.Join(dirs[0], shareNames), []byte(names), 0o666))
		for i := range m.Files {
			if m.Files[i].Name == shareNames {
				m.Files[i] = stage.File{Name: shareNames, Size: int64(len(names)), Checksum: binio.Hash([]byte(names))}
			}
		}
	})
	if _, err := Merge(t.Context(), disk, MergeOptions{Out: w.path("out.csv"), Shards: dirs}, progress.Discard); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("more names than rows: %v", err)
	}
}

// Whichever operation fails, or is the last before a kill or an interruption, a merge leaves no file but a whole
// one, and the next merge makes it. So does a share.
func TestMergeFails(t *testing.T) {
	w := smallWorld(t)
	o := PredictOptions{Options: w.options(), Out: w.path("out.csv"), Nodes: dataset.Train, Shard: shard.Shard{Index: 1, Count: 2}}
	dirs := shares(t, o, 2)
	out := filepath.Join(w.path("made"), "out.npy")
	merge := func(ctx context.Context, fsys vfs.FS) error {
		_, err := Merge(ctx, fsys, MergeOptions{Out: out, Shards: dirs}, progress.Discard)
		return err
	}
	share := func(ctx context.Context, fsys vfs.FS) error {
		o := o
		o.Out = out
		_, err := predict(ctx, fsys, o, progress.Discard, parts{stack: all.Open})
		return err
	}
	for name, do := range map[string]func(context.Context, vfs.FS) error{"merge": merge, "share": share} {
		check(t, do(t.Context(), disk))
		read := func() map[string]string {
			if name == "share" {
				return contents(t, out+".shard-1-of-2", "rows")
			}
			return contents(t, filepath.Dir(out), "out")
		}
		want := read()
		for _, way := range []string{"fails", "killed", "interrupted"} {
			step := 1
			if name == "share" && way != "fails" {
				step = 9
			}
			for n := 0; ; n += step {
				check(t, os.RemoveAll(filepath.Dir(out)))
				ctx, cancel := context.WithCancelCause(t.Context())
				seen, dead := 0, false
				err := do(ctx, vfs.Inject(disk, watch(func(op vfs.Op, file string) error {
					if seen++; way == "killed" && dead || seen == n+1 {
						dead = true
						if way != "interrupted" {
							return syscall.EIO
						}
						cancel(errors.New("interrupt signal received"))
					}
					return nil
				})))
				cancel(nil)
				if !dead {
					break
				}
				if err != nil && !strings.Contains(err.Error(), syscall.EIO.Error()) && !errors.Is(err, fault.ErrInterrupted) {
					t.Errorf("%s: operation %d %s: %v", name, n, way, err)
				}
				if b, e := os.ReadFile(out); e == nil && name == "merge" && !bytes.Equal(b, []byte(want["out.npy"])) {
					t.Errorf("operation %d %s: the file is not whole", n, way)
				}
				if way == "interrupted" && name == "merge" && err != nil {
					if left := contents(t, w.dir, "made/out"); len(left) > 0 {
						t.Errorf("operation %d: left %v", n, left)
					}
				}
				check(t, do(t.Context(), disk))
				same(t, fmt.Sprintf("%s: operation %d %s", name, n, way), read(), want)
			}
		}
	}
	if n := device.HostBytes(); n != 0 {
		t.Errorf("%d bytes of host memory were not given back", n)
	}
}
