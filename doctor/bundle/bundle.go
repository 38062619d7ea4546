// Package bundle writes an archive for a report of a bug: facts about the program, the machine and
// directories, and no data.
//
//	contents.txt              the list of entries, and a note on everything that was left out
//	version.json doctor.json  from the caller
//	machine.json              host, limits of the cgroup and the process, drives
//	1/listing.txt             names and sizes of the first directory's files
//	1/meta.json, run.json, journal.json, metrics.jsonl
//
// Only metadata is opened: no features, edges, labels, ids, names of nodes or weights. Of the metadata,
// numbers are kept, and the texts under the keys of a list; paths are reduced to their last element (see
// redact). Directories may be damaged, unfinished, or foreign: parts that cannot be read are notes.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

const (
	mostBytes  = 8 << 20   // of all entries, before compression
	mostSource = 64 << 20  // of a metadata file that is read
	mostEntry  = 1 << 20   // of an entry
	mostTail   = 256 << 10 // of metrics.jsonl, from its end
	mostFiles  = 2000      // in a listing
	deepest    = 3         // levels of a listing
	partial    = ".partial"
	contents   = "contents.txt"
)

// Options say which bundle to write.
type Options struct {
	Out         string   // the archive, a .tar.gz
	Force       bool     // replace it
	Directories []string // that the report is about
	Root        string   // of the kernel's files; "" means /
	// Facts are encoded as JSON, as entries with these names, in this order. Texts under any key are
	// kept, with paths reduced.
	Facts []Fact
}

// Fact is a fact of the caller.
type Fact struct {
	Name  string
	Value any
}

// Bundle describes a written archive.
type Bundle struct {
	Path    string   `json:"path"`
	Bytes   int64    `json:"bytes"`
	Entries []string `json:"entries"`
	Notes   []string `json:"notes,omitempty"` // parts that were left out, and why
}

// entry is a file of the archive.
type entry struct {
	name string
	text []byte
}

// collector gathers entries up to the limits.
type collector struct {
	fs      vfs.FS
	entries []entry
	notes   []string
	room    int
}

// Write collects a bundle and writes it at once. An existing file is an error of kind fault.ErrExists
// without Force; a directory of the options that does not exist, not even unfinished, is one of
// fault.ErrInput.
func Write(ctx context.Context, fsys vfs.FS, o Options) (*Bundle, error) {
	there, err := vfs.Exists(fsys, o.Out)
	if err != nil {
		return nil, err
	}
	if there && !o.Force {
		return nil, fault.New(fault.ErrExists, "%s exists; --force replaces it", o.Out)
	}
	c := &collector{fs: fsys, room: mostBytes}
	for _, f := range o.Facts {
		c.encode(f.Name, trusted(f.Value))
	}
	c.encode("machine.json", machine(o.Root))
	for i, dir := range o.Directories {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := c.directory(strconv.Itoa(i+1), filepath.Clean(dir)); err != nil {
			return nil, err
		}
	}
	packed, err := archive(append([]entry{{contents, c.contents()}}, c.entries...))
	if err != nil {
		return nil, err
	}
	if err := vfs.MakeParents(fsys, o.Out); err != nil {
		return nil, err
	}
	if err := vfs.ReplaceFile(fsys, o.Out, packed); err != nil {
		return nil, fmt.Errorf("write the bundle: %w", err)
	}
	b := &Bundle{Path: o.Out, Bytes: int64(len(packed)), Entries: []string{contents}, Notes: c.notes}
	for _, e := range c.entries {
		b.Entries = append(b.Entries, e.name)
	}
	return b, nil
}

// directory collects a directory and its unfinished form, of which one must exist.
func (c *collector) directory(name, dir string) error {
	found := false
	for _, form := range []struct{ name, dir string }{{name, dir}, {name + partial, dir + partial}} {
		info, err := c.fs.Stat(form.dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			c.note("%s: %s", form.name, scrub(err.Error()))
		case !info.IsDir():
			return fault.New(fault.ErrInput, "%s is no directory", form.dir)
		default:
			c.inside(form.name, form.dir)
		}
		found = true
	}
	if !found {
		return fault.New(fault.ErrInput, "there is no directory %s", dir)
	}
	return nil
}

// inside collects the entries of one directory.
func (c *collector) inside(name, dir string) {
	var list strings.Builder
	fmt.Fprintf(&list, "%s\n", fileName(filepath.Base(dir)))
	n := 0
	c.list(&list, dir, "", &n)
	c.add(name+"/listing.txt", []byte(list.String()))
	for _, file := range []string{"meta.json", "run.json", "journal.json", "metrics.jsonl"} {
		c.metadata(name+"/"+file, filepath.Join(dir, file))
	}
}

// list writes the names and sizes of a directory's files.
func (c *collector) list(to *strings.Builder, dir, below string, n *int) {
	names, err := c.fs.List(dir)
	if err != nil {
		fmt.Fprintf(to, "%s: %s\n", below, scrub(err.Error()))
		return
	}
	for _, name := range names {
		if *n++; *n > mostFiles {
			fmt.Fprintf(to, "more than %d files\n", mostFiles)
			return
		}
		path, shown := filepath.Join(dir, name), below+fileName(name)
		info, err := c.fs.Stat(path)
		switch {
		case err != nil:
			fmt.Fprintf(to, "%s: %s\n", shown, scrub(err.Error()))
		case info.IsDir() && strings.Count(below, "/") < deepest-1:
			c.list(to, path, shown+"/", n)
		default:
			fmt.Fprintf(to, "%s %d\n", shown, info.Size())
		}
	}
}

// metadata collects a file of JSON, or the last lines of one of JSON lines.
func (c *collector) metadata(name, path string) {
	f, err := c.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		c.note("%s: %s", name, scrub(err.Error()))
		return
	}
	defer f.Close() // only read from
	info, err := c.fs.Stat(path)
	if err != nil {
		c.note("%s: %s", name, scrub(err.Error()))
		return
	}
	size, from := info.Size(), int64(0)
	lines := strings.HasSuffix(name, ".jsonl")
	switch {
	case lines:
		from = max(0, size-mostTail)
	case size > mostSource:
		c.note("%s: left out, it has %s", name, budget.FormatBytes(size))
		return
	}
	text := make([]byte, size-from)
	if n, err := f.ReadAt(text, from); n < len(text) {
		c.note("%s: %s", name, scrub(err.Error()))
		return
	}
	if !lines {
		v, err := decode(text)
		if err != nil {
			c.note("%s: left out, its %s are no JSON", name, budget.FormatBytes(size))
			return
		}
		c.encode(name, redact("", "", v))
		return
	}
	if from > 0 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
		c.note("%s: the last %s of %s", name, budget.FormatBytes(mostTail), budget.FormatBytes(size))
	}
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		if v, err := decode(line); err != nil {
			out.WriteString("\"no JSON\"\n")
		} else if b, err := json.Marshal(redact("", "", v)); err == nil {
			out.Write(append(b, '\n'))
		}
	}
	c.add(name, out.Bytes())
}

// decode decodes a text that is one JSON value. Numbers keep their digits.
func decode(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

// encode adds a value as an entry.
func (c *collector) encode(name string, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		c.note("%s: %v", name, err)
		return
	}
	c.add(name, append(b, '\n'))
}

// add adds an entry if there is room for it.
func (c *collector) add(name string, text []byte) {
	if len(text) > mostEntry {
		c.note("%s: cut to %s", name, budget.FormatBytes(mostEntry))
		text = text[:mostEntry]
	}
	if len(text) > c.room {
		c.note("%s: left out, the bundle is full", name)
		return
	}
	c.room -= len(text)
	c.entries = append(c.entries, entry{name, text})
}

func (c *collector) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// contents returns the first entry.
func (c *collector) contents() []byte {
	var b bytes.Buffer
	b.WriteString("A bundle of diskgnn doctor. It has no features, edges, labels, ids, names or weights.\n\n")
	for _, e := range c.entries {
		fmt.Fprintf(&b, "%s %d\n", e.name, len(e.text))
	}
	for _, n := range c.notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.Bytes()
}

// archive packs entries, without times and owners: equal entries give equal bytes.
func archive(entries []entry) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	for _, e := range entries {
		err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(e.text)), Mode: 0o644})
		if err == nil {
			_, err = t.Write(e.text)
		}
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", e.name, err)
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return nil, fmt.Errorf("pack the bundle: %w", err)
	}
	return b.Bytes(), nil
}
