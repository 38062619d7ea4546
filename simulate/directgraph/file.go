package directgraph

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

const magic = "DGNNDG01" // its last byte is the version

// Graph is the graph to lay out.
type Graph struct {
	// Neighbors returns a node's neighbours. The slice must be valid until the next call.
	Neighbors func(node uint32) ([]uint32, error)
	// Vector appends a node's vector, of Shape.Feature bytes, to b.
	Vector func(b []byte, node uint32) ([]byte, error)
	// Unchanged, if not nil, is called after reading and before writing; its error ends Write.
	Unchanged func() error
}

// Write writes a graph with the layout of its degrees to a file, and makes the directories of the file. It
// holds all pages in memory: see Layout.WriteBytes.
func Write(fsys vfs.FS, name string, l *Layout, g Graph) error {
	pages, err := l.fill(g)
	if err != nil {
		return err
	}
	size := l.shape.Page
	var out bytes.Buffer
	out.Grow(size + len(pages) + 4*len(l.primary) + 4*(int(l.pages)+2))
	head := make([]byte, size)
	copy(head, magic)
	binary.LittleEndian.PutUint32(head[8:], uint32(size))
	binary.LittleEndian.PutUint32(head[12:], uint32(l.shape.Feature))
	binary.LittleEndian.PutUint64(head[16:], uint64(l.Nodes()))
	binary.LittleEndian.PutUint64(head[24:], uint64(l.pages))
	binary.LittleEndian.PutUint32(head[size-4:], binio.CRC(head[:size-4]))
	out.Write(head)
	out.Write(pages)
	addresses := binio.Bytes(l.primary)
	out.Write(addresses)
	sums := make([]uint32, 0, l.pages+1)
	for at := 0; at < len(pages); at += size {
		sums = append(sums, binio.CRC(pages[at:at+size]))
	}
	sums = append(sums, binio.CRC(addresses))
	table := binio.Bytes(sums)
	out.Write(table)
	out.Write(binary.LittleEndian.AppendUint32(nil, binio.CRC(table)))
	if g.Unchanged != nil {
		if err := g.Unchanged(); err != nil {
			return err
		}
	}
	if err := vfs.MakeParents(fsys, name); err != nil {
		return err
	}
	return vfs.WriteFile(fsys, name, out.Bytes())
}

func (l *Layout) fill(g Graph) ([]byte, error) {
	pages := make([]byte, l.pages*int64(l.shape.Page))
	ends := make([]int, l.pages) // by page: the end of its sections so far, which are placed in order
	var section []byte
	put := func(a Address) {
		at := ends[a.Page()]
		copy(pages[a.Page()*int64(l.shape.Page)+int64(at):], section)
		ends[a.Page()] = at + len(section)
	}
	for v := range l.primary {
		node := uint32(v)
		neighbors, err := g.Neighbors(node)
		if err != nil {
			return nil, err
		}
		degree := int64(len(neighbors))
		n, own := l.shape.Secondaries(degree), l.shape.own(degree)
		section = appendHeader(section[:0], l.shape.bytes(0, degree), 1, n)
		section = binary.LittleEndian.AppendUint16(section, uint16(own))
		if section, err = g.Vector(section, node); err != nil {
			return nil, err
		}
		for s := range n {
			section = binary.LittleEndian.AppendUint32(section, uint32(l.At(node, s+1)))
		}
		section = l.appendEntries(section, neighbors[:own])
		put(l.primary[v])
		rest := neighbors[own:]
		for s := range n {
			part := rest[:min(int64(len(rest)), l.shape.secondary())]
			section = appendHeader(section[:0], l.shape.bytes(s+1, degree), 2, s)
			section = l.appendEntries(section, part)
			put(l.At(node, s+1))
			rest = rest[len(part):]
		}
	}
	return pages, nil
}

func appendHeader(b []byte, size int, kind byte, n int64) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(size))
	b = append(b, kind, 0)
	return binary.LittleEndian.AppendUint16(b, uint16(n))
}

func (l *Layout) appendEntries(b []byte, neighbors []uint32) []byte {
	for _, u := range neighbors {
		b = binary.LittleEndian.AppendUint32(b, uint32(l.primary[u]))
	}
	return b
}

// File is a DirectGraph in memory, with its pages as a drive stores them.
type File struct {
	shape     Shape
	pages     []byte
	addresses []Address
}

// Open reads a whole file, and checks it. Damage is an error of kind fault.ErrCorrupt.
func Open(fsys vfs.FS, name string) (*File, error) {
	b, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	f, err := Decode(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// versions has the decoder of each version.
var versions = stage.Versions[func([]byte) (*File, error)]{1: decode}

// Decode checks the bytes of a file. The File refers to them. Damage is an error of kind fault.ErrCorrupt.
func Decode(b []byte) (*File, error) {
	if len(b) < minPage || string(b[:7]) != magic[:7] {
		return nil, corrupt("it does not begin with " + magic)
	}
	if size := binary.LittleEndian.Uint32(b[8:]); size < minPage || int(size) > len(b) {
		return nil, corrupt(fmt.Sprintf("its pages have %d bytes, not between %d and the %d bytes of the file", size, minPage, len(b)))
	} else if binio.CRC(b[:size-4]) != binary.LittleEndian.Uint32(b[size-4:]) {
		return nil, corrupt("the checksum of its first page is wrong")
	}
	decode, err := versions.Decoder(int(b[7]-'0'), "it is a DirectGraph of version %d; this program reads %s")
	if err != nil {
		return nil, err
	}
	return decode(b)
}

func corrupt(what string) error { return fault.New(fault.ErrCorrupt, "it is no DirectGraph: %s", what) }

func decode(b []byte) (*File, error) {
	f := &File{shape: Shape{Page: int(binary.LittleEndian.Uint32(b[8:])), Feature: int(binary.LittleEndian.Uint32(b[12:]))}}
	nodes, pages := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	size := uint64(f.shape.Page)
	if f.shape.Feature > MaxPage || f.shape.Check() != nil {
		return nil, corrupt(fmt.Sprintf("its pages of %d bytes have no room for a vector of %d bytes and two neighbours", f.shape.Page, f.shape.Feature))
	}
	if pages > MaxPages || nodes > pages*PageSections || uint64(len(b)) != size*(1+pages)+4*nodes+4*(pages+2) {
		return nil, corrupt(fmt.Sprintf("its %d bytes are not the size of %d pages and %d nodes", len(b), pages, nodes))
	}
	f.pages = b[size : size*(1+pages)]
	addresses, rest := b[size*(1+pages):][:4*nodes], b[size*(1+pages)+4*nodes:]
	table := rest[:4*(pages+1)]
	if binio.CRC(table) != binary.LittleEndian.Uint32(rest[len(table):]) {
		return nil, corrupt("the checksum of its checksums is wrong")
	}
	for p := range pages {
		if binio.CRC(f.pages[p*size:(p+1)*size]) != binary.LittleEndian.Uint32(table[4*p:]) {
			return nil, corrupt(fmt.Sprintf("the checksum of page %d is wrong", p))
		}
	}
	if binio.CRC(addresses) != binary.LittleEndian.Uint32(table[4*pages:]) {
		return nil, corrupt("the checksum of its addresses is wrong")
	}
	f.addresses = make([]Address, nodes)
	for v := range f.addresses {
		f.addresses[v] = Address(binary.LittleEndian.Uint32(addresses[4*v:]))
	}
	return f, nil
}

// Node reads a node as the drive does: from the address of its primary section, section by section. It
// returns the vector, which is part of the File, and the addresses of the neighbours.
func (f *File) Node(a Address) (vector []byte, neighbors []Address, err error) {
	b, n, err := f.section(a, 1)
	if err != nil {
		return nil, nil, err
	}
	if len(b) < countBytes+f.shape.Feature {
		return nil, nil, fault.New(fault.ErrCorrupt, "section %d of page %d has no room for a vector", a.Section(), a.Page())
	}
	own := int(binary.LittleEndian.Uint16(b))
	vector, b = b[countBytes:countBytes+f.shape.Feature], b[countBytes+f.shape.Feature:]
	if len(b) != EntryBytes*(n+own) {
		return nil, nil, fault.New(fault.ErrCorrupt, "section %d of page %d has %d bytes of addresses instead of %d", a.Section(), a.Page(), len(b), EntryBytes*(n+own))
	}
	places := entries(nil, b[:EntryBytes*n])
	neighbors = entries(nil, b[EntryBytes*n:])
	for i, s := range places {
		b, which, err := f.section(s, 2)
		if err != nil {
			return nil, nil, err
		}
		if which != i || len(b)%EntryBytes != 0 {
			return nil, nil, fault.New(fault.ErrCorrupt, "section %d of page %d is not secondary section %d of its node", s.Section(), s.Page(), i)
		}
		neighbors = entries(neighbors, b)
	}
	return vector, neighbors, nil
}

// section returns the body of a section of the given kind, and the number in its header.
func (f *File) section(a Address, kind byte) (b []byte, n int, err error) {
	bad := fault.New(fault.ErrCorrupt, "page %d has no %s section %d", a.Page(), [...]string{1: "primary", 2: "secondary"}[kind], a.Section())
	size := int64(f.shape.Page)
	if (a.Page()+1)*size > int64(len(f.pages)) {
		return nil, 0, bad
	}
	page := f.pages[a.Page()*size : (a.Page()+1)*size]
	for i := 0; ; i++ {
		if len(page) < headerBytes {
			return nil, 0, bad
		}
		length := int(binary.LittleEndian.Uint16(page))
		if length < headerBytes || length > len(page) {
			return nil, 0, bad
		}
		if i == a.Section() {
			if page[2] != kind || page[3] != 0 {
				return nil, 0, bad
			}
			return page[headerBytes:length], int(binary.LittleEndian.Uint16(page[4:])), nil
		}
		page = page[length:]
	}
}

func entries(to []Address, b []byte) []Address {
	for ; len(b) > 0; b = b[EntryBytes:] {
		to = append(to, Address(binary.LittleEndian.Uint32(b)))
	}
	return to
}
