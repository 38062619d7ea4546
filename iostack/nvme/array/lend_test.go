package array

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

// Queues that are lent are beside the workers' own. A drive whose queues are lent is not reset
// when it fails, which would take the rings away from who drives them: it is given up.
func TestLent(t *testing.T) {
	c := &clock{}
	drop := once(20, soft.Fate{Drop: true}, func() { c.minutes.Add(120) })
	s := newStack(t, 1, Options{Options: iostack.Options{Workers: 16}, Timeout: timeout, Now: c.now, Lent: 2, LentDepth: 40},
		soft.Options{Fate: func(cmd *spec.Command) soft.Fate { return drop(cmd) }, MaxEntries: 33})
	drives, queues, depth, most, err := s.Lent()
	if err != nil || drives != 1 || queues != 2 || depth != 33 || most != 128<<10 {
		t.Fatalf("%d drives lend %d queues of %d entries for %d bytes: %v", drives, queues, depth, most, err)
	}
	controllers, own, err := s.Lend()
	if err != nil || len(controllers) != 1 || own != 1 || len(controllers[0].Queues()) != 3 {
		t.Fatalf("%d controllers, %d queues are the host's: %v", len(controllers), own, err)
	}
	path := filepath.Join(t.TempDir(), "content.bin")
	if err := os.WriteFile(path, make([]byte, pages*4096), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := s.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 2 {
		if _, err := read(s, f); !errors.Is(err, nvme.ErrTimeout) || !strings.Contains(err.Error(), "some of its queues are lent") {
			t.Fatalf("a completion that is lost: %v", err)
		}
	}
	if q := controllers[0].Queues(); len(q) != 3 {
		t.Fatalf("%d queues", len(q))
	} else if _, err := q[1].Lend(); err != nil {
		t.Errorf("a queue that was lent is gone: %v", err)
	}
}

// Without queues to lend, or with doorbells that a GPU cannot write, there are none.
func TestNotLent(t *testing.T) {
	s := newStack(t, 1, Options{}, soft.Options{})
	if _, _, err := s.Lend(); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "all of which the host uses") {
		t.Errorf("no queue is left: %v", err)
	}
	name := filepath.Join(t.TempDir(), "drive")
	if err := os.WriteFile(name, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := soft.Open(vfs.OS, name, soft.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err = New(t.Context(), []nvme.Transport{apart{d}}, Options{Lent: 2, LentDepth: 9}, func([]*nvme.Controller) (Table, error) { return &copying{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, _, _, _, err := s.Lent(); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "a GPU cannot write the doorbells") {
		t.Errorf("registers of a device: %v", err)
	}
}

// apart is a transport that does not say that its doorbells are memory.
type apart struct{ nvme.Transport }

// Where bytes of a file lie is what its table says.
func TestLocate(t *testing.T) {
	s := newStack(t, 3, Options{}, soft.Options{})
	path := filepath.Join(t.TempDir(), "content.bin")
	if err := os.WriteFile(path, make([]byte, 300_000), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := s.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for offset, want := range map[int64][3]int64{0: {0, 0, 65536}, 65536 + 4096: {1, 4096, 61440}, 3 * 65536: {0, 65536, 65536}} {
		if drive, at, n, err := s.Locate(f, offset); err != nil || [3]int64{int64(drive), at, n} != want {
			t.Errorf("byte %d lies at byte %d of drive %d, %d of them: %v", offset, at, drive, n, err)
		}
	}
	for _, offset := range []int64{-1, 300_000} {
		if _, _, _, err := s.Locate(f, offset); err == nil {
			t.Errorf("byte %d has a place", offset)
		}
	}
	if err := s.Has(path); err != nil {
		t.Error(err)
	}
	if err := s.Has(path + "x"); err == nil {
		t.Error("a file that is not there is on the drives")
	}
	other := newStack(t, 1, Options{}, soft.Options{})
	if _, _, _, err := other.Locate(f, 0); !errors.Is(err, iostack.ErrElsewhere) {
		t.Errorf("a file of another stack: %v", err)
	}
}
