package prepare

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/train/model"
)

// held adds up what slices of p have room for, all but those of the batches that it was made
// of.
func held(p *Prepared, of ...*graph.Batch) int64 {
	theirs := map[unsafe.Pointer]bool{nil: true}
	var add func(v reflect.Value) int64
	add = func(v reflect.Value) (bytes int64) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				bytes += add(v.Field(i))
			}
		case reflect.Slice:
			if elem := v.Type().Elem(); elem == reflect.TypeFor[Block]() || elem == reflect.TypeFor[graph.Block]() {
				for i := range v.Len() {
					bytes += add(v.Index(i))
				}
				return bytes
			}
			if at := v.UnsafePointer(); !theirs[at] {
				theirs[at] = true
				bytes = int64(v.Cap()) * int64(v.Type().Elem().Size())
			}
		}
		return bytes
	}
	for _, b := range of {
		add(reflect.ValueOf(b).Elem())
	}
	return add(reflect.ValueOf(p).Elem())
}

// What is planned for a Prepared is what it takes, byte for byte, with the first batch,
// whatever its size, and all that it takes.
func TestRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		shape := graphtest.Shape{Seeds: rng.IntN(9) + 1, Classes: 3, Layers: rng.IntN(3) + 1, MaxDegree: rng.IntN(30), Fresh: rng.IntN(12), Scatter: rng.IntN(2) == 0}
		small, large := shape.Batch(rng), shape.Batch(rng)
		m := rapid.SampledFrom([]model.Model{{Kind: model.SAGE}, {Kind: model.SAGE, Aggregator: model.Sum}, {Kind: model.GCN},
			{Kind: model.GCN, GCNNorm: model.BlockNorm}, {Kind: model.GAT, Heads: 1}}).Draw(t, "model")
		m.Dims = slices.Repeat([]int{3}, shape.Layers+1)
		if rapid.Bool().Draw(t, "projects") {
			m.InputProjection = 2
		}
		var orders []model.Order
		for range shape.Layers {
			orders = append(orders, rapid.SampledFrom([]model.Order{model.Aggregate, model.Multiply}).Draw(t, "order"))
		}
		sizes := graphtest.Roomy(small, large)
		if rapid.Bool().Draw(t, "sorts edges") {
			sizes.Src[0] += fewSources
		}
		r := New(&m, orders, sizes, rapid.Bool().Draw(t, "training"))
		p := new(Prepared)
		for _, b := range []*graph.Batch{small, large} {
			if err := r.Prepare(p, b); err != nil {
				t.Fatal(err)
			}
			if got := held(p, small, large); got != r.Bytes() {
				t.Fatalf("%d bytes are held, %d planned", got, r.Bytes())
			}
		}
		listed := int64(0)
		for l := range shape.Layers {
			lengths := reflect.ValueOf(r.Lengths(l))
			for i := range lengths.NumField() {
				listed += 4 * lengths.Field(i).Int()
			}
		}
		if listed+r.SortingBytes() != r.Bytes() {
			t.Errorf("%d bytes in slices of the blocks and %d to sort: %d in all", listed, r.SortingBytes(), r.Bytes())
		}
	})
}
