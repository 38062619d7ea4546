package stage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// replacedSuffix ends the name of a replaced directory, which publish moves aside.
const replacedSuffix = ".replaced"

// finished reports whether NAME is finished and was made with equal parameters. A finished directory
// that must not be replaced is an error.
func (d *Dir) finished() (bool, error) {
	ok, err := vfs.Exists(d.fs, d.out)
	if err != nil || !ok {
		return false, err
	}
	m, err := readMeta(d.fs, d.out, "directory")
	if err != nil {
		return false, d.unreadable(err)
	}
	if m.Format.Name != d.spec.Format.Name {
		return false, fault.New(fault.ErrExists, "%s exists and is a %s directory, which is never replaced: remove it or choose another name", d.out, m.Format.kind())
	}
	was := d.spec.upgraded(m.spec())
	hash, err := hashJSON(was)
	if err != nil {
		return false, err
	}
	if hash == d.hash && !d.wrong {
		err := d.look(m)
		if err == nil {
			return true, d.settle()
		}
		if !d.force || interrupted(err) || fault.Starved(err) {
			return false, err
		}
		d.wrong = true
		d.note = fmt.Sprintf("%s is damaged (%v): --force makes it again", d.out, plainly(err))
	}
	if d.force {
		return false, nil
	}
	return false, fault.New(fault.ErrExists, "%s exists and was made with other parameters (%s); use --force to replace it, or another name", d.out, d.spec.changed(was))
}

// look checks the sizes and the tables of a finished directory, and all its bytes if d.whole is Bytes.
func (d *Dir) look(m *Meta) error {
	err := m.checkSizes(d.fs, d.out)
	if err == nil && d.spec.Check != nil {
		err = d.spec.Check(d.out, m, d.whole)
	}
	if errors.Is(err, fault.ErrCorrupt) && !d.force {
		return fmt.Errorf("%w; use --force to make it again", plainly(err))
	}
	return err
}

// unreadable returns the error for a NAME with an unreadable meta.json. It returns nil if NAME is empty,
// or if force is given and NAME is a directory of this program.
func (d *Dir) unreadable(err error) error {
	names, lerr := d.fs.List(d.out)
	switch {
	case fault.Starved(err):
		return err
	case lerr == nil && len(names) == 0:
		return nil // an empty directory: publish moves it away
	case !d.claims(d.out):
		return fault.New(fault.ErrExists, "%s exists and is not a finished directory of this program; remove it or choose another name (%v)", d.out, err)
	case d.force:
		return nil
	}
	return fmt.Errorf("%w; use --force to make %s again", err, d.out)
}

// claims reports whether a directory's meta.json, even a damaged one, names the stage's format.
func (d *Dir) claims(dir string) bool {
	b, err := vfs.ReadSmall(d.fs, filepath.Join(dir, MetaFile), maxMeta)
	return err == nil && bytes.Contains(b, []byte(`"`+d.spec.Format.Name+`"`))
}

// settle removes the leftovers, in NAME and beside it, of a run that died after the rename. It
// recognises such a run by files that only unfinished directories have.
func (d *Dir) settle() error {
	if !has(d.fs, d.out, lockFile) && !has(d.fs, d.out, journalFile) {
		return nil
	}
	lock, err := d.fs.Lock(filepath.Join(d.out, lockFile))
	if err == nil {
		err = errors.Join(d.removeReplaced(), tidy(d.fs, d.out), lock.Close())
	}
	// Another process may have removed them, or this process may lack the permission. The directory is
	// finished in any case.
	for _, kind := range []error{fault.ErrLocked, fs.ErrNotExist, fs.ErrPermission, syscall.EROFS} {
		if errors.Is(err, kind) {
			return nil
		}
	}
	return err
}

// makeWay moves NAME aside, if it exists.
func (d *Dir) makeWay() error {
	ok, err := vfs.Exists(d.fs, d.out)
	if err != nil || !ok {
		return err
	}
	if err := d.removeReplaced(); err != nil {
		return err
	}
	old := d.out + replacedSuffix
	if ok, err := vfs.Exists(d.fs, old); err != nil {
		return err
	} else if ok {
		return fault.New(fault.ErrExists, "%s is in the way of moving %s there, and is not this program's: move it", old, d.out)
	}
	return d.fs.Rename(d.out, old)
}

// removeReplaced removes the directory moved aside, by this run or by one that died. The directory
// stays identifiable until the end: meta.json goes last.
func (d *Dir) removeReplaced() error {
	old := d.out + replacedSuffix
	names, err := d.fs.List(old)
	if err != nil {
		if ok, eerr := vfs.Exists(d.fs, old); eerr == nil && !ok {
			return nil
		}
		return err
	}
	if len(names) > 0 && !d.claims(old) {
		return nil
	}
	for _, n := range names {
		if n != MetaFile {
			if err := d.fs.RemoveAll(filepath.Join(old, n)); err != nil {
				return err
			}
		}
	}
	return d.fs.RemoveAll(old)
}

// tidy removes from a finished directory the files that only an unfinished one needs. Another process
// may do the same at the same time.
func tidy(fsys vfs.FS, dir string) error {
	for _, n := range []string{journalFile, lockFile} {
		if err := fsys.Remove(filepath.Join(dir, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func has(fsys vfs.FS, dir, name string) bool {
	ok, err := vfs.Exists(fsys, filepath.Join(dir, name))
	return ok && err == nil
}

// PreprocessingFact is the key of run.json under which a directory made from a dataset keeps the
// dataset's preprocessing. Directories made from it in turn inherit the value.
const PreprocessingFact = "preprocessing"

// ClassNamesFact is the key for the names of the dataset's classes, a list, in the same directories. It
// is absent if the classes have no names, or very long ones.
const ClassNamesFact = "class_names"

// maxRunFile bounds the bytes read of a run.json, which takes a few hundred, without names of classes.
const maxRunFile = 1 << 20

// RunFact returns the value of a key in the run.json of a finished directory, as JSON. It returns nil
// if run.json lacks the key or cannot be read. No checksum covers the value.
func RunFact(fsys vfs.FS, dir, key string) json.RawMessage {
	b, err := vfs.ReadSmall(fsys, filepath.Join(dir, RunFile), maxRunFile)
	if err != nil {
		return nil
	}
	var facts map[string]json.RawMessage
	if json.Unmarshal(b, &facts) != nil {
		return nil
	}
	return facts[key]
}
