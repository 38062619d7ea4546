package doctor

import (
	"os"

	"golang.org/x/sys/unix"
)

// deviceOf returns the numbers of the device that holds a directory.
func deviceOf(directory string) (major, minor uint32, err error) {
	var st unix.Stat_t
	if err := unix.Stat(directory, &st); err != nil {
		return 0, 0, &os.PathError{Op: "stat", Path: directory, Err: err}
	}
	return unix.Major(st.Dev), unix.Minor(st.Dev), nil
}
