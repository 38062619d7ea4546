package batchcodec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/internal/fault"
)

// twoLayers is drawn by hand: seeds {7, 3}; 7 ← {3, 9}, 3 ← {}; then 7 ← {9},
// 3 ← {7, 300}, 9 ← {9}.
func twoLayers() *graph.Batch {
	return &graph.Batch{
		Blocks: []graph.Block{
			{NumSrc: 4, NumDst: 3, Indptr: []uint32{0, 1, 3, 4}, Indices: []uint32{2, 0, 3, 2}},
			{NumSrc: 3, NumDst: 2, Indptr: []uint32{0, 2, 2}, Indices: []uint32{1, 2}},
		},
		Input:  []uint32{7, 3, 9, 300},
		Degree: []uint32{1, 2, 70000, 0},
		Labels: []int32{1, graph.Unlabelled},
	}
}

func TestBytes(t *testing.T) {
	want := []byte{
		2, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, // layers, inputs, labels, degree width
		4, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1, 1, 0, 0, // layer 0
		3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 1, 0, 0, // layer 1
		7, 0, 0, 0, 3, 0, 0, 0, 9, 0, 0, 0, 44, 1, 0, 0, // input nodes
		1, 0, 0, 2, 0, 0, 0x70, 0x11, 1, 0, 0, 0, // degrees
		1, 2, 1, 2, 0, 3, 2, // layer 0: counts, positions
		2, 0, 1, 2, // layer 1
		1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, // labels
	}
	if got := Append(nil, twoLayers()); !bytes.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestTargetsFollowTheLabels(t *testing.T) {
	b := twoLayers()
	plain := Append(nil, b)
	b.Targets = []byte{1, 2, 3, 0, 0, 0}
	want := slices.Clone(plain)
	want[13] = 3 // bytes of a row
	if got := Append(nil, b); !bytes.Equal(got, append(want, b.Targets...)) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	var got graph.Batch
	for _, src := range [][]byte{Append(nil, b), plain} { // the second leaves nothing of the first
		if err := Decode(src, &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(b, &got, cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
		b.Targets = nil
	}
	want[13] = 4
	if err := Decode(append(want, 1, 2, 3, 0, 0, 0), &got); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("rows that are cut short: %v", err)
	}
}

// genBatch draws a valid chain of blocks, in a pack's form or a sample's.
func genBatch(t *rapid.T) *graph.Batch {
	b := new(graph.Batch)
	layers := rapid.IntRange(1, 4).Draw(t, "layers")
	dst := rapid.IntRange(0, 40).Draw(t, "seeds")
	for range dst {
		b.Labels = append(b.Labels, rapid.Int32Range(-1, 9).Draw(t, "label"))
	}
	for i := range dst * rapid.SampledFrom([]int{0, 0, 1, 3, 300}).Draw(t, "bytes of classes") {
		b.Targets = append(b.Targets, byte(i*i>>3))
	}
	for l := range layers {
		k := graph.Block{NumDst: dst, NumSrc: dst + rapid.IntRange(0, 400).Draw(t, "more"), Indptr: []uint32{0}}
		for range dst {
			if k.NumSrc > 0 {
				for range rapid.IntRange(0, 5).Draw(t, "edges") {
					k.Indices = append(k.Indices, uint32(rapid.IntRange(0, k.NumSrc-1).Draw(t, "source")))
				}
			}
			k.Indptr = append(k.Indptr, uint32(len(k.Indices)))
		}
		if l == layers-1 && dst > 0 && rapid.Bool().Draw(t, "packed") {
			for range dst {
				k.Dst = append(k.Dst, uint32(rapid.IntRange(0, k.NumSrc-1).Draw(t, "position")))
			}
		}
		b.Blocks = append([]graph.Block{k}, b.Blocks...)
		dst = k.NumSrc
	}
	for range dst {
		b.Input = append(b.Input, rapid.Uint32().Draw(t, "input"))
		b.Degree = append(b.Degree, rapid.Uint32().Draw(t, "degree"))
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	var got graph.Batch // reused, as loaders do
	rapid.Check(t, func(t *rapid.T) {
		want := genBatch(t)
		if err := Decode(Append(nil, want), &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, &got, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

func TestInputs(t *testing.T) {
	src := Append(nil, twoLayers())
	got, err := Inputs(src, 0)
	if d := cmp.Diff(twoLayers().Input, got); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	if got, err := Inputs(src[:40], 0); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("truncated: %v, %v", got, err)
	}
}

func TestTruncated(t *testing.T) {
	multi := twoLayers()
	multi.Targets = []byte{1, 0, 2, 0}
	whole := Append(nil, multi)
	var b graph.Batch
	for n := range whole {
		if err := Decode(whole[:n], &b); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("first %d bytes: %v", n, err)
		}
	}
	if err := Decode(append(whole, 0), &b); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a byte too many: %v", err)
	}
}

// held returns the bytes of the arrays that a batch has room for.
func held(b *graph.Batch) int {
	n := 4*(cap(b.Input)+cap(b.Degree)+cap(b.Labels)) + cap(b.Targets)
	for _, k := range b.Blocks[:cap(b.Blocks)] {
		n += 4 * (cap(k.Indptr) + cap(k.Indices) + cap(k.Dst))
	}
	return n
}

// mostHeld is what decoding so many bytes may take: four bytes for each, and an entry more
// for every layer's Indptr.
func mostHeld(src int) int { return 4*src + 4*MaxLayers }

// TestForgedCounts decodes heads that announce more than follows: nothing is allocated by
// what they say. Every count alone would pass for one of the bytes that are there.
func TestForgedCounts(t *testing.T) {
	const size = 4 << 20
	for what, forge := range map[string]func(src []byte){
		"edges of every layer": func(src []byte) {
			for l := range MaxLayers {
				binary.LittleEndian.PutUint32(src[headBytes+layerBytes*l+8:], size/2)
			}
		},
		"destinations of every layer": func(src []byte) {
			for l := range MaxLayers {
				binary.LittleEndian.PutUint32(src[headBytes+layerBytes*l:], size/2)
				binary.LittleEndian.PutUint32(src[headBytes+layerBytes*l+4:], size/2)
			}
			binary.LittleEndian.PutUint32(src[4:], size/2)
			binary.LittleEndian.PutUint32(src[8:], size/2)
		},
		"input nodes": func(src []byte) { binary.LittleEndian.PutUint32(src[4:], size/4) },
		"labels":      func(src []byte) { binary.LittleEndian.PutUint32(src[8:], size/4) },
		"classes":     func(src []byte) { src[13], src[14], src[15] = 255, 255, 255 },
	} {
		src := make([]byte, size)
		src[0], src[12] = MaxLayers, 1
		for l := range MaxLayers {
			src[headBytes+layerBytes*l+12], src[headBytes+layerBytes*l+13] = 1, 1
		}
		forge(src)
		var b graph.Batch
		if err := Decode(src, &b); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		if n := held(&b); n > mostHeld(size) {
			t.Errorf("%s: %d bytes of memory for %d", what, n, size)
		}
	}
}

// TestDecodeAgain decodes into a batch that has room, which takes no memory.
func TestDecodeAgain(t *testing.T) {
	src := Append(nil, twoLayers())
	var b graph.Batch
	if n := testing.AllocsPerRun(20, func() {
		if err := Decode(src, &b); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Append(nil, twoLayers()))
	multi := twoLayers()
	multi.Targets = []byte{1, 2}
	f.Add(Append(nil, multi))
	f.Fuzz(func(t *testing.T, src []byte) {
		var b graph.Batch
		err := Decode(src, &b)
		if n := held(&b); n > mostHeld(len(src)) {
			t.Fatalf("%d bytes of memory for %d", n, len(src))
		}
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if err := b.Validate(); err != nil {
			t.Fatalf("decoded an invalid batch: %v", err)
		}
	})
}
