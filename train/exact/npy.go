package exact

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"path/filepath"

	"diskgnn/internal/binio"
	"diskgnn/internal/vfs"
)

// newFile is a file that gets its name when it is complete.
type newFile struct {
	fs   vfs.FS
	name string
	file vfs.File
	buf  *bufio.Writer
	sum  hash.Hash // SHA-256 of the flushed bytes
	size int64
	// before, unless nil, is called with the file's hash and size when it is complete, before it
	// gets its name.
	before func(sum string, size int64) error
}

func createFile(fsys vfs.FS, name string) (*newFile, error) {
	f, err := fsys.Create(name + vfs.TempSuffix)
	if err != nil {
		_ = fsys.Remove(name + vfs.TempSuffix) // which a claim may have made
		return nil, err
	}
	n := &newFile{fs: fsys, name: name, file: f, sum: sha256.New()}
	n.buf = bufio.NewWriterSize(flushed{n}, fileBuffer)
	return n, nil
}

// flushed receives the bytes that the buffer of a file writes.
type flushed struct{ *newFile }

func (f flushed) Write(b []byte) (int, error) {
	n, err := f.file.Write(b)
	f.sum.Write(b[:n])
	f.size += int64(n)
	return n, err
}

// beside sets the function that is called when the file is complete, before it gets its name.
func (n *newFile) beside(do func(sum string, size int64) error) { n.before = do }

const fileBuffer = 1 << 20

// createNPY begins a file in NumPy's format, version 1.
func createNPY(fsys vfs.FS, name, descr string, shape []int64) (*newFile, error) {
	n, err := createFile(fsys, name)
	if err != nil {
		return nil, err
	}
	if _, err := n.buf.Write(binio.NPYHeader(descr, shape)); err != nil {
		return nil, errors.Join(err, n.abandon())
	}
	return n, nil
}

// write appends bytes.
func (n *newFile) write(ctx context.Context, b []byte) error {
	return inSteps(ctx, b, func(b []byte) error {
		_, err := n.buf.Write(b)
		return err
	})
}

// finish makes the file durable and gives it its name.
func (n *newFile) finish() error {
	err := n.buf.Flush()
	if err == nil {
		err = n.file.Sync()
	}
	if err == nil {
		err = n.close()
	}
	if err == nil && n.before != nil {
		err = n.before(hex.EncodeToString(n.sum.Sum(nil)), n.size)
	}
	if err == nil {
		err = n.fs.Rename(n.name+vfs.TempSuffix, n.name)
	}
	if err != nil {
		return errors.Join(err, n.abandon())
	}
	return n.fs.SyncDir(filepath.Dir(n.name))
}

// abandon removes the incomplete file.
func (n *newFile) abandon() error {
	_ = n.close() // it goes away
	return n.fs.Remove(n.name + vfs.TempSuffix)
}

func (n *newFile) close() error {
	if n.file == nil {
		return nil
	}
	f := n.file
	n.file = nil
	return f.Close()
}
