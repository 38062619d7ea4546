// Package libnvm reaches NVMe drives through the kernel module of BaM, which GIDS and Hyperion
// use too: a node /dev/libnvm0, /dev/libnvm1, … for each drive that is not bound to the
// kernel's driver.
//
// It is unproven on hardware: its tests only run the driver over an imitation of the module's calls, made
// from the module's source. Caution is the warning about this.
//
// The module maps registers, and maps memory for the drive; the driver makes the queues. Its calls:
//
//	mmap, offset 0   registers (BAR 0), uncached
//	40188001h        map host memory:   { start, pages of 4 KiB, where their addresses go }
//	40188002h        map a GPU's:       the same, pages of 64 KiB
//	40088003h        unmap the memory that begins at an address
//
// Its peculiarities, and their treatment here:
//
//   - It unmaps a mapping only for the thread that made it: all calls come from one thread.
//   - It looks a mapping up by its first page or by the first page of its 64 KiB, and uses the
//     first match: memory that it could mistake for another mapping is refused
//     (nvme.ErrNoMapping). Memory from Alloc is aligned to 2 MiB.
//   - If it maps fewer pages than requested, it returns no error: the transport finds the
//     addresses that were not written, and unmaps the memory.
//   - It keeps mappings when the process ends: memory that was not unmapped stays pinned until
//     the module is unloaded.
//   - Built without CUDA, it does not have the second call, and refuses it like any unknown call.
package libnvm

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/internal/platform"
	"diskgnn/iostack/nvme/spec"
)

// Unproven is the warning for users of the transport.
const Unproven = "the transport libnvm is unproven on hardware: it was tested over an imitation of the module's calls alone"

// Calls of the module.
var (
	mapHost   = platform.WriteRequest(0x80, 1, int(unsafe.Sizeof(request{})))
	mapDevice = platform.WriteRequest(0x80, 2, int(unsafe.Sizeof(request{})))
	unmap     = platform.WriteRequest(0x80, 3, 8)
)

// request is the argument of both mapping calls.
type request struct {
	start     uint64
	pages     uint64
	addresses *uint64
}

const (
	window  = 8 << 10  // bytes of registers that all drives have
	gpuPage = 64 << 10 // bytes of a GPU's page
	most    = 511      // queues with mapped doorbells, if the drive has them
)

// Transport reaches one drive. It implements nvme.Transport.
type Transport struct {
	system platform.System
	node   string
	fd     int
	bar    platform.Registers
	caller *caller
	pool   *platform.Pool
	starts map[uint64]bool // where mappings begin
	closed bool
}

var _ nvme.Transport = (*Transport)(nil)

// Open opens a drive by its node, such as /dev/libnvm0. If the node is missing or cannot be opened, the
// error is of kind fault.ErrUsage and states the reason.
func Open(node string) (*Transport, error) { return open(platform.Kernel, node) }

func open(system platform.System, node string) (*Transport, error) {
	fd, err := system.Open(node)
	if err != nil {
		return nil, fmt.Errorf("libnvm: %w", platform.Refused(node, err, "BaM's module is not loaded, or the drive is still bound to the kernel's driver"))
	}
	t := &Transport{
		system: system, node: node, fd: fd, caller: newCaller(), starts: map[uint64]bool{},
	}
	t.pool = platform.NewPool(t.Name(), chunks{t})
	if t.bar, err = system.Map(fd, window); err != nil {
		t.caller.end()
		return nil, errors.Join(fault.New(fault.ErrUsage, "libnvm: map the registers of %s: %w", node, err), system.Close(fd))
	}
	// Doorbells with a larger stride need more.
	for n := spec.CompletionDoorbell(most, spec.Capabilities(t.Load64(spec.CAP)).Stride()) + 4; n > window; n /= 2 {
		bar, err := system.Map(fd, (n+nvme.Page-1)/nvme.Page*nvme.Page)
		if err == nil {
			if err := system.Unmap(t.bar); err != nil {
				return nil, errors.Join(err, t.Close())
			}
			t.bar = bar
			break
		}
	}
	return t, nil
}

// Name implements nvme.Transport.
func (t *Transport) Name() string { return "libnvm:" + t.node }

// Caution returns Unproven; see nvme.Caution.
func (t *Transport) Caution() string { return Unproven }

// Registers returns the mapped memory of BAR 0, for a GPU that rings doorbells.
func (t *Transport) Registers() []byte { return t.bar }

// Mapped returns the number of bytes of registers that are mapped, from the first on.
func (t *Transport) Mapped() int { return len(t.bar) }

// Load32 implements nvme.Transport.
func (t *Transport) Load32(offset int) uint32 { return t.bar.Load32(offset) }

// Load64 implements nvme.Transport.
func (t *Transport) Load64(offset int) uint64 { return t.bar.Load64(offset) }

// Store32 implements nvme.Transport.
func (t *Transport) Store32(offset int, v uint32) { t.bar.Store32(offset, v) }

// Store64 implements nvme.Transport.
func (t *Transport) Store64(offset int, v uint64) { t.bar.Store64(offset, v) }

// Alloc implements nvme.Transport. It takes huge pages, 2 MiB at a time.
func (t *Transport) Alloc(n int) (*nvme.Memory, error) {
	if t.closed {
		return nil, nvme.ErrClosed
	}
	return t.pool.Alloc(n)
}

// Map implements nvme.Transport, for whole pages of memory that does not move.
func (t *Transport) Map(b []byte) (*nvme.Memory, error) {
	if len(b) == 0 || len(b)%nvme.Page != 0 || uintptr(unsafe.Pointer(&b[0]))%nvme.Page != 0 {
		return nil, fmt.Errorf("%w: %d bytes are not whole pages", nvme.ErrNoMapping, len(b))
	}
	start := uint64(uintptr(unsafe.Pointer(&b[0])))
	pages, err := t.visible(mapHost, start, len(b)/nvme.Page)
	if err != nil {
		return nil, err
	}
	m := &nvme.Memory{Bytes: b, Pages: pages}
	t.pool.Keep(m, func() error { return t.hidden(start) })
	return m, nil
}

// MapDevice maps a GPU's memory for the drive: n bytes from an address on, both multiples of 64 KiB. The
// host cannot access it: Bytes of the result is nil. Free unmaps it, and must come before the memory is
// freed.
func (t *Transport) MapDevice(address uint64, n int64) (*nvme.Memory, error) {
	if n <= 0 || n%gpuPage != 0 || address%gpuPage != 0 {
		return nil, fmt.Errorf("%w: %d bytes of GPU memory at %xh are not whole pages of 64 KiB", nvme.ErrNoMapping, n, address)
	}
	large, err := t.visible(mapDevice, address, int(n/gpuPage))
	if errors.Is(err, unix.EINVAL) {
		err = fault.New(fault.ErrUsage, "%w: the module was built without CUDA, or the memory is not a GPU's", err)
	}
	if err != nil {
		return nil, err
	}
	m := &nvme.Memory{}
	for _, page := range large {
		for at := uint64(0); at < gpuPage; at += nvme.Page {
			m.Pages = append(m.Pages, page+at)
		}
	}
	t.pool.Keep(m, func() error { return t.hidden(address) })
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
	err, bar := t.pool.Close(), t.bar
	t.bar = nil
	t.caller.end()
	return errors.Join(err, t.system.Unmap(bar), t.system.Close(t.fd))
}

// Abandon implements nvme.Transport: memory stays mapped, and the node open.
func (t *Transport) Abandon() error {
	if !t.closed {
		t.closed = true
		t.caller.end()
	}
	return nil
}

// visible lets the module map pages from an address on, and returns the drive's addresses of the pages.
func (t *Transport) visible(call uint32, start uint64, pages int) ([]uint64, error) {
	if t.closed {
		return nil, nvme.ErrClosed
	}
	if other, mistaken := t.mistaken(start); mistaken {
		return nil, fmt.Errorf("%w: the module would mistake the mapping at %xh for the mapping at %xh", nvme.ErrNoMapping, start, other)
	}
	addresses := make([]uint64, pages)
	for i := range addresses {
		addresses[i] = ^uint64(0)
	}
	r := &request{start, uint64(pages), &addresses[0]}
	if err := t.call(call, unsafe.Pointer(r)); err != nil {
		return nil, fmt.Errorf("%s: map %d pages: %w", t.Name(), pages, err)
	}
	t.starts[start] = true
	for i, address := range addresses {
		if address == ^uint64(0) {
			return nil, errors.Join(fmt.Errorf("%s: %d of %d pages were mapped: %w", t.Name(), i, pages, unix.ENOMEM), t.hidden(start))
		}
	}
	return addresses, nil
}

func (t *Transport) call(request uint32, arg unsafe.Pointer) (err error) {
	t.caller.do(func() { _, err = t.system.Control(t.fd, request, arg) })
	return err
}

// mistaken returns a mapping that the module would confuse with one that begins at start.
func (t *Transport) mistaken(start uint64) (other uint64, mistaken bool) {
	if floor := start &^ (gpuPage - 1); t.starts[floor] {
		return floor, true
	}
	for at := start; at < start+gpuPage; at += nvme.Page {
		if t.starts[at] && (at == start || at&^(gpuPage-1) == start) {
			return at, true
		}
	}
	return 0, false
}

// hidden unmaps the mapping that begins at an address.
func (t *Transport) hidden(start uint64) error {
	delete(t.starts, start)
	if err := t.call(unmap, unsafe.Pointer(&start)); err != nil {
		return fmt.Errorf("%s: unmap the memory at %xh: %w", t.Name(), start, err)
	}
	return nil
}

// chunks is the Source of the pool.
type chunks struct{ t *Transport }

func (c chunks) Grow(n int) (*nvme.Memory, error) {
	t := c.t
	b, err := t.system.Huge(n)
	if err != nil {
		return nil, fault.New(fault.ErrUsage, "huge pages of 2 MiB are needed: sysctl vm.nr_hugepages=64 sets some aside (%w)", err)
	}
	pages, err := t.visible(mapHost, uint64(uintptr(unsafe.Pointer(&b[0]))), n/nvme.Page)
	if err != nil {
		return nil, errors.Join(err, t.system.Unmap(b))
	}
	m := &nvme.Memory{Bytes: b, Pages: pages}
	for i, page := range pages {
		if i*nvme.Page%nvme.Contiguous != 0 && page != pages[i-1]+nvme.Page {
			return nil, errors.Join(fmt.Errorf("%w: huge pages are not contiguous for the drive", nvme.ErrUnsupported), c.Shrink(m))
		}
	}
	return m, nil
}

func (c chunks) Shrink(m *nvme.Memory) error {
	if err := c.t.hidden(uint64(uintptr(unsafe.Pointer(&m.Bytes[0])))); err != nil {
		return err // the drive may still write there
	}
	return c.t.system.Unmap(m.Bytes)
}

// caller makes calls from one thread of the system.
type caller struct {
	calls chan func()
}

func newCaller() *caller {
	c := &caller{calls: make(chan func())}
	go func() {
		defer fault.Crash()
		runtime.LockOSThread() // which ends with the goroutine
		for call := range c.calls {
			call()
		}
	}()
	return c
}

func (c *caller) do(call func()) {
	done := make(chan struct{})
	c.calls <- func() {
		defer close(done)
		call()
	}
	<-done
}

func (c *caller) end() { close(c.calls) }
