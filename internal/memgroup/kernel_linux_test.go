package memgroup

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// childEnv names, for the test's second process, the file that it reads.
const childEnv = "DISKGNN_MEMGROUP_FILE"

// TestKernel: a process of its own enters a group, reads a file of four times the limit, is
// charged no more than the limit, and leaves nothing behind. It changes cgroups of the machine,
// and runs where DISKGNN_CGROUP allows it.
func TestKernel(t *testing.T) {
	if name := os.Getenv(childEnv); name != "" {
		child(t, name)
		return
	}
	if os.Getenv("DISKGNN_CGROUP") == "" {
		t.Skip("DISKGNN_CGROUP does not allow to make a cgroup")
	}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, make([]byte, 4*childLimit), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKernel$")
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte("FAIL")) {
		t.Errorf("%v\n%s", err, out)
	}
}

const childLimit = 64 << 20

func child(t *testing.T, name string) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
		t.Fatal(err)
	}
	g, err := Enter(childLimit, false)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<20)
	for at := int64(0); at < 4*childLimit; at += int64(len(b)) {
		if _, err := f.ReadAt(b, at); err != nil {
			t.Error(err)
			break
		}
	}
	charged := int64(-1)
	for _, file := range []string{"memory.current", "memory.usage_in_bytes"} {
		if text, err := (kernel{}).read(filepath.Join(g.Dir(), file)); err == nil {
			charged, _ = strconv.ParseInt(text, 10, 64)
		}
	}
	if charged < childLimit/2 || charged > childLimit {
		t.Errorf("%d bytes are charged to the group, of %d", charged, childLimit)
	}
	if err := g.Leave(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(g.Dir()); !os.IsNotExist(err) {
		t.Errorf("the group is still there: %v", err)
	}
	if h, err := find("/proc/self"); err != nil || strings.Contains(h.dir, prefix) {
		t.Errorf("in %+v, %v", h, err)
	}
}
