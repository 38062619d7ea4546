package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Assemble writes the merged directory of a set of shards into dir, with all files durable. The caller
// commits it.
type Assemble func(ctx context.Context, dir *stage.Dir, set *Set, rep progress.Reporter) (Assembled, error)

// Assembled is the result of an Assemble.
type Assembled struct {
	Files   []stage.File // as stage.Dir.Commit takes them
	Facts   any
	Adopted Adopted
}

// Options are the options of a merge.
type Options struct {
	Out    string
	Shards []string // directories, in any order
	Force  bool     // replace a directory that was made with other parameters

	// Formats has the function that merges shards, by the format of the merged directory.
	Formats map[stage.Format]Assemble
	// Checks has the function that checks the merged directory, by its format.
	Checks map[stage.Format]Check
}

// Check is the stage.Spec.Check of a merged directory.
type Check func(ctx context.Context, fsys vfs.FS, dir string, m *stage.Meta, look stage.Look) error

// Result reports a merge. The JSON keys are stable.
type Result struct {
	Out         string `json:"out"`
	Fingerprint string `json:"fingerprint"`
	State       string `json:"state"` // new, resumed, or done: nothing had to be done

	Format string `json:"format"` // of the directory
	Shards int    `json:"shards"`

	LinkedBytes int64   `json:"linked_bytes"` // in files that have a second name in their shard
	CopiedBytes int64   `json:"copied_bytes"` // in files that this run copied
	DiskBytes   int64   `json:"disk_bytes"`   // of the directory's files
	Seconds     float64 `json:"seconds"`
}

// mergeWay distinguishes directories that a merge has begun from directories of the stage. A stage may
// write to the files in its directory, but the files of a merge may be links to the shards' files.
const mergeWay = "merge"

// words names a parameter of the shards in messages: merge has no flag for it.
func words(param string, value json.RawMessage) (name, text string) {
	name, text = stage.Plain(param, value)
	return "the shards' " + name, text
}

// runFacts is the content of run.json.
type runFacts struct {
	Started string  `json:"started"`
	Shards  int     `json:"shards"`
	Seconds float64 `json:"seconds"`

	Preprocessing json.RawMessage `json:"preprocessing,omitempty"` // the shards'
	ClassNames    json.RawMessage `json:"class_names,omitempty"`   // the shards'
}

// Merge combines all shards of a directory into the directory o.Out. Like a stage it resumes an
// interrupted run, does nothing if the directory is finished, and refuses one with other parameters
// unless o.Force is set. Progress goes to rep.
func Merge(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (Result, error) {
	start := time.Now()
	set, err := OpenSet(fsys, o.Shards)
	if err != nil {
		return Result{}, err
	}
	assemble, ok := o.Formats[set.Spec.Format]
	if !ok {
		return Result{}, unknown(set, o.Formats)
	}
	set.Spec.By, set.Spec.Words = mergeWay, words
	if check := o.Checks[set.Spec.Format]; check != nil {
		set.Spec.Check = func(dir string, m *stage.Meta, look stage.Look) error { return check(ctx, fsys, dir, m, look) }
	}
	dir, state, err := stage.Begin(fsys, o.Out, set.Spec, o.Force)
	if err != nil {
		return Result{}, err
	}
	r := Result{Out: o.Out, Format: set.Spec.Format.Name, Shards: len(set.Members), State: state.String()}
	if state == stage.StateDone {
		rep.Logf("%s is finished already: nothing to do", o.Out)
	} else {
		if note := dir.Note(); note != "" {
			rep.Logf("%s", note)
		}
		made, err := assemble(ctx, dir, set, rep)
		if err == nil {
			_, err = dir.Commit(made.Files, made.Facts, runFacts{start.UTC().Format(time.RFC3339), r.Shards, time.Since(start).Seconds(), stage.RunFact(fsys, o.Shards[0], stage.PreprocessingFact), stage.RunFact(fsys, o.Shards[0], stage.ClassNamesFact)})
		}
		if err := dir.End(err); err != nil {
			return Result{}, fmt.Errorf("merge into %s: %w", o.Out, err)
		}
		r.LinkedBytes, r.CopiedBytes = made.Adopted.Linked, made.Adopted.Copied
	}
	m, err := stage.Open(fsys, o.Out, "merged directory", set.Spec.Format)
	if err != nil {
		return Result{}, err
	}
	r.Fingerprint = m.Fingerprint
	for _, f := range m.Files {
		r.DiskBytes += f.Size
	}
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

// unknown returns the error for shards of a format that cannot be merged.
func unknown(set *Set, formats map[stage.Format]Assemble) error {
	is := set.Spec.Format
	known := stage.Versions[Assemble]{}
	for f, assemble := range formats {
		if f.Name == is.Name {
			known[f.Version] = assemble
		}
	}
	if len(known) > 0 {
		_, err := known.Decoder(is.Version, "version %d, this program merges version %s: make the shards again, or use the program that made them")
		return fmt.Errorf("%s is a shard of a %s, %w", set.Members[0].Dir, is.Name, err)
	}
	var names []string
	for f := range formats {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return fault.New(fault.ErrInput, "%s is a shard of a %s; only shards of %s can be merged", set.Members[0].Dir, is, strings.Join(names, ", "))
}

// Set is the complete set of shards of one directory.
type Set struct {
	Spec    stage.Spec // of the merged directory
	Members []Member   // in the order of the shards
}

// Member is one shard of a set.
type Member struct {
	Dir  string
	Meta *stage.Meta
}

// OpenSet opens the shards in dirs, in any order. It checks that they are shards of one directory, each
// exactly once, and makes the checks of stage.Open. It does not check the content of the files.
func OpenSet(fsys vfs.FS, dirs []string) (*Set, error) {
	if len(dirs) == 0 {
		return nil, fault.New(fault.ErrUsage, "no shards to merge")
	}
	var set *Set
	var first Shard // the shard in dirs[0]; the others must belong to the same directory
	for _, dir := range dirs {
		m, err := open(fsys, dir)
		if err != nil {
			return nil, err
		}
		spec, s, err := specOf(m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		if set == nil {
			set, first = &Set{Spec: spec, Members: make([]Member, s.Count)}, s
		}
		if spec.Format != set.Spec.Format || s.Count != first.Count {
			return nil, fault.New(fault.ErrUsage, "%s is shard %s of a %s, %s is shard %s of a %s: they are parts of different directories",
				dirs[0], first, set.Spec.Format, dir, s, spec.Format)
		}
		if diff, err := stage.Difference(set.Spec, spec); err != nil {
			return nil, err
		} else if diff != "" {
			return nil, fault.New(fault.ErrLineage, "%s and %s are parts of different directories: in the second, %s", dirs[0], dir, diff)
		}
		if was := set.Members[s.Index]; was.Meta != nil {
			return nil, fault.New(fault.ErrUsage, "%s and %s are both shard %s", was.Dir, dir, s)
		}
		set.Members[s.Index] = Member{dir, m}
	}
	return set, set.complete()
}

func open(fsys vfs.FS, dir string) (*stage.Meta, error) {
	m, err := stage.ReadMeta(fsys, dir, "shard")
	if err != nil {
		return nil, err
	}
	return stage.Open(fsys, dir, "shard", m.Format)
}

// complete returns an error that names the missing shards, if any.
func (set *Set) complete() error {
	var missing []string
	for i, m := range set.Members {
		if m.Meta == nil {
			missing = append(missing, Shard{i, len(set.Members)}.String())
		}
	}
	if n := len(missing); n > 0 {
		if most := 8; n > most {
			missing = append(missing[:most], fmt.Sprintf("… (%d in all)", n))
		}
		have := slices.IndexFunc(set.Members, func(m Member) bool { return m.Meta != nil })
		return fault.New(fault.ErrUsage, "missing from the shards to merge with %s: %s; %s is made by %s %s, with the other flags of the shards that are there",
			set.Members[have].Dir, strings.Join(missing, ", "), missing[0], set.Spec.Format.Shard().Maker(), missing[0])
	}
	return nil
}

// Source is a file of a finished directory that becomes a file of another directory.
type Source struct {
	Dir  string     // the finished directory
	File stage.File // name in both directories, and size
	// Check returns a checker of the file's bytes against the shard's checksums; name is the file's
	// name in errors.
	Check func(name string) (binio.Checker, error)
}

// Adopted has the bytes of adopted files.
type Adopted struct {
	Linked int64 // in files with a second name
	Copied int64 // in files that this run copied
}

// Adopt adds files to a directory that is being written: as hard links if the file system allows it,
// else as copies, which need disk space. It checks every byte against the shard's checksums, also of
// files that an earlier run has adopted, and adopts changed files again. After an interruption it may be
// called again. Linked files belong to two directories, so they must not be written to.
func Adopt(ctx context.Context, dir *stage.Dir, files []Source, rep progress.Reporter) (Adopted, error) {
	a := adoption{dir: dir, fs: dir.FS()}
	var total int64
	for _, f := range files {
		total += f.File.Size
	}
	a.task = rep.Task("check and take files", total, progress.Bytes)
	defer a.task.Done()
	var rest []Source // to be copied
	var need int64
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return a.Adopted, err
		}
		done, err := a.link(ctx, f)
		switch {
		case err != nil:
			return a.Adopted, a.failed("take", f, err)
		case done:
			a.Linked += f.File.Size
		default:
			rest, need = append(rest, f), need+f.File.Size
		}
	}
	if need == 0 {
		return a.Adopted, nil
	}
	if err := dir.CheckFree(need); err != nil {
		return a.Adopted, err
	}
	for i, f := range rest {
		if err := a.duplicate(ctx, f); err != nil {
			return a.Adopted, a.failed("copy", f, err)
		}
		a.Copied += f.File.Size
		if i == 0 { // from now on another command must not discard the directory without --force
			if err := dir.SaveProgress(true); err != nil {
				return a.Adopted, err
			}
		}
	}
	return a.Adopted, nil
}

// adoption is one call of Adopt.
type adoption struct {
	Adopted
	dir  *stage.Dir
	fs   vfs.FS
	task progress.Task
}

func (f Source) path() string { return filepath.Join(f.Dir, f.File.Name) }

// failed returns an error that names the file and, for damaged bytes, the command that makes the shard
// again.
func (a *adoption) failed(what string, f Source, err error) error {
	return stage.Damaged(fmt.Errorf("%s %s: %w", what, f.path(), err), f.Dir, a.dir.Format().Shard())
}

// link gives a file its second name, unless an earlier run has adopted it. It returns false if the file
// can only be copied.
func (a *adoption) link(ctx context.Context, f Source) (bool, error) {
	to := a.dir.File(f.File.Name)
	if ok, err := vfs.Exists(a.fs, to); err != nil {
		return false, err
	} else if ok {
		err := a.check(ctx, f, to, nil)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrInput) {
			return false, err
		}
		// It may be a link to the shard's file, which is checked below.
		if err := a.fs.RemoveAll(to); err != nil {
			return false, err
		}
	}
	err := a.fs.Link(f.path(), to)
	if vfs.CannotLink(err) {
		return false, nil
	}
	if err == nil {
		err = a.check(ctx, f, f.path(), nil)
	}
	return err == nil, err
}

// check reads the file name and compares it with the source's checksums. It calls read, unless that is
// nil, with each piece.
func (a *adoption) check(ctx context.Context, f Source, name string, read func([]byte) error) error {
	c, err := f.Check(name)
	if err != nil {
		return err
	}
	return stage.CheckFile(ctx, a.fs, name, f.File.Size, c, func(piece []byte) error {
		a.task.Add(int64(len(piece)))
		if read == nil {
			return nil
		}
		return read(piece)
	})
}

// duplicate makes a durable copy of a file. The copy gets its name only when it is complete.
func (a *adoption) duplicate(ctx context.Context, f Source) (err error) {
	to := a.dir.File(f.File.Name)
	dst, err := a.fs.Create(to + vfs.TempSuffix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	err = a.check(ctx, f, f.path(), func(piece []byte) error {
		_, err := dst.Write(piece)
		return err
	})
	if err != nil {
		return err
	}
	if err := dst.Sync(); err != nil {
		return err
	}
	return a.fs.Rename(to+vfs.TempSuffix, to)
}
