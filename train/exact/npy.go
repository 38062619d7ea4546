package exact

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"diskgnn/internal/vfs"
)

// newFile is a file that gets its name when it is complete.
type newFile struct {
	fs   vfs.FS
	name string
	file vfs.File
	buf  *bufio.Writer
}

func createFile(fsys vfs.FS, name string) (*newFile, error) {
	f, err := fsys.Create(name + vfs.TempSuffix)
	if err != nil {
		return nil, err
	}
	return &newFile{fs: fsys, name: name, file: f, buf: bufio.NewWriterSize(f, fileBuffer)}, nil
}

const fileBuffer = 1 << 20

// npyHeader returns what precedes the elements, of a type like <f4.
func npyHeader(descr string, shape []int64) []byte {
	const magic, align = "\x93NUMPY\x01\x00", 64
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (", descr)
	for _, n := range shape {
		text += fmt.Sprintf("%d, ", n)
	}
	if len(shape) > 1 {
		text = strings.TrimSuffix(text, " ")
		text = strings.TrimSuffix(text, ",")
	} else {
		text = strings.TrimSuffix(text, " ") // (5,) is a tuple, (5) a number
	}
	text += "), }"
	length := len(magic) + 2 + len(text) + 1
	text += strings.Repeat(" ", (align-length%align)%align) + "\n"
	b := binary.LittleEndian.AppendUint16([]byte(magic), uint16(len(text)))
	return append(b, text...)
}

// createNPY begins a file in NumPy's format, version 1.
func createNPY(fsys vfs.FS, name, descr string, shape []int64) (*newFile, error) {
	n, err := createFile(fsys, name)
	if err != nil {
		return nil, err
	}
	if _, err := n.buf.Write(npyHeader(descr, shape)); err != nil {
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
	if err == nil {
		err = n.fs.Rename(n.name+vfs.TempSuffix, n.name)
	}
	if err != nil {
		return errors.Join(err, n.abandon())
	}
	return n.fs.SyncDir(filepath.Dir(n.name))
}

// abandon removes what was written so far.
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
