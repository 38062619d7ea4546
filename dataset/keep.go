package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// groups lists the data files that are written together: if one has changed, all are written
// again.
var groups = [][]string{
	{LabelsFile, SplitFile(Train), SplitFile(Valid), SplitFile(Test), TargetsFile, ClassNamesFile},
	{IndptrFile, IndicesFile},
	{FeaturesFile},
	{CompressedFeaturesFile},
	{NodeIDsFile},
	{NameOffsetsFile, NamesFile},
}

// keep checks the files that an interrupted run finished: every byte must match the checksums of
// writing, which the journal covers. Other files are forgotten and written again. Files that the
// journal does not list are removed.
func (w *Writer) keep(ctx context.Context, rep progress.Reporter) error {
	var total int64
	for _, f := range w.state.Files {
		total += f.Size
	}
	task := rep.Task("check finished files", total, progress.Bytes)
	defer task.Done()
	for _, group := range groups {
		for _, name := range group {
			i := slices.IndexFunc(w.state.Files, func(f stage.File) bool { return f.Name == name })
			if i < 0 {
				continue
			}
			err := w.checkFile(ctx, w.state.Files[i], task)
			switch {
			case err == nil:
				continue
			case !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrInput) && !errors.Is(err, fs.ErrNotExist):
				return err
			}
			rep.Logf("%v: writing this file again, and the files that belong to it", err)
			w.forget(group)
			break
		}
	}
	return w.removeOthers()
}

func (w *Writer) checkFile(ctx context.Context, file stage.File, task progress.Task) error {
	i := slices.IndexFunc(w.state.Files, func(f stage.File) bool { return f.Name == tableOf(file.Name) })
	if i < 0 {
		return fault.New(fault.ErrCorrupt, "the journal of %s has no checksums of %s", w.dir.Path(), file.Name)
	}
	c, err := readSums(w.dir.FS(), w.dir.Path(), file, w.state.Files[i])
	if err != nil {
		return err
	}
	return checkBytes(ctx, w.dir.FS(), w.dir.File(file.Name), file.Size, &c, task)
}

// checkBytes reads a data file and compares it with its checksums.
func checkBytes(ctx context.Context, fsys vfs.FS, name string, size int64, c *fileSums, task progress.Task) error {
	return stage.CheckFile(ctx, fsys, name, size, binio.CheckRanges(name, c.ranges()), func(piece []byte) error {
		task.Add(int64(len(piece)))
		return nil
	})
}

// forget takes files and their tables for unfinished.
func (w *Writer) forget(names []string) {
	w.state.Files = slices.DeleteFunc(w.state.Files, func(f stage.File) bool {
		return slices.ContainsFunc(names, func(name string) bool { return f.Name == name || f.Name == tableOf(name) })
	})
}

// removeOthers removes the files that are not named as finished, but for features that
// are durable in part.
func (w *Writer) removeOthers() error {
	names, err := w.dir.FS().List(w.dir.Path())
	if err != nil {
		return err
	}
	for _, name := range names {
		known := slices.ContainsFunc(groups, func(group []string) bool {
			return slices.ContainsFunc(group, func(n string) bool { return n == name || tableOf(n) == name })
		})
		switch {
		case strings.HasSuffix(name, scratchSuffix):
		case !known || w.Has(name):
			continue
		case w.state.Rows > 0 && (name == FeaturesFile || name == CompressedFeaturesFile):
			continue
		}
		if err := w.dir.FS().Remove(w.dir.File(name)); err != nil {
			return fmt.Errorf("clear %s: %w", w.dir.Path(), err)
		}
	}
	return nil
}

// Check checks a dataset directory that has a meta.json, as thoroughly as look says: it is the Check
// of stage.Spec. Unlike Verify it maps no file, and so works on any file system.
func Check(ctx context.Context, fsys vfs.FS, dir string, m *stage.Meta, look stage.Look) error {
	d, err := newDataset(fsys, dir, m)
	if err != nil {
		return err
	}
	for _, name := range d.facts.dataFiles() {
		c, err := d.checksums(name)
		if err != nil {
			return err
		}
		if look == stage.Tables {
			continue
		}
		f, _ := m.File(name)
		if err := checkBytes(ctx, fsys, d.path(name), f.Size, &c, progress.Discard.Task("", 0, "")); err != nil {
			return err
		}
	}
	return nil
}
