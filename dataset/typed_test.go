package dataset_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
)

// citations has papers 0 to 2, which have features and labels, and authors 3 and 4: papers cite papers, authors
// write them, and authors have the papers that they wrote.
func citations() dataset.Raw {
	return dataset.Raw{
		Types: &graph.Types{
			Nodes:     []graph.NodeType{{Name: "paper", Count: 3, Features: true}, {Name: "author", Count: 2}},
			Relations: []graph.Relation{{Source: 0, Name: "cites", Destination: 0}, {Source: 1, Name: "writes", Destination: 0}, {Source: 0, Name: "written by", Destination: 1}},
		},
		// Paper 0: cited by 2, written by 4. Paper 1: by 3. Paper 2: cited by 0 and 1, written by 3 and 4.
		Indptr: []int64{0, 1, 2, 2, 3, 5, 7, 9, 11}, Indices: []uint32{2, 4, 3, 0, 1, 3, 4, 1, 2, 0, 2},
		Features: binio.Bytes([]float32{1, 2, 3, 4, 5, 6, 0, 0}), DType: dtype.Float32, Dim: 2,
		Labels: []int32{0, 1, graph.Unlabelled, graph.Unlabelled, graph.Unlabelled}, Classes: 2,
		Train: []uint32{0}, Valid: []uint32{1},
	}
}

func TestTypedDataset(t *testing.T) {
	for _, compress := range []bool{false, true} {
		raw := citations()
		raw.Compress = compress
		d := datasettest.Create(t, t.TempDir(), raw)
		dir := d.Dir()
		if v := d.Meta().Format.Version; v != 5 {
			t.Errorf("version %d", v)
		}
		if err := d.Verify(t.Context(), progress.Discard, 1); err != nil {
			t.Error(err)
		}
		f, needs := d.Facts(), []string{"types"}
		if compress {
			needs = append(needs, "compressed features")
		}
		if !slices.Equal(f.Needs, needs) || f.Nodes != 5 || f.Rows() != 8 || f.FeatureRows() != 4 {
			t.Errorf("%+v", f)
		}
		if d := cmp.Diff(raw.Types, f.Types, cmpopts.IgnoreUnexported(graph.Types{})); d != "" {
			t.Error(d)
		}
		top, err := d.Topology(t.Context(), progress.Discard, 1)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(top.Indptr, raw.Indptr) || !slices.Equal(top.Indices, raw.Indices) {
			t.Errorf("topology %v, %v", top.Indptr, top.Indices)
		}
		if err := top.Close(); err != nil {
			t.Error(err)
		}
		buf := make([]byte, len(raw.Features))
		if err := d.ReadFeatures(t.Context(), 0, 4, buf); err != nil || !slices.Equal(buf, raw.Features) {
			t.Errorf("features %v, %v", buf, err)
		}
		if _, err := dataset.Open(datasettest.FS, dir); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "2 node types and 3 relations") {
			t.Errorf("opened as a graph with one type: %v", err)
		}
		if err := dataset.Create(datasettest.FS, dir, raw); err != nil {
			t.Errorf("made again: %v", err)
		}
		raw.LabelledType, raw.Labels, raw.Train, raw.Valid = 1, []int32{-1, -1, -1, 0, 1}, []uint32{3}, []uint32{4}
		if err := dataset.Create(datasettest.FS, dir, raw); err == nil || !strings.Contains(err.Error(), "made with other parameters") {
			t.Errorf("another dataset in its place: %v", err)
		}
	}
}

func TestTypedRefuses(t *testing.T) {
	for want, change := range map[string]func(*dataset.Raw){
		"rows":                   func(r *dataset.Raw) { r.Features = r.Features[:8] },
		"indptr does not ascend": func(r *dataset.Raw) { r.Indptr = r.Indptr[:8] },
		"row 1 are out of order": func(r *dataset.Raw) { r.Indices[1] = 0 }, // a paper writes
		"row 6 are out of order": func(r *dataset.Raw) { r.Indices[8] = 3 }, // an author is written by
		"nodes 0 to 2 have the":  func(r *dataset.Raw) { r.Labels[3] = 0 },
		"has 0 nodes":            func(r *dataset.Raw) { r.Types.Nodes[1].Count = 0 },
		"but there are 2 types":  func(r *dataset.Raw) { r.Types.Relations[0].Source = 2 },
		"the last": func(r *dataset.Raw) {
			r.Types.Nodes[0].Features = false
			r.Types.Nodes[1].Features = true
			r.Features = r.Features[:16]
		},
	} {
		raw := citations()
		change(&raw)
		if err := dataset.Create(datasettest.FS, filepath.Join(t.TempDir(), "D"), raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestTypedFacts forges the facts of a typed dataset.
func TestTypedFacts(t *testing.T) {
	good := datasettest.Create(t, t.TempDir(), citations())
	for want, forge := range map[string]func(*dataset.Facts){
		"its types have 4 nodes":       func(f *dataset.Facts) { f.Types.Nodes[1].Count = 1 },
		"has no types, but needs":      func(f *dataset.Facts) { f.Types = nil },
		`it needs []`:                  func(f *dataset.Facts) { f.Needs = nil },
		"it needs a newer program":     func(f *dataset.Facts) { f.Needs = append(slices.Clone(f.Needs), "edge weights") },
		"node type 2 has the labels":   func(f *dataset.Facts) { f.LabelledType = 2 },
		"node type -1 has the labels":  func(f *dataset.Facts) { f.LabelledType = -1 },
		"3 nodes have labels, but the": func(f *dataset.Facts) { f.LabelledType, f.Unlabelled = 1, 2 },
		"relations are in the order":   func(f *dataset.Facts) { slices.Reverse(f.Types.Relations) },
		"no node type has features":    func(f *dataset.Facts) { f.Types.Nodes[0].Features = false },
	} {
		f := good.Facts()
		types := graph.Types{Nodes: slices.Clone(f.Types.Nodes), Relations: slices.Clone(f.Types.Relations)}
		f.Types = &types
		forge(&f)
		out := filepath.Join(t.TempDir(), "F")
		forged, _, err := stage.Begin(datasettest.FS, out, stage.Spec{Format: good.Meta().Format, Params: "test"}, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := forged.Commit(nil, f, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := dataset.OpenAny(datasettest.FS, out); err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
