package dmabuf

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/nvmetest"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

func TestTransport(t *testing.T) {
	for name, old := range map[string]bool{"module": false, "older module": true} {
		t.Run(name, func(t *testing.T) {
			nvmetest.Run(t, func(t *testing.T, d *soft.Drive) nvme.Transport {
				n := newNodes(t, d)
				n.old = old
				return reach(t, n)
			})
		})
	}
}

func reach(t *testing.T, n *nodes) *Transport {
	t.Helper()
	tr, err := open(n, function, n.registers)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// Without either node the machine is refused, with what is missing.
func TestAbsent(t *testing.T) {
	never := func() (nvme.Transport, error) { t.Error("the drive is taken"); return nil, nil }
	if _, err := Open(function, never); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "there is no /dev/dmabuf_import") {
		t.Error(err)
	}
	n := newNodes(t, nvmetest.Drive(t, soft.Options{}))
	n.absent = true
	if _, err := open(n, function, never); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "modprobe udmabuf") {
		t.Error(err)
	}
	if _, err := open(n, "0000:01:00.0000", never); !errors.Is(err, fault.ErrUsage) {
		t.Error(err)
	}
	n.absent = false // but the drive is not to be had
	if _, err := open(n, function, func() (nvme.Transport, error) { return nil, unix.EBUSY }); !errors.Is(err, unix.EBUSY) {
		t.Error(err)
	}
}

func TestCaution(t *testing.T) {
	tr := reach(t, newNodes(t, nvmetest.Drive(t, soft.Options{})))
	if nvme.Caution(tr) != Unproven || !strings.Contains(Unproven, "unproven on hardware") || tr.Name() != "dmabuf:"+function {
		t.Error(nvme.Caution(tr), tr.Name())
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
}

// Memory that is not what was asked for is refused, and nothing of it stays attached.
func TestRefusedMemory(t *testing.T) {
	for _, x := range []struct {
		set  func(*nodes)
		n    int
		want string
	}{
		{func(n *nodes) { n.poor = true }, 1, "sysctl vm.nr_hugepages"},
		{func(n *nodes) { n.full = true }, 1, "BAR 1 may be full"},
		{func(n *nodes) { n.scattered = true }, 1, "not contiguous"},
		{func(n *nodes) { n.odd = true }, 1, "2096640 bytes at"},
		{func(n *nodes) { n.long = true }, 1, "4096 bytes at 4000000000000h does not fit a dma-buf of 2097152"},
		{func(n *nodes) { n.odd, n.long = true, true }, 40 << 20, "dma-buf of 33554432"},
	} {
		n := newNodes(t, nvmetest.Drive(t, soft.Options{}))
		tr := reach(t, n)
		x.set(n)
		if _, err := tr.Alloc(x.n); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %q", err, x.want)
		}
		if len(n.attached) > 0 || len(n.views) > 0 || len(n.files) != 2 {
			t.Errorf("%s: %d attachments, %d views, %d files are left", x.want, len(n.attached), len(n.views), len(n.files))
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Large memory is several dma-bufs of one file.
func TestPieces(t *testing.T) {
	n := newNodes(t, nvmetest.Drive(t, soft.Options{}))
	tr := reach(t, n)
	c, err := nvme.Open(context.Background(), tr, nvme.Options{Depth: 2})
	if err != nil {
		t.Fatal(err)
	}
	before := len(n.attached)
	m, err := tr.Alloc(70 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if len(n.attached) != before+3 || len(m.Pages) != 70<<20/nvme.Page {
		t.Errorf("%d dma-bufs, %d pages", len(n.attached), len(m.Pages))
	}
	// A read across the border of two of them.
	q, space := c.Queues()[0], c.Namespace()
	cmd := space.Transfer(spec.Read, 0, 16)
	_, err = q.Do(&cmd, m, 64<<20-4096, 8192)
	cmd = space.Transfer(spec.Read, 0, 16)
	_, err2 := q.Do(&cmd, m, 0, 8192)
	if err != nil || err2 != nil || !bytes.Equal(m.Bytes[64<<20-4096:][:8192], m.Bytes[:8192]) {
		t.Error("other bytes, or ", err, err2)
	}
	if err := tr.Free(m); err != nil || len(n.attached) != before {
		t.Errorf("%v, %d dma-bufs", err, len(n.attached))
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A dma-buf of somebody else, such as a GPU's memory, is read into; its descriptor is free to
// be closed.
func TestBuffer(t *testing.T) {
	d := nvmetest.Drive(t, soft.Options{})
	n := newNodes(t, d)
	c, err := nvme.Open(context.Background(), reach(t, n), nvme.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr := c.Transport().(*Transport)
	memory, err := n.Memory(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	view, err := n.Map(memory, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	buffer, _ := n.add(&file{buffer: view})
	for _, bytes := range []int64{0, 100, 2 << 20, 8 << 20} {
		if _, err := tr.MapBuffer(buffer, bytes); err == nil {
			t.Errorf("a dma-buf of 4 MiB is mapped as %d bytes", bytes)
		}
	}
	m, err := tr.MapBuffer(buffer, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(buffer); err != nil {
		t.Error(err)
	}
	host, err := tr.Alloc(128 << 10)
	if err != nil {
		t.Fatal(err)
	}
	q, space := c.Queues()[0], c.Namespace()
	cmd := space.Transfer(spec.Read, 8, 248)
	_, err = q.Do(&cmd, m, 2<<20-4096, 248*512) // across what is contiguous
	cmd = space.Transfer(spec.Read, 8, 248)
	_, err2 := q.Do(&cmd, host, 0, 248*512)
	if err != nil || err2 != nil || m.Bytes != nil || !bytes.Equal(view[2<<20-4096:][:248*512], host.Bytes[:248*512]) {
		t.Error("other bytes in the dma-buf, or ", err, err2)
	}
	if _, err := tr.MapBuffer(9999, 4096); !errors.Is(err, unix.EBADF) {
		t.Error(err)
	}
	if err := tr.Free(m); err != nil {
		t.Error(err)
	}
	if _, err := tr.MapBuffer(memory, 4096); err == nil {
		t.Error("what is no dma-buf is mapped")
	}
	// One that is not freed goes back with the transport.
	buffer, _ = n.add(&file{buffer: view})
	if _, err := tr.MapBuffer(buffer, 4<<20); err != nil {
		t.Error(err)
	}
	if err := errors.Join(c.Close(), n.Close(buffer), n.Unmap(view), n.Close(memory)); err != nil {
		t.Error(err)
	}
	if _, err := tr.MapBuffer(1, 4096); !errors.Is(err, nvme.ErrClosed) {
		t.Error(err)
	}
}

// abandoned is registers that say whether they were.
type abandoned struct {
	nvme.Transport
	said *bool
}

func (a abandoned) Abandon() error { *a.said = true; return nil }

// Abandoned memory stays where it is, and the registers' transport is abandoned too.
func TestAbandon(t *testing.T) {
	n := newNodes(t, nvmetest.Drive(t, soft.Options{}))
	tr := reach(t, n)
	m, err := tr.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	said := false
	tr.Transport = abandoned{tr.Transport, &said}
	for range 2 {
		if err := tr.Abandon(); err != nil || !said || len(n.attached) != 1 || len(n.views) != 1 {
			t.Errorf("%v, abandoned %v, %d dma-bufs, %d views", err, said, len(n.attached), len(n.views))
		}
		said = true
	}
	if err := tr.pool.Give(m); err != nil {
		t.Error(err)
	}
	if err := errors.Join(tr.pool.Close(), n.Close(tr.importer), n.Close(tr.exporter)); err != nil {
		t.Error(err)
	}
}
