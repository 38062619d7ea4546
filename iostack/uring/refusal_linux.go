package uring

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// explain adds the usual cause and remedy to an error from making a ring.
func explain(err error) error {
	var why string
	switch {
	case errors.Is(err, unix.ENOSYS):
		why = "this kernel has no io_uring (Linux 5.6 is the first that will do), or the container's seccomp profile hides it"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		setting, _ := os.ReadFile("/proc/sys/kernel/io_uring_disabled")
		why = forbidden(strings.TrimSpace(string(setting)))
	case errors.Is(err, unix.ENOMEM):
		why = "the limit of locked memory is too low: raise ulimit -l"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		why = "too many open files: raise ulimit -n"
	case errors.Is(err, unix.EINVAL):
		why = "this kernel's io_uring is too old: Linux 5.6 is the first that will do"
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, why)
}

// forbidden explains EPERM, given the value of the sysctl, "" if there is none.
func forbidden(setting string) string {
	switch setting {
	case "1":
		return "sysctl kernel.io_uring_disabled=1 keeps it for the group of kernel.io_uring_group; 0 permits it"
	case "2":
		return "sysctl kernel.io_uring_disabled=2 forbids it; 0 permits it"
	}
	return "a container's seccomp profile forbids it, as Docker's does: one that permits io_uring_setup, io_uring_enter and io_uring_register helps"
}
