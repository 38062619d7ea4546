package array

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/iostacktest"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/soft"
)

// copying is a table whose files are copied to the drives when they are found, in units that
// go round the drives.
type copying struct {
	mu     sync.Mutex
	drives []string // files that hold them
	unit   int64
	next   int64 // unit of each drive
}

// copied is a file on the drives: unit u is unit first + u / N of drive u mod N.
type copied struct {
	size, unit, first int64
	drives            int64
}

func (f *copied) Size() int64 { return f.size }

func (f *copied) Locate(offset int64) (drive int, at, n int64) {
	unit, in := offset/f.unit, offset%f.unit
	return int(unit % f.drives), (f.first+unit/f.drives)*f.unit + in, f.unit - in
}

func (c *copying) Find(name string) (File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fault.New(fault.ErrInput, "open %s: not a regular file", name)
	}
	f := &copied{size: info.Size(), unit: c.unit, first: c.next, drives: int64(len(c.drives))}
	from, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	var to []*os.File
	for _, d := range c.drives {
		out, err := os.OpenFile(d, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		defer out.Close()
		to = append(to, out)
	}
	buf := make([]byte, c.unit)
	for at := int64(0); at < f.size; {
		data, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // a hole to the end
		}
		if err != nil {
			return nil, err
		}
		at = max(at, data/c.unit*c.unit)
		drive, place, n := f.Locate(at)
		n = min(n, f.size-at)
		if _, err := from.ReadAt(buf[:n], at); err != nil {
			return nil, err
		}
		if _, err := to[drive].WriteAt(buf[:n], place); err != nil {
			return nil, err
		}
		at += n
	}
	c.next += (f.size + c.unit*f.drives - 1) / (c.unit * f.drives)
	return f, nil
}

// driveBytes is the size of a drive, which is sparse.
const driveBytes = 64 << 30

// newStack starts a stack on drives of its own.
func newStack(t testing.TB, n int, o Options, s soft.Options) *Stack {
	t.Helper()
	table := &copying{unit: 64 << 10}
	dir := t.TempDir()
	var transports []nvme.Transport
	for i := range n {
		name := filepath.Join(dir, fmt.Sprint("drive", i))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(name, driveBytes); err != nil {
			t.Fatal(err)
		}
		d, err := soft.Open(vfs.OS, name, s)
		if err != nil {
			t.Fatal(err)
		}
		table.drives = append(table.drives, name)
		transports = append(transports, d)
	}
	stack, err := New(context.Background(), transports, o, func([]*nvme.Controller) (Table, error) { return table, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stack.Close(); err != nil {
			t.Error(err)
		}
	})
	return stack
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		drives  int
		options iostack.Options
		soft    soft.Options
	}{
		{1, iostack.Options{}, soft.Options{}},
		{1, iostack.Options{Workers: 1}, soft.Options{BlockBytes: 4096, TransferMax: 1, StrideShift: 4}},
		{3, iostack.Options{Workers: 300, MaxIO: 8192}, soft.Options{MaxEntries: 64}},
	} {
		t.Run(fmt.Sprintf("drives=%d,workers=%d", c.drives, c.options.Workers), func(t *testing.T) {
			iostacktest.Run(t, func(t *testing.T) iostack.Stack {
				return newStack(t, c.drives, Options{Options: c.options}, c.soft)
			}, iostacktest.Copies)
		})
	}
}

// A stack holds what it takes of the host, drives included, but not memory of its users.
func TestHeld(t *testing.T) {
	before := device.HostBytes()
	s := newStack(t, 2, Options{}, soft.Options{Workers: 3})
	took := device.HostBytes() - before  // bounce buffers: of the stack, and of each drive's medium
	rings := int64(2 * (0x2000 + 8<<10)) // registers of 128 queues, rings, and PRP lists
	if n := s.Held(); n < took+rings || n > took+rings+1<<20 {
		t.Errorf("%d bytes are held, buffers take %d", n, took)
	}
	held := s.Held()
	m, err := device.NewHost(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	if err := s.Register(m.Bytes()); err != nil || s.Held() != held {
		t.Errorf("%v, %d bytes with memory of a user's, %d without", err, s.Held(), held)
	}
	if err := s.Unregister(m.Bytes()); err != nil {
		t.Error(err)
	}
	s.table = heldTable{s.table}
	if n := s.Held(); n != held+11 {
		t.Errorf("%d bytes with a table of 11, %d without", n, held)
	}
}

type heldTable struct{ Table }

func (heldTable) Held() int64 { return 11 }

var osFS = vfs.OS

// nvmeMemory returns memory that begins with a page.
func nvmeMemory(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}
