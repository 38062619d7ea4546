package stage

import (
	"errors"
	"io/fs"
	"path/filepath"

	"diskgnn/internal/vfs"
)

// Agrees returns the error with which Begin, called with the same arguments, would refuse the present
// state of out. It returns nil if Begin would start, resume, or find the directory finished. It changes
// nothing and takes no lock. It checks sizes and tables of a finished directory, also with force.
func Agrees(fsys vfs.FS, out string, spec Spec, force bool) error {
	d, err := newDir(vfs.ReadOnly(fsys), out, spec, force)
	if err != nil {
		return err
	}
	if done, err := d.finished(); err != nil || done {
		return err
	}
	if ok, err := vfs.Exists(d.fs, d.path); err != nil || !ok {
		return err
	}
	j, err := d.readJournal()
	if errors.Is(err, fs.ErrNotExist) {
		return d.unused()
	}
	return d.refusal(&j, err)
}

// Made returns the specification of the directory out, finished or begun, with Params as JSON. It
// returns false if out has neither a meta.json nor a journal that can be read.
func Made(fsys vfs.FS, out string) (Spec, bool) {
	out, err := vfs.Destination(filepath.Clean(out))
	if err != nil {
		return Spec{}, false
	}
	if m, err := readMeta(fsys, out, "directory"); err == nil {
		return m.spec(), true
	}
	d := &Dir{fs: fsys, path: out + partialSuffix}
	if j, err := d.readJournal(); err == nil {
		return j.spec(), true
	}
	return Spec{}, false
}

// Matching returns the index of the first of several specifications that equals the one of out,
// finished or begun, or -1. Stages with parameters that they choose by measuring use it to keep the
// choice of an earlier run.
func Matching(fsys vfs.FS, out string, specs []Spec) (int, error) {
	out = filepath.Clean(out)
	var done Spec
	if m, err := readMeta(fsys, out, "directory"); err == nil {
		done = m.spec()
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
		was, err := hashJSON(s.upgraded(done))
		if err != nil {
			return -1, err
		}
		if hash == was || markOf(hash, s.By) == begun.Hash {
			return i, nil
		}
	}
	return -1, nil
}

// markOf identifies the owner of a journal: the specification and the way.
func markOf(hash, by string) string {
	if by == "" {
		return hash
	}
	return hash + " by " + by
}
