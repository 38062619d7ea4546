package packed_test

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/pack/packfile"
)

// TestForgedSections changes the sections of a graph in the index, under right checksums. Verify refuses every change,
// and so does a reader that needs the section. Neither allocates by a length that the file does not have.
func TestForgedSections(t *testing.T) {
	stack := newStack(t)
	worlds := map[string]*world{"static": small(t, "same"), "sharing": sharing(t), "min": buildMin(t, "int8", "s2"), "chunks": chunkedWorld(t, 25, 20, "same")}
	for name, w := range worlds {
		for graph := range 2 {
			for i, change := range sectionChanges(3 + w.reader.Index().Bands) {
				f := forge(t, w.pack)
				changed := w.sections(t, f, graph == 0, change)
				if !changed {
					continue
				}
				out := filepath.Join(vfstest.TempDir(t), fmt.Sprint(i))
				f.write(t, out)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err := verify(t.Context(), out)
				runtime.ReadMemStats(&after)
				if !refused(err) {
					t.Errorf("%s, change %d: verify: %v", name, i, err)
				}
				if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
					t.Errorf("%s, change %d: %d bytes were allocated", name, i, n)
				}
				if err := readEverything(t.Context(), out, stack, 0); !refused(err) {
					t.Errorf("%s, change %d: read with everything: %v", name, i, err)
				}
			}
		}
	}
}

// sectionChanges returns changes of the lengths of a graph's sections, of which there are at most n. All keep the sum,
// some of them modulo 2³².
func sectionChanges(n int) (list []func([]packfile.Section)) {
	for from := range n {
		for to := range n {
			for _, most := range []uint32{1, 1 << 31} { // a byte, and all
				list = append(list, func(s []packfile.Section) {
					if from < len(s) && to < len(s) {
						moved := min(most, s[from].Bytes)
						s[from].Bytes -= moved
						s[to].Bytes += moved
					}
				})
			}
		}
	}
	return append(list, func(s []packfile.Section) {
		s[1].Bytes += s[0].Bytes + 1
		s[0].Bytes = 1<<32 - 1
	}, func(s []packfile.Section) {
		s[0].CRC++
	})
}

// sections applies a change to the sections of the first training or validation batch, and puts their checksums right. It
// reports whether the change changed a length or a checksum.
func (w *world) sections(t *testing.T, f *forgery, train bool, change func([]packfile.Section)) bool {
	t.Helper()
	x, err := packfile.DecodeIndex(f.files[packfile.IndexFile], w.reader.Form())
	if err != nil {
		t.Fatal(err)
	}
	s, file := x.Train[0].Graph, packfile.GraphFile(0)
	if !train {
		s, file = x.Valid[0].Graph, packfile.EvalGraphFile
	}
	was := slices.Clone(s)
	change(s)
	if slices.Equal(s, was) {
		return false
	}
	lengths := func(a, b packfile.Section) bool { return a.Bytes == b.Bytes }
	if f.files[packfile.IndexFile], err = x.Encode(); err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(s, was, lengths) {
		f.change(file, 0, nil)
	}
	return true
}

// TestForgedGraphs encodes graphs with wrong numbers in right sections. DecodeTrainGraph refuses all that the needed
// sections have.
func TestForgedGraphs(t *testing.T) {
	for name, w := range map[string]*world{"static": small(t, "same"), "sharing": sharing(t), "min": buildMin(t, "int8", "s2")} {
		r, tried := w.reader, map[string]int{}
		file, err := os.ReadFile(r.Path(packfile.GraphFile(0)))
		if err != nil {
			t.Fatal(err)
		}
		for i := range min(r.Facts().Train, 64/r.Facts().Segment*r.Facts().Segment) {
			tr := &r.Index().Train[i]
			for what, change := range map[string]func(*graph.Batch, *packfile.Plan) bool{
				"source": func(b *graph.Batch, _ *packfile.Plan) bool {
					k := &b.Blocks[0]
					k.Indices[0] = uint32(k.NumSrc)
					return bits.OnesCount(uint(k.NumSrc)) > 1 // else it takes another bit
				},
				"destination": func(b *graph.Batch, _ *packfile.Plan) bool {
					k := &b.Blocks[0]
					if len(k.Dst) < 2 {
						return false
					}
					k.Dst[1] = uint32(k.NumSrc)
					return bits.OnesCount(uint(k.NumSrc)) > 1
				},
				"row": func(b *graph.Batch, _ *packfile.Plan) bool {
					b.Input[0] = uint32(r.Facts().Nodes)
					return true
				},
				"hot row": func(b *graph.Batch, _ *packfile.Plan) bool {
					b.Input[len(b.Input)-1] = uint32(r.Facts().Nodes)
					return tr.Hot() > 0
				},
				"place": func(_ *graph.Batch, p *packfile.Plan) bool {
					if len(p.SSD) > 0 {
						p.SSD[0] = uint32(r.Index().Segments[r.SegmentOf(i)].Rows)
					}
					return len(p.SSD) > 0
				},
			} {
				var b graph.Batch
				var p packfile.Plan
				if err := r.DecodeTrainGraph(i, packfile.Everything, file[tr.GraphOffset:][:tr.GraphBytes()], &b, &p); err != nil {
					t.Fatal(err)
				}
				if !change(&b, &p) {
					continue
				}
				tried[what]++
				was := tr.Graph
				var raw []byte
				raw, tr.Graph = packfile.AppendTrainGraph(nil, nil, &b, tr.Bands, tr.SSD, &p, nil)
				if err := r.DecodeTrainGraph(i, packfile.Everything, raw, &b, &p); !errors.Is(err, fault.ErrCorrupt) {
					t.Errorf("%s, batch %d, a wrong %s: %v", name, i, what, err)
				}
				tr.Graph = was
			}
		}
		if tried["source"] == 0 || tried["destination"] == 0 || tried["row"] == 0 || tried["hot row"] == 0 || name == "sharing" && tried["place"] == 0 {
			t.Errorf("%s: the graphs have none: %v", name, tried)
		}
	}
}

// TestForgedEvalGraphs is TestForgedGraphs for the positions of evaluation batches.
func TestForgedEvalGraphs(t *testing.T) {
	w := small(t, "same")
	file, err := os.ReadFile(w.reader.Path(packfile.EvalGraphFile))
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, e := range w.reader.Index().Valid {
		var b graph.Batch
		if err := w.reader.DecodeEvalGraph(&e, packfile.Everything, file[e.GraphOffset:][:e.GraphBytes()], &b); err != nil {
			t.Fatal(err)
		}
		k := &b.Blocks[0]
		if bits.OnesCount(uint(k.NumSrc)) == 1 {
			continue
		}
		tried++
		k.Indices[0] = uint32(k.NumSrc)
		var raw []byte
		raw, e.Graph = packfile.AppendEvalGraph(nil, nil, &b, e.Rows)
		if err := w.reader.DecodeEvalGraph(&e, packfile.Everything, raw, &b); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("a wrong source: %v", err)
		}
	}
	if tried == 0 {
		t.Error("no batch has such positions")
	}
}

// TestForgedCounts moves rows between bands of a batch, or changes its counts, in the index alone. Whatever a model
// needs, the pack is read or refused.
func TestForgedCounts(t *testing.T) {
	stack := newStack(t)
	for name, w := range map[string]*world{"static": small(t, "same"), "sharing": sharing(t), "min": buildMin(t, "int8", "s2")} {
		for what, change := range map[string]func(*packfile.Train){
			"a row more of the first band":  func(t *packfile.Train) { t.Bands[0]++; t.Bands[len(t.Bands)-1]-- },
			"a row less of the first band":  func(t *packfile.Train) { t.Bands[0]--; t.Bands[len(t.Bands)-1]++ },
			"a row that segments share":     func(t *packfile.Train) { t.Bands[0]--; t.SSD[0]++ },
			"a row that no segment shares":  func(t *packfile.Train) { t.Bands[0]++; t.SSD[0]-- },
			"an input node more":            func(t *packfile.Train) { t.Inputs++ },
			"an input node less":            func(t *packfile.Train) { t.Inputs-- },
			"an edge less":                  func(t *packfile.Train) { t.Edges-- },
			"as many input nodes as can be": func(t *packfile.Train) { t.Inputs = 60 * t.GraphBytes() },
		} {
			f := forge(t, w.pack)
			x, err := packfile.DecodeIndex(f.files[packfile.IndexFile], w.reader.Form())
			if err != nil {
				t.Fatal(err)
			}
			change(&x.Train[0])
			if min(slices.Min(x.Train[0].Bands), slices.Min(x.Train[0].SSD)) < 0 {
				continue
			}
			if f.files[packfile.IndexFile], err = x.Encode(); err != nil {
				t.Fatal(err)
			}
			most := 0
			for i := range x.Train {
				most = max(most, x.Train[i].Inputs)
			}
			sizes := w.reader.Facts().TrainSizes
			f.set("train_sizes.src", append([]int{most}, sizes.Src[1:]...))
			out := filepath.Join(vfstest.TempDir(t), "P")
			f.write(t, out)
			for _, unused := range []featurestore.Unused{{}, {Ranks: true, Degrees: true}} {
				if err := readParts(t.Context(), out, stack, 0, unused); err != nil && !refused(err) && !errors.Is(err, fault.ErrBudget) {
					t.Errorf("%s, %s: an error of another kind: %v", name, what, err)
				}
			}
		}
	}
}
