package stage

import (
	"path/filepath"

	"diskgnn/internal/vfs"
)

// Matching returns the first of several specifications that out, finished or
// interrupted, was made by, or -1. It is for parameters that are found by measuring:
// what an earlier run found is kept.
func Matching(fsys vfs.FS, out string, specs []Spec) (int, error) {
	out = filepath.Clean(out)
	var done Spec
	if m, err := readMeta(fsys, out, "directory"); err == nil {
		done = m.spec()
	}
	was, err := hashJSON(done)
	if err != nil {
		return -1, err
	}
	var begun journal
	if b, err := vfs.ReadSmall(fsys, filepath.Join(out+partialSuffix, journalFile), maxJournal); err == nil {
		begun, _ = decodeJournal(b) // a journal that cannot be read matches nothing
	}
	for i, s := range specs {
		hash, err := hashJSON(s)
		if err != nil {
			return -1, err
		}
		if hash == was || markOf(hash, s.By) == begun.Hash {
			return i, nil
		}
	}
	return -1, nil
}

// markOf says whose a journal is: of which specification, and which way.
func markOf(hash, by string) string {
	if by == "" {
		return hash
	}
	return hash + " by " + by
}
