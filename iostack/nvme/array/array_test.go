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

var osFS = vfs.OS

// nvmeMemory returns memory that begins with a page.
func nvmeMemory(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}
