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
	"slices"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// sourceContent identifies what is being imported by its bytes.
type sourceContent struct {
	sum   string
	files []sourceFile
}

// sourceFile is what the file system says of a file: enough to notice that it
// is written to meanwhile, or that another takes its name.
type sourceFile struct {
	name  string
	info  fs.FileInfo
	lines int64 // ends of lines, and what follows the last one
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

// lines returns the number of lines of each file.
func (c *sourceContent) lines() map[string]int64 {
	lines := map[string]int64{}
	for _, f := range c.files {
		lines[f.name] = f.lines
	}
	return lines
}

// hashFile adds a file to the hash and counts its lines.
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

// unchanged refuses to publish, or to keep for the next run, what was read from files that changed
// meanwhile.
func (c *sourceContent) unchanged(fsys vfs.FS) error {
	for _, f := range c.files {
		st, err := StatFile(fsys, f.name)
		if err != nil {
			return err
		}
		if st.Size() != f.info.Size() || !st.ModTime().Equal(f.info.ModTime()) || !os.SameFile(st, f.info) {
			return fault.New(fault.ErrInput, "%s changed while it was imported: import it again", f.name)
		}
	}
	return nil
}

// hashBuffer is what is read of a file at a time.
const hashBuffer = 256 << 10

// DropEdgeData notes that a file or directory has data of edges, such as weights and features, which
// no dataset has.
func (s *Shape) DropEdgeData(name string, data []string) {
	if len(data) == 0 {
		return
	}
	data = slices.Compact(slices.Sorted(slices.Values(data)))
	s.Notes = append(s.Notes, fmt.Sprintf("%s: data of edges is not imported: %.400s", name, strings.Join(data, ", ")))
}

// EdgeData returns those of the names of arrays or files that are of data of edges, as libraries call
// them, but for those given and for indices of edges.
func EdgeData(names []string, but ...string) (data []string) {
	for _, name := range names {
		isData := strings.HasPrefix(name, "edge_") || strings.HasPrefix(name, "edge-") || name == "weight" || name == "weights"
		if isData && !strings.HasPrefix(name, "edge_index") && !slices.Contains(but, name) {
			data = append(data, name)
		}
	}
	return data
}
