package soft

import (
	"fmt"

	"diskgnn/iostack"
	"diskgnn/iostack/nvme/spec"
	"diskgnn/iostack/pread"
	"diskgnn/iostack/uring"
)

// media reads the file through a storage stack, so that many commands take one system call, and the data is
// read directly into the commands' memory. Its methods are for the controller's goroutine.
type media struct {
	stack iostack.Stack
	file  iostack.File
	ops   []op
	free  []*op
}

// mediumBuffer is the memory of a storage stack for each read under way, in bytes.
const mediumBuffer = 128 << 10

// op is a read under way.
type op struct {
	job   job
	group iostack.Group
	reqs  [1]iostack.Request
	parts [][]byte // of memory, which the read fills one after the other
}

// newMedia opens a file for up to depth reads at a time.
func newMedia(path string, depth int) (*media, error) {
	o := iostack.Options{Workers: depth}
	var s iostack.Stack
	s, err := uring.New(o)
	if err != nil {
		if s, err = pread.New(o); err != nil {
			return nil, err
		}
	}
	f, err := s.Open(path)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return &media{stack: s, file: f, ops: make([]op, depth)}, nil
}

func (m *media) begin(ended func(job)) {
	for i := range m.ops {
		o := &m.ops[i]
		o.group.Notify(func() {
			if err := o.group.Take(); err != nil {
				o.job.status = spec.UnrecoveredReadError
			}
			ended(o.job)
		})
		m.free = append(m.free, o)
	}
}

func (m *media) read(o *op, offset int64) spec.Status {
	o.reqs[0] = iostack.Request{File: m.file, Offset: offset, Scatter: o.parts}
	if len(o.parts) == 1 {
		o.reqs[0].Buf, o.reqs[0].Scatter = o.parts[0], nil
	}
	if err := m.stack.Submit(&o.group, o.reqs[:]); err != nil {
		return spec.InternalError
	}
	return spec.Success
}

func (m *media) close() error {
	if err := m.file.Close(); err != nil {
		_ = m.stack.Close()
		return fmt.Errorf("close the medium: %w", err)
	}
	return m.stack.Close()
}
