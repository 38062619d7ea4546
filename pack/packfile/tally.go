package packfile

import (
	"fmt"
	"slices"

	"diskgnn/graph"
)

// Verification counts again all facts and parameters of a pack that follow from its graphs. A shard and a
// slice have some of the training batches, and sizes of all training batches: these sizes are only checked
// as upper bounds. Merge compares the facts of shards.
//
// These facts and parameters do not follow from a pack's graphs: the sizes of hot sets beyond the nodes
// that training touches, classes that no node has, a fanout above what was drawn (a buffer of partitions
// yields fewer), the type of the dataset's features beyond the bytes of its table, and the limit of the
// disk.

// allNeighbours as a fanout takes every in-neighbour of a destination.
const allNeighbours = -1

// tally counts the sizes of batches.
type tally struct {
	most    graph.Sizes
	sums    graph.Sizes
	batches int
	touched int64   // one more than the highest rank that they read
	inputs  []int64 // by type, of a typed graph
}

func newTally(f *Facts) *tally {
	layers := len(f.Fanout)
	sizes := func() graph.Sizes {
		s := graph.Sizes{Src: make([]int, layers), Dst: make([]int, layers), Edges: make([]int, layers)}
		if f.Types != nil {
			s.Rows = make([]int, layers)
		}
		return s
	}
	t := &tally{most: sizes(), sums: sizes()}
	if f.Types != nil {
		t.inputs = make([]int64, len(f.Types.Nodes))
	}
	return t
}

// add counts a batch. A destination with more edges than the fanout allows is an error.
func (t *tally) add(b *graph.Batch, fanout []int) error {
	for l := range b.Blocks {
		k := &b.Blocks[l]
		for _, c := range []struct {
			n         int
			most, sum *int
		}{{k.NumSrc, &t.most.Src[l], &t.sums.Src[l]}, {k.NumDst, &t.most.Dst[l], &t.sums.Dst[l]}, {len(k.Indices), &t.most.Edges[l], &t.sums.Edges[l]}} {
			*c.most, *c.sum = max(*c.most, c.n), *c.sum+c.n
		}
		if b.Types != nil {
			n := k.NumRows()
			t.most.Rows[l], t.sums.Rows[l] = max(t.most.Rows[l], n), t.sums.Rows[l]+n
		}
	}
	for _, kind := range b.InputTypes {
		t.inputs[kind]++
	}
	for _, rank := range b.Input {
		t.touched = max(t.touched, int64(rank)+1)
	}
	t.batches++
	if b.Types != nil {
		return b.DrawnRows(func(layer, row int, edges uint32) error {
			if n := fanout[layer]; n != allNeighbours && edges > uint32(n) {
				return fmt.Errorf("row %d of layer %d draws %d in-neighbours, but the fanout is %d", row, layer, edges, n)
			}
			return nil
		})
	}
	return b.Drawn(func(layer, dst int, edges, degree uint32) error {
		n := fanout[layer]
		if edges > degree || n == allNeighbours && edges < degree || n != allNeighbours && edges > uint32(n) {
			return fmt.Errorf("destination %d of layer %d draws %d of its %d in-neighbours, but the fanout is %d", dst, layer, edges, degree, n)
		}
		return nil
	})
}

func (t *tally) means() graph.Sizes {
	mean := func(sums []int) []int {
		list := slices.Clone(sums)
		for i := range list {
			list[i] = (list[i] + t.batches/2) / max(t.batches, 1)
		}
		return list
	}
	return graph.Sizes{Src: mean(t.sums.Src), Dst: mean(t.sums.Dst), Edges: mean(t.sums.Edges), Rows: mean(t.sums.Rows)}
}

// verifyFacts checks facts that follow from others.
func (r *Reader) verifyFacts() error {
	f := &r.facts
	metric := "accuracy"
	if f.MultiLabel() {
		metric = "f1"
	}
	if f.Metric != "" && f.Metric != metric {
		return r.damaged("the metric is %.20q, not %s", f.Metric, metric)
	}
	elements := f.Nodes * int64(f.Dim)
	if f.TableBytes != 2*elements && f.TableBytes != 4*elements {
		return r.damaged("a feature table of %d bytes does not fit %d rows of %d elements", f.TableBytes, f.Nodes, f.Dim)
	}
	return nil
}

// same compares sizes in the facts with the sizes counted from the batches.
func (r *Reader) same(what string, have, want graph.Sizes) error {
	if len(have.Src) == 0 { // there are none
		return nil
	}
	if slices.Equal(have.Src, want.Src) && slices.Equal(have.Dst, want.Dst) && slices.Equal(have.Edges, want.Edges) && slices.Equal(have.Rows, want.Rows) {
		return nil
	}
	return r.damaged("%s: the facts say %+v, but the batches have %+v", what, have, want)
}

// verifyTrained compares the facts and parameters with the sums over the training batches.
func (r *Reader) verifyTrained(t *tally) error {
	if r.whole && r.slice == nil {
		if err := r.same("sizes of the largest training batch", r.facts.TrainSizes, t.most); err != nil {
			return err
		}
		if err := r.same("sizes of the mean training batch", r.facts.TrainMeans, t.means()); err != nil {
			return err
		}
		if have := r.facts.TypeInputs; have != nil && !slices.Equal(have, t.inputs) {
			return r.damaged("the facts say that the types have the input nodes %v, but the batches have %v", have, t.inputs)
		}
	}
	have := r.index.Edges
	touched := max(t.touched, have[0]) // by all shards: beyond it there are no hot rows
	edges := []int64{min(r.params.CacheRows, touched)}
	if r.params.Policy == PolicyStatic {
		edges = BandEdges(r.facts.Nodes, touched, r.params.CacheRows, r.params.Bands)
	}
	if more := len(edges) - len(have); more > 0 && r.params.MaxDisk > 0 {
		edges = edges[more:] // the edges for which the disk had room
	}
	if !slices.Equal(have, edges) {
		return r.damaged("the band edges are %v, but a cache of at least %d rows and bands of %v%% of %d nodes give %v", have, r.params.CacheRows, r.params.Bands, r.facts.Nodes, edges)
	}
	return nil
}
