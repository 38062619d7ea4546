package volume_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
	"diskgnn/iostack/nvme/volume"
)

const mib = 1 << 20

// drive serves a file of zeros.
func drive(t *testing.T, size int64, o soft.Options, n nvme.Options) (path string, d *volume.QueueDrive) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "drive")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := soft.Open(vfs.OS, path, o)
	if err != nil {
		t.Fatal(err)
	}
	c, err := nvme.Open(context.Background(), s, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if d, err = volume.OnQueue(c, c.Queues()[0]); err != nil {
		t.Fatal(err)
	}
	return path, d
}

// What is written through a queue is in the file, and read again, in order or not, with more
// commands under way than one.
func TestOnQueue(t *testing.T) {
	for _, depth := range []int{2, 3, 256} {
		rnd, fates := rand.New(rand.NewPCG(uint64(depth), 1)), rand.New(rand.NewPCG(uint64(depth), 2))
		failed := map[uint64]bool{}
		path, d := drive(t, 4*mib, soft.Options{BlockBytes: 4096, TransferMax: 2, Fate: func(c *spec.Command) soft.Fate {
			f := soft.Fate{Hold: fates.IntN(3)}
			if first, _ := c.Blocks(); fates.IntN(5) == 0 && !failed[first] && c.Opcode() != spec.Flush {
				f.Status, failed[first] = spec.InternalError, true // may be tried again
			}
			return f
		}}, nvme.Options{Depth: depth})
		if d.Blocks() != 1024 || d.BlockBytes() != 4096 || d.MaxTransfer() != 16<<10 || d.Name() != "soft:"+path {
			t.Errorf("%d blocks of %d, %d, %s", d.Blocks(), d.BlockBytes(), d.MaxTransfer(), d.Name())
		}
		want := make([]byte, 4*mib)
		for range 20 {
			first := rnd.IntN(1000)
			b := make([]byte, (1+rnd.IntN(1024-first))*4096)
			for i := range b {
				b[i] = byte(rnd.Uint32())
			}
			if err := d.WriteBlocks(uint64(first), b); err != nil {
				t.Fatal(err)
			}
			copy(want[first*4096:], b)
		}
		if err := d.Flush(); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 4*mib)
		if err := d.ReadBlocks(0, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("depth %d: other bytes are read (%v)", depth, err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("depth %d: the file has other bytes (%v)", depth, err)
		}
	}
}

// A status that says so ends a transfer, and the drive is good for the next; one that goes on
// failing ends it too.
func TestOnQueueFails(t *testing.T) {
	var mu sync.Mutex
	fail := map[uint64]spec.Status{}
	tries := 0
	_, d := drive(t, 4*mib, soft.Options{Fate: func(c *spec.Command) soft.Fate {
		mu.Lock()
		defer mu.Unlock()
		first, _ := c.Blocks()
		if s, ok := fail[first]; ok && c.Opcode() != spec.Flush {
			tries++
			return soft.Fate{Status: s}
		}
		return soft.Fate{}
	}}, nvme.Options{})
	// let says what fails from now on, and returns how many commands have failed until now.
	let := func(f map[uint64]spec.Status) (n int) {
		mu.Lock()
		defer mu.Unlock()
		n, fail, tries = tries, f, 0
		return n
	}
	b := make([]byte, 4*mib)
	for _, x := range []struct {
		status spec.Status
		tries  int
	}{{spec.UnrecoveredReadError, 4}, {spec.AccessDenied | spec.DNR, 1}} {
		let(map[uint64]spec.Status{512: x.status})
		err := d.ReadBlocks(0, b)
		if n := let(fail); !errors.Is(err, x.status) || !strings.Contains(err.Error(), "blocks 512 to 768") || n != x.tries {
			t.Errorf("%v after %d tries", err, n)
		}
		if err := d.WriteBlocks(512, b[:512]); !errors.Is(err, x.status) || !strings.Contains(err.Error(), "write soft:") {
			t.Errorf("%v", err)
		}
		let(nil)
		if err := d.ReadBlocks(0, b); err != nil {
			t.Error(err)
		}
	}
	if err := d.ReadBlocks(8191, b[:1024]); err == nil {
		t.Error("a block behind the last is read")
	}
}

// A completion that is lost ends in an error.
func TestOnQueueLost(t *testing.T) {
	now, step := time.Unix(0, 0), time.Duration(0)
	_, d := drive(t, 4*mib, soft.Options{Fate: func(c *spec.Command) soft.Fate {
		first, _ := c.Blocks()
		return soft.Fate{Drop: first == 256}
	}}, nvme.Options{Now: func() time.Time { now = now.Add(step); return now }, Timeout: time.Hour})
	step = time.Second
	if err := d.ReadBlocks(0, make([]byte, mib)); !errors.Is(err, nvme.ErrTimeout) {
		t.Errorf("%v", err)
	}
	if err := d.Flush(); !errors.Is(err, nvme.ErrTimeout) {
		t.Errorf("%v", err)
	}
	step = 0 // closing takes as long as it does
}

// Many commands are under way at a time: as many as 8 MiB hold, 32 at most.
func TestOnQueueDepth(t *testing.T) {
	path, _ := drive(t, 4*mib, soft.Options{}, nvme.Options{})
	for mdts, want := range map[uint]uint32{2: 32, 5: 32, 8: 8} {
		s, err := soft.Open(vfs.OS, path, soft.Options{TransferMax: mdts})
		if err != nil {
			t.Fatal(err)
		}
		bell := &bell{Drive: s}
		c, err := nvme.Open(t.Context(), bell, nvme.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := volume.OnQueue(c, c.Queues()[0])
		if err != nil {
			t.Fatal(err)
		}
		size := int(want) * d.MaxTransfer()
		if err := d.ReadBlocks(0, make([]byte, min(size, 4*mib))); err != nil {
			t.Fatal(err)
		}
		if want = min(want, uint32(4*mib/d.MaxTransfer())); bell.first != want {
			t.Errorf("transfers of %d bytes: %d at a time, not %d", d.MaxTransfer(), bell.first, want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// bell remembers what the first ring of queue 1 announces.
type bell struct {
	*soft.Drive
	first uint32
}

func (b *bell) Store32(offset int, v uint32) {
	if offset == spec.SubmissionDoorbell(1, 4) && b.first == 0 {
		b.first = v
	}
	b.Drive.Store32(offset, v)
}

// The table is read, and the queue is free again.
func TestTables(t *testing.T) {
	path, d := drive(t, 4*mib, soft.Options{}, nvme.Options{})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, stage.MetaFile), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	m := &stage.Meta{Format: stage.Format{Name: "diskgnn.test", Version: 1}, Fingerprint: strings.Repeat("0", 64)}
	if _, err := volume.Load(t.Context(), []volume.Drive{d}, vfs.OS, dir, m, volume.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	if err := d.ReadBlocks(0, make([]byte, 512)); !errors.Is(err, nvme.ErrClosed) {
		t.Errorf("read of a closed drive: %v", err)
	}
	s, err := soft.Open(vfs.OS, path, soft.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := nvme.Open(t.Context(), s, nvme.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := volume.Tables([]*nvme.Controller{c})
	if err != nil || v.Contents().File(stage.MetaFile).Size != 2 {
		t.Fatalf("%+v %v", v, err)
	}
	if err := v.Read(v.Contents().File(stage.MetaFile), make([]byte, 2), 0); !errors.Is(err, nvme.ErrClosed) {
		t.Errorf("read of what has tables alone: %v", err)
	}
	space := c.Namespace()
	flush := space.Flush()
	if _, err := c.Queues()[0].Do(&flush, nil, 0, 0); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
