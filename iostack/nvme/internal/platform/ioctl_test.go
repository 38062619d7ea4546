package platform

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
)

// Numbers of requests as the headers of kernel modules spell them.
func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want uint32 }{
		{WriteRequest(0x80, 1, 24), 0x40188001},
		{WriteRequest(0x80, 3, 8), 0x40088003},
		{WriteRequest('u', 0x42, 24), 0x40187542},
		{ReadWriteRequest('u', 0x47, 8), 0xc0087547},
	} {
		if c.got != c.want {
			t.Errorf("%08x, want %08x", c.got, c.want)
		}
	}
}

func TestOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{file: unix.ENODEV, file + "s": fs.ErrNotExist} {
		if _, err := Kernel.Open(name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	fd, err := Kernel.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	if err := Kernel.Close(fd); err != nil {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	for text, err := range map[string]error{
		"there is no /dev/x: load it":      unix.ENOENT,
		"may be opened by root alone":      unix.EACCES,
		"/dev/x is no character device":    unix.ENODEV,
		"open /dev/x: too many open files": unix.EMFILE,
	} {
		got := Refused("/dev/x", err, "load it")
		if !strings.Contains(got.Error(), text) || errors.Is(got, fault.ErrUsage) == (err == unix.EMFILE) {
			t.Errorf("%v: %v", err, got)
		}
	}
}
