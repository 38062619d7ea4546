//go:build !linux

package doctor

import "errors"

func deviceOf(string) (major, minor uint32, err error) {
	return 0, 0, errors.New("the drive of a directory is found on Linux only")
}
