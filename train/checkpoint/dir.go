package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/internal/vfs"
)

// Dir is a directory of checkpoints, made when the first is written. The caller makes sure that
// there is one writer.
type Dir struct {
	FS   vfs.FS
	Path string
}

const partial = ".partial"

func nameOf(step int64) string { return fmt.Sprintf("step-%012d.ckpt", step) }

func isName(name string) bool {
	var step int64
	_, err := fmt.Sscanf(name, "step-%d.ckpt", &step)
	return err == nil && name == nameOf(step)
}

// List returns the names of the checkpoints, the newest first.
func (d Dir) List() ([]string, error) {
	if ok, err := vfs.Exists(d.FS, d.Path); err != nil || !ok {
		return nil, err
	}
	all, err := d.FS.List(d.Path)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	names := slices.DeleteFunc(all, func(n string) bool { return !isName(n) })
	slices.Reverse(names)
	return names, nil
}

// File returns a checkpoint's path.
func (d Dir) File(name string) string { return filepath.Join(d.Path, name) }

// Read returns the content of a checkpoint: its head, and its sections by name, of at most most bytes
// together. A file longer than that, or with a wrong checksum, is an error of kind fault.ErrCorrupt.
// Read takes the memory of the file's length.
func (d Dir) Read(name string, most int64) (head json.RawMessage, sections map[string][]byte, err error) {
	b, err := d.read(d.File(name), MostFront+most)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", d.File(name), err)
	}
	if head, sections, err = Decode(b); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", d.File(name), err)
	}
	return head, sections, nil
}

func (d Dir) read(name string, most int64) ([]byte, error) {
	var size int64
	b, err := vfs.ReadExact(d.FS, name, func(n int64) error {
		if size = n; size > most {
			return corrupt("the file has %d bytes, but a checkpoint of this run has at most %d", size, most)
		}
		return nil
	})
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, corrupt("the file became shorter than %d bytes while it was read", size)
	}
	return b, err
}

// Write makes a checkpoint durable, replacing one of the same step, and then removes all but the
// newest keep. head must be encodable as JSON.
func (d Dir) Write(step int64, head any, sections map[string][]byte, keep int) error {
	name := d.File(nameOf(step))
	if err := d.write(name, head, sections); err != nil {
		return fmt.Errorf("write checkpoint %s: %w", name, err)
	}
	names, err := d.List()
	if err != nil {
		return err
	}
	return d.Remove(names[min(keep, len(names)):]...)
}

func (d Dir) write(name string, head any, sections map[string][]byte) error {
	content, err := Encode(head, sections)
	if err != nil {
		return err
	}
	if err := d.make(); err != nil {
		return err
	}
	if err := d.writeFile(name+partial, content); err != nil {
		return err
	}
	if err := d.FS.Rename(name+partial, name); err != nil {
		return err
	}
	return d.FS.SyncDir(d.Path)
}

// make makes the directory.
func (d Dir) make() error {
	if ok, err := vfs.Exists(d.FS, d.Path); err != nil || ok {
		return err
	}
	if err := d.FS.MkdirAll(d.Path); err != nil {
		return err
	}
	return d.FS.SyncDir(filepath.Dir(d.Path))
}

func (d Dir) writeFile(name string, content [][]byte) (err error) {
	f, err := d.FS.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, b := range content {
		if _, err := f.Write(b); err != nil {
			return err
		}
	}
	return f.Sync()
}

// Remove removes checkpoints, and the remnants of interrupted writes.
func (d Dir) Remove(names ...string) error {
	ok, err := vfs.Exists(d.FS, d.Path)
	if err != nil || !ok {
		return err
	}
	all, err := d.FS.List(d.Path)
	if err != nil {
		return fmt.Errorf("list checkpoints: %w", err)
	}
	for _, n := range all {
		whole, cut := strings.CutSuffix(n, partial)
		if !slices.Contains(names, n) && !(cut && isName(whole)) {
			continue
		}
		if err := d.FS.Remove(d.File(n)); err != nil {
			return fmt.Errorf("remove an old checkpoint: %w", err)
		}
	}
	return nil
}

// Clear removes all checkpoints, durably, and the directory.
func (d Dir) Clear() error {
	if ok, err := vfs.Exists(d.FS, d.Path); err != nil || !ok {
		return err
	}
	if err := d.FS.RemoveAll(d.Path); err != nil {
		return fmt.Errorf("remove the checkpoints: %w", err)
	}
	return d.FS.SyncDir(filepath.Dir(d.Path))
}

// Verify checks a checkpoint of any length, and returns its head and its length.
func (d Dir) Verify(name string) (head json.RawMessage, size int64, err error) {
	f, err := d.FS.Open(d.File(name))
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if head, err = Verify(f, st.Size()); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", d.File(name), err)
	}
	return head, st.Size(), nil
}
