package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// pageMark is in every page of this program, near its beginning.
const pageMark = `<meta name="generator" content="diskgnn `

// writePage writes a page to a file that is not there, or is a page of this program: any other is
// left alone.
func writePage(name string, content func(io.Writer) error) error {
	var b bytes.Buffer
	if err := content(&b); err != nil {
		return err
	}
	f, err := vfs.OS.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := vfs.MakeParents(vfs.OS, name); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		head := make([]byte, 1024)
		n, err := f.ReadAt(head, 0)
		if err = errors.Join(ignoreEnd(err), f.Close()); err != nil {
			return err
		}
		if !bytes.Contains(head[:n], []byte(pageMark)) {
			return fault.New(fault.ErrExists, "%s exists and is no page of this program: remove it or choose another name", name)
		}
	}
	return vfs.ReplaceFile(vfs.OS, name, b.Bytes())
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
