package platform

import (
	"errors"
	"fmt"

	"diskgnn/iostack/nvme"
)

// Source allocates and frees chunks of a Pool.
type Source interface {
	// Grow returns zeroed memory of n bytes, a multiple of nvme.Contiguous. Each range of nvme.Contiguous
	// bytes is contiguous for the controller.
	Grow(n int) (*nvme.Memory, error)
	// Shrink frees memory of Grow.
	Shrink(m *nvme.Memory) error
}

// Pool allocates whole pages of memory for a transport, from chunks of contiguous pages: a huge page has
// room for the rings of many queues, and a kernel module maps a chunk at a time. It also keeps a
// transport's other mappings until they are freed. It is for one goroutine at a time.
type Pool struct {
	source Source
	owner  string
	chunks []*chunk
	taken  map[*nvme.Memory]place
	kept   map[*nvme.Memory]func() error
}

// chunk has nvme.Contiguous bytes, or more for one allocation.
type chunk struct {
	memory *nvme.Memory
	used   []bool // pages
}

type place struct {
	c     *chunk
	first int // page
}

// NewPool returns an empty pool with chunks of s. owner is the transport's name, for errors.
func NewPool(owner string, s Source) *Pool {
	return &Pool{source: s, owner: owner, taken: map[*nvme.Memory]place{}, kept: map[*nvme.Memory]func() error{}}
}

// Alloc is Take with the owner in its error.
func (p *Pool) Alloc(n int) (*nvme.Memory, error) {
	m, err := p.Take(n)
	if err != nil {
		return nil, fmt.Errorf("memory of %d bytes for %s: %w", n, p.owner, err)
	}
	return m, nil
}

// Take returns zeroed memory of at least n bytes, in whole pages; see nvme.Transport's Alloc. Give frees
// it.
func (p *Pool) Take(n int) (*nvme.Memory, error) {
	if n <= 0 {
		return nil, fmt.Errorf("memory of %d bytes: the size must be positive", n)
	}
	pages := (n + nvme.Page - 1) / nvme.Page
	for _, c := range p.chunks {
		if first := c.find(pages); first >= 0 {
			return p.cut(c, first, pages), nil
		}
	}
	m, err := p.source.Grow((n + nvme.Contiguous - 1) / nvme.Contiguous * nvme.Contiguous)
	if err != nil {
		return nil, err
	}
	c := &chunk{memory: m, used: make([]bool, len(m.Pages))}
	p.chunks = append(p.chunks, c)
	return p.cut(c, 0, pages), nil
}

// find returns the first of the given number of contiguous free pages of one chunk, -1 if it has
// none.
func (c *chunk) find(pages int) int {
	if len(c.used) > nvme.Contiguous/nvme.Page {
		return -1
	}
	free := 0
	for i, used := range c.used {
		if free++; used {
			free = 0
		}
		if free == pages {
			return i + 1 - pages
		}
	}
	return -1
}

func (p *Pool) cut(c *chunk, first, pages int) *nvme.Memory {
	for i := range pages {
		c.used[first+i] = true
	}
	from, to := first*nvme.Page, (first+pages)*nvme.Page
	m := &nvme.Memory{Bytes: c.memory.Bytes[from:to:to], Pages: c.memory.Pages[first : first+pages : first+pages]}
	clear(m.Bytes)
	p.taken[m] = place{c, first}
	return m
}

// Keep adds other memory of the transport. Give and Close call back to free it.
func (p *Pool) Keep(m *nvme.Memory, back func() error) { p.kept[m] = back }

// Give frees memory of Take or Keep; other memory is an error. A chunk larger than nvme.Contiguous goes
// back to the source; other chunks stay in the pool.
func (p *Pool) Give(m *nvme.Memory) error {
	if back, kept := p.kept[m]; kept {
		delete(p.kept, m)
		return back()
	}
	at, known := p.taken[m]
	if !known {
		return fmt.Errorf("cannot free memory that %s did not allocate", p.owner)
	}
	delete(p.taken, m)
	for i := range m.Pages {
		at.c.used[at.first+i] = false
	}
	if len(at.c.used) > nvme.Contiguous/nvme.Page {
		for i, c := range p.chunks {
			if c == at.c {
				p.chunks = append(p.chunks[:i], p.chunks[i+1:]...)
				break
			}
		}
		return p.source.Shrink(at.c.memory)
	}
	return nil
}

// Close frees all memory of Take and Keep.
func (p *Pool) Close() error {
	var errs []error
	for _, c := range p.chunks {
		errs = append(errs, p.source.Shrink(c.memory))
	}
	for _, back := range p.kept {
		errs = append(errs, back())
	}
	p.chunks = nil
	clear(p.taken)
	clear(p.kept)
	return errors.Join(errs...)
}
