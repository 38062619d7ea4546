package importer

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// StatFile describes a file of a source, as OpenFile would find it.
func StatFile(fsys vfs.FS, name string) (fs.FileInfo, error) {
	st, err := fsys.Stat(name)
	return st, missing(name, err)
}

// OpenFile opens a file of a source for reading. A file that is missing is bad input, not a failure
// of the file system, and so is a name that no file can be read by.
func OpenFile(fsys vfs.FS, name string) (vfs.File, error) {
	f, err := fsys.Open(name)
	return f, missing(name, err)
}

// missing tells the errors that lie in a name from those of the file system.
func missing(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.ErrInput, "%s is missing", name)
	}
	for _, e := range []error{syscall.EISDIR, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL} {
		if errors.Is(err, e) {
			return fault.New(fault.ErrInput, "%w", err)
		}
	}
	return err
}

// Unpacking is the error of bytes that a decompressor could not read to their end.
func Unpacking(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.New(fault.ErrInput, "cannot be unpacked: truncated")
	}
	return fault.New(fault.ErrInput, "cannot be unpacked: %w", err)
}

// Inside returns the path of a file that a description inside a directory names, with slashes. The
// file is inside the directory as well: a name that leaves it is refused, and so is a symbolic
// link that does, which somebody else's tree may have to files of the machine.
func Inside(dir, name string) (string, error) {
	local := filepath.FromSlash(name)
	if strings.ContainsFunc(name, unicode.IsControl) {
		return "", fault.New(fault.ErrInput, "path %q has control characters", name)
	}
	if name == "" || !filepath.IsLocal(local) {
		return "", fault.New(fault.ErrInput, "path %q is not inside the directory", name)
	}
	path := filepath.Join(dir, local)
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return path, nil // opening the file says what is wrong
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path, nil
	}
	if rel, err := filepath.Rel(root, real); err != nil || !filepath.IsLocal(rel) {
		return "", fault.New(fault.ErrInput, "path %q is a symbolic link that leaves the directory: put the file itself there", name)
	}
	return path, nil
}
