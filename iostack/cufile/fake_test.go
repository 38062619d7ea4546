package cufile

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/device"
	"diskgnn/device/cuda"
)

// fake is a libcufile whose device memory is the host's, as that of emulated devices is.
// It does wrong what FAKE_CUFILE says, like the one in testdata.
type fake struct {
	forbidden bool
	reads     atomic.Int64
	live      atomic.Int64 // handles and pins
}

func (f *fake) path() string { return "fake" }

// asked reports whether a fault was asked for at a place, and its number.
func asked(verb, place string) (number int, ok bool) {
	text := os.Getenv("FAKE_CUFILE")
	prefix := verb + ":" + place
	if len(text) < len(prefix) || text[:len(prefix)] != prefix {
		return 0, false
	}
	_, _ = fmt.Sscanf(text[len(prefix):], ":%d", &number)
	return number, true
}

func (f *fake) at(call, place string) error {
	if _, ok := asked("abort", place); ok {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	for _, ok := asked("hang", place); ok; {
		time.Sleep(time.Hour) // with nothing else to do, select would be a deadlock
	}
	code, ok := asked("fail", place)
	if !ok && f.forbidden {
		code, _ = asked("strict", place)
	}
	cuda := 0
	if code == 5011 {
		cuda = 999
	}
	return statusOf(call, code, cuda)
}

func (f *fake) forbidCompatibility() (bool, error) {
	f.forbidden = true
	return true, nil
}

func (f *fake) open() error { return f.at("cuFileDriverOpen", "open") }

func (f *fake) properties() (properties, error) {
	return properties{Major: 2, Minor: 26}, f.at("cuFileDriverGetProperties", "properties")
}

func (f *fake) register(fd int) (uintptr, error) {
	if err := f.at("cuFileHandleRegister", "register"); err != nil {
		return 0, err
	}
	f.live.Add(1)
	return uintptr(fd + 1000), nil
}

func (f *fake) deregister(uintptr) { f.live.Add(-1) }

func (f *fake) pin(uint64, int64) error {
	if err := f.at("cuFileBufRegister", "pin"); err != nil {
		return err
	}
	f.live.Add(1)
	return nil
}

func (f *fake) unpin(uint64) error {
	f.live.Add(-1)
	return nil
}

func (f *fake) read(handle uintptr, base uint64, size int, offset, at int64) (int, error) {
	nth := f.reads.Add(1) - 1
	if err := f.at("cuFileRead", "read"); err != nil {
		return 0, readStatus(-err.(*status).code, 0)
	}
	if n, ok := asked("nth", "read"); ok && int64(n) == nth {
		return 0, readStatus(-5044, 0)
	}
	if n, ok := asked("errno", "read"); ok {
		return 0, readStatus(-1, syscall.Errno(n))
	}
	if n, ok := asked("short", "read"); ok {
		size = min(size, n)
	}
	// Direct reads are of whole pages at aligned addresses.
	lead := int(offset % 4096)
	pages, err := device.NewHost((lead + size + 4095) &^ 4095)
	if err != nil {
		return 0, err
	}
	defer pages.Free()
	got, err := unix.Pread(int(handle)-1000, pages.Bytes(), offset-int64(lead))
	if err != nil {
		return 0, readStatus(-1, err.(syscall.Errno))
	}
	to := memory(base+uint64(at), size)
	n := copy(to, pages.Bytes()[min(lead, got):got])
	if _, ok := asked("flip", "read"); ok && n > 0 {
		to[0] ^= 1
	}
	return n, nil
}

// memory returns the memory at an address of an emulated device's.
func memory(address uint64, n int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}

// emulated opens a device that is none.
func emulated() (*cuda.Device, error) {
	return cuda.OpenEmulated(func(kernel string, _ []uint64, _ func(uint64) []byte) { panic(kernel) }, cuda.Options{})
}

// realVariable names what a child of these tests shall not replace: "library", or
// "all".
const realVariable = "TEST_CUFILE_REAL"

// What TestMain replaced.
var realDevice, realPresent, realLibrary = openDevice, present, loadLibrary

// TestMain makes the test binary a probe's child, too.
func TestMain(m *testing.M) {
	if os.Getenv(realVariable) != "all" {
		openDevice = emulated
		present = func() error { return nil }
	}
	if os.Getenv(realVariable) == "" {
		loadLibrary = func() (library, error) { return new(fake), nil }
	}
	if os.Getenv("FAKE_CUFILE") == "missing" {
		loadLibrary = func() (library, error) { return nil, os.ErrNotExist }
	}
	if Child() {
		return
	}
	os.Exit(m.Run())
}
