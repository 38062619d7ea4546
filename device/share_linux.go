package device

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
)

// Shared is memory that another process can map: a file in memory, without a name.
type Shared struct {
	file   *os.File
	offset int64
	more   []byte
}

// Share moves whole pages of a Host, and bytes further zeroed bytes, to a file in memory. The pages keep their
// address and lose their content; the Host unmaps them. b must begin at a page; the rest of its last page belongs to it. In the file
// the further bytes follow the pages. The size of the file never changes. Another process may map it for writing, which
// CUDA asks of memory that it registers. Call Share before the memory is registered anywhere. Memory that the machine refuses is
// an error of kind fault.ErrBudget.
func Share(b []byte, bytes int) (_ *Shared, err error) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	if at%PageSize != 0 || bytes < 0 {
		return nil, fmt.Errorf("device: share %d bytes at %#x, which is no page, and %d further ones", len(b), at, bytes)
	}
	first, second := wholePages(len(b)), wholePages(bytes)
	fd, err := unix.MemfdCreate("diskgnn", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("device: create a file in memory: %w", err)
	}
	s := &Shared{file: os.NewFile(uintptr(fd), "shared memory"), offset: int64(first)}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err = unix.Ftruncate(fd, int64(first+second)); err != nil {
		return nil, fmt.Errorf("device: a file in memory of %d bytes: %w", first+second, err)
	}
	if second > 0 {
		if s.more, err = unix.Mmap(fd, int64(first), second, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			return nil, fault.New(fault.ErrBudget, "map %d bytes of shared memory: %w", second, err)
		}
		hostBytes.Add(int64(second))
	}
	if first > 0 {
		if _, _, e := unix.Syscall6(unix.SYS_MMAP, at, uintptr(first), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED, uintptr(fd), 0); e != 0 {
			return nil, fault.New(fault.ErrBudget, "map %d bytes of shared memory: %w", first, e)
		}
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return nil, fmt.Errorf("device: seal a file in memory: %w", err)
	}
	return s, nil
}

// File returns the file, which belongs to s.
func (s *Shared) File() *os.File { return s.file }

// More returns the further bytes, valid until Close, and their offset in the file.
func (s *Shared) More() (b []byte, offset int64) { return s.more, s.offset }

// Close closes the file, and unmaps the further bytes. The pages of the Host stay, and so does the memory of other
// processes. Closing again does nothing.
func (s *Shared) Close() {
	if s.more != nil {
		hostBytes.Add(-int64(len(s.more)))
		_ = unix.Munmap(s.more)
		s.more = nil
	}
	_ = s.file.Close()
}
