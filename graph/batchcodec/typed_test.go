package batchcodec

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// citations has the types paper and author, of which papers have features, and the relations cites, writes and wrote.
func citations() *graph.Types {
	t := &graph.Types{
		Nodes:     []graph.NodeType{{Name: "paper", Count: 9, Features: true}, {Name: "author", Count: 5}},
		Relations: []graph.Relation{{Source: 0, Name: "cites"}, {Source: 1, Name: "writes"}, {Source: 0, Name: "wrote", Destination: 1}},
	}
	if err := t.Check(); err != nil {
		panic(err)
	}
	return t
}

// typedLayers is drawn by hand. Paper 7 ← cites 3, writes two authors; then 7 ← 9 and an author, 3 ← nothing, the
// authors ← 7, and 3 and 9. Authors are row 9 of the features.
func typedLayers() *graph.Batch {
	return &graph.Batch{
		Types: citations(),
		Blocks: []graph.Block{
			{NumSrc: 4, NumDst: 4, Indptr: []uint32{0, 1, 2, 2, 2, 3, 5}, Indices: []uint32{2, 3, 0, 1, 2}, Dst: []uint32{0, 1, 3, 3}, Ends: []uint32{3, 4}},
			{NumSrc: 4, NumDst: 1, Indptr: []uint32{0, 1, 3}, Indices: []uint32{1, 2, 3}, Dst: []uint32{0}, Ends: []uint32{2, 4}},
		},
		Input: []uint32{7, 3, 8, 9}, Labels: []int32{1},
	}
}

func TestTypedBytes(t *testing.T) {
	b := typedLayers()
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	want := []byte{
		2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, // layers, inputs, labels, degree width
		4, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 1, 1, 0, 0, // layer 0
		4, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 1, 1, 0, 0, // layer 1
		3, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, // ends
		7, 0, 0, 0, 3, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, // input nodes
		1, 1, 0, 0, 1, 2, 2, 3, 0, 1, 2, // layer 0: counts of rows, positions
		1, 2, 1, 2, 3, // layer 1
		1, 0, 0, 0, // label
	}
	if got := Append(nil, b); !bytes.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if input, err := Inputs(want, 2); err != nil || !slices.Equal(input, b.Input) {
		t.Errorf("input nodes %v, %v", input, err)
	}
	graphtest.Renumber(b, []int{3, 0, 2, 1})
	packed := []byte{
		2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
		4, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 2, 2, 2, 0, // layer 0
		4, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 2, 2, 0, 0, // layer 1
		2, 0, 0, 0, 4, 0, 0, 0, // its ends
		0b00_00_01_01, 0b10_01, // layer 0: counts 1 1 0 0 1 2
		0b00_11_01_10, 0b10, // positions 2 1 3 0 2
		0b01_01_00_11, // destinations 3 0 1 1
		0b10_01,       // layer 1: counts 1 2
		0b11_10_01,    // positions 1 2 3
		0b0010,        // types 0 1 0 0
		1, 0, 0, 0,
	}
	if got := AppendBlocks(nil, b); !bytes.Equal(got, packed) {
		t.Errorf("got  %v\nwant %v", got, packed)
	}
	left := &graph.Batch{Types: b.Types}
	d := binio.NewDecoder(packed)
	if BlocksInBits(d, left); !errors.Is(d.Err(), fault.ErrCorrupt) {
		t.Errorf("left in bits: %v", d.Err())
	}
}

func genTyped(t *rapid.T) *graph.Batch {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	return graphtest.Shape{Seeds: rng.IntN(9) + 1, Classes: 3, Layers: rng.IntN(3) + 1, MaxDegree: rng.IntN(9), Fresh: rng.IntN(60),
		Scatter: rng.IntN(2) == 0}.Typed(rng, graphtest.Types(rng, 1000))
}

var sameTypes = cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(graph.Types{})}

// Typed batches come back from both forms, whatever was decoded before.
func TestTypedRoundTrip(t *testing.T) {
	var got graph.Batch
	rapid.Check(t, func(t *rapid.T) {
		want := genTyped(t)
		if err := want.Validate(); err != nil {
			t.Fatal(err)
		}
		got.Types = want.Types
		if want.InputTypes == nil {
			if err := Decode(Append(nil, want), &got); err != nil {
				t.Fatal(err)
			}
		} else {
			d := binio.NewDecoder(AppendBlocks(nil, want))
			n := Blocks(d, &got)
			got.Input, got.Degree = want.Input, nil
			if d.Err() != nil || n != len(want.Input) || d.Rest() != 0 {
				t.Fatal(d.Err(), n, d.Rest())
			}
			if err := got.Validate(); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(want, &got, sameTypes); d != "" {
			t.Fatal(d)
		}
		got = graph.Batch{Blocks: got.Blocks, InputTypes: got.InputTypes}
	})
}

// FuzzTyped: any bytes are a valid typed batch, or corrupt.
func FuzzTyped(f *testing.F) {
	f.Add(Append(nil, typedLayers()), false)
	packed := typedLayers()
	graphtest.Renumber(packed, []int{3, 0, 2, 1})
	f.Add(AppendBlocks(nil, packed), true)
	f.Fuzz(func(t *testing.T, raw []byte, bits bool) {
		b := &graph.Batch{Types: citations()}
		var err error
		if bits {
			d := binio.NewDecoder(raw)
			b.Input = make([]uint32, Blocks(d, b))
			err = d.Err()
			if err == nil && b.Validate() != nil {
				return
			}
		} else {
			err = Decode(raw, b)
		}
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}
