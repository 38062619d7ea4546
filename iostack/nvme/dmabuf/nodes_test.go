package dmabuf

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/internal/platform"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

const function = "0000:01:00.0"

// nodes imitates both nodes in front of a controller in software. Descriptors are numbers of
// its own; at the end of the test none is open.
type nodes struct {
	platform.System
	t        *testing.T
	d        *soft.Drive
	files    map[int]*file
	next     int
	attached map[int]*nvme.Memory // by the number of a dma-buf
	views    map[*byte]*file      // memory that is mapped

	absent, old, poor, full, scattered, odd, long bool
}

// file is an open file: a node, memory, or a dma-buf.
type file struct {
	node   string
	whole  []byte // that memory is cut of
	memory []byte // from a multiple of 2 MiB on
	buffer []byte
}

func newNodes(t *testing.T, d *soft.Drive) *nodes {
	n := &nodes{t: t, d: d, files: map[int]*file{}, next: 100, attached: map[int]*nvme.Memory{}, views: map[*byte]*file{}}
	t.Cleanup(func() {
		if len(n.files)+len(n.attached)+len(n.views) > 0 {
			t.Errorf("left: %d files, %d attachments, %d views of memory", len(n.files), len(n.attached), len(n.views))
		}
	})
	return n
}

func (n *nodes) add(f *file) (int, error) {
	n.next++
	n.files[n.next] = f
	return n.next, nil
}

func (n *nodes) Open(node string) (int, error) {
	if node != Importer && node != Exporter || n.absent && node == Exporter {
		return -1, unix.ENOENT
	}
	return n.add(&file{node: node})
}

func (n *nodes) Close(fd int) error {
	f := n.files[fd]
	switch {
	case f == nil:
		return unix.EBADF
	case n.attached[fd] != nil:
		n.t.Error("a dma-buf is closed before it is detached")
	case f.node == Importer && len(n.attached) > 0:
		n.t.Error("the importer is closed before dma-bufs are detached")
	}
	delete(n.files, fd)
	return nil
}

func (n *nodes) Duplicate(fd int) (int, error) {
	if n.files[fd] == nil {
		return -1, unix.EBADF
	}
	return n.add(n.files[fd])
}

func (n *nodes) Memory(bytes int) (int, error) {
	if n.poor || bytes%nvme.Contiguous != 0 {
		return -1, unix.ENOMEM
	}
	b, err := unix.Mmap(-1, 0, bytes+nvme.Contiguous, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return -1, err
	}
	return n.add(&file{whole: b, memory: b[-uintptr(unsafe.Pointer(&b[0]))%nvme.Contiguous:][:bytes:bytes]})
}

func (n *nodes) Map(fd, bytes int) ([]byte, error) {
	f := n.files[fd]
	if f == nil || len(f.memory) != bytes {
		return nil, unix.EINVAL
	}
	for i := range f.memory {
		f.memory[i] = 0xee // that it must clear
	}
	n.views[&f.memory[0]] = f
	return f.memory, nil
}

func (n *nodes) Unmap(b []byte) error {
	f := n.views[&b[0]]
	if f == nil {
		return unix.EINVAL
	}
	delete(n.views, &b[0])
	return unix.Munmap(f.whole)
}

func (n *nodes) Control(fd int, call uint32, arg unsafe.Pointer) (int, error) {
	f := n.files[fd]
	switch {
	case f == nil:
		return -1, unix.EBADF
	case f.node == Exporter && call == 0x40187542:
		c := (*creation)(arg)
		from := n.files[int(c.file)]
		if from == nil || c.bytes > 64<<20 || c.flags != 1 || from.memory[c.offset] != 0 || c.offset+c.bytes > uint64(len(from.memory)) {
			return -1, unix.EINVAL
		}
		return n.add(&file{buffer: from.memory[c.offset:][:c.bytes]})
	case f.node == Importer && call == 0xc018754b && !n.old:
		a := (*attachment)(arg)
		if string(a.function[:len(function)+1]) != function+"\x00" {
			return -1, unix.ENODEV
		}
		return 0, n.attach(a)
	case f.node == Importer && call == 0xc0087547:
		return 0, n.attach((*attachment)(arg))
	case f.node == Importer && call == 0xc0087549:
		head := (*[2]uint32)(arg)
		m := n.attached[int(head[0])]
		if m == nil {
			return -1, unix.EINVAL
		}
		segments := unsafe.Slice((*segment)(unsafe.Add(arg, 8)), head[1])
		return 0, n.answer(m, segments)
	case f.node == Importer && call == 0x40047548:
		number := int(*(*int32)(arg))
		m := n.attached[number]
		if m == nil {
			return -1, unix.EINVAL
		}
		delete(n.attached, number)
		return 0, n.d.Free(m)
	}
	return -1, unix.ENOTTY
}

func (n *nodes) attach(a *attachment) error {
	f := n.files[int(a.buffer)]
	if n.full {
		return unix.EMFILE
	}
	if f == nil || f.buffer == nil || n.attached[int(a.buffer)] != nil {
		return unix.EINVAL
	}
	m, err := n.d.Map(f.buffer)
	if err != nil {
		return err
	}
	n.attached[int(a.buffer)] = m
	a.count = uint32(len(n.segments(m)))
	return nil
}

// segments joins pages that follow each other.
func (n *nodes) segments(m *nvme.Memory) (all []segment) {
	for _, page := range m.Pages {
		if last := len(all) - 1; last >= 0 && all[last].address+all[last].bytes == page {
			all[last].bytes += nvme.Page
			continue
		}
		all = append(all, segment{page, nvme.Page})
	}
	if n.scattered {
		all = []segment{{all[0].address + nvme.Page, nvme.Page}, {all[0].address, nvme.Page}, {all[0].address + 2*nvme.Page, all[0].bytes - 2*nvme.Page}}
	}
	if n.odd {
		all[0].bytes -= 512
	}
	if n.long {
		all = append(all, segment{1 << 50, nvme.Page})
	}
	return all
}

func (n *nodes) answer(m *nvme.Memory, to []segment) error {
	copy(to, n.segments(m))
	return nil
}

func (n *nodes) registers() (nvme.Transport, error) { return registers{n.d, n}, nil }

// registers is the transport of a drive's registers: it has no memory to give.
type registers struct {
	*soft.Drive
	n *nodes
}

func (r registers) Alloc(int) (*nvme.Memory, error)  { panic("memory of the other transport") }
func (r registers) Map([]byte) (*nvme.Memory, error) { panic("memory of the other transport") }
func (r registers) Free(*nvme.Memory) error          { panic("memory of the other transport") }

func (r registers) Close() error {
	if len(r.n.attached) > 0 {
		r.n.t.Error("the drive is given back before dma-bufs are detached")
	}
	if r.Load32(spec.CC)&spec.Enable != 0 || r.Load32(spec.CSTS)&spec.Ready != 0 {
		r.n.t.Error("the controller is on when its registers are given back")
	}
	return nil
}
