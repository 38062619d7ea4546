package raw_test

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/raw"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
)

// imported imports a graph in tables, and returns it as text and its plan. The import and the
// plan have equal counts.
func imported(t *testing.T, o importer.Options) (graph string, plan importer.Plan) {
	t.Helper()
	out := filepath.Join(vfstest.TempDir(t), "D")
	plan, err := importer.MakePlan(t.Context(), datasettest.FS, out, raw.Format, o, progress.Discard)
	if err != nil || len(plan.Problems) > 0 {
		t.Fatalf("%+v: %v, %q", o.Reading, err, plan.Problems)
	}
	res, err := importer.Import(t.Context(), datasettest.FS, out, raw.Format, o, progress.Discard)
	if err != nil {
		t.Fatalf("%+v: %v", o.Reading, err)
	}
	if res.Nodes != plan.Nodes || res.Train != plan.Train || res.Unlabelled != plan.Unlabelled || res.Classes != plan.Classes || !slices.Equal(res.Notes, plan.Notes) {
		t.Errorf("the plan is %+v, the result %+v", plan, res)
	}
	d := datasettest.Verified(t, out)
	graph = importertest.Text(t, d)
	classes, err := d.ClassNames()
	if err != nil {
		t.Fatal(err)
	}
	if classes != nil {
		graph += fmt.Sprintf("classes %q\n", classes)
	}
	if res.OriginalIDs != "" {
		graph += strings.Join(datasettest.IDs(t, d), " ") + "\n"
	}
	return graph, plan
}

// saved writes files, and returns the path of a file by its name.
func saved(t *testing.T, files map[string]string) func(name string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		importertest.Save(t, filepath.Join(dir, name), []byte(text))
	}
	return func(name string) string { return filepath.Join(dir, name) }
}

// TestNodeTable imports one graph of four nodes, 0→1, 1→2 and 3→0, from tables with columns of several
// uses.
func TestNodeTable(t *testing.T) {
	at := saved(t, map[string]string{
		"e.csv":       "src,dst,weight\n0,1,0.5\n1,2,0.25\n3,0,1\n",
		"back.csv":    "when,dst,src\n5,1,0\n6,2,1\n7,0,3\n",
		"named.csv":   "from,to\nann,bob\nbob,cy\ndee,ann\n",
		"nodes.csv":   "id,label,split,x,y\n0,vet,train,.5,1\n1,cook,val,1.5,2\n2,,test,2.5,3\n3,cook,,3.5,4\n",
		"numbers.csv": "x,set,class,y,note\n.5,0,1,1,a\n1.5,1,0,2,b\n2.5,2,-1,3,c\n3.5,-1,0,4,d\n",
		"people.csv":  "x,who,y,job,part\n.5,ann,1,vet,TRAIN\n1.5,bob,2,cook,Validation\n2.5,cy,3,NaN,testing\n3.5,dee,4,cook,none\n",
		"f.csv":       "id;x;y\n0;.5;1\n1;1.5;2\n2;2.5;3\n3;3.5;4\n",
		"jobs.csv":    "job,part,id\ncook,,3\nvet,training,0\ncook,dev,1\n,test,2\n",
		"two.csv":     "who,x,y\nann,.5,1\nbob,1.5,2\ncy,2.5,3\ndee,3.5,4\n",
		"jobs2.csv":   "job,part,who\ncook,unused,dee\nvet,0.0,ann\ncook,1.0,bob\nnull,2.0,cy\n",
		"masks.csv":   "x,id,tr,va,te,y,c\n.5,0,True,False,0,1,1\n1.5,1,False,True,,2,0\n2.5,2,False,FALSE,1.0,3,-1\n3.5,3,no,false,0,4,0\n",
		"keyed.csv":   "x,who,y\n3.5,dee,4\n.5,ann,1\n2.5,cy,3\n1.5,bob,2\n",
	})
	type node struct {
		X    float32
		ID   int64
		Y    float32
		Job  *string
		Part *int32
	}
	text, number := func(s string) *string { return &s }, func(n int32) *int32 { return &n }
	if err := parquet.WriteFile(at("nodes.parquet"), []node{{.5, 0, 1, text("vet"), number(0)}, {1.5, 1, 2, text("cook"), number(1)}, {2.5, 2, 3, nil, number(2)}, {3.5, 3, 4, text("cook"), nil}}); err != nil {
		t.Fatal(err)
	}
	const want = "nodes 4\nedges 3\n0 <- 3\n1 <- 0\n2 <- 1\nfeat 0: 0.5 1\nfeat 1: 1.5 2\nfeat 2: 2.5 3\nfeat 3: 3.5 4\nlabel 0: 1\nlabel 1: 0\nlabel 2: -1\nlabel 3: 0\ntrain: 0\nvalid: 1\ntest:\n"
	for _, c := range []struct {
		name  string
		r     importer.Reading
		words bool // labels are words
		names bool // nodes have names
		notes []string
	}{
		{"words", importer.Reading{Edges: at("e.csv"), FeatureFile: at("nodes.csv"), LabelColumn: "label", SplitColumn: "split", IDColumn: "id"}, true, false, []string{"data of edges is not imported: weight"}},
		{"numbers", importer.Reading{Edges: at("back.csv"), FeatureFile: at("numbers.csv"), LabelColumn: "class", SplitColumn: "set", Drop: []string{"note"}}, false, false, []string{"data of edges is not imported: when"}},
		{"by number", importer.Reading{Edges: at("e.csv"), EdgeColumns: []string{"0", "1"}, FeatureFile: at("numbers.csv"), FeatureColumns: []string{"0", "3"}, LabelColumn: "2", SplitColumn: "1"}, false, false, []string{"weight"}},
		{"named", importer.Reading{Edges: at("named.csv"), FeatureFile: at("people.csv"), LabelColumn: "job", SplitColumn: "part", IDColumn: "who"}, true, true, nil},
		{"two tables", importer.Reading{Edges: at("e.csv"), FeatureFile: at("f.csv"), LabelFile: at("jobs.csv"), LabelColumn: "job", SplitColumn: "part", IDColumn: "id"}, true, false, []string{"weight"}},
		{"no label column", importer.Reading{Edges: at("e.csv"), FeatureFile: at("f.csv"), LabelFile: at("jobs.csv"), SplitColumn: "part", IDColumn: "id"}, true, false, []string{"weight"}},
		{"two tables, named", importer.Reading{Edges: at("named.csv"), FeatureFile: at("two.csv"), LabelFile: at("jobs2.csv"), LabelColumn: "job", SplitColumn: "part", IDColumn: "who"}, true, true, nil},
		{"names of a file", importer.Reading{Edges: at("named.csv"), NodeIDs: at("two.csv"), FeatureFile: at("keyed.csv"), LabelFile: at("jobs2.csv"), LabelColumn: "job", SplitColumn: "part", IDColumn: "who"}, true, true, nil},
		{"masks", importer.Reading{Edges: at("e.csv"), FeatureFile: at("masks.csv"), LabelColumn: "c", IDColumn: "id", SplitFiles: []string{"tr", "va", "te"}}, false, false, []string{"weight"}},
		{"parquet", importer.Reading{Edges: at("e.csv"), FeatureFile: at("nodes.parquet"), LabelColumn: "Job", SplitColumn: "Part", IDColumn: "ID"}, true, false, []string{"weight"}},
	} {
		got, plan := imported(t, importer.Options{Reading: c.r})
		all := want
		if c.words {
			all += "classes [\"cook\" \"vet\"]\n"
		}
		if c.names {
			all += "ann bob cy dee\n"
		}
		if got != all {
			t.Errorf("%s: %s", c.name, got)
		}
		if notes := strings.Join(plan.Notes, "; "); len(plan.Notes) != len(c.notes) || slices.ContainsFunc(c.notes, func(s string) bool { return !strings.Contains(notes, s) }) {
			t.Errorf("%s: notes %q", c.name, plan.Notes)
		}
	}

	// Nodes are numbered by the edges: bob and cy, ann first.
	got, _ := imported(t, importer.Options{Reading: importer.Reading{Edges: at("named.csv"), NodeIDs: raw.ByEdges, FeatureFile: at("keyed.csv"), LabelFile: at("jobs2.csv"), LabelColumn: "job", SplitColumn: "part", IDColumn: "who"}})
	if got != want+"classes [\"cook\" \"vet\"]\nann bob cy dee\n" {
		t.Errorf("by the edges: %s", got)
	}
	// For prediction, columns of labels and sets are not features, and may be absent.
	for _, features := range []string{"nodes.csv", "f.csv"} {
		o := importer.Options{Reading: importer.Reading{For: importer.ForPredict, Edges: at("e.csv"), FeatureFile: at(features), LabelColumn: "label", SplitColumn: "split", IDColumn: "id"}}
		p, err := importer.MakePlan(t.Context(), datasettest.FS, at("D"), raw.Format, o, progress.Discard)
		if err != nil || len(p.Problems) > 0 || p.Dim != 2 || p.Classes != 0 {
			t.Errorf("for prediction, %s: %+v, %v", features, p, err)
		}
	}
}

// TestSplitMasks reads sets that are masks of several types, of one column and of several.
func TestSplitMasks(t *testing.T) {
	at := saved(t, map[string]string{
		"e.csv": "0,1\n1,2\n2,3\n3,0\n", "l.csv": "0\n1\n0\n1\n", "one.csv": "1\n0\n0\n0\n", "list.csv": "3\n", "half.csv": "0.5\n0\n0\n1\n", "two.csv": "2\n0\n0\n1\n",
		"u8.npy":   string(importertest.Vector([]uint8{0, 1, 0, 0})),
		"f32.npy":  string(importertest.Vector([]float32{0, 0, 1, 0})),
		"many.npy": string(importertest.NPY("(4, 2)", []bool{true, false, false, true, false, false, false, false})),
		"e3.npy":   string(importertest.NPY("(3, 3)", make([]int64, 9))), "e1.npy": string(importertest.NPY("(3, 1)", make([]int64, 3))),
		"pair.csv": "0,1\n1,0\n", "l2.csv": "0\n1\n", "ids.csv": "1\n0\n", "b2.npy": string(importertest.Vector([]bool{false, false})),
	})
	for _, c := range []struct {
		edges, labels string
		sets          [3]string
		index         int
		want, says    string // the sets, or the refusal
	}{
		{"e.csv", "l.csv", [3]string{"one.csv", "u8.npy", "f32.npy"}, 0, "train: 0\nvalid: 1\ntest: 2\n", ""},
		{"e.csv", "l.csv", [3]string{"many.npy", "list.csv", "f32.npy"}, 0, "train: 0\nvalid: 3\ntest: 2\n", ""},
		{"e.csv", "l.csv", [3]string{"many.npy", "list.csv", "f32.npy"}, 1, "train: 1\nvalid: 3\ntest: 2\n", ""},
		{"e.csv", "l.csv", [3]string{"list.csv", "many.npy", "f32.npy"}, 1, "train: 3\nvalid: 1\ntest: 2\n", ""},
		{"e.csv", "l.csv", [3]string{"list.csv", "u8.npy", "many.npy"}, 0, "train: 3\nvalid: 1\ntest: 0\n", ""},
		{"e.csv", "l.csv", [3]string{"many.npy", "list.csv", "f32.npy"}, 2, "", "--split-index 2: "},
		{"e.csv", "l.csv", [3]string{"one.csv", "list.csv", "f32.npy"}, 1, "", "--split-index 1: no mask in --split-files has several columns"},
		{"pair.csv", "l2.csv", [3]string{"ids.csv", "b2.npy", "b2.npy"}, 0, "train: 0 1\nvalid:\ntest:\n", ""}, // numbers of nodes, as ever
		{"e3.npy", "l.csv", [3]string{"one.csv", "u8.npy", "f32.npy"}, 0, "", "not int64 of shape (3, 3): name two of its columns, as in --edge-columns 0,1"},
		{"e1.npy", "l.csv", [3]string{"one.csv", "u8.npy", "f32.npy"}, 0, "", "not int64 of shape (3, 1)"},
	} {
		o := importer.Options{Reading: reading(at, c.edges, "random:2", c.labels, c.sets[:]...)}
		o.SplitIndex = c.index
		if c.says == "" {
			if got, _ := imported(t, o); !strings.HasSuffix(got, c.want) {
				t.Errorf("%+v: %s", c, got)
			}
			continue
		}
		p, err := importer.MakePlan(t.Context(), datasettest.FS, at("D"), raw.Format, o, progress.Discard)
		if found := fmt.Sprint(strings.Join(p.Problems, "; "), err); !strings.Contains(found, c.says) || c.edges == "e1.npy" && strings.Contains(found, "--edge-columns") {
			t.Errorf("%+v: %s", c, found)
		}
	}
}

// TestSetWords reads words of sets, in columns of sets and of masks.
func TestSetWords(t *testing.T) {
	for _, c := range []struct{ column, yes, valid, test, no, says string }{
		{"s", "Train", "VAL", "Testing", "unused", ""},
		{"s", "training", "dev", "test", "None", ""},
		{"s", "0", "1", "2", "-1", ""},
		{"s", "0.0", "1.0", "2.0", "nan", ""},
		{"s", "train", "validation", "test", "null", ""},
		{"s", "train", "valid", "test", "3", "in the set \"3\""},
		{"s", "train", "valid", "test", "-2", "in the set \"-2\""},
		{"s", "train", "valid", "test", "0.5", "in the set \"0.5\""},
	} {
		at := saved(t, map[string]string{"e.csv": "0,1\n1,2\n2,3\n3,0\n", "n.csv": fmt.Sprintf("x,s,y\n1,%s,0\n2,%s,1\n3,%s,0\n4,%s,1\n", c.yes, c.valid, c.test, c.no)})
		o := importer.Options{Reading: importer.Reading{Edges: at("e.csv"), FeatureFile: at("n.csv"), LabelColumn: "y", SplitColumn: c.column}}
		if c.says == "" {
			if got, _ := imported(t, o); !strings.HasSuffix(got, "train: 0\nvalid: 1\ntest: 2\n") {
				t.Errorf("%+v: %s", c, got)
			}
			continue
		}
		if p, err := importer.MakePlan(t.Context(), datasettest.FS, at("D"), raw.Format, o, progress.Discard); err != nil || !strings.Contains(strings.Join(p.Problems, "; "), c.says) {
			t.Errorf("%+v: %q, %v", c, p.Problems, err)
		}
	}
	at := saved(t, map[string]string{"e.csv": "0,1\n1,0\n", "n.csv": "x,a,b,c,y\n1,maybe,0,0,0\n2,1,0,0,1\n"})
	o := importer.Options{Reading: importer.Reading{Edges: at("e.csv"), FeatureFile: at("n.csv"), LabelColumn: "y", SplitFiles: []string{"a", "b", "c"}}}
	if p, err := importer.MakePlan(t.Context(), datasettest.FS, at("D"), raw.Format, o, progress.Discard); err != nil || !strings.Contains(strings.Join(p.Problems, "; "), "node 0 has \"maybe\" in the column \"a\", which is a set") {
		t.Errorf("a word in a mask: %q, %v", p.Problems, err)
	}
}

// TestNoClass reads words of classes: -1, -100 and the words for nothing are no class. Truths are the
// classes 0 and 1, and masks. A note has no control characters.
func TestNoClass(t *testing.T) {
	at := saved(t, map[string]string{
		"e.csv": "src,dst,\"\x1b[1m\"\n0,1,0\n1,2,0\n2,3,0\n3,0,0\n4,5,0\n", "f.csv": "0,1\n0.5,True\n1.5,False\n2.5,True\n3.5,True\n4.5,True\n5.5,True\n",
		"y.csv": "y\nb\na\n-1\na\n-100\nNaN\n", "m0.csv": "True\nFalse\nFalse\nFalse\nFalse\nFalse\n", "m1.csv": "m\nfalse\ntrue\nfalse\nfalse\nfalse\nfalse\n", "m2.csv": "0\n0\n0\n1\n0\n0\n",
		"truths.csv": "True\nFalse\nTrue\nFalse\nTrue\nTrue\n",
	})
	o := importer.Options{Reading: importer.Reading{Edges: at("e.csv"), FeatureFile: at("f.csv"), LabelFile: at("y.csv"), SplitFiles: []string{at("m0.csv"), at("m1.csv"), at("m2.csv")}}}
	got, plan := imported(t, o)
	if plan.Unlabelled != 3 || plan.Classes != 2 || plan.Dim != 2 || !strings.Contains(got, `classes ["a" "b"]`) || !strings.Contains(got, "train: 0\nvalid: 1\ntest: 3\n") {
		t.Errorf("%s, %+v", got, plan)
	}
	if notes := strings.Join(plan.Notes, "; "); strings.Contains(notes, "\x1b") || !strings.Contains(notes, `data of edges is not imported: "\x1b[1m"`) {
		t.Errorf("%q", notes)
	}
	o.LabelFile = at("truths.csv")
	if _, plan := imported(t, o); plan.Classes != 2 || plan.Unlabelled != 0 {
		t.Errorf("%+v", plan)
	}
}

// TestIsolatedNodes has nodes without edges at the end of a table of text: its rows are counted.
func TestIsolatedNodes(t *testing.T) {
	at := saved(t, map[string]string{"e.csv": "0,1\n1,0\n", "f.csv": "1\n2\n3\n4\n", "l.csv": "0\n1\n0\n1\n"})
	for _, labels := range []string{"l.csv", "random:2"} {
		o := importer.Options{Reading: reading(at, "e.csv", "f.csv", labels), Split: &importer.Split{Parts: "50/25/25"}}
		if got, plan := imported(t, o); !strings.HasPrefix(got, "nodes 4\n") || len(plan.Notes) != 0 {
			t.Errorf("%s: %s, %q", labels, got, plan.Notes)
		}
	}
}

// TestChosenFeatures chooses columns by names, patterns, numbers and ranges, in the order that is given.
func TestChosenFeatures(t *testing.T) {
	at := saved(t, map[string]string{"e.csv": "0,1\n1,0\n", "f.csv": "a1,b,a2,c,y\n1,2,3,4,0\n5,6,7,8,1\n"})
	for _, c := range []struct {
		columns, drop []string
		want          string
	}{
		{nil, nil, "feat 0: 1 2 3 4\nfeat 1: 5 6 7 8\n"},
		{[]string{"a*"}, nil, "feat 0: 1 3\nfeat 1: 5 7\n"},
		{[]string{"c", "a?"}, nil, "feat 0: 4 1 3\nfeat 1: 8 5 7\n"},
		{[]string{"1-3"}, nil, "feat 0: 2 3 4\nfeat 1: 6 7 8\n"},
		{nil, []string{"b", "2"}, "feat 0: 1 4\nfeat 1: 5 8\n"},
		{[]string{"a*"}, []string{"a1"}, "feat 0: 3\nfeat 1: 7\n"},
	} {
		o := importer.Options{Split: &importer.Split{Parts: "50/50/0"}, Reading: importer.Reading{Edges: at("e.csv"), FeatureFile: at("f.csv"), LabelColumn: "y", FeatureColumns: c.columns, Drop: c.drop}}
		if got, _ := imported(t, o); !strings.Contains(got, c.want) {
			t.Errorf("%q without %q: %s", c.columns, c.drop, got)
		}
	}
}

// TestNodeTableRefuses has one thing wrong with a table of nodes at a time.
func TestNodeTableRefuses(t *testing.T) {
	at := saved(t, map[string]string{
		"e.csv": "0,1\n1,2\n", "named.csv": "ann,bob\nbob,zed\n",
		"nodes.csv": "id,who,label,split,x\n0,ann,a,train,1\n1,bob,b,val,2\n2,cy,a,test,3\n3,dee,b,test,4\n",
		"sets.csv":  "x,split\n1,train\n2,holdout\n3,test\n4,\n",
		"twice.csv": "id,label\n0,1\n1,0\n1,1\n2,1\n",
		"stray.csv": "id,label\n0,1\n4,0\n",
		"cut.csv":   "id,label\n0,1\n1,\n",
		"again.csv": "who,x\nann,1\nbob,2\nann,3\n",
		"l.csv":     "0\n1\n0\n1\n",
		"f.npy":     string(importertest.NPY("(4, 2)", make([]float32, 8))),
	})
	words := "x,label\n"
	for v := range 41 {
		words += fmt.Sprintf("%d,p%d\n", v, v/2)
	}
	importertest.Save(t, at("ids.csv"), []byte(words))
	base := func(change func(r *importer.Reading)) importer.Reading {
		r := importer.Reading{Edges: at("e.csv"), FeatureFile: at("nodes.csv"), LabelColumn: "label", SplitColumn: "split", IDColumn: "id", Drop: []string{"who"}}
		change(&r)
		return r
	}
	for _, c := range []struct {
		r    importer.Reading
		says string
	}{
		{base(func(r *importer.Reading) { r.Drop = nil }), "nodes.csv: features are numbers, but it has text in who: give --drop who, name the columns with --feature-columns, or their use with --label-column, --split-column or --id-column"},
		{base(func(r *importer.Reading) { r.Drop = []string{"nobody"} }), `nodes.csv: no column is "nobody"`},
		{base(func(r *importer.Reading) { r.LabelColumn = "labels" }), `nodes.csv: no column is "labels"`},
		{base(func(r *importer.Reading) { r.SplitColumn = "set" }), "--split-column set: no such column in "},
		{base(func(r *importer.Reading) { r.IDColumn = "ID" }), "--id-column ID: no such column in "},
		{base(func(r *importer.Reading) {
			r.LabelFile, r.FeatureFile, r.Drop, r.LabelColumn, r.IDColumn = "random:2", at("sets.csv"), nil, "", ""
		}), "sets.csv: node 1 is in the set \"holdout\": sets are train (or 0), valid (1) and test (2), or empty for none"},
		{base(func(r *importer.Reading) {
			r.FeatureFile, r.Drop, r.SplitColumn, r.IDColumn = at("ids.csv"), nil, "", ""
		}), "ids.csv: its labels have 21 different words on 41 labelled nodes: they look like ids or text, not classes"},
		{base(func(r *importer.Reading) { r.LabelFile = at("twice.csv") }), "twice.csv: row 2: an earlier row has the same id"},
		{base(func(r *importer.Reading) { r.LabelFile = at("stray.csv") }), "stray.csv: row 1: the graph has the nodes 0 to 3, but no \"4\""},
		{base(func(r *importer.Reading) { r.Edges, r.IDColumn, r.Drop = at("named.csv"), "who", []string{"id"} }), "named.csv: row 1: the id \"zed\" is not in "},
		{base(func(r *importer.Reading) {
			r.Edges, r.FeatureFile, r.IDColumn, r.LabelColumn, r.SplitColumn, r.LabelFile, r.Drop = at("named.csv"), at("again.csv"), "who", "", "", "random:2", nil
		}), "again.csv: row 2: an earlier row has the same id, \"ann\""},
	} {
		o := importer.Options{Reading: c.r}
		if c.r.SplitColumn == "" {
			o.Split = &importer.Split{Parts: "50/25/25"}
		}
		p, err := importer.MakePlan(t.Context(), datasettest.FS, at("D"), raw.Format, o, progress.Discard)
		if found := fmt.Sprint(strings.Join(p.Problems, "; "), err); !strings.Contains(found, c.says) {
			t.Errorf("%+v: %s, want %s", c.r, found, c.says)
		}
	}
	for _, c := range []struct {
		r    importer.Reading
		says string
	}{
		{base(func(r *importer.Reading) { r.FeatureFile, r.LabelFile, r.LabelColumn = "random:2", "random:2", "" }), "--feature-columns and --drop: --features does not name a table"},
		{base(func(r *importer.Reading) { r.Drop, r.FeatureFile = nil, "random:2" }), "--label-column label: neither --labels nor --features names a table"},
		{base(func(r *importer.Reading) {
			r.Drop, r.FeatureFile, r.LabelFile, r.LabelColumn = nil, "random:2", "random:2", ""
		}), "--id-column id: neither --features nor --labels names a table"},
		{base(func(r *importer.Reading) { r.LabelFile = "random:2" }), "--label-column label: neither"},
		{base(func(r *importer.Reading) { r.SplitFiles = []string{"a", "b", "c"} }), "--split-column split: not with --split-files"},
		{base(func(r *importer.Reading) { r.IDColumn, r.Nodes, r.Drop = "who", 4, []string{"id"} }), "--nodes: not with --id-column, which determines the number of nodes"},
	} {
		_, err := raw.Format.Open(datasettest.FS, nil, &c.r)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %s", c.r, err, c.says)
		}
	}
}

// TestArraysWithIDs imports edges in arrays of every layout with ids in another order than the numbers: (2, E)
// has two edges' ends in a column, not two edges with more data.
func TestArraysWithIDs(t *testing.T) {
	fortran := importertest.NPY("(2, 3)", []int64{10, 20, 20, 30, 30, 10})
	at := saved(t, map[string]string{
		"nodes.csv": "id,x\n30,1\n10,2\n20,3\n",
		"e.csv":     "10,20\n20,30\n30,10\n",
		"rows.npy":  string(importertest.NPY("(2, 3)", []int64{10, 20, 30, 20, 30, 10})),
		"cols.npy":  string(importertest.NPY("(3, 2)", []int64{10, 20, 20, 30, 30, 10})),
		"pairs.npy": strings.Replace(string(fortran), "'fortran_order': False, ", "'fortran_order': True,  ", 1),
		"three.npy": string(importertest.NPY("(2, 3)", []float32{10, 20, 30, 20, 30, 10})),
		"two.npy":   string(importertest.NPY("(2, 2)", []int64{10, 20, 20, 30})),
		"two.csv":   "10,20\n20,30\n",
	})
	made := func(edges, ids string) string {
		o := importer.Options{Reading: importer.Reading{Edges: at(edges), FeatureFile: at("nodes.csv"), LabelFile: "random:2", IDColumn: "id", NodeIDs: ids}, Split: &importer.Split{Parts: "50/25/25"}}
		graph, plan := imported(t, o)
		if len(plan.Notes) > 0 {
			t.Errorf("%s: %q", edges, plan.Notes)
		}
		return graph
	}
	for _, ids := range []string{"", raw.ByEdges} {
		for like, names := range map[string][]string{"e.csv": {"rows.npy", "cols.npy", "pairs.npy"}, "two.csv": {"two.npy"}} {
			if like == "two.csv" && ids != "" {
				continue // features of nodes without an edge
			}
			for _, name := range names {
				if got, want := made(name, ids), made(like, ids); got != want {
					t.Errorf("%s, --node-ids %q: %s, want %s", name, ids, got, want)
				}
			}
		}
	}
	for _, c := range []struct {
		edges, columns, says string
	}{
		{"three.npy", "", "three.npy: edges must be integers of shape (E, 2) or (2, E), not float32 of shape (2, 3)"},
		{"rows.npy", "0,1", "rows.npy: --edge-columns: its shape is (2, 3), sources in a row and destinations in the other, without columns to choose"},
	} {
		for _, id := range []string{"", "id"} {
			r := importer.Reading{Edges: at(c.edges), FeatureFile: at("nodes.csv"), LabelFile: "random:2", IDColumn: id, Scratch: at("scratch"), ScratchMemory: 1 << 26}
			if c.columns != "" {
				r.EdgeColumns = strings.Split(c.columns, ",")
			}
			_, err := raw.Format.Open(datasettest.FS, nil, &r)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, %q: %v, want %s", c.edges, id, err, c.says)
			}
		}
	}
}

// TestNodeTableIsArrays imports random graphs from one table, and from arrays: the datasets are equal.
func TestNodeTableIsArrays(t *testing.T) {
	dir := vfstest.TempDir(t)
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		name := func(file string) string { return fmt.Sprintf("%d-%s", round, file) }
		at := func(file string) string { return filepath.Join(dir, name(file)) }
		nodes := rapid.IntRange(4, 30).Draw(r, "nodes")
		words := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-zé][a-z ,"]{0,4}[a-z]`), 2, 2, rapid.ID).Draw(r, "words")
		slices.Sort(words)
		sep := rapid.SampledFrom([]string{",", ";", "\t"}).Draw(r, "separator")
		field := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
		var features []float32
		var labels []int64
		sets := [3][]int64{}
		var text strings.Builder
		text.WriteString(strings.Join([]string{"x", "split", "key", "y", "label"}, sep) + "\n")
		for v := range nodes {
			x, y := float32(rapid.IntRange(-8, 8).Draw(r, "x"))/4, float32(rapid.IntRange(-8, 8).Draw(r, "y"))
			class, set := rapid.IntRange(-1, 1).Draw(r, "class"), rapid.IntRange(-1, 2).Draw(r, "set")
			if v < 4 {
				class, set = v%2, 0
			}
			features, labels = append(features, x, y), append(labels, int64(class))
			label, split := "", ""
			if class >= 0 {
				label = field(words[class])
			}
			if set >= 0 {
				sets[set] = append(sets[set], int64(v))
				split = []string{"train", "valid", "test"}[set]
			}
			text.WriteString(strings.Join([]string{fmt.Sprint(x), split, fmt.Sprint(v), fmt.Sprint(y), label}, sep) + "\n")
		}
		var edges []int64
		for range rapid.IntRange(3, 60).Draw(r, "edges") {
			edges = append(edges, rapid.Int64Range(0, int64(nodes)-1).Draw(r, "from"), rapid.Int64Range(0, int64(nodes)-1).Draw(r, "to"))
		}
		importertest.Tree{
			name("nodes.csv"): []byte(text.String()), name("e.npy"): importertest.NPY(fmt.Sprintf("(%d, 2)", len(edges)/2), edges), name("f.npy"): importertest.NPY(fmt.Sprintf("(%d, 2)", nodes), features), name("l.npy"): importertest.Vector(labels),
			name("0.npy"): importertest.Vector(sets[0]), name("1.npy"): importertest.Vector(sets[1]), name("2.npy"): importertest.Vector(sets[2]),
		}.Write(t, dir)
		arrays, _ := imported(t, importer.Options{Reading: importer.Reading{Edges: at("e.npy"), FeatureFile: at("f.npy"), LabelFile: at("l.npy"), SplitFiles: []string{at("0.npy"), at("1.npy"), at("2.npy")}}})
		table, _ := imported(t, importer.Options{Reading: importer.Reading{Edges: at("e.npy"), FeatureFile: at("nodes.csv"), LabelColumn: "label", SplitColumn: "split", IDColumn: "key"}})
		if table != arrays+fmt.Sprintf("classes %q\n", words) {
			t.Fatalf("the table is\n%s\nthe arrays are\n%s", table, arrays)
		}
	})
}

// TestOrderOfRows imports files with a column of ids that no flag reads. It must count the rows, unless
// it is dropped: rows in another order would belong to other nodes.
func TestOrderOfRows(t *testing.T) {
	at := saved(t, map[string]string{
		"e.csv": "0,1\n1,2\n2,3\n", "x.csv": "1\n2\n3\n4\n", "l.csv": "0\n1\n0\n0\n",
		"s0.csv": "0\n1\n", "s1.csv": "2\n", "s2.csv": "3\n",
		"ordered.csv":  "id,a,label,set\n0,1,0,train\n1,2,1,train\n2,3,0,valid\n3,4,0,test\n",
		"shuffled.csv": "id,a,label,set\n3,4,0,test\n2,3,0,valid\n1,2,1,train\n0,1,0,train\n",
		"late.csv":     "a,label,set,id\n1,0,train,0\n2,1,train,1\n3,0,valid,3\n4,0,test,2\n",
	})
	sets := []string{at("s0.csv"), at("s1.csv"), at("s2.csv")}
	counted := func(file, row, otherwise string) string {
		return file + ": row " + row + `: the column "id" is not the number of the row: give --id-column id if it has the ids of the nodes; else ` + otherwise
	}
	for _, c := range []struct {
		r    importer.Reading
		says string // "": nothing is wrong
	}{
		{importer.Reading{FeatureFile: at("x.csv"), LabelFile: at("ordered.csv"), LabelColumn: "label", SplitFiles: sets}, ""},
		{importer.Reading{FeatureFile: at("x.csv"), LabelFile: at("shuffled.csv"), LabelColumn: "label", SplitFiles: sets}, counted("shuffled.csv", "0", "remove it")},
		{importer.Reading{FeatureFile: at("x.csv"), LabelFile: at("late.csv"), LabelColumn: "label", SplitFiles: sets}, counted("late.csv", "2", "remove it")},
		{importer.Reading{FeatureFile: at("ordered.csv"), FeatureColumns: []string{"a"}, LabelFile: at("l.csv"), SplitFiles: sets}, ""},
		{importer.Reading{FeatureFile: at("shuffled.csv"), FeatureColumns: []string{"a"}, LabelFile: at("l.csv"), SplitFiles: sets}, counted("shuffled.csv", "0", "give --drop id")},
		{importer.Reading{FeatureFile: at("shuffled.csv"), FeatureColumns: []string{"a"}, LabelColumn: "label", SplitColumn: "set"}, counted("shuffled.csv", "0", "give --drop id")},
		{importer.Reading{FeatureFile: at("shuffled.csv"), Drop: []string{"id"}, LabelColumn: "label", SplitColumn: "set"}, ""},
		{importer.Reading{FeatureFile: at("shuffled.csv"), FeatureColumns: []string{"a"}, Drop: []string{"i*"}, LabelColumn: "label", SplitColumn: "set"}, ""},
		{importer.Reading{FeatureFile: at("shuffled.csv"), IDColumn: "id", LabelColumn: "label", SplitColumn: "set"}, ""},
		// Rows of features without ids have the order of the ids only if these count.
		{importer.Reading{FeatureFile: at("x.csv"), LabelFile: at("ordered.csv"), LabelColumn: "label", IDColumn: "id", SplitFiles: sets}, ""},
		{importer.Reading{FeatureFile: at("x.csv"), LabelFile: at("shuffled.csv"), LabelColumn: "label", IDColumn: "id", SplitFiles: sets}, `shuffled.csv: row 0: the column "id" is not the number of the row, but ` + at("x.csv") + " has no such column"},
		{importer.Reading{FeatureFile: "random:2", LabelFile: at("shuffled.csv"), LabelColumn: "label", IDColumn: "id", SplitFiles: sets}, ""},
	} {
		c.r.Edges = at("e.csv")
		c.r.Scratch = filepath.Join(t.TempDir(), "scratch")
		s, err := opened(c.r)
		if err == nil {
			if closer, ok := s.(io.Closer); ok {
				err = closer.Close()
			}
		}
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v, want %q", c.r, err, c.says)
		}
	}
}
