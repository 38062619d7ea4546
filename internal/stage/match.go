package stage

import (
	"encoding/json"
	"path/filepath"

	"diskgnn/internal/vfs"
)

// Matching returns the first of several specifications that out, finished or
// interrupted, was made by, or -1. It is for parameters that are found by measuring:
// what an earlier run found is kept.
func Matching(fsys vfs.FS, out string, specs []Spec) (int, error) {
	out = filepath.Clean(out)
	var done Spec
	if m, err := ReadMeta(fsys, out, "directory"); err == nil {
		done = Spec{Format: m.Format, Params: m.Params, Parents: m.Parents}
	}
	was, err := hashJSON(done)
	if err != nil {
		return -1, err
	}
	var begun journal
	if b, err := vfs.ReadFile(fsys, filepath.Join(out+partialSuffix, journalFile)); err == nil {
		_ = json.Unmarshal(b, &begun) // a journal that cannot be read matches nothing
	}
	for i, s := range specs {
		hash, err := hashJSON(s)
		if err != nil {
			return -1, err
		}
		mark := hash
		if s.By != "" {
			mark += " by " + s.By
		}
		if hash == was || mark == begun.Hash {
			return i, nil
		}
	}
	return -1, nil
}
