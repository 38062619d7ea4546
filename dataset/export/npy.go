package export

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"diskgnn/internal/binio"
)

// file is a file being written.
type file struct {
	ctx  context.Context
	buf  *bufio.Writer
	size int64
}

// append writes bytes, unless the context has ended.
func (w *file) append(b []byte) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	w.size += int64(len(b))
	_, err := w.buf.Write(b)
	return err
}

// integers appends elements of type int64 to a file, some at a time; the last ones by flush.
type integers struct {
	w    *file
	part [512]int64
	n    int // elements of part
}

func (i *integers) add(v int64) error {
	i.part[i.n] = v
	if i.n++; i.n == len(i.part) {
		return i.flush()
	}
	return nil
}

func (i *integers) flush() error {
	err := i.w.append(binio.Bytes(i.part[:i.n]))
	i.n = 0
	return err
}

func (e *exporting) create(name string, write func(*file) error) (err error) {
	path := filepath.Join(e.dir, name)
	f, err := e.fs.Create(path)
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	w := &file{ctx: e.ctx, buf: e.buf}
	w.buf.Reset(f)
	if err = write(w); err == nil {
		if err = w.buf.Flush(); err == nil {
			err = f.Sync()
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	e.written += w.size
	return e.ctx.Err()
}

// array writes a .npy file. write appends the elements, in the number that the shape determines.
func (e *exporting) array(name, descr string, shape []int64, write func(*file) error) error {
	return e.create(name, func(w *file) error {
		head := binio.NPYHeader(descr, shape)
		if err := w.append(head); err != nil {
			return err
		}
		if err := write(w); err != nil {
			return err
		}
		size := int64(descr[2] - '0') // of an element
		for _, d := range shape {
			size *= d
		}
		if w.size != int64(len(head))+size {
			return fmt.Errorf("it has %d bytes of elements instead of %d", w.size-int64(len(head)), size)
		}
		return nil
	})
}
