// Package nvmetest is the test suite for transports of package nvme: through the transport, the driver
// brings a controller up, reads, writes, loses completions, resets, and frees everything.
//
// Behind the transport is a controller in software, so that the suite determines the outcome of commands. A
// transport to hardware is tested over an imitation of its kernel module or files, in front of that
// controller.
package nvmetest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"diskgnn/device"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

// Reach returns a transport to the controller in software of d, as to a drive of hardware: an imitation of
// hardware may use the drive's registers (Registers) and bus addresses (Map). The suite closes the
// transport, and then the drive.
type Reach func(t *testing.T, d *soft.Drive) nvme.Transport

// Run runs the suite as subtests of t, each on new drives and transports of reach.
func Run(t *testing.T, reach Reach) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Reach)
	}{
		{"bring-up", bringUp}, {"memory", memory}, {"memory of others", others}, {"reads", reads}, {"writes", writes},
		{"lost completion", lost}, {"far doorbells", far}, {"close", closing},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, reach) })
	}
}

const size = 4 << 20

// Serve makes a drive with 4 MiB of random content, and closes it at the end of the test.
func Serve(t *testing.T, o soft.Options) (content []byte, d *soft.Drive) {
	t.Helper()
	content = make([]byte, size)
	rand.NewChaCha8([32]byte{1}).Read(content)
	name := filepath.Join(t.TempDir(), "drive")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := soft.Open(vfs.OS, name, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return content, d
}

// Open brings a controller up, and closes it at the end of the test.
func Open(t *testing.T, tr nvme.Transport, o nvme.Options) *nvme.Controller {
	t.Helper()
	c, err := nvme.Open(context.Background(), tr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Alloc returns n bytes of memory of a transport. An error fails the test.
func Alloc(t *testing.T, tr nvme.Transport, n int) *nvme.Memory {
	t.Helper()
	m, err := tr.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func bringUp(t *testing.T, reach Reach) {
	_, d := Serve(t, soft.Options{Queues: 3})
	tr := reach(t, d)
	if tr.Name() == "" {
		t.Error("the transport has no name")
	}
	if tr.Load64(spec.CAP) != d.Load64(spec.CAP) || tr.Load32(spec.VS) != 1<<16|4<<8 || tr.Load32(spec.CAP+4) != uint32(tr.Load64(spec.CAP)>>32) {
		t.Errorf("CAP is %x, VS %x", tr.Load64(spec.CAP), tr.Load32(spec.VS))
	}
	c := Open(t, tr, nvme.Options{Queues: 8, Depth: 1 << 15})
	if id := c.Identity(); id.MaxTransfer != 128<<10 || id.Namespaces != 1 || id.Model == "" {
		t.Errorf("%+v", id)
	}
	if s := c.Namespace(); s != (nvme.Namespace{ID: 1, Blocks: size / 512, BlockBytes: 512}) {
		t.Errorf("%+v", s)
	}
	if n := len(c.Queues()); n != 3 || c.Queues()[2].Depth() != 4096 {
		t.Errorf("%d queues", n)
	}
}

// Memory is zeroed also after reuse, consists of whole pages without overlap, and is contiguous up to
// nvme.Contiguous.
func memory(t *testing.T, reach Reach) {
	_, d := Serve(t, soft.Options{})
	tr := reach(t, d)
	defer func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}()
	owned := map[uint64]bool{}
	sizes := []int{1, 4096, 4097, 64 << 10, 300 << 10, 2 << 20, 2<<20 + 1, 5 << 20}
	for range 2 {
		var all []*nvme.Memory
		for _, n := range sizes {
			m := Alloc(t, tr, n)
			all = append(all, m)
			if len(m.Bytes) < n || len(m.Bytes)%nvme.Page != 0 || len(m.Pages) != len(m.Bytes)/nvme.Page || uintptr(unsafe.Pointer(&m.Bytes[0]))%nvme.Page != 0 {
				t.Errorf("%d bytes: %d at %p in %d pages", n, len(m.Bytes), &m.Bytes[0], len(m.Pages))
			}
			if len(bytes.TrimLeft(m.Bytes, "\x00")) > 0 {
				t.Errorf("%d bytes: not zero", n)
			}
			for i, page := range m.Pages {
				switch {
				case owned[page]:
					t.Fatalf("page %x belongs to something else, too", page)
				case page%nvme.Page != 0, i > 0 && n <= nvme.Contiguous && page != m.Pages[i-1]+nvme.Page:
					t.Fatalf("%d bytes: page %d at %x after %x", n, i, page, m.Pages[i-1])
				}
				owned[page] = true
			}
			for i := range m.Bytes {
				m.Bytes[i] = 0xa5
			}
		}
		for _, m := range all {
			for _, page := range m.Pages {
				delete(owned, page)
			}
			if err := tr.Free(m); err != nil {
				t.Error(err)
			}
			if tr.Free(m) == nil {
				t.Error("memory is freed twice without an error")
			}
		}
	}
	if tr.Free(&nvme.Memory{}) == nil {
		t.Error("memory of nobody is freed without an error")
	}
}

// Existing host memory is read into if the transport can map it, and refused after Free.
func others(t *testing.T, reach Reach) {
	content, d := Serve(t, soft.Options{})
	c := Open(t, reach(t, d), nvme.Options{})
	tr, q, space := c.Transport(), c.Queues()[0], c.Namespace()
	host, err := device.NewHost(4 * nvme.Page)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Free()
	b := host.Bytes()
	for _, wrong := range [][]byte{nil, b[1 : 1+nvme.Page], b[:100]} {
		if _, err := tr.Map(wrong); !errors.Is(err, nvme.ErrNoMapping) {
			t.Errorf("%d bytes that are no pages are mapped: %v", len(wrong), err)
		}
	}
	m, err := tr.Map(b)
	if errors.Is(err, nvme.ErrNoMapping) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := space.Transfer(spec.Read, 5, 24)
	if _, err := q.Do(&cmd, m, 512, 24*512); err != nil || !bytes.Equal(b[512:][:24*512], content[5*512:][:24*512]) {
		t.Error("other bytes, or ", err)
	}
	if err := tr.Free(m); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Do(&cmd, m, 512, 24*512); !errors.Is(err, spec.DataTransferError) {
		t.Errorf("memory that was given back is read into: %v", err)
	}
}

// Doorbells with a stride beyond the memory that a transport maps at first.
func far(t *testing.T, reach Reach) {
	content, d := Serve(t, soft.Options{StrideShift: 4, Queues: 40})
	c := Open(t, reach(t, d), nvme.Options{Queues: 40, Depth: 4})
	if n := len(c.Queues()); n != 40 {
		t.Fatalf("%d queues", n)
	}
	q, space := c.Queues()[39], c.Namespace()
	m := Alloc(t, c.Transport(), 4096)
	cmd := space.Transfer(spec.Read, 9, 1)
	if _, err := q.Do(&cmd, m, 0, 512); err != nil || !bytes.Equal(m.Bytes[:512], content[9*512:10*512]) {
		t.Errorf("queue %d: other bytes, or %v", q.ID(), err)
	}
}

// Closing disables the controller, also twice, also when nothing was opened on it.
func closing(t *testing.T, reach Reach) {
	_, d := Serve(t, soft.Options{})
	tr := reach(t, d)
	c := Open(t, tr, nvme.Options{Queues: 2})
	Alloc(t, tr, 10<<20) // and never freed
	for range 2 {
		if err := errors.Join(c.Close(), tr.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if _, itself := tr.(*soft.Drive); !itself {
		if v := d.Load32(spec.CSTS); v&spec.Ready != 0 {
			t.Errorf("the controller is on: CSTS %08xh", v)
		}
	}
	_, d = Serve(t, soft.Options{})
	if err := reach(t, d).Close(); err != nil {
		t.Error(err)
	}
	if strings.Contains(tr.Name(), " ") {
		t.Errorf("%q is no name for a flag", tr.Name())
	}
}

// Drive returns a drive of 4 MiB for other tests of a transport, and closes it at the end of the test.
func Drive(t *testing.T, o soft.Options) *soft.Drive {
	_, d := Serve(t, o)
	return d
}

// A lost completion ends in an error with the state of the queue; after a reset the controller works again.
func lost(t *testing.T, reach Reach) {
	var drop atomic.Bool
	drop.Store(true)
	_, d := Serve(t, soft.Options{Fate: func(*spec.Command) soft.Fate { return soft.Fate{Drop: drop.Load()} }})
	now, step := time.Unix(0, 0), time.Duration(0)
	c := Open(t, reach(t, d), nvme.Options{Now: func() time.Time { now = now.Add(step); return now }, Timeout: time.Hour})
	step = time.Second
	q, space := c.Queues()[0], c.Namespace()
	m := Alloc(t, c.Transport(), 4096)
	cmd := space.Transfer(spec.Read, 0, 1)
	_, err := q.Do(&cmd, m, 0, 512)
	if !errors.Is(err, nvme.ErrTimeout) || !strings.Contains(err.Error(), "opcode 02h") || !strings.Contains(err.Error(), "1 under way") {
		t.Errorf("%v", err)
	}
	if err := q.Submit(&cmd, m, 0, 512, 0); !errors.Is(err, nvme.ErrTimeout) {
		t.Errorf("a queue that is dead takes a command: %v", err)
	}
	drop.Store(false)
	step = 0
	if err := c.Reset(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Queues()[0].Do(&cmd, m, 0, 512); err != nil {
		t.Error(err)
	}
	if _, err := q.Poll(nil); !errors.Is(err, nvme.ErrClosed) {
		t.Errorf("a queue of before: %v", err)
	}
}

// Reads of all sizes, by queues of all depths and doorbell strides, in many laps, completed
// in another order than they were submitted.
func reads(t *testing.T, reach Reach) {
	for _, depth := range []int{2, 3, 64} {
		for _, stride := range []int{0, 4} {
			rnd := rand.New(rand.NewPCG(uint64(depth), uint64(stride)))
			fates := rand.New(rand.NewPCG(uint64(stride), uint64(depth))) // the controller's
			content, d := Serve(t, soft.Options{StrideShift: stride, Fate: func(*spec.Command) soft.Fate {
				return soft.Fate{Hold: fates.IntN(4) * fates.IntN(2)}
			}})
			c := Open(t, reach(t, d), nvme.Options{Depth: depth, Queues: 2})
			for _, q := range c.Queues() {
				space := c.Namespace()
				type read struct {
					first uint64
					n, at int
				}
				const each = 132 << 10
				m := Alloc(t, c.Transport(), (depth-1)*each)
				var free []int
				for i := range depth - 1 {
					free = append(free, i)
				}
				under := map[uint64]read{}
				place := map[uint64]int{}
				left, tag := 5*depth, uint64(0)
				for left > 0 || len(under) > 0 {
					for left > 0 && q.Room() > 0 {
						i := free[len(free)-1]
						free = free[:len(free)-1]
						n := 1 + rnd.IntN(256)
						r := read{first: uint64(rnd.IntN(size/512 - n)), n: n, at: i*each + 4*rnd.IntN(1024)}
						cmd := space.Transfer(spec.Read, r.first, n)
						if err := q.Submit(&cmd, m, r.at, n*512, tag); err != nil {
							t.Fatal(err)
						}
						under[tag], place[tag] = r, i
						tag++
						left--
					}
					if cmd := space.Transfer(spec.Read, 0, 1); q.Room() == 0 && !errors.Is(q.Submit(&cmd, m, 0, 512, 0), nvme.ErrFull) {
						t.Fatal("a full queue takes a command")
					}
					q.Ring()
					if _, err := q.Poll(func(tag uint64, done spec.Completion) {
						r, known := under[tag]
						if !known || done.Status.Failed() {
							t.Errorf("read %d: %v", tag, done.Status)
						}
						if want := content[r.first*512:][:r.n*512]; !bytes.Equal(m.Bytes[r.at:][:r.n*512], want) {
							t.Errorf("read %d of %d blocks from %d has other bytes", tag, r.n, r.first)
						}
						free = append(free, place[tag])
						delete(under, tag)
					}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// Written data is read back, and is in the file after a flush.
func writes(t *testing.T, reach Reach) {
	content, d := Serve(t, soft.Options{BlockBytes: 4096})
	c := Open(t, reach(t, d), nvme.Options{})
	q, space := c.Queues()[0], c.Namespace()
	m := Alloc(t, c.Transport(), 64<<10)
	for i := range m.Bytes {
		m.Bytes[i] = byte(i * 7)
	}
	cmd := space.Transfer(spec.Write, 3, 16)
	if _, err := q.Do(&cmd, m, 0, 64<<10); err != nil {
		t.Fatal(err)
	}
	cmd = space.Flush()
	if _, err := q.Do(&cmd, nil, 0, 0); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(strings.TrimPrefix(d.Name(), "soft:"))
	if err != nil {
		t.Fatal(err)
	}
	copy(content[3*4096:], m.Bytes)
	if !bytes.Equal(got, content) {
		t.Error("the file has other bytes")
	}
}
