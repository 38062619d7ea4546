package directgraph

import (
	"math/bits"
	"slices"

	"diskgnn/internal/fault"
)

// Address is the address of a section: its page, and its number in the page.
type Address uint32

// Limits of an address.
const (
	MaxPages     = 1 << 28
	PageSections = 16
)

// Page returns the page, from 0.
func (a Address) Page() int64 { return int64(a >> 4) }

// Section returns the number of the section in the page, from 0.
func (a Address) Section() int { return int(a & 15) }

// Layout has the addresses of the sections of a graph's nodes. It takes 4 bytes a section, and 8 more for
// each node with secondary sections. It is safe for concurrent use.
type Layout struct {
	shape   Shape
	pages   int64
	used    int64 // bytes of sections
	raw     int64
	primary []Address
	// Nodes with secondary sections, ascending.
	large     []uint32
	largeAt   []uint32 // by large node: the place of its first address in secondary
	secondary []Address
}

// New lays out nodes with the given degrees. It calls degree once for each node, in order. If a node or
// the graph does not fit the format, the error is of kind fault.ErrInput.
func New(s Shape, nodes int64, degree func(node int64) int64) (*Layout, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	l := &Layout{shape: s, primary: make([]Address, 0, nodes)}
	p := newPlacer(s.Page)
	for v := range nodes {
		d := degree(v)
		if d < 0 || d > s.MaxDegree() {
			return nil, fault.New(fault.ErrInput, "node %d has %d neighbours: DirectGraph has room for %d beside a vector of %d bytes", v, d, s.MaxDegree(), s.Feature)
		}
		l.raw += s.RawBytes(d)
		n := s.Secondaries(d)
		if n > 0 {
			l.large, l.largeAt = append(l.large, uint32(v)), append(l.largeAt, uint32(len(l.secondary)))
		}
		for section := range n + 1 {
			size := s.bytes(section, d)
			l.used += int64(size)
			a, err := p.place(size)
			if err != nil {
				return nil, err
			}
			if section == 0 {
				l.primary = append(l.primary, a)
			} else {
				l.secondary = append(l.secondary, a)
			}
		}
	}
	l.pages = p.pages
	return l, nil
}

// Nodes returns the number of nodes.
func (l *Layout) Nodes() int64 { return int64(len(l.primary)) }

// Shape returns the shape.
func (l *Layout) Shape() Shape { return l.shape }

// Inflation returns the excess of the pages' bytes over the bytes of the graph, as a fraction: 0.04 is 4
// %. See Shape.RawBytes.
func (l *Layout) Inflation() float64 {
	if l.raw == 0 {
		return 0
	}
	return float64(l.pages)*float64(l.shape.Page)/float64(l.raw) - 1
}

// At returns the address of a node's section; section 0 is the primary one.
func (l *Layout) At(node uint32, section int64) Address {
	if section == 0 {
		return l.primary[node]
	}
	i, _ := slices.BinarySearch(l.large, node)
	return l.secondary[int64(l.largeAt[i])+section-1]
}

// LayoutBytes returns the most memory that New needs for any graph with the given nodes and edges, in
// bytes: the addresses, and the list of pages with room. It includes both copies of slices that grow.
func (s Shape) LayoutBytes(nodes, edges int64) int64 {
	large := min(nodes, edges/s.primary())
	secondaries := edges/(s.secondary()-1) + large
	return 4*nodes + 9*(4*secondaries+8*large+8*(nodes+secondaries))/4 + (24*8+1)*int64(s.Page+64)/8
}

// WriteBytes returns the memory of Write without the layout, in bytes: the pages twice, as sections and as
// the file, and 12 bytes a page and 4 bytes a node.
func (l *Layout) WriteBytes() int64 {
	return l.pages*int64(2*l.shape.Page+16) + 8*l.Nodes() + int64(4*l.shape.Page)
}

// placer finds room for sections.
type placer struct {
	page  int
	pages int64
	// open has, for every number of free bytes, a stack of the pages with that room and fewer than 16
	// sections. some has a bit for each stack that is not empty.
	open [][]openPage
	some []uint64
}

type openPage struct {
	page     uint32
	sections uint8
}

func newPlacer(page int) *placer {
	return &placer{page: page, open: make([][]openPage, page+1), some: make([]uint64, page/64+1)}
}

func (p *placer) place(size int) (Address, error) {
	free := p.tightest(size)
	var at openPage
	if free < 0 {
		if p.pages == MaxPages {
			return 0, fault.New(fault.ErrInput, "the graph is beyond DirectGraph's addresses: more than %d pages of %d bytes", int64(MaxPages), p.page)
		}
		at, free = openPage{page: uint32(p.pages)}, p.page
		p.pages++
	} else {
		stack := p.open[free]
		at = stack[len(stack)-1]
		if p.open[free] = stack[:len(stack)-1]; len(stack) == 1 {
			p.some[free/64] &^= 1 << (free % 64)
		}
	}
	a := Address(at.page<<4 | uint32(at.sections))
	at.sections++
	if free -= size; at.sections < PageSections && free > headerBytes {
		p.open[free] = append(p.open[free], at)
		p.some[free/64] |= 1 << (free % 64)
	}
	return a, nil
}

// tightest returns the smallest number of free bytes of a page, at least size, or -1.
func (p *placer) tightest(size int) int {
	word := p.some[size/64] &^ (1<<(size%64) - 1)
	for i := size / 64; ; {
		if word != 0 {
			return 64*i + bits.TrailingZeros64(word)
		}
		if i++; i == len(p.some) {
			return -1
		}
		word = p.some[i]
	}
}
