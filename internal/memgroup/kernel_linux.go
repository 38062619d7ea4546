package memgroup

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func rmdir(dir string) error { return unix.Rmdir(dir) }

// gone reports whether no process has this number.
func gone(pid int) bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// isDelegated reports whether the process may divide a group: systemd marks the groups that it
// delegates, and a user owns the user's groups.
func isDelegated(dir string) bool {
	mark := make([]byte, 1)
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		if n, err := unix.Getxattr(dir, name, mark); err == nil && n == 1 && mark[0] == '1' {
			return true
		}
	}
	var st unix.Stat_t
	user := os.Geteuid()
	return user != 0 && unix.Stat(dir, &st) == nil && int(st.Uid) == user
}
