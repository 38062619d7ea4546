package all_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/all"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

func gzipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// headed is a .npy file of a header alone.
func headed(descr, shape string) []byte {
	text := "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }"
	return append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(text))), text...)
}

// refused imports a source, which must end in one line of bad input, leave nothing behind that
// passes for a dataset, and write nothing beside it.
func refused(t *testing.T, what string, o importer.Options, says ...string) {
	t.Helper()
	refusedAs(t, all.Auto, what, o, says...)
}

// refusedAs is refused for a format that is named.
func refusedAs(t *testing.T, format, what string, o importer.Options, says ...string) {
	t.Helper()
	dir, files := t.TempDir(), importertest.NewFiles(datasettest.FS)
	if p, err := all.MakePlan(t.Context(), files, filepath.Join(dir, "D"), format, o, progress.Discard); err != nil && !errors.Is(err, fault.ErrInput) || strings.Contains(strings.Join(p.Problems, ""), "\n") {
		t.Errorf("%s: its plan: %q, %v", what, p.Problems, err)
	}
	_, err := all.Import(t.Context(), files, filepath.Join(dir, "D"), format, o, progress.Discard)
	if open := files.StillOpen(); len(open) > 0 {
		t.Errorf("%s: %q are still open", what, open)
	}
	if !errors.Is(err, fault.ErrInput) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %q does not say %q", what, err, s)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if f.Name() != "D.partial" {
			t.Errorf("%s: it left %s", what, f.Name())
		}
	}
}

// TestOGBRefuses changes one file of a good set at a time.
func TestOGBRefuses(t *testing.T) {
	for _, c := range []struct {
		what, set, file string
		content         []byte // nil: no such file
		says            []string
	}{
		{"no edges", "arxiv", "raw/num-edge-list.csv.gz", nil, []string{"num-edge-list.csv.gz is missing"}},
		{"nothing in two files", "arxiv", "raw/num-node-list.csv.gz", gzipped(""), []string{"num-node-list.csv.gz", "one number"}},
		{"too many nodes", "arxiv", "raw/num-node-list.csv.gz", gzipped("5000000000"), []string{"5000000000", "32-bit"}},
		{"negative nodes", "arxiv", "raw/num-node-list.csv.gz", gzipped("-5"), []string{"num-node-list.csv.gz"}},
		{"an edge that leaves", "arxiv", "raw/edge.csv.gz", gzipped("0,23\n" + strings.Repeat("0,1\n", 60)), []string{"edge.csv.gz", "from 0 to 23"}},
		{"a negative edge", "arxiv", "raw/edge.csv.gz", gzipped("-1,2\n" + strings.Repeat("0,1\n", 60)), []string{"edge.csv.gz", "from -1 to 2"}},
		{"an id of 2^64", "arxiv", "raw/edge.csv.gz", gzipped("18446744073709551616,2\n"), []string{"edge.csv.gz", "line 1"}},
		{"an edge too few", "arxiv", "raw/edge.csv.gz", gzipped(strings.Repeat("0,1\n", 60)), []string{"edge.csv.gz", "61 edges"}},
		{"an edge too many", "arxiv", "raw/edge.csv.gz", gzipped(strings.Repeat("0,1\n", 62)), []string{"edge.csv.gz", "61 edges"}},
		{"not packed", "arxiv", "raw/edge.csv.gz", []byte("0,1\n"), []string{"edge.csv.gz", "cannot be unpacked"}},
		{"cut", "arxiv", "raw/node-feat.csv.gz", gzipped("1,2,3,4,5\n")[:12], []string{"node-feat.csv.gz: cannot be unpacked: truncated"}},
		{"no bytes", "arxiv", "raw/edge.csv.gz", []byte{}, []string{"edge.csv.gz: cannot be unpacked: truncated"}},
		{"too few features", "arxiv", "raw/node-feat.csv.gz", gzipped("1,2,3,4,5\n"), []string{"node-feat.csv.gz", "truncated"}},
		{"a word", "arxiv", "raw/node-feat.csv.gz", gzipped("1,2\n3,x\n"), []string{"node-feat.csv.gz", "line 2"}},
		{"half a class", "arxiv", "raw/node-label.csv.gz", gzipped(strings.Repeat("0.5\n", 23)), []string{"node-label.csv.gz", "node 0 has the label 0.5: labels are whole numbers"}},
		{"too few labels", "arxiv", "raw/node-label.csv.gz", gzipped("1\n"), []string{"node-label.csv.gz", "there are labels of 1 nodes instead of 23"}},
		{"a split of another node", "arxiv", "split/time/test.csv.gz", gzipped("23\n"), []string{"test.csv.gz", "has node 23, but there are only 23 nodes"}},
		{"overlapping splits", "arxiv", "split/time/test.csv.gz", []byte(nil), []string{"test.csv.gz is missing"}},
		{"no archive", "binary", "raw/data.npz", []byte("PK"), []string{"data.npz", "archive"}},
		{"types that leave the directory", "hetero", "raw/triplet-type-list.csv.gz", gzipped("../..,cites,paper\n"), []string{"triplet-type-list.csv.gz", "cannot be the name of a type"}},
		{"a type that is a path", "hetero", "raw/triplet-type-list.csv.gz", gzipped("a/b,cites,paper\n"), []string{"cannot be the name of a type"}},
		{"no labels", "hetero", "raw/nodetype-has-label.csv.gz", gzipped("paper,author,venue\nFalse,False,False\n"), []string{"names no node type with labels"}},
		{"edges of another type", "hetero", "raw/triplet-type-list.csv.gz", gzipped("paper,cites,paper\npaper,by,nobody\n"), []string{"num-edge-list.csv.gz is missing"}},
	} {
		dir := importertest.Edited(t, filepath.Join(fixtures, "ogb", c.set), importertest.Put(c.file, c.content))
		refused(t, c.what, importer.Options{Sources: []string{dir}}, c.says...)
	}
}

// TestDGLRefuses imports files of DGL that have no graph of one type, and good ones with a changed beginning
// or end.
func TestDGLRefuses(t *testing.T) {
	for _, c := range []struct {
		what, file string
		change     func(b []byte) []byte
		says       []string
	}{
		{"several types", "many.bin", nil, []string{"many.bin: its graph has several types, nodes of author, paper and edges of author:writes:paper, paper:cites:paper: give --typed to keep them, or save `dgl.to_homogeneous(g, ndata=[...])`"}},
		{"two graphs", "two.bin", nil, []string{"two.bin: it has 2 graphs instead of one: save one of them, with `dgl.save_graphs(path, [g])`"}},
		{"an early release", "coo.bin", func(b []byte) []byte { b[8], b[16] = 1, 1; return b }, []string{"coo.bin: it has version 1 of DGL's format, which releases before 0.5 wrote"}},
		{"cut", "csr.bin", func(b []byte) []byte { return b[:5000] }, []string{"csr.bin: truncated: it has 5000 bytes, and "}},
		{"a tail", "csc.bin", func(b []byte) []byte { return append(b, 0) }, []string{"csc.bin: it is damaged, or has another layout than dgl.save_graphs writes since DGL 0.5: at byte "}},
	} {
		b, err := os.ReadFile(filepath.Join("..", "dgl", "testdata", c.file))
		if err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			b = c.change(b)
		}
		file := filepath.Join(t.TempDir(), c.file)
		importertest.Save(t, file, b)
		refused(t, c.what, importer.Options{Sources: []string{file}}, c.says...)
	}
}

// TestRawRefuses changes one file of a good graph at a time.
func TestRawRefuses(t *testing.T) {
	at := func(name string) string { return filepath.Join(fixtures, "raw", name) }
	dir := t.TempDir()
	for _, c := range []struct {
		what, name string
		content    []byte
		change     func(r *importer.Reading, file string)
		says       []string
	}{
		{"a bomb of a header", "e.npy", headed("<i8", "(1152921504606846976, 2)"), edges, []string{"e.npy"}},
		{"a negative shape", "e.npy", headed("<i8", "(-2, 2)"), edges, []string{"e.npy", "is malformed"}},
		{"a shape that overflows", "e.npy", headed("<i8", "(4611686018427387904, 4)"), edges, []string{"e.npy"}},
		{"ids of 2^64", "e.npy", importertest.NPY("(3, 2)", []int64{-1, 0, 0, 0, 0, 0}), edges, []string{"e.npy", "from -1 to 0"}},
		{"ids beyond 2^63", "e.npy", append(headed("<u8", "(3, 2)"), bytes.Repeat([]byte{255}, 48)...), edges, []string{"e.npy", "is larger than a signed integer of 64 bits"}},
		{"three columns", "e.npy", importertest.NPY("(3, 3)", make([]int64, 9)), edges, []string{"e.npy", "(3, 3)"}},
		{"(2, 2)", "e.npy", importertest.NPY("(2, 2)", make([]int64, 4)), edges, []string{"e.npy", "the shape (2, 2) may mean (E, 2) or (2, E): add an edge, or use a text file"}},
		{"edges of floats", "e.npy", importertest.NPY("(3, 2)", []float32{0, 1, 2, .5, 0, 0}), edges, []string{"e.npy", "row 1 has 0.5, which is not an integer"}},
		{"no form", "e.xyz", nil, edges, []string{"e.xyz: its name does not tell its form: needs .npy, .npz:KEY, .npz of SciPy, .pt:KEY, .parquet, .feather, .csv, .tsv, .txt or .mtx, text also as .gz, or FILE:DTYPE:ROWSxCOLS"}},
		{"edges of a header", "e.mtx", []byte("%%MatrixMarket matrix coordinate pattern general\n20 20 1\n"), edges, []string{"e.mtx: it does not have the 1 entries that its sizes say"}},
		{"an edge from 0 of 1", "e.mtx", []byte("%%MatrixMarket matrix coordinate pattern general\n20 20 1\n0 1\n"), edges, []string{"e.mtx: the entry 0, 1 is none: rows and columns are counted from 1"}},
		{"an edge beyond", "e.mtx", []byte("%%MatrixMarket matrix coordinate pattern general\n20 20 1\n2 21\n"), edges, []string{"e.mtx", "the edge from 1 to 20 is out of range"}},
		{"a matrix of others", "e.mtx", []byte("%%MatrixMarket matrix coordinate pattern general\n21 21 1\n2 1\n"), edges, []string{"e.mtx", "21 nodes"}},
		{"a rectangle", "e.mtx", []byte("%%MatrixMarket matrix coordinate pattern general\n20 21 1\n2 1\n"), edges, []string{"e.mtx: the adjacency matrix is 20 × 21, not square"}},
		{"an archive without a name", "f.npz", nil, features, []string{"f.npz is not a .npz archive, or is truncated"}},
		{"no tensors", "f.pt", []byte("PK"), features, []string{"f.pt: not an archive of torch.save"}},
		{"a tensor that is a list", "f.pt", importertest.Torch(t, "\x80\x02](NNe."), features, []string{"f.pt: it has a list instead of a tensor"}},
		{"a program", "f.pt", importertest.Torch(t, "\x80\x02cos\nsystem\n."), features, []string{"f.pt", "nothing was run"}},
		{"features of other nodes", "f.npy", importertest.NPY("(21, 2)", make([]float32, 42)), features, []string{"train.npy: the mask has 20 rows, but the graph has 21 nodes"}},
		{"by columns", "f.npy", importertest.NPYOrder("(20, 2)", true, make([]float32, 40)), features, []string{"f.npy", "fortran_order"}},
		{"rows of no columns", "f.npy", importertest.NPY("(20, 0)", []float32{}), features, []string{"f.npy", "(20, 0)"}},
		{"no parquet", "f.parquet", []byte("PAR1PAR1"), features, []string{"f.parquet: not a Parquet file: it has 8 bytes"}},
		{"an id too large", "t.txt", []byte("20\n"), splits, []string{"t.txt", "the train set has node 20, but there are only 20 nodes"}},
		{"booleans of others", "t.npy", importertest.Vector(make([]bool, 3)), splits, []string{"t.npy", "the mask has 3 rows, but the graph has 20 nodes"}},
		{"a node that is two lines", "t.txt", []byte("1\n1\n"), splits, []string{"t.txt", "twice"}},
		{"a class of 2^60", "l.npy", importertest.Vector(append(make([]int64, 19), 1<<60)), labels, []string{"l.npy", "node 19"}},
	} {
		name := filepath.Join(dir, c.name)
		importertest.Save(t, name, c.content)
		r := importer.Reading{Edges: at("edges.npy"), FeatureFile: at("feat.npy"), LabelFile: at("labels.csv"), SplitFiles: []string{at("train.npy"), at("valid.npy"), at("test.csv")}}
		c.change(&r, name)
		refused(t, c.what, importer.Options{Reading: r}, c.says...)
	}
	for what, content := range map[string]string{"a word": "3\n1 x\n\n0\n", "too short": "3\n1\n", "no number": "\n1\n", "a successor too large": "3\n3\n\n\n", "very large": "3\n18446744073709551616\n\n\n", "too long": "3\n1\n\n\n2\n"} {
		name := filepath.Join(dir, "g.graph-txt")
		importertest.Save(t, name, []byte(content))
		refused(t, what, importer.Options{Sources: []string{name}, Split: &importer.Split{Parts: "50/25/25"}, Reading: importer.Reading{FeatureFile: "random:2", LabelFile: "random:2"}}, "g.graph-txt")
	}
}

func edges(r *importer.Reading, file string)    { r.Edges = file }
func features(r *importer.Reading, file string) { r.FeatureFile = file }
func labels(r *importer.Reading, file string)   { r.LabelFile = file }
func splits(r *importer.Reading, file string)   { r.SplitFiles[0] = file }

// TestPlanFinds has a plan list what is wrong with labels, edges and features at once.
func TestPlanFinds(t *testing.T) {
	dir := importertest.Edited(t, filepath.Join(fixtures, "ogb", "arxiv"))
	for name, text := range map[string]string{
		"node-label": strings.Repeat("0.5\n", 23), "edge": "0,23\n" + strings.Repeat("0,1\n", 60), "node-feat": strings.Repeat("1,2,x\n", 23),
	} {
		importertest.Put("raw/"+name+".csv.gz", gzipped(text))(t, dir)
	}
	p, err := all.MakePlan(t.Context(), datasettest.FS, filepath.Join(dir, "D"), all.Auto, importer.Options{Sources: []string{dir}}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for i, says := range []string{"node 0 has the label 0.5", "from 0 to 23", "node-feat.csv.gz: line 1"} {
		if i >= len(p.Problems) || !strings.Contains(p.Problems[i], says) {
			t.Errorf("problems %q: the one with number %d should say %q", p.Problems, i, says)
		}
	}
}
