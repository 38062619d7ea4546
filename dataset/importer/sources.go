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
	"time"

	"diskgnn/dataset/importer/internal/file"
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
// is written to meanwhile.
type sourceFile struct {
	name     string
	size     int64
	modified time.Time
	lines    int64 // ends of lines, and what follows the last one
}

// statSources lists the files as they are before anything is read that is imported.
func statSources(fsys vfs.FS, names []string) (*sourceContent, error) {
	c := &sourceContent{}
	for _, name := range names {
		st, err := file.Stat(fsys, name)
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, sourceFile{name: name, size: st.Size(), modified: st.ModTime()})
	}
	return c, nil
}

// hash computes the SHA-256 over the files' sizes and contents, in order, and counts their lines.
// Names and places don't count.
func (c *sourceContent) hash(ctx context.Context, fsys vfs.FS, rep progress.Reporter) (err error) {
	var total int64
	for _, f := range c.files {
		total += f.size
	}
	task := rep.Task("hash source", total, progress.Bytes)
	defer task.Done()
	h := sha256.New()
	buf := make([]byte, hashBuffer)
	for i := range c.files {
		f := &c.files[i]
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(f.size)))
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
	f, err := file.Open(fsys, name)
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

// unchanged refuses to publish what was read from files that changed meanwhile.
func (c *sourceContent) unchanged(fsys vfs.FS) error {
	for _, f := range c.files {
		st, err := file.Stat(fsys, f.name)
		if err != nil {
			return err
		}
		if st.Size() != f.size || !st.ModTime().Equal(f.modified) {
			return fault.New(fault.ErrInput, "%s changed while it was imported: import it again", f.name)
		}
	}
	return nil
}

// hashBuffer is what is read of a file at a time.
const hashBuffer = 256 << 10
