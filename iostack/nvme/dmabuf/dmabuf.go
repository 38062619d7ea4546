// Package dmabuf maps memory for an NVMe drive as dma-bufs, of a GPU and of the host, without a kernel
// module for GPUs or drives. Another transport gives access to the registers, and unbinds the drive from
// the kernel's driver.
//
// It is unproven on hardware: its tests only run the driver over an imitation of the nodes' calls, made
// from their headers. Caution is the warning about this.
//
// Two nodes are needed. /dev/udmabuf is the kernel's own (CONFIG_UDMABUF); it makes a dma-buf
// of the host's memory:
//
//	40187542h  { memory file, flags, offset, bytes }: a descriptor of the dma-buf
//
// /dev/dmabuf_import belongs to a small module, dmabuf-import of uPCIe and xNVMe. It returns the addresses
// of a dma-buf for a device:
//
//	c018754bh  attach for a PCI function: { dma-buf, count of segments, the function's address }
//	c0087547h  attach for no function, in older modules
//	c0087549h  addresses: { dma-buf, count, { address, bytes } for each segment }
//	40047548h  detach: the dma-buf
//
// A GPU's memory is exported by its driver (cuMemGetHandleForAddressRange with
// CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD); MapBuffer takes the descriptor. Each dma-buf takes at least 2 MiB
// of the GPU's BAR 1: few large ones are better than many small ones.
//
// Older modules identify attachments by the number of the descriptor alone, for all processes: after a
// crash they may return addresses of another process's memory. A dma-buf of an unexpected size is refused.
// With those modules, only one process at a time may use the node.
package dmabuf

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/internal/platform"
)

// Unproven is the warning for users of the transport.
const Unproven = "the transport dmabuf is unproven on hardware: it was tested over an imitation of the kernel's calls alone"

// The device nodes that the transport needs.
const (
	Importer = "/dev/dmabuf_import"
	Exporter = "/dev/udmabuf"
)

// Calls of the nodes.
var (
	create         = platform.WriteRequest('u', 0x42, int(unsafe.Sizeof(creation{})))
	attach         = platform.ReadWriteRequest('u', 0x47, 8)
	detach         = platform.WriteRequest('u', 0x48, 4)
	addresses      = platform.ReadWriteRequest('u', 0x49, 8)
	attachFunction = platform.ReadWriteRequest('u', 0x4b, int(unsafe.Sizeof(attachment{})))
)

type creation struct {
	file, flags   uint32
	offset, bytes uint64
}

// attachment is the argument of attach and attachFunction, the former without the function.
type attachment struct {
	buffer   int32
	count    uint32
	function [16]byte
}

// segment is a range of addresses that is contiguous for the device.
type segment struct{ address, bytes uint64 }

// piece is the largest dma-buf of host memory, in bytes: the kernel's default limit is 64 MiB.
const piece = 32 << 20

// Transport reaches one drive. It implements nvme.Transport.
type Transport struct {
	nvme.Transport // of the registers
	system         platform.System
	function       string
	importer       int // descriptors
	exporter       int
	pool           *platform.Pool
	chunks         map[*nvme.Memory]chunk
	closed         bool
}

// chunk is memory of the host.
type chunk struct {
	file    int
	buffers []int
}

var _ nvme.Transport = (*Transport)(nil)

// Open makes a transport to the drive with a PCI address, such as 0000:01:00.0. registers opens the
// transport for its registers, which Close closes. It is called after both nodes were opened, so that no
// drive is taken in vain. A missing node is an error of kind fault.ErrUsage.
func Open(function string, registers func() (nvme.Transport, error)) (*Transport, error) {
	return open(platform.Kernel, function, registers)
}

func open(system platform.System, function string, registers func() (nvme.Transport, error)) (_ *Transport, err error) {
	t := &Transport{
		system: system, function: function, chunks: map[*nvme.Memory]chunk{},
	}
	if len(function) >= len(attachment{}.function) {
		return nil, fault.New(fault.ErrUsage, "dmabuf: %q is no address of a PCI function", function)
	}
	t.pool = platform.NewPool(t.Name(), source{t})
	if t.importer, err = system.Open(Importer); err != nil {
		return nil, fmt.Errorf("dmabuf: %w", platform.Refused(Importer, err, "the module dmabuf-import of uPCIe is not loaded (modprobe dmabuf_import)"))
	}
	if t.exporter, err = system.Open(Exporter); err != nil {
		err = fmt.Errorf("dmabuf: %w", platform.Refused(Exporter, err, "the kernel's udmabuf is not loaded (modprobe udmabuf)"))
		return nil, errors.Join(err, system.Close(t.importer))
	}
	if t.Transport, err = registers(); err != nil {
		return nil, errors.Join(err, system.Close(t.exporter), system.Close(t.importer))
	}
	return t, nil
}

// Name implements nvme.Transport.
func (t *Transport) Name() string { return "dmabuf:" + t.function }

// Caution returns Unproven; see nvme.Caution.
func (t *Transport) Caution() string { return Unproven }

// Registers returns the memory of BAR 0 that the other transport has mapped, nil if it has none.
func (t *Transport) Registers() []byte {
	if m, ok := t.Transport.(interface{ Registers() []byte }); ok {
		return m.Registers()
	}
	return nil
}

// Mapped returns the number of bytes of registers that the other transport reaches.
func (t *Transport) Mapped() int {
	if m, ok := t.Transport.(interface{ Mapped() int }); ok {
		return m.Mapped()
	}
	return math.MaxInt
}

// Alloc implements nvme.Transport. It takes huge pages, 2 MiB at a time.
func (t *Transport) Alloc(n int) (*nvme.Memory, error) {
	if t.closed {
		return nil, nvme.ErrClosed
	}
	return t.pool.Alloc(n)
}

// Map implements nvme.Transport. It fails: only dma-bufs can be mapped.
func (t *Transport) Map([]byte) (*nvme.Memory, error) {
	return nil, fmt.Errorf("%w: %s maps dma-bufs only", nvme.ErrNoMapping, t.Name())
}

// MapBuffer maps a dma-buf of n bytes, such as a GPU's memory, for the drive. buffer is its descriptor,
// which stays the caller's. The host cannot access the memory: Bytes of the result is nil. Free unmaps it,
// and must come before the memory is freed.
func (t *Transport) MapBuffer(buffer int, n int64) (*nvme.Memory, error) {
	if t.closed {
		return nil, nvme.ErrClosed
	}
	if n <= 0 || n%nvme.Page != 0 {
		return nil, fmt.Errorf("%w: %d bytes are not whole pages", nvme.ErrNoMapping, n)
	}
	own, err := t.system.Duplicate(buffer) // the module uses its number until it is detached
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name(), err)
	}
	pages, err := t.visible(own, uint64(n))
	if err != nil {
		return nil, errors.Join(err, t.system.Close(own))
	}
	m := &nvme.Memory{Pages: pages}
	t.pool.Keep(m, func() error { return t.hidden(own) })
	return m, nil
}

// Free implements nvme.Transport.
func (t *Transport) Free(m *nvme.Memory) error { return t.pool.Give(m) }

// Close implements nvme.Transport.
func (t *Transport) Close() error {
	if t.closed {
		return nil
	}
	t.closed = true
	return errors.Join(t.pool.Close(), t.system.Close(t.exporter), t.system.Close(t.importer), t.Transport.Close())
}

// Abandon implements nvme.Transport: dma-bufs stay attached.
func (t *Transport) Abandon() error {
	if t.closed {
		return nil
	}
	t.closed = true
	return t.Transport.Abandon()
}

// visible attaches a dma-buf of n bytes, and returns the drive's addresses of its pages.
func (t *Transport) visible(buffer int, n uint64) ([]uint64, error) {
	a := &attachment{buffer: int32(buffer)}
	copy(a.function[:], t.function)
	_, err := t.system.Control(t.importer, attachFunction, unsafe.Pointer(a))
	if errors.Is(err, unix.ENOTTY) {
		_, err = t.system.Control(t.importer, attach, unsafe.Pointer(a))
	}
	switch {
	case errors.Is(err, unix.EMFILE):
		return nil, fault.New(fault.ErrUsage, "%s: attach a dma-buf: %w: the GPU's BAR 1 may be full, or too many files are open (ulimit -n)", t.Name(), err)
	case err != nil:
		return nil, fmt.Errorf("%s: attach a dma-buf of %d bytes: %w", t.Name(), n, err)
	}
	pages, err := t.pages(buffer, a.count, n)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", t.Name(), err), t.detach(buffer))
	}
	return pages, nil
}

// pages returns the addresses of an attached dma-buf's pages.
func (t *Transport) pages(buffer int, count uint32, n uint64) (pages []uint64, err error) {
	if uint64(count) > n/nvme.Page {
		return nil, fmt.Errorf("%w: a dma-buf of %d bytes cannot have %d segments of whole pages", nvme.ErrUnsupported, n, count)
	}
	answer := make([]segment, count+1) // the first holds dma-buf and count, in its last bytes
	head := &answer[0].bytes
	*(*[2]uint32)(unsafe.Pointer(head)) = [2]uint32{uint32(buffer), count}
	if _, err := t.system.Control(t.importer, addresses, unsafe.Pointer(head)); err != nil {
		return nil, fmt.Errorf("the addresses of a dma-buf: %w", err)
	}
	total := uint64(0)
	for _, s := range answer[1:] {
		if s.address%nvme.Page != 0 || s.bytes%nvme.Page != 0 || s.bytes > n-total {
			return nil, fmt.Errorf("%w: the segment of %d bytes at %xh does not fit a dma-buf of %d bytes in whole pages", nvme.ErrUnsupported, s.bytes, s.address, n)
		}
		for at := uint64(0); at < s.bytes; at += nvme.Page {
			pages = append(pages, s.address+at)
		}
		total += s.bytes
	}
	if total != n {
		return nil, fmt.Errorf("%w: the segments have %d bytes, but the dma-buf has %d", nvme.ErrUnsupported, total, n)
	}
	return pages, nil
}

func (t *Transport) detach(buffer int) error {
	number := int32(buffer)
	if _, err := t.system.Control(t.importer, detach, unsafe.Pointer(&number)); err != nil {
		return fmt.Errorf("%s: detach a dma-buf: %w", t.Name(), err)
	}
	return nil
}

// hidden detaches and closes a dma-buf.
func (t *Transport) hidden(buffer int) error {
	if err := t.detach(buffer); err != nil {
		return err // the drive may still write there
	}
	return t.system.Close(buffer)
}

// source makes the memory that Alloc cuts: a file in memory, and dma-bufs of its pieces.
type source struct{ t *Transport }

func (s source) Grow(n int) (_ *nvme.Memory, err error) {
	t := s.t
	c := chunk{}
	if c.file, err = t.system.Memory(n); err != nil {
		return nil, needHuge(err)
	}
	m := &nvme.Memory{}
	if m.Bytes, err = t.system.Map(c.file, n); err != nil {
		return nil, errors.Join(needHuge(err), t.system.Close(c.file))
	}
	clear(m.Bytes) // pages are there from now on
	for from := 0; from < n && err == nil; from += piece {
		bytes := min(piece, n-from)
		var buffer int
		if buffer, err = t.system.Control(t.exporter, create, unsafe.Pointer(&creation{file: uint32(c.file), flags: 1, offset: uint64(from), bytes: uint64(bytes)})); err != nil {
			err = fmt.Errorf("make a dma-buf of %d bytes: %w", bytes, err)
			break
		}
		var pages []uint64
		if pages, err = t.visible(buffer, uint64(bytes)); err != nil {
			err = errors.Join(err, t.system.Close(buffer))
			break
		}
		c.buffers = append(c.buffers, buffer)
		m.Pages = append(m.Pages, pages...)
	}
	t.chunks[m] = c
	for i, page := range m.Pages {
		if i*nvme.Page%nvme.Contiguous != 0 && page != m.Pages[i-1]+nvme.Page {
			err = fmt.Errorf("%w: huge pages are not contiguous for the drive", nvme.ErrUnsupported)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Shrink(m))
	}
	return m, nil
}

func needHuge(err error) error {
	return fault.New(fault.ErrUsage, "huge pages of 2 MiB are needed: sysctl vm.nr_hugepages=64 sets some aside (%w)", err)
}

func (s source) Shrink(m *nvme.Memory) error {
	c := s.t.chunks[m]
	delete(s.t.chunks, m)
	for _, buffer := range c.buffers {
		if err := s.t.hidden(buffer); err != nil {
			return err
		}
	}
	return errors.Join(s.t.system.Unmap(m.Bytes), s.t.system.Close(c.file))
}
