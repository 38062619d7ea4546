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
	"strings"
	"sync"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

const partialSuffix = ".partial"

// Spec says what a directory will be: everything that decides its bytes.
type Spec struct {
	Format  Format            `json:"format"`
	Params  any               `json:"params"`
	Parents map[string]string `json:"parents,omitempty"`
}

// State says what Begin found.
type State int

// What Begin finds.
const (
	StateNew     State = iota // nothing usable was there
	StateResumed              // an interrupted run with equal parameters
	StateDone                 // the finished directory, made with equal parameters
)

// Dir is a directory being written. Its methods are safe for concurrent use.
type Dir struct {
	fs    vfs.FS
	out   string // NAME
	path  string // NAME.partial
	spec  Spec
	hash  string
	force bool
	lock  io.Closer

	mu       sync.Mutex
	progress json.RawMessage
	note     string
}

type journal struct {
	Format   Format          `json:"format"`
	Hash     string          `json:"params_sha256"`
	Progress json.RawMessage `json:"progress,omitempty"`
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
	d := &Dir{fs: fsys, out: out, path: out + partialSuffix, spec: spec, hash: hash, force: force}
	parent := filepath.Dir(out)
	if ok, err := vfs.Exists(fsys, parent); err != nil || !ok {
		return nil, 0, fault.New(fault.ErrUsage, "cannot write %s: the directory %s does not exist", out, parent)
	}
	if err := fsys.MkdirAll(d.path); err != nil {
		return nil, 0, fmt.Errorf("make %s: %w", d.path, err)
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
	was, err := hashJSON(Spec{m.Format, m.Params, m.Parents})
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

// difference names the parameters in which a finished directory differs.
func difference(m *Meta, spec Spec) string {
	if m.Format != spec.Format {
		return fmt.Sprintf("it is a %s", m.Format)
	}
	var is, want map[string]json.RawMessage
	b, err := canonical(spec.Params)
	was, err2 := canonical(m.Params)
	if err != nil || err2 != nil || json.Unmarshal(b, &want) != nil || json.Unmarshal(was, &is) != nil {
		return "parameters differ"
	}
	var diff []string
	for k, v := range want {
		if string(v) != string(is[k]) {
			diff = append(diff, fmt.Sprintf("%s is %s, asked for %s", k, orNone(is[k]), v))
		}
	}
	for role, fp := range spec.Parents {
		if m.Parents[role] != fp {
			diff = append(diff, fmt.Sprintf("its %s is %.12s…, given is %.12s…", role, m.Parents[role], fp))
		}
	}
	slices.Sort(diff)
	return strings.Join(diff, "; ")
}

func orNone(v json.RawMessage) string {
	if v == nil {
		return "none"
	}
	return string(v)
}

// complete returns the meta.json of a run that got that far and died before the
// rename, or nil: all files are durable then.
func (d *Dir) complete() *Meta {
	m, err := Open(d.fs, d.path, "directory", d.spec.Format)
	if err != nil {
		return nil
	}
	if was, err := hashJSON(Spec{m.Format, m.Params, m.Parents}); err != nil || was != d.hash {
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
	if err == nil && json.Unmarshal(b, &j) == nil && j.Hash == d.hash {
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
		d.note = fmt.Sprintf("discarding %s: it was begun with other parameters", d.path)
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

// Progress fills v with what SaveProgress last saved and reports whether there
// was anything.
func (d *Dir) Progress(v any) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.progress) == 0 || string(d.progress) == "null" {
		return false, nil
	}
	if err := json.Unmarshal(d.progress, v); err != nil {
		return false, fault.New(fault.ErrCorrupt, "%s: %v; remove %s and start again", d.File(journalFile), err, d.path)
	}
	return true, nil
}

// SaveProgress journals v durably. What v says is finished must be durable
// already.
func (d *Dir) SaveProgress(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.progress = raw
	b, err := json.Marshal(journal{d.spec.Format, d.hash, raw})
	if err != nil {
		return err
	}
	if err := vfs.ReplaceFile(d.fs, d.File(journalFile), b); err != nil {
		return fmt.Errorf("journal %s: %w", d.path, err)
	}
	return nil
}

// Commit finishes the transaction: the files, which their writers have synced,
// become NAME with the given facts. run holds the run facts that no fingerprint
// covers. It returns the fingerprint.
func (d *Dir) Commit(files []File, facts, run any) (string, error) {
	m := Meta{Format: d.spec.Format, Parents: d.spec.Parents, Files: files}
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	var err error
	if m.Params, err = canonical(d.spec.Params); err != nil {
		return "", err
	}
	if m.Facts, err = canonical(facts); err != nil {
		return "", err
	}
	if m.Fingerprint, err = m.fingerprint(); err != nil {
		return "", err
	}
	// What an interrupted run had finished may have been touched since.
	if err := m.checkSizes(d.fs, d.path); err != nil {
		return "", fmt.Errorf("%w; remove %s and run the command again", err, d.path)
	}
	if err := d.writeJSON(RunFile, run); err != nil {
		return "", err
	}
	if err := d.writeJSON(MetaFile, m); err != nil {
		return "", err
	}
	if err := d.publish(m.Files); err != nil {
		return "", fmt.Errorf("publish %s: %w", d.out, err)
	}
	return m.Fingerprint, d.Close()
}

// sweep removes everything but the files, so that scratch never gets published.
// It comes after meta.json: until then an interrupted run resumes from scratch.
func (d *Dir) sweep(files []File) error {
	names, err := d.fs.List(d.path)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n == lockFile || n == MetaFile || n == RunFile || slices.ContainsFunc(files, func(f File) bool { return f.Name == n }) {
			continue
		}
		if err := d.fs.RemoveAll(d.File(n)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dir) writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := vfs.WriteFile(d.fs, d.File(name), append(b, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", d.File(name), err)
	}
	return nil
}

// publish renames the complete directory into place, the lock still held inside.
// What it replaces is moved aside first and removed last, so that a crash in
// between loses neither.
func (d *Dir) publish(files []File) error {
	if err := d.sweep(files); err != nil {
		return err
	}
	if err := d.fs.SyncDir(d.path); err != nil {
		return err
	}
	old := d.out + ".replaced"
	ok, err := vfs.Exists(d.fs, d.out)
	if err != nil {
		return err
	}
	if ok {
		if err := d.fs.RemoveAll(old); err != nil {
			return err
		}
		if err := d.fs.Rename(d.out, old); err != nil {
			return err
		}
	}
	if err := d.fs.Rename(d.path, d.out); err != nil {
		return err
	}
	if err := d.fs.SyncDir(filepath.Dir(d.out)); err != nil {
		return err
	}
	if ok {
		if err := d.fs.RemoveAll(old); err != nil {
			return err
		}
	}
	return tidy(d.fs, d.out)
}

// tidy removes from a finished directory what only a directory under way needs.
func tidy(fsys vfs.FS, dir string) error {
	for _, n := range []string{journalFile, lockFile} {
		if vfsHas(fsys, dir, n) {
			if err := fsys.Remove(filepath.Join(dir, n)); err != nil {
				return err
			}
		}
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
