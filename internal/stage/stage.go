// Package stage makes a directory a transaction.
//
// A stage writes into NAME.partial/, which holds a lock file, a journal with the content parameters,
// and the files that the stage has finished so far. Commit makes the files durable, writes meta.json
// last, and renames NAME.partial to NAME. A directory without a valid meta.json does not exist.
//
// A second run with equal parameters finds the finished directory, compares its sizes and tables of
// checksums with meta.json (with force, all its bytes), and does nothing. With other parameters it refuses,
// whether the directory is finished or only begun. An interrupted run is resumed from its .partial, by the
// journal.
//
//	Begin ──► (Dir, StateNew | StateResumed) ──► write files, SaveProgress … ──► Commit
//	      └─► (nil, StateDone)                                              └─► End (keeps .partial, unless
//	                                                                            nothing of it is finished)
//
// Agrees returns Begin's refusal in advance, without changing anything.
//
// # Trust
//
// A resumed run verifies everything that it finds on disk. The journal has a checksum of its own, and
// the checksums of the files that it names as finished, made when the bytes were written. The resumed
// stage reads these files and compares. A .partial with a meta.json, which only needs its name, is
// published after a Check of all its bytes. So a changed byte in a .partial leads to the same directory
// or to an error, never to a different directory. Only run.json has no checksum.
//
// Inputs that are verified once and read later, such as a mapped topology, may change in between. The
// functions given to Watch compare them with their verified state before every journal entry and before
// meta.json, so that neither names data made from changed inputs.
//
// # Locks
//
// A process that writes to NAME.partial holds a lock on the file "lock" in it, which moves with the
// directory. Only the holder of the lock renames NAME.partial and removes its lock file. (vfs.FS.Lock
// makes sure that the locked file still has its name.) After a crash between the renaming and the
// removal of leftovers, the leftovers in NAME are removed under the lock file that moved there.
package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

const partialSuffix = ".partial"

// Partial returns the directory in which a stage works until out is finished.
func Partial(out string) string { return out + partialSuffix }

// State is the state of a directory at Begin.
type State int

// States that Begin returns.
const (
	StateNew     State = iota // there was nothing to resume from
	StateResumed              // an interrupted run with equal parameters
	StateDone                 // the finished directory, made with equal parameters
)

// String returns the state as results print it.
func (s State) String() string { return [...]string{"new", "resumed", "done"}[s] }

// Dir is a directory being written. Its methods are safe for concurrent use.
type Dir struct {
	fs    vfs.FS
	out   string // NAME
	path  string // NAME.partial
	spec  Spec
	hash  string // of the spec
	mark  string // hash of the spec and its way, the owner of the journal
	force bool
	whole Look // extent of the check of a finished directory
	wrong bool // the check has found damage: it is not repeated under the lock
	lock  io.Closer

	mu       sync.Mutex
	watched  []func() error // see Watch
	progress json.RawMessage
	keep     bool // NAME.partial has finished files from which a later run resumes
	note     string
}

// beginTries is the most attempts of Begin. An attempt fails if the directory vanishes before it is
// locked, because another process has finished.
const beginTries = 100

// Begin opens the transaction for the directory out. The state tells whether the run is new, resumes an
// interrupted run, or finds out finished; in the last case the Dir is nil. A directory made with other
// parameters is an error of kind fault.ErrExists.
//
// With force, a finished directory of the same format that has other parameters, or is damaged, is
// replaced at Commit, and stays unchanged until then. Begin then checks all bytes of a directory with
// equal parameters, not only sizes and tables. An unfinished directory with other parameters, or
// of another command, is discarded with force; without force, only if none of its files is finished.
// Nothing else is ever replaced: neither another format, which might be this stage's parent, nor files
// that no stage wrote.
//
// Content parameters that are nil are not known yet. They equal no others, and Settle sets them. If the
// run ends before Settle, the next run discards the directory.
//
// Where out is a symbolic link, the directory is the link's target. A mount point that is not the
// finished directory is refused: Commit could not replace it.
func Begin(fsys vfs.FS, out string, spec Spec, force bool) (*Dir, State, error) {
	for range beginTries {
		d, err := newDir(fsys, out, spec, force)
		if err != nil {
			return nil, 0, err
		}
		if force {
			d.whole = Bytes
		}
		if done, err := d.finished(); err != nil || done {
			return nil, StateDone, err
		}
		state, err := d.begin()
		switch {
		case errors.Is(err, errGone):
			continue
		case err != nil || state == StateDone:
			return nil, state, err
		}
		return d, state, nil
	}
	return nil, 0, fault.New(fault.ErrLocked, "other processes begin and finish %s again and again", out)
}

// newDir returns the directory of a specification, not locked and not begun.
func newDir(fsys vfs.FS, out string, spec Spec, force bool) (*Dir, error) {
	out, err := vfs.Destination(filepath.Clean(out))
	if err != nil {
		return nil, err
	}
	hash, err := hashJSON(spec)
	if err != nil {
		return nil, err
	}
	return &Dir{fs: fsys, out: out, path: out + partialSuffix, spec: spec, hash: hash, mark: markOf(hash, spec.By), force: force}, nil
}

// Settle sets the content parameters of a transaction that was begun with nil. It must be called before
// any progress is saved. The parameters are durable when it returns, so that a later run with the same
// parameters resumes.
func (d *Dir) Settle(params any) error {
	spec := d.spec
	spec.Params = params
	hash, err := hashJSON(spec)
	if err != nil {
		return err
	}
	d.spec, d.hash, d.mark = spec, hash, markOf(hash, spec.By)
	return d.SaveProgress(nil)
}

// errGone is returned if another process has finished and removed the directory.
var errGone = errors.New("the directory is gone")

// begin locks NAME.partial and determines its state.
func (d *Dir) begin() (state State, err error) {
	if err := vfs.CheckRenameable(d.out); err != nil {
		return 0, err
	}
	parent := filepath.Dir(d.out)
	if err := vfs.MakeParents(d.fs, d.out); err != nil {
		return 0, err
	}
	if err := d.fs.MkdirAll(d.path); err != nil {
		return 0, fmt.Errorf("make %s: %w", d.path, err)
	}
	// The journal inside is only as durable as the directory's name.
	if err := d.fs.SyncDir(parent); err != nil {
		return 0, err
	}
	if d.lock, err = d.fs.Lock(d.File(lockFile)); errors.Is(err, fs.ErrNotExist) {
		return 0, errGone
	} else if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = d.leave() // a remaining empty directory does no harm
		}
		if err != nil || state == StateDone {
			err = errors.Join(err, d.unlock())
		}
	}()
	// Another process may have finished between the first look and the lock.
	if done, err := d.finished(); err != nil || done {
		return StateDone, errors.Join(err, d.leave())
	}
	if done, err := d.complete(); err != nil || done {
		return StateDone, err
	}
	return d.recover()
}

// leave removes the directory if it has no file but the lock.
func (d *Dir) leave() error {
	names, err := d.fs.List(d.path)
	if err != nil || len(names) != 1 || names[0] != lockFile {
		return err
	}
	if err := d.fs.Remove(d.File(lockFile)); err != nil {
		return err
	}
	// From here on the lock excludes no other process: if another one has begun, it keeps the
	// directory.
	if err := d.fs.Remove(d.path); !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// complete publishes the directory of a run that died just before the rename. All files were durable
// then; complete checks that they have not changed since.
func (d *Dir) complete() (bool, error) {
	m, err := open(d.fs, d.path, "directory", []Format{d.spec.Format})
	if err != nil || d.spec.Check == nil {
		return false, nil
	}
	if was, err := hashJSON(m.spec()); err != nil || was != d.hash {
		return false, nil
	}
	err = d.spec.Check(d.path, m, Bytes)
	switch {
	case err == nil:
		if err := d.rewrite(m); err != nil {
			return false, err
		}
		return true, d.publish(m.Files)
	case !errors.Is(err, fault.ErrCorrupt):
		return false, fmt.Errorf("check %s: %w", d.path, plainly(err))
	}
	d.note = fmt.Sprintf("%s was complete, and is damaged (%v): the damaged files are made again", d.path, plainly(err))
	return false, d.fs.Remove(d.File(MetaFile))
}

// rewrite writes meta.json anew from its decoded content, since no checksum covers the white
// space in it.
func (d *Dir) rewrite(m *Meta) error {
	b, err := encode(m)
	if err != nil {
		return err
	}
	return vfs.ReplaceFile(d.fs, d.File(MetaFile), b)
}

// recover reads the journal of an interrupted run, or starts one.
func (d *Dir) recover() (State, error) {
	j, err := d.readJournal()
	if errors.Is(err, fs.ErrNotExist) {
		return d.start()
	}
	if refusal := d.refusal(&j, err); refusal != nil {
		return 0, refusal
	}
	switch {
	case err == nil && !j.finished() && string(j.Params) == "null":
		return StateNew, errors.Join(d.clear(), d.SaveProgress(nil))
	case err == nil && j.Hash == d.mark:
		d.progress, d.keep = j.Progress, j.finished()
		return StateResumed, nil
	case err == nil && !j.finished():
		d.note = fmt.Sprintf("discarding %s, which was begun with other parameters: nothing of it is finished", d.path)
	default:
		d.note = fmt.Sprintf("discarding %s, which was begun with other parameters or is damaged", d.path)
	}
	if err := d.clear(); err != nil {
		return 0, err
	}
	return StateNew, d.SaveProgress(nil) // until then the old journal identifies the owner of the files
}

func (d *Dir) readJournal() (journal, error) {
	b, err := vfs.ReadSmall(d.fs, d.File(journalFile), maxJournal)
	if err != nil {
		return journal{}, err
	}
	return decodeJournal(b)
}

// refusal returns the reason why the run cannot use a directory with journal j; err is the error of
// reading the journal. It returns nil if the run resumes, or discards the directory.
func (d *Dir) refusal(j *journal, err error) error {
	switch {
	case err == nil && (j.Hash == d.mark || !j.finished() || d.force):
		return nil
	case err == nil:
		return fault.New(fault.ErrExists, "%s was begun with other parameters (%s): give the same to resume it, --force to discard it and begin anew, or another name than %s",
			d.path, d.spec.changed(j.spec()), d.out)
	case errors.Is(err, fault.ErrCorrupt) && !d.force:
		return fault.New(fault.ErrCorrupt, "%s cannot be resumed: %w; --force discards it and begins anew", d.path, err)
	case errors.Is(err, fault.ErrExists), errors.Is(err, fault.ErrInput):
		return d.foreign(journalFile)
	case !errors.Is(err, fault.ErrCorrupt):
		return fmt.Errorf("read %s: %w", d.File(journalFile), err)
	}
	return nil
}

// start begins in a directory without a journal. It writes the journal before all other files.
func (d *Dir) start() (State, error) {
	if err := d.unused(); err != nil {
		return 0, err
	}
	return StateNew, d.SaveProgress(nil)
}

// unused refuses a directory without a journal that has files which this program did not write.
func (d *Dir) unused() error {
	names, err := d.fs.List(d.path)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n != lockFile && n != journalFile+vfs.TempSuffix {
			return d.foreign(n)
		}
	}
	return nil
}

func (d *Dir) foreign(name string) error {
	return fault.New(fault.ErrExists, "%s holds files that are not this program's (%s); remove it or choose another name than %s", d.path, name, d.out)
}

// clear removes the files of an interrupted run.
func (d *Dir) clear() error {
	names, err := d.fs.List(d.path)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n == lockFile || n == journalFile {
			continue
		}
		if err := d.fs.RemoveAll(d.File(n)); err != nil {
			return fmt.Errorf("clear %s: %w", d.path, err)
		}
	}
	return nil
}

// Watch registers a function that every later SaveProgress and Commit calls before it writes. The
// function returns an error if the inputs have changed since they were verified; this error ends the
// call.
func (d *Dir) Watch(unchanged func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watched = append(d.watched, unchanged)
}

// unchanged calls the functions given to Watch.
func (d *Dir) unchanged() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, unchanged := range d.watched {
		if err := unchanged(); err != nil {
			return err
		}
	}
	return nil
}

// Note returns a message for the user about Begin, such as a discarded directory, or "".
func (d *Dir) Note() string { return d.note }

// File returns the path of a file in the directory being written.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }

// FS returns the file system that the directory lies on.
func (d *Dir) FS() vfs.FS { return d.fs }

// Format returns the format of the directory being written.
func (d *Dir) Format() Format { return d.spec.Format }

// Path returns the directory being written.
func (d *Dir) Path() string { return d.path }

// CheckFree returns an error of kind fault.ErrBudget if the disk has less than need bytes of free space.
func (d *Dir) CheckFree(need int64) error {
	free, err := d.fs.Free(d.path)
	if err != nil {
		return err
	}
	if need > free {
		return fault.New(fault.ErrBudget, "%s needs about %s more of disk, but only %s is free: make room, or give --skip-space-check", d.out, budget.FormatBytes(need), budget.FormatBytes(free))
	}
	return nil
}

// Close releases the lock. The written files stay, so that a later run can resume.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	return d.unlock()
}

// End closes the transaction. err is the error of the stage's work, nil after Commit; End returns it,
// joined with its own errors. If a file is finished or the work was interrupted, the written files stay
// for a later run. Otherwise NAME.partial is removed, since no run could resume from it.
func (d *Dir) End(err error) error { return d.end(err, d.keep || interrupted(err)) }

// Drop is End for a stage that cannot go on from its files: after any error NAME.partial is removed.
func (d *Dir) Drop(err error) error { return d.end(err, false) }

// end closes the transaction. After an error it removes NAME.partial, unless a later run goes on from it.
func (d *Dir) end(err error, goesOn bool) error {
	if d.lock != nil && err != nil && !goesOn {
		_ = d.discard() // files that cannot be removed stay, as after a crash
	}
	return errors.Join(err, d.Close())
}

// interrupted reports whether an error is an interruption of the work.
func interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fault.ErrInterrupted)
}

// discard removes the directory: the journal last, since it identifies the owner of the files.
func (d *Dir) discard() error {
	if err := d.clear(); err != nil {
		return err
	}
	if err := d.fs.SyncDir(d.path); err != nil {
		return err
	}
	if err := d.fs.Remove(d.File(journalFile)); err != nil {
		return err
	}
	return d.leave()
}

func (d *Dir) unlock() error {
	l := d.lock
	d.lock = nil
	return l.Close()
}
