package all_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/all"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// typedSource is a source of several types, with a golden.
type typedSource struct{ golden, source, format string }

func typedSources() []typedSource {
	at := func(name string) string { return filepath.Join(fixtures, filepath.FromSlash(name)) }
	return []typedSource{
		{at("ogb/hetero-typed.txt"), at("ogb/hetero"), all.Auto},
		{at("ogb/hetero-binary-typed.txt"), at("ogb/hetero-binary"), all.Auto},
		{at("ogb/mag240m_kddcup2021-typed.txt"), at("ogb/mag240m_kddcup2021"), all.Auto},
		{at("igb/het-typed.txt"), hetero, "igb-h"},
	}
}

// importTyped imports a source and returns the dataset, which it verified.
func importTyped(t *testing.T, format string, o importer.Options) *dataset.Dataset {
	t.Helper()
	out := filepath.Join(t.TempDir(), "D")
	if _, err := all.Import(t.Context(), datasettest.FS, out, format, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	d := datasettest.Verified(t, out)
	return d
}

func typedOptions(source string) importer.Options {
	return importer.Options{Sources: []string{source}, Reading: importer.Reading{Typed: true}}
}

// TestTypedGoldens compares typed datasets with the graphs that Python reads of the sources.
func TestTypedGoldens(t *testing.T) {
	for _, c := range typedSources() {
		importertest.SameTyped(t, importTyped(t, c.format, typedOptions(c.source)), c.golden)
	}
}

// TestTypedIsFlattened compares the edges of typed datasets with the edges of datasets of one type, as sets.
func TestTypedIsFlattened(t *testing.T) {
	for _, c := range typedSources() {
		typed := importTyped(t, c.format, typedOptions(c.source))
		flat := importTyped(t, c.format, importer.Options{Sources: []string{c.source}})
		types := typed.Facts().Types
		// In the flattened dataset types are in alphabetical order.
		var names []string
		for _, k := range types.Nodes {
			names = append(names, k.Name)
		}
		slices.Sort(names)
		first, n := map[string]int64{}, int64(0)
		for _, name := range names {
			first[name] = n
			n += types.Nodes[slices.IndexFunc(types.Nodes, func(k graph.NodeType) bool { return k.Name == name })].Count
		}
		moved := func(v uint32) int64 {
			kind := types.Of(v)
			lo, _ := types.Range(kind)
			return first[types.Nodes[kind].Name] + int64(v) - lo
		}
		var got, want [][2]int64
		for _, edges := range importertest.Relations(t, typed) {
			for _, e := range edges {
				got = append(got, [2]int64{moved(e[0]), moved(e[1])})
			}
		}
		top, err := flat.Topology(t.Context(), progress.Discard, 1)
		if err != nil {
			t.Fatal(err)
		}
		for v := range uint32(flat.Facts().Nodes) {
			for _, u := range top.Neighbors(v) {
				want = append(want, [2]int64{int64(v), int64(u)})
			}
		}
		if err := top.Close(); err != nil {
			t.Fatal(err)
		}
		less := func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) }
		slices.SortFunc(got, less)
		if !slices.Equal(got, want) || len(got) == 0 {
			t.Errorf("%s: the edges are\n%v, want\n%v", c.source, got, want)
		}
	}
}

// countsOf lists the relations of a dataset with their numbers of edges.
func countsOf(t *testing.T, d *dataset.Dataset) string {
	t.Helper()
	var list []string
	for i, edges := range importertest.Relations(t, d) {
		list = append(list, fmt.Sprintf("%s %d", d.Facts().Types.Triple(i), len(edges)))
	}
	return strings.Join(list, ", ")
}

// TestTypedReverses adds reverses: as relations, and within the relation of one type.
func TestTypedReverses(t *testing.T) {
	mag := filepath.Join(fixtures, "ogb", "hetero")
	o := typedOptions(mag)
	plain := importTyped(t, all.Auto, o)
	o.Reverse = importer.ReverseYes
	reversed := importTyped(t, all.Auto, o)
	const want = "author:writes:paper 14, paper:cites:paper 11, paper:rev_cites:paper 11, paper:rev_writes:author 14, venue:rev_in:paper 9, paper:in:venue 9"
	if got := countsOf(t, reversed); !sameList(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	// A reverse has the edges the other way round.
	types := reversed.Facts().Types
	edges := importertest.Relations(t, reversed)
	for i, r := range types.Relations {
		for j, k := range types.Relations {
			if k.Name != importer.ReversePrefix+r.Name {
				continue
			}
			var turned [][2]uint32
			for _, e := range edges[j] {
				turned = append(turned, [2]uint32{e[1], e[0]})
			}
			slices.SortFunc(turned, func(a, b [2]uint32) int { return slices.Compare(a[:], b[:]) })
			if !slices.Equal(turned, edges[i]) {
				t.Errorf("%s: %v, turned from %v", types.Triple(j), edges[j], edges[i])
			}
		}
	}
	o.Reverse, o.Symmetrize = "", true
	both := importTyped(t, all.Auto, o)
	// cites has 7 -> 8 twice, 6 -> 0 twice and a loop; writes has 1 -> 6 twice; each of the others once.
	cites := slices.IndexFunc(both.Facts().Types.Relations, func(r graph.Relation) bool { return r.Name == "cites" })
	set := map[[2]uint32]bool{}
	for i, r := range plain.Facts().Types.Relations {
		for _, e := range importertest.Relations(t, plain)[i] {
			if r.Name == "cites" && e[0] != e[1] {
				set[e], set[[2]uint32{e[1], e[0]}] = true, true
			}
		}
	}
	stored := importertest.Relations(t, both)[cites]
	for _, e := range stored {
		if !set[e] {
			t.Errorf("cites has the edge %v", e)
		}
	}
	if len(stored) != len(set) || len(both.Facts().Types.Relations) != 5 {
		t.Errorf("cites has %d edges instead of %d; %s", len(stored), len(set), countsOf(t, both))
	}
}

// sameList compares two lists without their order.
func sameList(a, b string) bool {
	x, y := strings.Split(a, ", "), strings.Split(b, ", ")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// TestTypedKeepsReverses adds no reverse where the source has it by its name.
func TestTypedKeepsReverses(t *testing.T) {
	dir := importertest.Edited(t, hetero)
	more := filepath.Join(dir, "processed", "author__rev_written_by__paper")
	if err := os.Mkdir(more, 0o777); err != nil {
		t.Fatal(err)
	}
	importertest.Save(t, filepath.Join(more, "edge_index.npy"), importertest.NPY("(2, 2)", []int32{0, 1, 2, 3}))
	o := typedOptions(dir)
	o.Reverse = importer.ReverseYes
	got := countsOf(t, importTyped(t, "igb-h", o))
	const want = "paper:cites:paper 13, paper:rev_cites:paper 13, author:rev_written_by:paper 2, fos:rev_topic:paper 13, paper:written_by:author 13, " +
		"institute:rev_affiliated_to:author 13, author:affiliated_to:institute 13, paper:topic:fos 13"
	if !sameList(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestTypedOptions makes typed datasets with further options: the bytes do not depend on workers and memory.
func TestTypedOptions(t *testing.T) {
	mag := filepath.Join(fixtures, "ogb", "hetero")
	text := func(change func(*importer.Options)) string {
		o := typedOptions(mag)
		change(&o)
		d := importTyped(t, all.Auto, o)
		return importertest.TypedText(t, d)
	}
	plain := text(func(*importer.Options) {})
	for what, change := range map[string]func(*importer.Options){
		"compressed": func(o *importer.Options) { o.Compress = true },
		"a worker":   func(o *importer.Options) { o.Workers = 1 },
	} {
		if got := text(change); got != plain {
			t.Errorf("%s: the dataset is another:\n%s", what, got)
		}
	}
	o := typedOptions(mag)
	o.For = importer.ForPredict
	d := importTyped(t, all.Auto, o)
	if f := d.Facts(); f.Types == nil || f.Labelled() || f.Unlabelled != f.Nodes {
		t.Errorf("%+v", f)
	}
	o = typedOptions(mag)
	o.SelfLoops = importer.LoopsDrop
	if got := countsOf(t, importTyped(t, all.Auto, o)); !strings.Contains(got, "cites:paper 10") {
		t.Error(got)
	}
}

// TestTypedPlan compares the plan with the import.
func TestTypedPlan(t *testing.T) {
	for _, c := range typedSources() {
		o := typedOptions(c.source)
		o.Reverse = importer.ReverseYes
		p, err := all.MakePlan(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), c.format, o, progress.Discard)
		if err != nil || len(p.Problems) > 0 {
			t.Fatal(p.Problems, err)
		}
		f := importTyped(t, c.format, o).Facts()
		if p.Nodes != f.Nodes || p.Edges != f.Edges || p.Train != f.Train || p.Unlabelled != f.Unlabelled || !strings.Contains(strings.Join(p.Notes, "\n"), "relations: ") {
			t.Errorf("%s: the plan is %+v, the dataset %+v", c.source, p, f)
		}
		var files int64
		for _, n := range []int64{8 * (f.Rows() + 1), 4 * f.Edges, f.FeatureRows() * int64(f.RowBytes()), 4 * f.Nodes, 4 * (f.Train + f.Valid + f.Test)} {
			files += n
		}
		if p.DiskBytes != files {
			t.Errorf("%s: the plan has %d bytes, the files %d", c.source, p.DiskBytes, files)
		}
	}
}

// TestTypedFill fills the types of each source, and compares the plan with the import.
func TestTypedFill(t *testing.T) {
	for _, c := range typedSources() {
		plain := importTyped(t, c.format, typedOptions(c.source)).Facts()
		o := typedOptions(c.source)
		o.Fill, o.Reverse = dataset.FillMean, importer.ReverseYes
		p, err := all.MakePlan(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), c.format, o, progress.Discard)
		if err != nil || len(p.Problems) > 0 {
			t.Fatal(p.Problems, err)
		}
		out := filepath.Join(t.TempDir(), "D")
		res, err := all.Import(t.Context(), datasettest.FS, out, c.format, o, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		f := datasettest.Verified(t, out).Facts()
		fills := 0
		for _, k := range plain.Types.Nodes {
			if !k.Features {
				fills++
			}
		}
		if fills == 0 || len(p.Fill) != fills || len(res.Fill) != fills || f.FeatureRows() != f.Nodes {
			t.Errorf("%s: %d types without features, filled %+v, planned %+v", c.source, fills, res.Fill, p.Fill)
		}
		if files := 8*(f.Rows()+1) + 4*f.Edges + f.Nodes*int64(f.RowBytes()+4) + 4*(f.Train+f.Valid+f.Test); p.DiskBytes != files || p.NeededBytes < files {
			t.Errorf("%s: the plan has %d bytes, %d meanwhile, the files %d", c.source, p.DiskBytes, p.NeededBytes, files)
		}
	}
}

// TestTypedNotes names the types that no relation leads to.
func TestTypedNotes(t *testing.T) {
	o := typedOptions(filepath.Join(fixtures, "ogb", "hetero"))
	for _, reverse := range []string{importer.ReverseNo, importer.ReverseYes} {
		o.Reverse = reverse
		p, err := all.MakePlan(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), all.Auto, o, progress.Discard)
		notes := strings.Join(p.Notes, "\n")
		if err != nil || strings.Contains(notes, "no relation leads to nodes of the types author: ") != (reverse == importer.ReverseNo) {
			t.Errorf("%s: %q, %v", reverse, notes, err)
		}
	}
}

// TestTypedRefuses refuses options that do not fit, and sources without types.
func TestTypedRefuses(t *testing.T) {
	mag := filepath.Join(fixtures, "ogb", "hetero")
	for _, c := range []struct {
		source string
		change func(*importer.Options)
		kind   error
		says   string
	}{
		{mag, func(o *importer.Options) { o.Relabel = importer.RelabelDegree }, fault.ErrUsage, "--relabel degree: with --typed"},
		{mag, func(o *importer.Options) { o.SelfLoops = importer.LoopsAdd }, fault.ErrUsage, "--self-loops add: with --typed"},
		{filepath.Join(fixtures, "ogb", "arxiv"), func(*importer.Options) {}, fault.ErrInput, "arxiv has one type of nodes: import it without --typed"},
		{filepath.Join(fixtures, "igb", "tiny"), func(*importer.Options) {}, fault.ErrUsage, "--typed: the format igb does not take this flag"},
	} {
		o := typedOptions(c.source)
		c.change(&o)
		_, err := all.Import(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), all.Auto, o, progress.Discard)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v; want %v that says %q", err, c.kind, c.says)
		}
	}
}

// TestTypedFailures fails every operation of a typed import in turn: a later run makes the same dataset.
func TestTypedFailures(t *testing.T) {
	o := typedOptions(hetero)
	o.Symmetrize, o.Workers = true, 1
	f, _, err := all.Find(datasettest.FS, "igb-h", o.Sources)
	if err != nil {
		t.Fatal(err)
	}
	datasettest.EveryFailure(t, []bool{true}, func(fsys vfs.FS, out string) error {
		_, err := importer.Import(t.Context(), fsys, out, f, o, progress.Discard)
		return err
	})
}
