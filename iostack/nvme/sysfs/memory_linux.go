package sysfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
	"diskgnn/iostack/nvme"
)

// huge is the size of a huge page in bytes, and the number of pages in it.
const (
	huge  = nvme.Contiguous
	inOne = huge / nvme.Page
)

// pool is memory of huge pages whose physical addresses are known. The kernel does not swap
// or compact them; what could still move them is taking memory offline. They are of a file
// without a name, which another process may hold.
type pool struct {
	file   *os.File
	length int64 // of the file
	frame  func(at uintptr) (uint64, error)
	shared []*chunk // huge pages of which parts are given
	given  map[*nvme.Memory]piece
}

// chunk is a huge page, of which pages are given.
type chunk struct {
	b    []byte
	base uint64
	used [inOne]bool
}

// piece is where memory came from.
type piece struct {
	of     *chunk // nil: mapped for it alone
	first  int    // page of the chunk
	offset int64  // of the file
}

// newPool makes a pool. frame returns the physical address of a virtual one.
func newPool(flags int, frame func(uintptr) (uint64, error)) (*pool, error) {
	fd, err := unix.MemfdCreate("diskgnn-nvme", unix.MFD_CLOEXEC|flags)
	if err != nil {
		return nil, fmt.Errorf("a file of huge pages: %w", err)
	}
	return &pool{file: os.NewFile(uintptr(fd), "diskgnn-nvme"), frame: frame, given: map[*nvme.Memory]piece{}}, nil
}

// chunks maps n new huge pages, zeroed, and returns their physical addresses.
func (p *pool) chunks(n int) (b []byte, bases []uint64, err error) {
	if err := unix.Ftruncate(int(p.file.Fd()), p.length+int64(n)*huge); err != nil {
		return nil, nil, err
	}
	b, err = unix.Mmap(int(p.file.Fd()), p.length, n*huge, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, nil, fault.New(fault.ErrBudget, "%d huge pages of 2 MiB: %v; raise vm.nr_hugepages", n, err)
	}
	p.length += int64(n) * huge
	for i := range n {
		clear(b[i*huge : i*huge+1]) // it is there, now at the latest
		base, err := p.frame(uintptr(unsafe.Pointer(&b[i*huge])))
		if err != nil {
			return nil, nil, errors.Join(err, unix.Munmap(b))
		}
		bases = append(bases, base)
	}
	return b, bases, nil
}

// alloc gives memory of at least n bytes. Up to a huge page is contiguous, and shares one.
func (p *pool) alloc(n int) (*nvme.Memory, error) {
	pages := (max(n, 1) + nvme.Page - 1) / nvme.Page
	if pages > inOne {
		return p.large((pages + inOne - 1) / inOne)
	}
	for _, c := range p.shared {
		if first := c.free(pages); first >= 0 {
			return p.part(c, first, pages), nil
		}
	}
	b, bases, err := p.chunks(1)
	if err != nil {
		return nil, err
	}
	c := &chunk{b: b, base: bases[0]}
	p.shared = append(p.shared, c)
	return p.part(c, 0, pages), nil
}

// free returns where so many pages in a row are free, or -1.
func (c *chunk) free(pages int) int {
	for first := 0; first+pages <= inOne; first++ {
		if !slices.Contains(c.used[first:first+pages], true) {
			return first
		}
	}
	return -1
}

// part gives pages of a chunk, zeroed.
func (p *pool) part(c *chunk, first, pages int) *nvme.Memory {
	m := &nvme.Memory{Bytes: c.b[first*nvme.Page : (first+pages)*nvme.Page]}
	clear(m.Bytes)
	for i := range pages {
		c.used[first+i] = true
		m.Pages = append(m.Pages, c.base+uint64(first+i)*nvme.Page)
	}
	p.given[m] = piece{of: c, first: first}
	return m
}

// large gives whole huge pages.
func (p *pool) large(n int) (*nvme.Memory, error) {
	offset := p.length
	b, bases, err := p.chunks(n)
	if err != nil {
		return nil, err
	}
	m := &nvme.Memory{Bytes: b}
	for _, base := range bases {
		for i := range uint64(inOne) {
			m.Pages = append(m.Pages, base+i*nvme.Page)
		}
	}
	p.given[m] = piece{offset: offset}
	return m, nil
}

// release takes memory back.
func (p *pool) release(m *nvme.Memory) error {
	from, known := p.given[m]
	if !known {
		return errors.New("free memory that was not given")
	}
	delete(p.given, m)
	if from.of != nil {
		for i := range m.Pages {
			from.of.used[from.first+i] = false
		}
		return nil
	}
	n := int64(len(m.Bytes))
	err := unix.Munmap(m.Bytes)
	return errors.Join(err, unix.Fallocate(int(p.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from.offset, n))
}

// close takes all memory back.
func (p *pool) close() error {
	var err error
	for m, from := range p.given {
		if from.of == nil {
			err = errors.Join(err, unix.Munmap(m.Bytes))
		}
	}
	for _, c := range p.shared {
		err = errors.Join(err, unix.Munmap(c.b))
	}
	p.given, p.shared = nil, nil
	return errors.Join(err, p.file.Close())
}

// present marks an entry of /proc/self/pagemap whose page is in memory; the bits below frames
// are the number of its frame.
const (
	present = 1 << 63
	frames  = 1<<55 - 1
)

// physical returns the physical address of a virtual one that begins a huge page.
func (t tree) physical(at uintptr) (uint64, error) {
	f, err := os.Open(t.path("/proc/self/pagemap"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var b [8]byte
	if _, err := f.ReadAt(b[:], int64(at/nvme.Page)*8); err != nil {
		return 0, fmt.Errorf("read the physical address of memory: %w", err)
	}
	return frameOf(binary.LittleEndian.Uint64(b[:]))
}

// frameOf returns the physical address that an entry of pagemap has.
func frameOf(entry uint64) (uint64, error) {
	switch number := entry & frames; {
	case entry&present == 0:
		return 0, errors.New("memory for the drive has no physical page")
	case number == 0: // hidden from those who may not see it
		return 0, fault.New(fault.ErrUsage, "the physical addresses of memory are hidden; root sees them (CAP_SYS_ADMIN)")
	case number%inOne != 0:
		return 0, errors.New("memory for the drive is not of huge pages")
	default:
		return number * nvme.Page, nil
	}
}
