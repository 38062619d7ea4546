package batchcodec

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// TestListBytes has the bytes of each form of a list.
func TestListBytes(t *testing.T) {
	for name, c := range map[string]struct{ values, classes, want []uint32 }{
		"none":                     {nil, nil, nil},
		"plain":                    {[]uint32{9, 7, 10, 7}, nil, []uint32{0, 7, 0, 0, 0, 2, 0b00_11_00_10}},
		"equal":                    {[]uint32{9, 9, 9}, nil, []uint32{1, 9, 0, 0, 0, 0}},
		"ascending":                {[]uint32{9, 10, 13}, nil, []uint32{1, 9, 0, 0, 0, 2, 0b11_01_00}},
		"descending":               {[]uint32{0xFFFFFFFF, 2, 1, 1}, nil, []uint32{2, 0xFF, 0xFF, 0xFF, 0xFF, 32, 0, 0, 0, 0, 0xFD, 0xFF, 0xFF, 0xFF, 1, 0, 0, 0, 0, 0, 0, 0}},
		"many classes":             {[]uint32{9, 7}, slices.Repeat([]uint32{0}, 257), []uint32{2, 9, 0, 0, 0, 2, 0b10_00}},
		"classes that begin later": {[]uint32{9, 7, 8}, []uint32{8}, []uint32{0, 7, 0, 0, 0, 2, 0b01_00_10}},
	} {
		want := make([]byte, len(c.want))
		for i, b := range c.want {
			want[i] = byte(b)
		}
		if got := AppendList(nil, c.values, c.classes); !bytes.Equal(got, want) {
			t.Errorf("%s: got  %v\nwant %v", name, got, want)
		}
	}
}

// TestListOfClassesBytes has 64 ranks of each of two classes, in turn: from 1000 on in steps of 1, and from 1<<20 on in
// steps of 2.
func TestListOfClassesBytes(t *testing.T) {
	classes := []uint32{5, 1000, 1 << 20, 1 << 30}
	var values []uint32
	for i := range uint32(64) {
		values = append(values, 1000+i, 1<<20+2*i)
	}
	want := []byte{3, 2, 0, 0, 0, 0xE8, 3, 0, 0, 0, 0, 0x10, 0}
	want = append(want, bytes.Repeat([]byte{0xAA}, 16)...) // classes 0 1 0 1 …
	want = append(want, 2, 0b10_01_00_00)
	want = append(want, bytes.Repeat([]byte{0b10_01_10_01}, 31)...)
	got := AppendList([]byte{7}, values, classes)
	if !bytes.Equal(got[1:], want) {
		t.Errorf("got  %v\nwant %v", got[1:], want)
	}
}

// genList draws values that ascend, descend, or are in any order, at or from some class on, and classes.
func genList(t *rapid.T) (values, classes []uint32) {
	classes = rapid.SliceOfNDistinct(rapid.Uint32(), 0, 300, rapid.ID).Draw(t, "classes")
	slices.Sort(classes)
	most := rapid.SampledFrom([]uint32{0, 3, 1000, 1 << 20, 1<<32 - 1}).Draw(t, "most")
	values = rapid.SliceOfN(rapid.Uint32Range(0, most), 0, 600).Draw(t, "values")
	switch rapid.IntRange(0, 3).Draw(t, "order") {
	case 1:
		slices.Sort(values)
	case 2:
		slices.Sort(values)
		slices.Reverse(values)
	case 3: // in each class in order
		if len(classes) > 0 {
			next := slices.Clone(classes)
			for i := range values {
				k := rapid.IntRange(0, len(classes)-1).Draw(t, "class")
				values[i] = next[k]
				next[k]++
			}
		}
	}
	return values, classes
}

// TestLists: a list is read back into memory that is reused, up to its end, and is no longer than the plain one, unless
// it descends.
func TestLists(t *testing.T) {
	var got []uint32
	rapid.Check(t, func(t *rapid.T) {
		want, classes := genList(t)
		b := AppendList(nil, want, classes)
		d := binio.NewDecoder(append(slices.Clone(b), 1, 2, 3))
		got = List(d, got, len(want))
		if d.Err() != nil || d.Rest() != 3 || !slices.Equal(got, want) {
			t.Fatalf("%v, %d bytes left: got %d, want %d", d.Err(), d.Rest(), got, want)
		}
		if len(want) == 0 {
			return
		}
		if plain := len(appendList(nil, listPlain, slices.Min(want), want)); len(b) > plain && b[0] != listDown {
			t.Errorf("%d bytes, plain ones are %d", len(b), plain)
		}
		for n := range b {
			if n%7 > 0 {
				continue
			}
			d := binio.NewDecoder(b[:n])
			if List(d, nil, len(want)); !errors.Is(d.Err(), fault.ErrCorrupt) {
				t.Fatalf("%d of %d bytes: %v", n, len(b), d.Err())
			}
		}
	})
}

// TestListDamage refuses bytes that are no list.
func TestListDamage(t *testing.T) {
	classes := AppendList(nil, []uint32{1, 0, 2, 1, 3, 2, 100, 101, 99}, nil)
	for name, b := range map[string][]byte{
		"an unknown form":        {4, 0, 0, 0, 0, 0},
		"too many bits":          {0, 0, 0, 0, 0, 33, 1, 1, 1, 1, 1},
		"no classes":             {3, 0, 0, 0, 0, 0},
		"too many classes":       append([]byte{3, 1, 1, 0, 0}, make([]byte, 2000)...),
		"a class after the last": {3, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 3, 1, 0},
		"nothing":                {},
	} {
		d := binio.NewDecoder(b)
		if List(d, nil, 1); !errors.Is(d.Err(), fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, d.Err())
		}
	}
	d := binio.NewDecoder(classes)
	if List(d, nil, 9); d.Err() != nil || d.Rest() != 0 {
		t.Errorf("%v, %d bytes left", d.Err(), d.Rest())
	}
}

// TestListOfOneClass reads a list that AppendList does not write.
func TestListOfOneClass(t *testing.T) {
	d := binio.NewDecoder([]byte{3, 1, 0, 0, 0, 9, 0, 0, 0, 2, 0b11_00_01})
	if got := List(d, nil, 3); d.Err() != nil || !slices.Equal(got, []uint32{10, 10, 13}) {
		t.Errorf("got %d, %v", got, d.Err())
	}
}

func TestBlocksBytes(t *testing.T) {
	want := []byte{
		2, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, // layers, inputs, labels, bytes of classes
		4, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 2, 2, 2, 0, // layer 0
		3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 2, 0, 0, // layer 1
		0b01_10_01, 0b10_11_00_10, 0b00_11_01, // layer 0: counts, sources, destinations
		0b00_10, 0b10_01, // layer 1
		1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, // labels
	}
	b := twoLayers()
	b.Blocks[0].Dst = []uint32{1, 3, 0}
	if got := AppendBlocks(nil, b); !bytes.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestBlocks: the blocks are read back into memory that is reused.
func TestBlocks(t *testing.T) {
	var got graph.Batch
	rapid.Check(t, func(t *rapid.T) {
		want := genBatch(t)
		b := AppendBlocks(nil, want)
		d := binio.NewDecoder(append(slices.Clone(b), 9))
		if n := Blocks(d, &got); n != len(want.Input) || d.Err() != nil || d.Rest() != 1 {
			t.Fatalf("%d input nodes, want %d; %v, %d bytes left", n, len(want.Input), d.Err(), d.Rest())
		}
		got.Input, got.Degree = want.Input, want.Degree
		if d := cmp.Diff(want, &got, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		short := binio.NewDecoder(b[:rapid.IntRange(0, len(b)-1).Draw(t, "bytes")])
		if Blocks(short, &got); !errors.Is(short.Err(), fault.ErrCorrupt) {
			t.Fatalf("a part: %v", short.Err())
		}
	})
}

// TestBlocksDamage changes numbers of the head.
func TestBlocksDamage(t *testing.T) {
	b := twoLayers()
	b.Blocks[0].Dst = []uint32{1, 3, 0}
	whole := AppendBlocks(nil, b)
	for name, c := range map[string]struct {
		at int
		to byte
	}{
		"no layers": {0, 0}, "65 layers": {0, 65}, "other input nodes": {4, 5}, "other labels": {8, 3}, "other sources": {32, 2},
		"counts of no bits": {28, 0}, "counts of 33 bits": {28, 33}, "sources of no bits": {29, 0}, "sources of 33 bits": {29, 33},
		"destinations of 33 bits": {30, 33}, "one more edge": {24, 5}, "another count": {48, 0b01_10_10},
	} {
		bad := bytes.Clone(whole)
		bad[c.at] = c.to
		d := binio.NewDecoder(bad)
		if Blocks(d, new(graph.Batch)); !errors.Is(d.Err(), fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, d.Err())
		}
	}
}

// FuzzBlocks: whatever the bytes, blocks and a list are read or refused.
func FuzzBlocks(f *testing.F) {
	b := twoLayers()
	f.Add(AppendBlocks(nil, b), 0)
	f.Add(AppendList(nil, b.Degree, nil), 4)
	f.Add(AppendList(nil, []uint32{1000, 1 << 20, 1001, 1<<20 + 2}, []uint32{1000, 1 << 20}), 4)
	f.Fuzz(func(t *testing.T, raw []byte, n int) {
		d := binio.NewDecoder(raw)
		var got graph.Batch
		if inputs := Blocks(d, &got); d.Err() == nil && inputs < 1<<16 {
			got.Input = make([]uint32, inputs)
			_ = got.Validate()
		}
		d = binio.NewDecoder(raw)
		if n < 0 || n > 1<<16 {
			return
		}
		if list := List(d, nil, n); d.Err() == nil && len(list) != n {
			t.Errorf("%d values, want %d", len(list), n)
		}
	})
}
