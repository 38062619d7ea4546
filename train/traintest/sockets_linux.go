package traintest

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Sockets returns two connected Unix stream sockets. The caller closes them.
func Sockets(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
		_ = f.Close()
	}
	return ends[0], ends[1]
}
