//go:build !linux

package frontend

import (
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

func openAs(path string, mode iostack.Direct) (fd int, refusal string, err error) {
	if mode == iostack.DirectAlways {
		return 0, "", fault.New(fault.ErrUsage, "direct reads were asked for, but only Linux has them")
	}
	fd, err = openFlags(path, 0)
	return fd, "only Linux has direct reads", err
}

// inMemory is for direct reads, which only Linux has.
func inMemory(int) bool { return false }
