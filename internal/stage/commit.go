package stage

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/internal/vfs"
)

// Commit finishes the transaction: it writes meta.json with the files and the facts, and renames
// NAME.partial to NAME. The writers of the files must have synced them. run has the run facts, for
// run.json; no fingerprint covers them. Commit returns the fingerprint.
func (d *Dir) Commit(files []File, facts, run any) (string, error) {
	d.keep = true
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
	// Files that an interrupted run had finished may have been touched since.
	if err := m.checkSizes(d.fs, d.path); err != nil {
		return "", fmt.Errorf("%w; remove %s and run the command again", err, d.path)
	}
	if err := d.writeJSON(RunFile, run); err != nil {
		return "", err
	}
	if err := d.unchanged(); err != nil {
		return "", err
	}
	if err := d.writeJSON(MetaFile, m); err != nil {
		return "", err
	}
	if err := d.publish(m.Files); err != nil {
		return "", fmt.Errorf("publish %s: %w", d.out, err)
	}
	return m.Fingerprint, d.unlock()
}

// sweep removes everything but the files, so that scratch files are not published. It runs after
// meta.json is written, since an interrupted run needs the scratch files until then. The journal stays
// until the directory has its name, since it identifies the owner.
func (d *Dir) sweep(files []File) error {
	names, err := d.fs.List(d.path)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n == lockFile || n == journalFile || n == MetaFile || n == RunFile || slices.Contains(d.spec.Beside, n) || slices.ContainsFunc(files, func(f File) bool { return f.Name == n }) {
			continue
		}
		if err := d.fs.RemoveAll(d.File(n)); err != nil {
			return err
		}
	}
	return nil
}

// encode returns the content of a JSON file of a directory.
func encode(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return append(b, '\n'), err
}

func (d *Dir) writeJSON(name string, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	if err := vfs.WriteFile(d.fs, d.File(name), b); err != nil {
		return fmt.Errorf("write %s: %w", d.File(name), err)
	}
	return nil
}

// publish renames the complete directory into place, the lock still held inside. The replaced
// directory is moved aside first and removed last, so that a crash in between loses neither.
func (d *Dir) publish(files []File) error {
	// The name of meta.json must be durable before sweep removes the files from which a run resumes.
	if err := d.fs.SyncDir(d.path); err != nil {
		return err
	}
	if err := d.sweep(files); err != nil {
		return err
	}
	if err := d.fs.SyncDir(d.path); err != nil {
		return err
	}
	if err := d.makeWay(); err != nil {
		return err
	}
	if err := d.fs.Rename(d.path, d.out); err != nil {
		return err
	}
	if err := d.fs.SyncDir(filepath.Dir(d.out)); err != nil {
		return err
	}
	if err := d.removeReplaced(); err != nil {
		return err
	}
	return tidy(d.fs, d.out)
}
