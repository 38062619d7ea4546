package matrix

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// TestEndsByName: what two names say, by hand.
func TestEndsByName(t *testing.T) {
	const refused = "refused"
	for names, want := range map[string]string{
		"src,dst": "", "Source,TARGET": "", "from,to": "", "FromNodeId,ToNodeId": "", "src_int_id,dst_int_id": "", "source node,target node": "",
		"node_from,node_to": "", "citing,cited": "", "sender_idx,receiver_idx": "", "src,other": "", "other,dst": "", "a,a": "",
		"dst,src": "reversed", "target,source": "reversed", "to,from": "reversed", "ToNodeId,FromNodeId": "reversed", "dst_id,src_id": "reversed",
		"\"destination\",\"source\"": "reversed", "end,start": "reversed",
		"a,b": "noted", "u,v": "noted", "node,node_id": "noted", ",x": "noted",
		"dst,other": refused, "other,src": refused, "src,source": refused, "to,dst": refused,
		"src": "", "dst,src,weight": "",
	} {
		e, err := endsOf("e.csv", strings.Split(names, ","))
		got := ""
		switch {
		case errors.Is(err, fault.ErrInput):
			got = refused
		case e.Reversed:
			got = "reversed"
		case e.Note != "":
			got = "noted"
		}
		if got == refused && !strings.Contains(err.Error(), fmt.Sprintf("its columns are %q and %q", strings.Split(names, ",")[0], strings.Split(names, ",")[1])) {
			t.Errorf("%q: %v", names, err)
		}
		if got != want || (e.Reversed && e.Note != "") {
			t.Errorf("%q: %+v, %v, want %q", names, e, err, want)
		}
	}
	if e, err := endsOf("e.csv", nil); e.Reversed || e.Note != "" || err != nil {
		t.Errorf("no names: %+v, %v", e, err)
	}
}

// TestEdgesOfTables reads the edges 0→1, 2→3, 4→5 and those of a second piece from tables that have
// the destinations first.
func TestEdgesOfTables(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	save := func(name, text string) { importertest.Save(t, at(name), []byte(text)) }
	save("e.csv", "dst,src\n1,0\n3,2\n5,4\n")
	save("e.tsv", "To From\n1 0\n3 2\n5\t4\n")
	save("plain.csv", "0,1\n2,3\n4,5\n")
	save("named.csv", "src,dst\n0,1\n2,3\n4,5\n")
	save("ids.csv", "target_id,source_id\n1,0\n3,2\n5,4\n")
	save("comment.txt", "# made by hand\n# dst src\n1 0\n3 2\n5 4\n")
	save("other.txt", "# dst src\n# five edges\n0 1\n2 3\n4 5\n")
	save("twice.csv", "dst,to\n1,0\n")
	writeParquet(t, at("dst.parquet"), 2, []struct {
		To   int64 `parquet:"dst"`
		From int64 `parquet:"src"`
	}{{1, 0}, {3, 2}, {5, 4}})
	for name, isReversed := range map[string]bool{"e.csv": true, "e.tsv": true, "plain.csv": false, "named.csv": false, "ids.csv": true, "dst.parquet": true, "comment.txt": true, "other.txt": false} {
		m, err := Open(vfs.OS, Spec{Path: at(name)})
		if err != nil {
			t.Fatal(err)
		}
		m, e, err := Edges(m)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for buf := make([]int64, 4); ; {
			n, err := m.Ints(buf)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				break
			}
			got = append(got, buf[:n]...)
		}
		if !slices.Equal(got, []int64{0, 1, 2, 3, 4, 5}) || e.Reversed != isReversed || e.Note != "" {
			t.Errorf("%s: %v, %+v; %v", name, got, e, m.Close())
		} else if err := m.Close(); err != nil {
			t.Error(err)
		}

		w, e, err := OpenEnds(vfs.OS, Spec{Path: at(name)})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"[0 1]", "[2 3]", "[4 5]"} {
			if words, err := w.Next(); err != nil || fmt.Sprintf("%s", words) != want || e.Reversed != isReversed {
				t.Errorf("%s: ends %s, %+v, want %s; %v", name, words, e, want, err)
			}
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	files := importertest.NewFiles(vfs.OS)
	m, err := Open(files, Spec{Path: at("twice.csv")})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Edges(m); !errors.Is(err, fault.ErrInput) {
		t.Errorf("two destinations: %v", err)
	}
	if _, _, err := OpenEnds(files, Spec{Path: at("twice.csv")}); !errors.Is(err, fault.ErrInput) {
		t.Errorf("two destinations: %v", err)
	}
	if left := files.StillOpen(); len(left) > 0 {
		t.Errorf("%q are open", left)
	}
}

// TestWithoutIDs reads tables whose first column counts the rows, by its name, and refuses others that
// have ids.
func TestWithoutIDs(t *testing.T) {
	dir := t.TempDir()
	files := importertest.NewFiles(vfs.OS)
	at := func(name string) string { return filepath.Join(dir, name) }
	open := func(name, text string) (Matrix, error) {
		if text != "" {
			importertest.Save(t, at(name), []byte(text))
		}
		m, err := Open(files, Spec{Path: at(name)})
		if err != nil {
			t.Fatal(err)
		}
		return WithoutIDs(m)
	}
	writeParquet(t, at("id.parquet"), 2, []struct {
		A int64   `parquet:"ID"`
		B float64 `parquet:"b"`
		C int32   `parquet:"c"`
	}{{0, 1.5, 2}, {1, 3.5, 4}, {2, 5.5, 6}})
	for name, text := range map[string]string{
		"id.csv": "node_id,b,c\n0,1.5,2\n1,3.5,4\n2,5.5,6\n", "index.csv": ",b,c\n0,1.5,2\n1,3.5,4\n2,5.5,6\n",
		"unnamed.csv": "Unnamed: 0,b,c\n0,1.5,2\n1,3.5,4\n2,5.5,6\n", "float.tsv": "Node b c\n0.0 1.5 2\n1.0 3.5 4\n2 5.5 6\n", "id.parquet": "",
		"savetxt.txt": "# id b c\n0 1.5 2\n1 3.5 4\n2 5.5 6\n", "savetxt.csv": "# id,b,c\n0,1.5,2\n1,3.5,4\n2,5.5,6\n",
	} {
		m, err := open(name, text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		left, is := LeftOut(m)
		doubles, floats := make([]float64, 3), make([]float32, 5)
		n, err := m.Doubles(doubles)
		n2, err2 := m.Floats(floats)
		n3, err3 := m.Floats(floats[n2:])
		if m.Columns() != 2 || !slices.Equal(m.Names(), []string{"b", "c"}) || !is || strings.Contains(left, "b") {
			t.Errorf("%s: %d columns, %q without %q", name, m.Columns(), m.Names(), left)
		}
		if n != 2 || n2 != 4 || n3 != 0 || !slices.Equal(doubles[:2], []float64{1.5, 2}) || !slices.Equal(floats[:4], []float32{3.5, 4, 5.5, 6}) || errors.Join(err, err2, err3, m.End()) != nil {
			t.Errorf("%s: %v, %v, %v", name, doubles[:n], floats[:n2], errors.Join(err, err2, err3))
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}

	// Rows that are passed over are counted; integers come as they are.
	m, err := open("ints.csv", "id,a\n0,7\n1,9007199254740993\n")
	if err != nil {
		t.Fatal(err)
	}
	ints := make([]int64, 2)
	if n, err := m.Ints(ints[:0]); n != 0 || err != nil || m.Skip(1) != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := m.Ints(ints); n != 1 || err != nil || ints[0] != 9007199254740993 {
		t.Errorf("%v, %v", ints, err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}

	for text, says := range map[string]string{
		"id,a\n0,1\n2,1\n": `row 1: the column "id" is 2 instead of the number of the row, so it cannot be left out; if it has the ids of nodes, give --node-ids edges`, "id,a\n1,1\n2,1\n": `row 0: the column "id" is 1 instead of the number of the row, so it cannot be left out; if it has the ids of nodes, give --node-ids edges`, "id,a\n,1\n": `row 0: the column "id" is NaN instead of the number of the row, so it cannot be left out; if it has the ids of nodes, give --node-ids edges`, "id,a\n0.5,1\n": `row 0: the column "id" is 0.5 instead of the number of the row, so it cannot be left out; if it has the ids of nodes, give --node-ids edges`,
		"a,id\n0,1\n": `column 2, "id"`, "a,b,Node-ID\n0,1,2\n": `column 3, "Node-ID"`, "id,index,a\n0,1,2\n": `column 1, "index"`, "id\n0\n": `column 1, "id"`,
	} {
		m, err := open("bad.csv", text)
		if err == nil {
			_, err = m.Doubles(make([]float64, 10))
			if errClose := m.Close(); errClose != nil {
				t.Error(errClose)
			}
		}
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}

	// Tables without such a column, and those without names, stay as they are.
	importertest.Save(t, at("prose.txt"), []byte("# the id\n0 1\n1 2\n"))
	if m, err := open("prose.txt", ""); err != nil || m.Columns() != 2 || m.Names() != nil || m.Close() != nil {
		t.Errorf("a comment in words: %v", err)
	}
	for _, text := range []string{"a,b\n0,1\n1,2\n", "0,1\n1,2\n", "identity,nodes\n0,1\n1,2\n"} {
		m, err := open("good.csv", text)
		if err != nil {
			t.Fatal(err)
		}
		_, is := LeftOut(m)
		if got := make([]float64, 4); m.Columns() != 2 || is {
			t.Errorf("%q: %d columns", text, m.Columns())
		} else if n, err := m.Doubles(got); n != 4 || err != nil || !slices.Equal(got, []float64{0, 1, 1, 2}) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}

	// Behind keys, in text and in Parquet, no column has ids either.
	importertest.Save(t, at("keyed.csv"), []byte("name,id,a\nx,0,1\n"))
	writeParquet(t, at("keyed.parquet"), 1, []struct {
		Name string `parquet:"a"`
		ID   int64  `parquet:"id"`
	}{{"x", 0}})
	for _, name := range []string{"keyed.csv", "keyed.parquet"} {
		if _, err := OpenKeyed(files, Spec{Path: at(name)}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), `column 1, "id"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left := files.StillOpen(); len(left) > 0 {
		t.Errorf("%q are open", left)
	}
}
