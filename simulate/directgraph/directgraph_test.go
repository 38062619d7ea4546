package directgraph

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// The figures of a page of 4096 bytes with vectors of 400, by hand.
func TestShape(t *testing.T) {
	s := Shape{Page: 4096, Feature: 400}
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"entries of a primary section", s.primary(), (4096 - 8 - 400) / 4},
		{"entries of a secondary section", s.secondary(), 1022},
		{"secondaries of 922 neighbours", s.Secondaries(922), 0},
		{"secondaries of 923", s.Secondaries(923), 1},
		{"secondaries of 922 + 1021", s.Secondaries(922 + 1021), 1},
		{"secondaries of one more", s.Secondaries(922 + 1022), 2},
		{"own entries of 923", s.own(923), 921},
		{"section of slot 920 of 923", s.Section(920, 923), 0},
		{"section of slot 921 of 923", s.Section(921, 923), 1},
		{"section of the last slot of 1944", s.Section(1943, 1944), 2},
		{"bytes of a node with 300", int64(s.bytes(0, 300)), 8 + 400 + 1200},
		{"bytes of the primary of 923", int64(s.bytes(0, 923)), 8 + 400 + 4*922},
		{"bytes of its secondary", int64(s.bytes(1, 923)), 6 + 4*2},
		{"raw bytes of 300", s.RawBytes(300), 4 + 1200 + 400},
		{"the largest degree", s.MaxDegree(), 1 + 921*1022},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
	if s.Secondaries(s.MaxDegree()) != 921 || s.own(s.MaxDegree()) != 1 {
		t.Error("the largest degree leaves no entry in the primary section")
	}
	for _, s := range []Shape{{Page: 4096, Feature: 4081}, {Page: 63}, {Page: MaxPage + 1}, {Page: 4096, Feature: -1}} {
		if !errors.Is(s.Check(), fault.ErrInput) {
			t.Errorf("%+v is accepted", s)
		}
	}
	// The deck's example: 500 M nodes with 100 neighbours and 200 numbers of 16 bits.
	deck := Shape{Page: 4096, Feature: 400}
	if vectors, lists := 500_000_000*int64(deck.Feature), 500_000_000*100*int64(EntryBytes)*2; vectors != 200e9 || lists != 400e9 {
		t.Errorf("vectors %d, lists %d", vectors, lists)
	}
}

// Sections go into the tightest page, and a page is full with sixteen.
func TestLayout(t *testing.T) {
	// Vectors of 8 bytes in pages of 64: a node of degree d has 16 + 4d bytes, up to 12 entries.
	degrees := []int64{6, 4, 1, 13, 0, 3}
	l, err := New(Shape{Page: 64, Feature: 8}, 6, func(v int64) int64 { return degrees[v] })
	if err != nil {
		t.Fatal(err)
	}
	// 40 bytes in page 0, 24 left; 32 in page 1, 32 left; 20 go to page 0, 4 left, which no
	// section needs; node 3 has 64 in page 2 (11 own, 1 address) and 6 + 4·2 = 14 in page 1,
	// 18 left; 16 go there too; 28 in page 3.
	want := []Address{0 << 4, 1 << 4, 0<<4 | 1, 2 << 4, 1<<4 | 2, 3 << 4}
	if !slices.Equal(l.primary, want) || l.At(3, 1) != 1<<4|1 || l.Pages() != 4 {
		t.Errorf("nodes at %v, node 3 goes on at %#x; %d pages", l.primary, l.At(3, 1), l.Pages())
	}
	raw := int64(6*(4+8) + 4*(6+4+1+13+0+3))
	if got, want := l.Inflation(), 4*64/float64(raw)-1; got != want {
		t.Errorf("inflation %v, want %v", got, want)
	}
	sixteen, err := New(Shape{Page: 4096}, 17, func(int64) int64 { return 0 })
	if err != nil || sixteen.Pages() != 2 || sixteen.primary[15] != 15 || sixteen.primary[16] != 1<<4 {
		t.Errorf("17 small nodes lie at %v: %v", sixteen.primary, err)
	}
	if _, err := New(Shape{Page: 64, Feature: 8}, 1, func(int64) int64 { return 1 << 20 }); !errors.Is(err, fault.ErrInput) {
		t.Errorf("a node of 2^20 neighbours: %v", err)
	}
	p := newPlacer(64)
	p.pages = MaxPages
	if _, err := p.place(64); !errors.Is(err, fault.ErrInput) {
		t.Errorf("beyond the address space: %v", err)
	}
}

// What New and Write hold is not more than was said before.
func TestBytes(t *testing.T) {
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const nodes = 20_000
	for what, degree := range map[string]func(v int64) int64{
		"half a page each, then what fills them": func(v int64) int64 { return []int64{7, 1}[v/(nodes/2)] },
		"nothing but secondaries":                func(int64) int64 { return 130 },
		"all sizes":                              func(v int64) int64 { return v * 7919 % 140 },
		"none":                                   func(int64) int64 { return 0 },
	} {
		s := Shape{Page: 64, Feature: 8}
		edges := int64(0)
		for v := range int64(nodes) {
			edges += degree(v)
		}
		before := live()
		var held int64
		l, err := New(s, nodes, func(v int64) int64 {
			if v == nodes-1 {
				held = live() - before
			}
			return degree(v)
		})
		if err != nil {
			t.Fatal(err)
		}
		if most := s.LayoutBytes(nodes, edges); held > most {
			t.Errorf("%s: %d bytes are held, %d were said", what, held, most)
		}
		held = 0
		before = live()
		name := filepath.Join(t.TempDir(), "graph")
		if err := Write(writes{vfs.OS, func() { held = live() - before }}, name, l, Graph{
			Neighbors: func(v uint32) ([]uint32, error) { return make([]uint32, degree(int64(v))), nil },
			Vector:    func(b []byte, v uint32) ([]byte, error) { return append(b, make([]byte, 8)...), nil },
		}); err != nil {
			t.Fatal(err)
		}
		if most := l.WriteBytes(); held > most || held < most/3 { // Write has done with the sections
			t.Errorf("%s: writing holds %d bytes, %d were said", what, held, most)
		}
	}
}

// writes tells when a file is made.
type writes struct {
	vfs.FS
	made func()
}

func (w writes) Create(name string) (vfs.File, error) {
	w.made()
	return w.FS.Create(name)
}

// What is written is read back from the addresses alone, for any graph; and no two sections
// share a byte.
func TestRoundTrip(t *testing.T) {
	name := filepath.Join(t.TempDir(), "graph.directgraph")
	rapid.Check(t, func(t *rapid.T) {
		s := Shape{Page: rapid.SampledFrom([]int{64, 128, 512}).Draw(t, "page"), Feature: rapid.IntRange(0, 40).Draw(t, "feature")}
		nodes := rapid.IntRange(1, 60).Draw(t, "nodes")
		graph := make([][]uint32, nodes)
		for v := range graph {
			most := int(min(s.MaxDegree(), 90))
			graph[v] = rapid.SliceOfN(rapid.Uint32Range(0, uint32(nodes-1)), 0, most).Draw(t, "neighbours")
		}
		vector := func(b []byte, v uint32) ([]byte, error) {
			for i := range s.Feature {
				b = append(b, byte(int(v)*7+i))
			}
			return b, nil
		}
		l, err := New(s, int64(nodes), func(v int64) int64 { return int64(len(graph[v])) })
		if err != nil {
			t.Fatal(err)
		}
		if err := Write(vfs.OS, name, l, Graph{Neighbors: func(v uint32) ([]uint32, error) { return graph[v], nil }, Vector: vector}); err != nil {
			t.Fatal(err)
		}
		f, err := Open(vfs.OS, name)
		if err != nil {
			t.Fatal(err)
		}
		if f.Nodes() != nodes || int64(len(f.pages)) != l.Pages()*int64(s.Page) {
			t.Fatalf("%d nodes, %d bytes of pages", f.Nodes(), len(f.pages))
		}
		nodeAt := map[Address]uint32{}
		for v := range graph {
			nodeAt[f.Address(uint32(v))] = uint32(v)
		}
		for v := range graph {
			got, neighbors, err := f.Node(f.Address(uint32(v)))
			if err != nil {
				t.Fatal(err)
			}
			want, _ := vector(nil, uint32(v))
			if !bytes.Equal(got, want) {
				t.Fatalf("node %d has the vector %v, want %v", v, got, want)
			}
			var ids []uint32
			for slot, a := range neighbors {
				ids = append(ids, nodeAt[a])
				// The section that Section names has the slot's entry.
				at := l.At(uint32(v), s.Section(int64(slot), int64(len(neighbors))))
				b, _, err := f.section(at, map[bool]byte{true: 1, false: 2}[at == f.Address(uint32(v))])
				if err != nil || !bytes.Contains(b, binary.LittleEndian.AppendUint32(nil, uint32(a))) {
					t.Fatalf("slot %d of node %d is not in its section: %v", slot, v, err)
				}
			}
			if !slices.Equal(ids, graph[v]) {
				t.Fatalf("node %d has the neighbours %v, want %v", v, ids, graph[v])
			}
		}
	})
}

// Every flipped byte and every cut is found.
func TestDamage(t *testing.T) {
	name := filepath.Join(t.TempDir(), "graph.directgraph")
	l, err := New(Shape{Page: 64, Feature: 8}, 3, func(v int64) int64 { return v * 8 })
	if err != nil {
		t.Fatal(err)
	}
	g := Graph{
		Neighbors: func(v uint32) ([]uint32, error) { return make([]uint32, v*8), nil },
		Vector:    func(b []byte, v uint32) ([]byte, error) { return append(b, make([]byte, 8)...), nil },
	}
	if err := Write(vfs.OS, name, l, g); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		bad := slices.Clone(b)
		bad[i] ^= 1
		if _, err := Decode(bad); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("byte %d is changed: %v", i, err)
		}
		if _, err := Decode(b[:i]); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
}

// A node whose sections are not what they say is refused, wherever it lies.
func TestDamagedNode(t *testing.T) {
	// Pages of 64 bytes, vectors of 8: 11 own entries and one secondary, whose address is at 16.
	l, err := New(Shape{Page: 64, Feature: 8}, 1, func(int64) int64 { return 13 })
	if err != nil {
		t.Fatal(err)
	}
	pages, err := l.fill(Graph{
		Neighbors: func(uint32) ([]uint32, error) { return make([]uint32, 13), nil },
		Vector:    func(b []byte, _ uint32) ([]byte, error) { return append(b, make([]byte, 8)...), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func(pages []byte, a Address) error {
		vector, neighbors, err := (&File{shape: l.Shape(), pages: pages}).Node(a)
		if err != nil && (vector != nil || neighbors != nil) {
			t.Errorf("%v, and yet %v %v", err, vector, neighbors)
		}
		return err
	}
	if err := read(pages, 0); err != nil || len(pages) != 128 {
		t.Fatalf("%d bytes of pages: %v", len(pages), err)
	}
	for what, c := range map[string]struct {
		at    int
		value byte
		want  string
	}{
		"no room for a header":              {0, 5, "page 0 has no primary section 0"},
		"beyond its page":                   {0, 65, "page 0 has no primary section 0"},
		"no room for a vector":              {0, 15, "no room for a vector"},
		"a secondary":                       {2, 2, "page 0 has no primary section 0"},
		"of another version":                {3, 1, "page 0 has no primary section 0"},
		"more secondaries than there are":   {4, 2, "has 48 bytes of addresses instead of 52"},
		"fewer entries than it says":        {6, 12, "has 48 bytes of addresses instead of 52"},
		"its secondary on no page":          {16, 2 << 4, "page 2 has no secondary section 0"},
		"its secondary no section":          {16, 1<<4 | 1, "page 1 has no secondary section 1"},
		"its secondary the primary":         {16, 0, "page 0 has no secondary section 0"},
		"another's secondary":               {64 + 4, 1, "is not secondary section 0 of its node"},
		"a secondary of half an entry":      {64, 13, "is not secondary section 0 of its node"},
		"a secondary without a header":      {64, 5, "page 1 has no secondary section 0"},
		"a secondary that is a primary now": {64 + 2, 1, "page 1 has no secondary section 0"},
	} {
		bad := slices.Clone(pages)
		bad[c.at] = c.value
		if err := read(bad, 0); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	for _, a := range []Address{1, 15, 2 << 4, 1 << 31} { // after 60 bytes there is no room for a header
		if err := read(pages, a); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("address %#x: %v", a, err)
		}
	}
	// A section that ends its page is the last.
	full := slices.Concat(pages[:58], make([]byte, 6), pages[64:])
	full[0] = 58
	if err := read(full, 1); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a header of zeros: %v", err)
	}
}

// What cannot be read, and what no vector is given for, is an error that says so.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(vfs.OS, filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	name := filepath.Join(dir, "other")
	if err := os.WriteFile(name, make([]byte, 100), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(vfs.OS, name); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
		t.Errorf("another file: %v", err)
	}
	l, err := New(Shape{Page: 64, Feature: 8}, 1, func(int64) int64 { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	lost := errors.New("lost")
	err = Write(vfs.OS, filepath.Join(dir, "new"), l, Graph{
		Neighbors: func(uint32) ([]uint32, error) { return make([]uint32, 1), nil },
		Vector:    func(b []byte, _ uint32) ([]byte, error) { return nil, lost },
	})
	if _, found := os.Stat(filepath.Join(dir, "new")); !errors.Is(err, lost) || found == nil {
		t.Errorf("no vector: %v, %v", err, found)
	}
}

// FuzzNode reads nodes of pages that anybody may have written: checksums are made right.
func FuzzNode(f *testing.F) {
	f.Add(make([]byte, 128), uint32(0))
	f.Add([]byte{20, 0, 1, 0, 0, 0, 1, 0}, uint32(0))
	f.Add([]byte{20, 0, 1, 0, 1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 0, 10, 0, 2, 0, 0, 0, 0, 0, 0, 0}, uint32(0))
	f.Fuzz(func(t *testing.T, pages []byte, a uint32) {
		pages = pages[:len(pages)/64*64]
		g := &File{shape: Shape{Page: 64, Feature: 8}, pages: pages}
		vector, _, err := g.Node(Address(a))
		if err == nil && len(vector) != 8 || err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%d bytes: %v", len(vector), err)
		}
		if len(pages) < 128 {
			return
		}
		copy(pages, magic)
		binary.LittleEndian.PutUint32(pages[60:], binio.CRC(pages[:60]))
		if _, err := Decode(pages); err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Error(err)
		}
	})
}

// Address returns where a node's primary section is.
func (f *File) Address(node uint32) Address { return f.addresses[node] }

// Nodes returns the number of nodes.
func (f *File) Nodes() int { return len(f.addresses) }

// Pages returns the number of pages.
func (l *Layout) Pages() int64 { return l.pages }
