package frontend

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/iostack"
)

// TestOpenInMemory opens a file of tmpfs: reads are buffered, unless direct ones are asked for, which newer kernels take.
func TestOpenInMemory(t *testing.T) {
	const dir = "/dev/shm"
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skip("no tmpfs here")
	}
	file, err := os.CreateTemp(dir, "diskgnn-test")
	if err != nil {
		t.Skip(err)
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(make([]byte, iostack.Align)); err != nil {
		t.Fatal(err)
	}
	file.Close()
	for _, mode := range []iostack.Direct{iostack.DirectAuto, iostack.DirectAlways} {
		f, err := open(file.Name(), mode)
		switch {
		case mode == iostack.DirectAuto && (err != nil || f.direct || f.reason == ""):
			t.Errorf("%v: %+v, %v", mode, f, err)
		case mode == iostack.DirectAlways && err == nil && !f.direct:
			t.Errorf("%v: buffered: %s", mode, f.reason)
		}
		if err == nil {
			f.Close()
		}
	}
}
