package file

import (
	"path/filepath"
	"strings"
	"unicode"

	"diskgnn/internal/fault"
)

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
