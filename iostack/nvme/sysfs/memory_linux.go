package sysfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
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

// memory allocates huge pages with known physical addresses: it is the source of a pool. The kernel does
// not swap or compact them; only taking memory offline could move them. They belong to an unnamed file,
// which another process may hold.
type memory struct {
	file   *os.File
	length int64                  // of the file
	offset map[*nvme.Memory]int64 // of chunks
	frame  func(at uintptr) (uint64, error)
}

// newMemory makes the file. frame returns the physical address of a virtual one.
func newMemory(flags int, frame func(uintptr) (uint64, error)) (*memory, error) {
	fd, err := unix.MemfdCreate("diskgnn-nvme", unix.MFD_CLOEXEC|flags)
	if err != nil {
		return nil, fmt.Errorf("a file of huge pages: %w", err)
	}
	return &memory{file: os.NewFile(uintptr(fd), "diskgnn-nvme"), offset: map[*nvme.Memory]int64{}, frame: frame}, nil
}

// Grow implements platform.Source: it maps new huge pages.
func (m *memory) Grow(n int) (*nvme.Memory, error) {
	if err := unix.Ftruncate(int(m.file.Fd()), m.length+int64(n)); err != nil {
		return nil, err
	}
	b, err := unix.Mmap(int(m.file.Fd()), m.length, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fault.New(fault.ErrBudget, "%d huge pages of 2 MiB: %v; raise vm.nr_hugepages", n/huge, err)
	}
	chunk := &nvme.Memory{Bytes: b}
	m.offset[chunk] = m.length
	m.length += int64(n)
	for at := 0; at < n; at += huge {
		clear(b[at : at+1]) // it is there, now at the latest
		base, err := m.frame(uintptr(unsafe.Pointer(&b[at])))
		if err != nil {
			return nil, errors.Join(err, m.Shrink(chunk))
		}
		for i := range uint64(inOne) {
			chunk.Pages = append(chunk.Pages, base+i*nvme.Page)
		}
	}
	return chunk, nil
}

// Shrink implements platform.Source: it frees the huge pages.
func (m *memory) Shrink(chunk *nvme.Memory) error {
	at, n := m.offset[chunk], int64(len(chunk.Bytes))
	delete(m.offset, chunk)
	return errors.Join(unix.Munmap(chunk.Bytes), unix.Fallocate(int(m.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n))
}

// present marks an entry of /proc/self/pagemap for a page in memory; the bits below frames are the
// number of its frame.
const (
	present = 1 << 63
	frames  = 1<<55 - 1
)

// physical returns the physical address of a huge page, given its virtual address.
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

// frameOf returns the physical address in an entry of pagemap.
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
