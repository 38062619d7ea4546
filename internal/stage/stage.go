// Package stage makes a directory a transaction.
//
// A stage writes into NAME.partial/, which holds a lock file, a journal with the
// hash of the content parameters, and whatever the stage has finished so far.
// Commit makes the files durable, writes meta.json last, and renames
// NAME.partial to NAME. A directory without a valid meta.json does not exist.
//
// A second run with equal parameters finds the finished directory and does
// nothing; with others it refuses; an interrupted one finds its .partial and
// goes on from the journal.
//
//	Begin ──► (Dir, StateNew | StateResumed) ──► write files, SaveProgress … ──► Commit
//	      └─► (nil, StateDone)                                              └─► Close (keeps .partial)
package stage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

const partialSuffix = ".partial"

// State says what Begin found.
type State int

// What Begin finds.
const (
	StateNew     State = iota // nothing usable was there
	StateResumed              // an interrupted run with equal parameters
	StateDone                 // the finished directory, made with equal parameters
)

// String returns the state as results tell it.
func (s State) String() string { return [...]string{"new", "resumed", "done"}[s] }

// Dir is a directory being written. Its methods are safe for concurrent use.
type Dir struct {
	fs    vfs.FS
	out   string // NAME
	path  string // NAME.partial
	spec  Spec
	hash  string // of the spec
	mark  string // of the spec and its way: whose journal this is
	force bool
	lock  io.Closer

	mu       sync.Mutex
	progress json.RawMessage
	note     string
}

// Begin opens the transaction for the directory out. With force, a finished
// directory of the same format that was made with other parameters, or is
// damaged, is replaced at Commit, and until then stays as it is. Nothing else is
// ever replaced: neither another format, which might be this stage's parent, nor
// files that no stage wrote.
func Begin(fsys vfs.FS, out string, spec Spec, force bool) (*Dir, State, error) {
	out = filepath.Clean(out)
	hash, err := hashJSON(spec)
	if err != nil {
		return nil, 0, err
	}
	if done, err := finished(fsys, out, spec, hash, force); err != nil || done {
		return nil, StateDone, err
	}
	d := &Dir{fs: fsys, out: out, path: out + partialSuffix, spec: spec, hash: hash, mark: hash, force: force}
	if spec.By != "" {
		d.mark += " by " + spec.By
	}
	parent := filepath.Dir(out)
	if ok, err := vfs.Exists(fsys, parent); err != nil || !ok {
		return nil, 0, fault.New(fault.ErrUsage, "cannot write %s: the directory %s does not exist", out, parent)
	}
	if err := fsys.MkdirAll(d.path); err != nil {
		return nil, 0, fmt.Errorf("make %s: %w", d.path, err)
	}
	// What is journalled inside is as durable as the directory's name.
	if err := fsys.SyncDir(parent); err != nil {
		return nil, 0, err
	}
	if d.lock, err = fsys.Lock(filepath.Join(d.path, lockFile)); err != nil {
		return nil, 0, err
	}
	// Another process may have finished between the first look and the lock.
	if done, err := finished(fsys, out, spec, hash, force); err != nil || done {
		return nil, StateDone, errors.Join(err, d.abandon())
	}
	if m := d.complete(); m != nil {
		return nil, StateDone, errors.Join(d.publish(m.Files), d.Close())
	}
	state, err := d.recover()
	if err != nil {
		return nil, 0, errors.Join(err, d.Close())
	}
	return d, state, nil
}

// finished reports whether out is there, made with equal parameters.
func finished(fsys vfs.FS, out string, spec Spec, hash string, force bool) (bool, error) {
	ok, err := vfs.Exists(fsys, out)
	if err != nil || !ok {
		return false, err
	}
	m, err := ReadMeta(fsys, out, "directory")
	if err != nil {
		names, lerr := fsys.List(out)
		if lerr == nil && len(names) == 0 {
			return false, nil // an empty directory: Commit removes it
		}
		if force && claims(fsys, out, spec.Format) {
			return false, nil
		}
		return false, fault.New(fault.ErrExists, "%s exists and is not a finished directory of this program; remove it or choose another name (%v)", out, err)
	}
	if m.Format.Name != spec.Format.Name {
		return false, fault.New(fault.ErrExists, "%s exists and is a %s directory, which is never replaced: remove it or choose another name", out, m.Format.kind())
	}
	was, err := hashJSON(Spec{Format: m.Format, Params: m.Params, Parents: m.Parents})
	if err != nil {
		return false, err
	}
	if was == hash {
		damage := m.checkSizes(fsys, out)
		if damage == nil {
			return true, tidy(fsys, out)
		}
		if !force {
			return false, fmt.Errorf("%w; use --force to make it again", damage)
		}
	}
	if force {
		return false, nil
	}
	return false, fault.New(fault.ErrExists, "%s exists and was made with other parameters (%s); use --force to replace it, or another name", out, difference(m, spec))
}

// claims reports whether a directory's meta.json, which cannot be read, was
// written for the given format.
func claims(fsys vfs.FS, dir string, format Format) bool {
	b, err := vfs.ReadFile(fsys, filepath.Join(dir, MetaFile))
	return err == nil && bytes.Contains(b, []byte(format.Name))
}

func vfsHas(fsys vfs.FS, dir, name string) bool {
	ok, err := vfs.Exists(fsys, filepath.Join(dir, name))
	return ok && err == nil
}

// complete returns the meta.json of a run that got that far and died before the
// rename, or nil: all files are durable then.
func (d *Dir) complete() *Meta {
	m, err := Open(d.fs, d.path, "directory", d.spec.Format)
	if err != nil {
		return nil
	}
	if was, err := hashJSON(Spec{Format: m.Format, Params: m.Params, Parents: m.Parents}); err != nil || was != d.hash {
		return nil
	}
	return m
}

// abandon gives up a transaction that turned out to be needless.
func (d *Dir) abandon() error { return errors.Join(d.fs.RemoveAll(d.path), d.Close()) }

// recover reads the journal of an interrupted run, or starts one.
func (d *Dir) recover() (State, error) {
	var j journal
	b, err := vfs.ReadFile(d.fs, d.File(journalFile))
	if err == nil && json.Unmarshal(b, &j) == nil && j.Hash == d.mark {
		d.progress = j.Progress
		return StateResumed, nil
	}
	names, lerr := d.fs.List(d.path)
	if lerr != nil {
		return 0, lerr
	}
	bookkeeping := []string{lockFile, journalFile, journalFile + vfs.TempSuffix}
	for _, n := range names {
		if slices.Contains(bookkeeping, n) {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) { // the journal comes before all other files
			return 0, fault.New(fault.ErrExists, "%s holds files that are not this program's (%s); remove it or choose another name than %s", d.path, n, d.out)
		}
		if err := d.fs.RemoveAll(d.File(n)); err != nil {
			return 0, fmt.Errorf("clear %s: %w", d.path, err)
		}
	}
	if b != nil {
		d.note = fmt.Sprintf("discarding %s: it was begun with other parameters, or by another command", d.path)
	}
	return StateNew, d.SaveProgress(nil) // until then the old journal says whose the files are
}

// Note returns what the user should know of how the transaction began, or "".
func (d *Dir) Note() string { return d.note }

// File returns the path, inside the directory being written, of a file.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }

// FS returns the file system that the directory lies on.
func (d *Dir) FS() vfs.FS { return d.fs }

// Path returns the directory being written.
func (d *Dir) Path() string { return d.path }

// CheckFree refuses to begin what the disk has no room for.
func (d *Dir) CheckFree(need int64) error {
	free, err := d.fs.Free(d.path)
	if err != nil {
		return err
	}
	if need > free {
		return fault.New(fault.ErrBudget, "%s needs about %s more of disk, where %s is free", d.out, budget.FormatBytes(need), budget.FormatBytes(free))
	}
	return nil
}

// Close releases the lock. What was written stays, to be resumed.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	l := d.lock
	d.lock = nil
	return l.Close()
}
