package frontend

import (
	"fmt"

	"golang.org/x/sys/unix"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// openAs opens a file. refusal is the reason why its reads are not direct, "" if they are.
//
// A file system may refuse O_DIRECT at opening or only at reading, or need a larger alignment than Align,
// so openAs reads a page to find out.
func openAs(path string, mode iostack.Direct) (fd int, refusal string, err error) {
	if mode == iostack.DirectNever {
		fd, err = openFlags(path, 0)
		return fd, "buffered reads were asked for", err
	}
	fd, err = openFlags(path, unix.O_DIRECT)
	switch {
	case err == unix.EINVAL:
		refusal = "the file system refuses O_DIRECT"
		fd, err = openFlags(path, 0)
	case err == nil:
		refusal, err = probe(fd)
	}
	if err != nil {
		return fd, "", err
	}
	if refusal == "" || refusal == refusalEmpty {
		return fd, refusal, nil
	}
	if mode == iostack.DirectAlways {
		_ = unix.Close(fd)
		return 0, "", fault.New(fault.ErrUsage, "direct reads were asked for, but %s", refusal)
	}
	return fd, refusal, nil
}

// refusalEmpty is the reason for an empty file: direct reads cannot be tested.
const refusalEmpty = "the file is empty"

// probe reads the first page of a file opened with O_DIRECT. If the file system refuses the read, it clears
// O_DIRECT and returns the reason. After an error it closes the descriptor.
func probe(fd int) (refusal string, err error) {
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	page, err := device.NewHost(iostack.Align)
	if err != nil {
		return "", err
	}
	defer page.Free()

	n, err := 0, error(unix.EINTR)
	for err == unix.EINTR {
		n, err = unix.Pread(fd, page.Bytes(), 0)
	}
	switch {
	case err == unix.EINVAL || err == unix.EOPNOTSUPP:
		refusal = fmt.Sprintf("the file system refuses direct reads of aligned pages of %d bytes (%v)", iostack.Align, err)
	case err != nil:
		return "", fmt.Errorf("read the first page: %w", err)
	case n == 0:
		refusal = refusalEmpty
	default:
		return "", nil
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&^unix.O_DIRECT)
	}
	if err != nil {
		return "", fmt.Errorf("leave direct reads: %w", err)
	}
	return refusal, nil
}

// inMemory reports whether a file lies in memory. tmpfs takes O_DIRECT since Linux 6.6.
func inMemory(fd int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && (fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC)
}
