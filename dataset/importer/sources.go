package importer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// sourceContent identifies a source by its bytes.
type sourceContent struct {
	sum   string
	files []sourceFile
}

// sourceFile is the state of a file in the file system. It shows if the file is written to, or
// replaced, meanwhile.
type sourceFile struct {
	name  string
	info  fs.FileInfo
	lines int64 // number of lines; the last one may lack its end
}

// statSources lists the files as they are before anything is read that is imported.
func statSources(fsys vfs.FS, names []string) (*sourceContent, error) {
	c := &sourceContent{}
	for _, name := range names {
		st, err := StatFile(fsys, name)
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, sourceFile{name: name, info: st})
	}
	return c, nil
}

// hash computes the SHA-256 over the files' sizes and contents, in order, and counts their lines.
// Names and places don't count.
func (c *sourceContent) hash(ctx context.Context, fsys vfs.FS, rep progress.Reporter) (err error) {
	var total int64
	for _, f := range c.files {
		total += f.info.Size()
	}
	task := rep.Task("hash source", total, progress.Bytes)
	defer task.Done()
	h := sha256.New()
	buf := make([]byte, hashBuffer)
	for i := range c.files {
		f := &c.files[i]
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(f.info.Size())))
		if f.lines, err = hashFile(ctx, fsys, f.name, h, buf, task); err != nil {
			return err
		}
	}
	c.sum = hex.EncodeToString(h.Sum(nil))
	return nil
}

func (c *sourceContent) lines() map[string]int64 {
	lines := map[string]int64{}
	for _, f := range c.files {
		lines[f.name] = f.lines
	}
	return lines
}

func hashFile(ctx context.Context, fsys vfs.FS, name string, h io.Writer, buf []byte, task progress.Task) (lines int64, err error) {
	f, err := OpenFile(fsys, name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	last := byte('\n')
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := f.Read(buf)
		if _, err := h.Write(buf[:n]); err != nil {
			return 0, err
		}
		if n > 0 {
			lines, last = lines+int64(bytes.Count(buf[:n], []byte("\n"))), buf[n-1]
		}
		task.Add(int64(n))
		if errors.Is(err, io.EOF) {
			if last != '\n' {
				lines++
			}
			return lines, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", name, err)
		}
	}
}

// unchanged returns an error if one of the files changed since it was read, so that its content is
// neither published nor kept for the next run.
func (c *sourceContent) unchanged(fsys vfs.FS) error {
	for _, f := range c.files {
		st, err := StatFile(fsys, f.name)
		if err != nil {
			return err
		}
		if st.Size() != f.info.Size() || !st.ModTime().Equal(f.info.ModTime()) || !os.SameFile(st, f.info) {
			return fault.New(fault.ErrInput, "%s changed during the import: import it again", f.name)
		}
	}
	return nil
}

// hashBuffer is the size of a read of a file.
const hashBuffer = 256 << 10

// DropEdgeData adds a note that the file or directory name has edge data, such as weights and
// features, which is not imported. data are the names of the data; if there are none, it does nothing.
func (s *Shape) DropEdgeData(name string, data []string) {
	if len(data) == 0 {
		return
	}
	data = slices.Compact(slices.Sorted(slices.Values(data)))
	for i, d := range data {
		if q := strconv.Quote(d); q != `"`+d+`"` {
			data[i] = q // control characters are not printed
		}
	}
	s.Notes = append(s.Notes, fmt.Sprintf("%s: data of edges is not imported: %.400s", name, strings.Join(data, ", ")))
}

// EdgeData returns the names of arrays or files that have edge data, by the usual naming: edge_*,
// edge-*, weight, weights. It leaves out edge_index and the names in but.
func EdgeData(names []string, but ...string) (data []string) {
	for _, name := range names {
		isData := strings.HasPrefix(name, "edge_") || strings.HasPrefix(name, "edge-") || name == "weight" || name == "weights"
		if isData && !strings.HasPrefix(name, "edge_index") && !slices.Contains(but, name) {
			data = append(data, name)
		}
	}
	return data
}

// StatFile is Stat for a file of a source. A missing file is an error of kind fault.ErrInput.
func StatFile(fsys vfs.FS, name string) (fs.FileInfo, error) {
	st, err := fsys.Stat(name)
	return st, missing(name, err)
}

// OpenFile opens a file of a source for reading. A missing file, or a path that cannot be a file's, is
// an error of kind fault.ErrInput.
func OpenFile(fsys vfs.FS, name string) (vfs.File, error) {
	f, err := fsys.Open(name)
	return f, missing(name, err)
}

// With opens a part of a source, calls do with it, and closes it.
func With[T io.Closer](open func() (T, error), do func(T) error) (err error) {
	part, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, part.Close()) }()
	return do(part)
}

// missing turns errors that are due to the name of a file into errors of kind fault.ErrInput; it
// returns other errors of the file system unchanged.
func missing(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.ErrInput, "%s is missing", name)
	}
	for _, e := range []error{syscall.EISDIR, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL} {
		if errors.Is(err, e) {
			return fault.New(fault.ErrInput, "%w", err)
		}
	}
	return err
}

// Unpacking wraps an error of a decompressor as one of kind fault.ErrInput.
func Unpacking(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.New(fault.ErrInput, "cannot be unpacked: truncated")
	}
	return fault.New(fault.ErrInput, "cannot be unpacked: %w", err)
}

// Inside returns the path of a file inside dir, given its slash-separated path in the description of a
// source. A path that leaves dir, also by a symbolic link, is an error of kind fault.ErrInput: a tree
// from somebody else must not make an import read other files of the machine.
func Inside(dir, name string) (string, error) {
	local := filepath.FromSlash(name)
	if strings.ContainsFunc(name, unicode.IsControl) {
		return "", fault.New(fault.ErrInput, "path %q has control characters", name)
	}
	if name == "" || !filepath.IsLocal(local) {
		return "", fault.New(fault.ErrInput, "path %q is not inside the directory", name)
	}
	path := filepath.Join(dir, local)
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return path, nil // opening the file reports the error
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path, nil
	}
	if rel, err := filepath.Rel(root, real); err != nil || !filepath.IsLocal(rel) {
		return "", fault.New(fault.ErrInput, "path %q is a symbolic link to outside the directory: put the file itself there", name)
	}
	return path, nil
}
