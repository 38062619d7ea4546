package frontend

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/iostack"
)

// TestCopied opens files of a drive and of tmpfs: buffered reads are copies, and all of tmpfs, which takes O_DIRECT on newer
// kernels.
func TestCopied(t *testing.T) {
	shm, err := os.MkdirTemp("/dev/shm", "diskgnn-test")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(shm)
	for _, dir := range []string{t.TempDir(), shm} {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, make([]byte, iostack.Align), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, mode := range []iostack.Direct{iostack.DirectAuto, iostack.DirectNever} {
			f, err := open(path, mode)
			if err != nil {
				t.Fatal(err)
			}
			if want := !f.direct || fs.Type == unix.TMPFS_MAGIC; f.Copied() != want {
				t.Errorf("%s, %v: copied %v, direct %v", dir, mode, f.Copied(), f.direct)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
