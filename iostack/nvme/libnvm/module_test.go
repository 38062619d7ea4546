package libnvm

import (
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/internal/platform"
	"diskgnn/iostack/nvme/soft"
)

const node = "/dev/libnvm0"

// module imitates BaM's kernel module in front of a controller in software: lookups,
// threads and silences are the module's.
type module struct {
	platform.System
	t         *testing.T
	d         *soft.Drive
	opened    int
	registers int               // bytes of them
	mapped    []([]byte)        // registers that are mapped
	memory    int               // pieces of memory that are taken
	whole     map[*byte][]byte  // what a piece was cut of
	device    map[uint64][]byte // a GPU's memory by address
	maps      []mapping

	short, scattered, poor, deaf, hostOnly bool
}

type mapping struct {
	thread int
	start  uint64
	memory []*nvme.Memory
}

// newModule returns a module whose state is checked at the end of the test: nothing is
// mapped, taken or open.
func newModule(t *testing.T, d *soft.Drive) *module {
	m := &module{t: t, d: d, registers: len(d.Registers()), whole: map[*byte][]byte{}, device: map[uint64][]byte{}}
	t.Cleanup(func() {
		if len(m.mapped) != 0 && !t.Failed() {
			t.Errorf("%d mappings of registers are left", len(m.mapped))
		}
	})
	return m
}

func (m *module) Open(name string) (int, error) {
	if name != node {
		return -1, unix.ENOENT
	}
	m.opened++
	m.t.Cleanup(func() {
		if m.opened != 0 && len(m.maps) == 0 {
			m.t.Errorf("opened %d times and not closed", m.opened)
		}
	})
	return 1000, nil
}

func (m *module) Close(fd int) error {
	if fd != 1000 || m.opened == 0 {
		return unix.EBADF
	}
	m.opened--
	if len(m.maps) > 0 {
		m.t.Errorf("%d mappings are left when the node is closed", len(m.maps))
	}
	return nil
}

func (m *module) Map(fd, n int) ([]byte, error) {
	if n > m.registers {
		return nil, unix.EINVAL
	}
	b := m.d.Registers()[:n:n]
	m.mapped = append(m.mapped, b)
	return b, nil
}

// take returns memory that begins at a multiple of 2 MiB.
func (m *module) take(n int) []byte {
	b, err := unix.Mmap(-1, 0, n+nvme.Contiguous, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		m.t.Fatal(err)
	}
	from := -uintptr(unsafe.Pointer(&b[0])) % nvme.Contiguous
	at := b[from:][:n:n]
	m.whole[&at[0]] = b
	return at
}

func (m *module) Huge(n int) ([]byte, error) {
	if m.poor {
		return nil, unix.ENOMEM
	}
	if n%nvme.Contiguous != 0 {
		return nil, unix.EINVAL
	}
	m.memory++
	return m.take(n), nil
}

func (m *module) Unmap(b []byte) error {
	if i := slices.IndexFunc(m.mapped, func(x []byte) bool { return &x[0] == &b[0] && len(x) == len(b) }); i >= 0 {
		m.mapped = slices.Delete(m.mapped, i, i+1)
		return nil
	}
	whole := m.whole[&b[0]]
	if whole == nil {
		return unix.EINVAL
	}
	for _, x := range m.maps {
		if x.start == uint64(uintptr(unsafe.Pointer(&b[0]))) {
			m.t.Error("memory is unmapped that the drive sees")
		}
	}
	delete(m.whole, &b[0])
	m.memory--
	return unix.Munmap(whole)
}

// forget drops registers that a test has put others in the place of.
func (m *module) forget(b []byte) {
	m.mapped = slices.DeleteFunc(m.mapped, func(x []byte) bool { return &x[0] == &b[0] })
}

func (m *module) Control(fd int, call uint32, arg unsafe.Pointer) (int, error) {
	return 0, m.control(fd, call, arg)
}

func (m *module) control(fd int, call uint32, arg unsafe.Pointer) error {
	switch {
	case fd != 1000 || m.opened == 0:
		return unix.EBADF
	case m.deaf:
		return unix.EINVAL
	case call == 0x40188001:
		r := (*request)(arg)
		return m.visible(r, unsafe.Slice(*(**byte)(unsafe.Pointer(&r.start)), r.pages*nvme.Page), nvme.Page)
	case call == 0x40188002 && !m.hostOnly:
		r := (*request)(arg)
		for at, b := range m.device {
			if from := r.start - at; r.start >= at && from < uint64(len(b)) {
				return m.visible(r, b[from:][:r.pages*gpuPage], gpuPage)
			}
		}
	case call == 0x40088003:
		start := *(*uint64)(arg)
		for i, x := range m.maps {
			if x.thread == unix.Gettid() && (x.start == start&^0xfff || x.start == start&^0xffff) {
				for _, b := range x.memory {
					if err := m.d.Free(b); err != nil {
						m.t.Error(err)
					}
				}
				m.maps = slices.Delete(m.maps, i, i+1)
				return nil
			}
		}
	}
	return unix.EINVAL
}

func (m *module) visible(r *request, b []byte, page int) error {
	x := mapping{thread: unix.Gettid(), start: r.start}
	addresses := unsafe.Slice(r.addresses, r.pages)
	if m.short {
		addresses = addresses[:len(addresses)-1]
	}
	if m.scattered {
		for i := range addresses {
			one, err := m.d.Map(b[i*page:][:page])
			if err != nil {
				return err
			}
			x.memory = append(x.memory, one)
			addresses[i] = one.Pages[0]
		}
	} else {
		all, err := m.d.Map(b)
		if err != nil {
			return err
		}
		x.memory = append(x.memory, all)
		for i := range addresses {
			addresses[i] = all.Pages[i*page/nvme.Page]
		}
	}
	m.maps = append(m.maps, x)
	return nil
}
