package libnvm

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/nvmetest"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

func TestTransport(t *testing.T) {
	nvmetest.Run(t, func(t *testing.T, d *soft.Drive) nvme.Transport { return reach(t, newModule(t, d)) })
}

func reach(t *testing.T, m *module) *Transport {
	t.Helper()
	tr, err := open(m, node)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// The drive of a machine that has none is refused, with what is missing.
func TestAbsent(t *testing.T) {
	_, err := Open("/dev/libnvm99")
	if !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "there is no /dev/libnvm99: BaM's module is not loaded") {
		t.Error(err)
	}
	if _, err := Open("/dev/null"); err == nil {
		t.Error("/dev/null is a drive")
	}
}

func TestCaution(t *testing.T) {
	tr := reach(t, newModule(t, nvmetest.Drive(t, soft.Options{})))
	if nvme.Caution(tr) != Unproven || !strings.Contains(Unproven, "unproven on hardware") {
		t.Error(nvme.Caution(tr))
	}
	if _, err := nvme.Open(canceled(), tr, nvme.Options{}); err == nil || !strings.Contains(err.Error(), "unproven on hardware") {
		t.Error(err)
	}
	if nvme.Caution(nvmetest.Drive(t, soft.Options{})) != "" {
		t.Error("the soft controller needs no caution")
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A drive of few registers is used with as many queues as have doorbells there: 64 bytes
// apart, 4 KiB have room for 31 beside the admin queue's.
func TestFewRegisters(t *testing.T) {
	m := newModule(t, nvmetest.Drive(t, soft.Options{StrideShift: 4, Queues: 40}))
	m.registers = window
	c, err := nvme.Open(context.Background(), reach(t, m), nvme.Options{Queues: 40})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.Queues()); n != 31 {
		t.Errorf("%d queues", n)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Memory that the module maps in part, or in pieces, or not at all, is refused, and nothing of
// it stays mapped.
func TestRefusedMemory(t *testing.T) {
	for _, x := range []struct {
		set  func(*module)
		want string
	}{
		{func(m *module) { m.short = true }, "511 of 512 pages were mapped"},
		{func(m *module) { m.scattered = true }, "not contiguous"},
		{func(m *module) { m.poor = true }, "sysctl vm.nr_hugepages"},
		{func(m *module) { m.deaf = true }, "map 512 pages: invalid argument"},
	} {
		m := newModule(t, nvmetest.Drive(t, soft.Options{}))
		tr := reach(t, m)
		x.set(m)
		if _, err := tr.Alloc(4096); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %q", err, x.want)
		}
		if len(m.maps) > 0 {
			t.Errorf("%s: %d mappings are left", x.want, len(m.maps))
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Mappings that the module would confuse are not made: in the same 64 KiB as one that begins
// there, and the other way round. Neighbours that begin elsewhere are.
func TestMistaken(t *testing.T) {
	m := newModule(t, nvmetest.Drive(t, soft.Options{}))
	tr := reach(t, m)
	b, err := m.Huge(nvme.Contiguous)
	if err != nil {
		t.Fatal(err)
	}
	pages := func(first, n int) []byte { return b[first*nvme.Page:][:n*nvme.Page] }
	a, err := tr.Map(pages(16, 3)) // the beginning of 64 KiB
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range []int{16, 17, 31} {
		if _, err := tr.Map(pages(first, 1)); !errors.Is(err, nvme.ErrNoMapping) {
			t.Errorf("page %d: %v", first, err)
		}
	}
	c, err := tr.Map(pages(33, 1)) // the next 64 KiB, but not from their beginning
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Map(pages(34, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Map(pages(32, 1)); !errors.Is(err, nvme.ErrNoMapping) {
		t.Error(err)
	}
	for i, x := range []*nvme.Memory{c, a} {
		if err := tr.Free(x); err != nil || len(m.maps) != 2-i {
			t.Errorf("%v, %d mappings", err, len(m.maps))
		}
	}
	if err := tr.Free(c); err == nil {
		t.Error("memory is freed twice without an error")
	}
	// The third goes back with the transport.
	if err := errors.Join(tr.Close(), m.Unmap(b)); err != nil {
		t.Error(err)
	}
}

// A GPU's memory is read into by pages of 64 KiB; a module without CUDA refuses it.
func TestDevice(t *testing.T) {
	d := nvmetest.Drive(t, soft.Options{})
	m := newModule(t, d)
	c, err := nvme.Open(context.Background(), reach(t, m), nvme.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr := c.Transport().(*Transport)
	const address = 7 << 40
	m.device[address] = m.take(4 * gpuPage)
	mem, err := tr.MapDevice(address+gpuPage, 2*gpuPage)
	if err != nil {
		t.Fatal(err)
	}
	if len(mem.Pages) != 32 || mem.Bytes != nil {
		t.Errorf("%d pages, %d bytes", len(mem.Pages), len(mem.Bytes))
	}
	host, err := tr.Alloc(128 << 10)
	if err != nil {
		t.Fatal(err)
	}
	q, space := c.Queues()[0], c.Namespace()
	cmd := space.Transfer(spec.Read, 8, 248)
	_, err = q.Do(&cmd, mem, 4096, 248*512)
	cmd = space.Transfer(spec.Read, 8, 248)
	_, err2 := q.Do(&cmd, host, 0, 248*512)
	if got := m.device[address][gpuPage+4096:][:248*512]; err != nil || err2 != nil || !bytes.Equal(got, host.Bytes[:248*512]) {
		t.Error("other bytes in the GPU's memory, or ", err, err2)
	}
	for _, x := range [][2]int64{{address + 4096, gpuPage}, {address, 4096}, {address, 0}} {
		if _, err := tr.MapDevice(uint64(x[0]), x[1]); !errors.Is(err, nvme.ErrNoMapping) {
			t.Error(x, err)
		}
	}
	if err := tr.Free(mem); err != nil {
		t.Error(err)
	}
	m.hostOnly = true
	if _, err := tr.MapDevice(address, gpuPage); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "built without CUDA") {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Abandoned memory stays mapped for the drive; nothing is given any more.
func TestAbandon(t *testing.T) {
	m := newModule(t, nvmetest.Drive(t, soft.Options{}))
	tr := reach(t, m)
	b, err := tr.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := tr.Abandon(); err != nil {
			t.Error(err)
		}
	}
	if len(m.maps) != 1 || m.memory != 1 || b.Bytes[4095] != 0 {
		t.Errorf("%d mappings, %d pieces of memory", len(m.maps), m.memory)
	}
	if _, err := tr.Alloc(1); !errors.Is(err, nvme.ErrClosed) {
		t.Error(err)
	}
	m.forget(tr.bar)
}

func TestClosed(t *testing.T) {
	m := newModule(t, nvmetest.Drive(t, soft.Options{}))
	tr := reach(t, m)
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := tr.Alloc(1)
	_, err2 := tr.Map(unsafe.Slice(&make([]byte, 3*nvme.Page)[0], nvme.Page))
	if !errors.Is(err, nvme.ErrClosed) || err2 == nil {
		t.Error(err, err2)
	}
	if tr.Load32(spec.CC) != ^uint32(0) {
		t.Error("a closed transport has registers")
	}
}

// Opening ends with the file closed where the registers cannot be mapped.
func TestNoRegisters(t *testing.T) {
	m := newModule(t, nvmetest.Drive(t, soft.Options{}))
	m.registers = 4096
	if _, err := open(m, node); !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "map the registers") {
		t.Error(err)
	}
}
