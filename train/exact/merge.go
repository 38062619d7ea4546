package exact

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// MergeOptions choose the shares of a prediction, and the file to make of them.
type MergeOptions struct {
	Out    string   // file to make; its suffix chooses the format, as of PredictOptions.Out
	Shards []string // directories of all shares, in any order
	Force  bool     // replace a file that is there
}

// IsShare reports whether a directory is a share of a prediction.
func IsShare(fsys vfs.FS, dir string) bool {
	m, err := stage.ReadMeta(fsys, dir, "shard")
	return err == nil && m.Format.Name == ShareFormat.Name
}

// Merge makes the file of a prediction of all its shares, with the bytes that Predict gives it without shares,
// and its lineage file. It checks that the shares belong together, that each is there once, and all their bytes.
// The file appears only when it is complete. Without Force, Merge does nothing if the file is there with the
// lineage of the shares, and refuses another file. In the Result, the fingerprint is the file's SHA-256.
func Merge(ctx context.Context, fsys vfs.FS, o MergeOptions, rep progress.Reporter) (shard.Result, error) {
	start := time.Now()
	if err := checkSuffix(o.Out); err != nil {
		return shard.Result{}, err
	}
	set, err := shard.OpenSet(fsys, o.Shards)
	if err != nil {
		return shard.Result{}, err
	}
	m := &merging{fs: fsys, out: o.Out, set: set}
	for _, member := range set.Members {
		if m.params, err = openShare(member.Dir, member.Meta); err != nil {
			return shard.Result{}, stage.Damaged(err, member.Dir, ShareFormat)
		}
	}
	l := newLineage(o.Out, m.params.Origin)
	r := shard.Result{Out: o.Out, Format: shareFormat.Name, Shards: len(set.Members), State: stage.StateDone.String()}
	done := !o.Force && m.done(ctx, l)
	if done {
		rep.Logf("%s is finished already: nothing to do", o.Out)
	} else {
		r.State = stage.StateNew.String()
		err = m.make(ctx, &PredictOptions{Out: o.Out, Force: o.Force}, l, rep)
	}
	switch {
	case fault.EndedBy(ctx, err):
		return shard.Result{}, fault.New(fault.ErrInterrupted, "interrupted: nothing was kept")
	case err != nil:
		return shard.Result{}, fmt.Errorf("merge into %s: %w", o.Out, err)
	}
	r.Fingerprint, r.DiskBytes, r.CopiedBytes, r.Seconds = l.SHA256, l.Bytes, m.copied, time.Since(start).Seconds()
	return r, nil
}

// merging is a merge under way. It has the ids of the rows: see rowIDs.
type merging struct {
	fs     vfs.FS
	out    string
	set    *shard.Set
	params *shareParams
	copied int64

	ids    *checkedFile // of the share at hand, or nil
	member int          // the next one
	left   int64        // rows of the share at hand with ids to read
	line   []byte
}

// done reports whether the file is there, with the lineage l, of which it sets the bytes.
func (m *merging) done(ctx context.Context, l *Lineage) bool {
	was, err := readLineage(m.fs, m.out)
	if err != nil {
		return false
	}
	beside := ""
	if filepath.Ext(m.out) == suffixNPY {
		beside = idsFile(m.out, m.params.IDs)
	}
	return was.describes(ctx, m.fs, m.out, beside, l) == nil
}

// make writes the file and its lineage.
func (m *merging) make(ctx context.Context, o *PredictOptions, l *Lineage, rep progress.Reporter) (err error) {
	c, err := o.claim(m.fs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	v := m.params.values()
	if err := checkRoom(m.fs, m.out, m.out, &v, m.params.Rows); err != nil {
		return err
	}
	c.used = true
	out, err := newSink(m.fs, m.out, v, m)
	if err != nil {
		return errors.Join(err, m.close())
	}
	out.beside(func(sum string, size int64) error { return l.write(m.fs, m.out, sum, size) })
	task := rep.Task("merge", m.params.Rows, progress.Nodes)
	defer task.Done()
	first := 0
	for i, member := range m.set.Members {
		n := m.params.count(shard.Shard{Index: i, Count: len(m.set.Members)})
		if err := m.rows(ctx, member, first, n, out, task); err != nil {
			return errors.Join(err, m.close(), out.abandon())
		}
		first += int(n)
	}
	return out.finish()
}

// mergeRoom bounds the bytes of rows that are read at a time, except that a row is read whole.
const mergeRoom = 1 << 20

// rows passes the n rows of a share, of which the first has the given number, to out.
func (m *merging) rows(ctx context.Context, of shard.Member, first int, n int64, out sink, task progress.Task) (err error) {
	f, err := openChecked(m.fs, of, shareRows)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.file.Close()) }()
	v := m.params.values()
	size := int64(v.rowBytes())
	some := max(1, mergeRoom/size)
	cells := make([]byte, min(some, n)*size)
	for at := int64(0); at < n; at += some {
		cells := cells[:min(some, n-at)*size]
		if err := f.read(cells); err != nil {
			return err
		}
		if err := m.checkClasses(of, cells); err != nil {
			return err
		}
		if err := out.add(ctx, first+int(at), cells); err != nil {
			return err
		}
		task.Add(min(some, n-at))
	}
	m.copied += n * size
	return f.end()
}

// checkClasses refuses classes without a name, which only wrong bytes have.
func (m *merging) checkClasses(of shard.Member, cells []byte) error {
	if m.params.ClassNames == nil {
		return nil
	}
	for at := 0; at < len(cells); at += 4 {
		if x := binary.LittleEndian.Uint32(cells[at:]); int64(x) >= int64(len(m.params.ClassNames)) {
			return damagedShare(of, fault.New(fault.ErrCorrupt, "%s: there is no class %d", filepath.Join(of.Dir, shareRows), int32(x)))
		}
	}
	return nil
}

func (m *merging) kind() idsKind { return m.params.IDs }
func (m *merging) len() int      { return int(m.params.Rows) }

func (m *merging) number(i int) (int64, error) {
	if m.params.IDs == idsNone {
		return int64(i), nil
	}
	if err := m.next(); err != nil {
		return 0, err
	}
	var b [8]byte
	size := len(b)
	if m.params.IDs == idsNodes {
		size = 4
	}
	if err := m.ids.read(b[:size]); err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(b[:])), m.taken()
}

func (m *merging) name(b []byte, _ int) ([]byte, error) {
	if err := m.next(); err != nil {
		return b, err
	}
	var err error
	if m.line, err = m.ids.readLine(m.line[:0]); err != nil {
		return b, err
	}
	if wrong := dataset.CheckName(m.line); wrong != "" {
		return b, damagedShare(m.ids.of, fault.New(fault.ErrCorrupt, "%s: a name is none: %s", m.ids.path, wrong))
	}
	return append(b, m.line...), m.taken()
}

// next opens the ids of the next share with rows, where all ids of the one at hand are taken.
func (m *merging) next() (err error) {
	for m.left == 0 {
		m.left = m.params.count(shard.Shard{Index: m.member, Count: len(m.set.Members)})
		m.member++
	}
	if m.ids == nil {
		m.ids, err = openChecked(m.fs, m.set.Members[m.member-1], idsOfShare(m.params.IDs))
	}
	return err
}

// taken counts an id, and checks the share's file after the last.
func (m *merging) taken() error {
	if m.left--; m.left > 0 {
		return nil
	}
	return errors.Join(m.ids.end(), m.close())
}

// close closes the ids of the share at hand.
func (m *merging) close() error {
	if m.ids == nil {
		return nil
	}
	f := m.ids.file
	m.ids = nil
	return f.Close()
}

// checkedFile is a file of a share that is read from its begin to its end, and compared with its checksum.
type checkedFile struct {
	of    shard.Member
	path  string
	file  vfs.File
	buf   *bufio.Reader
	check binio.Checker
}

func openChecked(fsys vfs.FS, of shard.Member, name string) (*checkedFile, error) {
	c := &checkedFile{of: of, path: filepath.Join(of.Dir, name)}
	listed, _ := of.Meta.File(name)
	var err error
	if c.file, err = fsys.Open(c.path); err != nil {
		return nil, err
	}
	c.check = binio.CheckHash(c.path, listed.Checksum)
	c.buf = bufio.NewReaderSize(io.TeeReader(io.LimitReader(c.file, listed.Size), c.check), mergeRoom)
	return c, nil
}

// read fills b.
func (c *checkedFile) read(b []byte) error {
	_, err := io.ReadFull(c.buf, b)
	return c.short(err)
}

// readLine appends a line without its end.
func (c *checkedFile) readLine(b []byte) ([]byte, error) {
	line, err := c.buf.ReadSlice('\n')
	if err != nil {
		return b, c.short(err)
	}
	return append(b, line[:len(line)-1]...), nil
}

// short returns the error of a read. A file that ends early has wrong bytes.
func (c *checkedFile) short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, bufio.ErrBufferFull) {
		return damagedShare(c.of, fault.New(fault.ErrCorrupt, "%s has other bytes than %s says", c.path, stage.MetaFile))
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", c.path, err)
	}
	return nil
}

// end compares the file with its checksum. All bytes have been read.
func (c *checkedFile) end() error {
	if n, err := io.Copy(io.Discard, c.buf); err != nil || n > 0 {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return c.short(err)
	}
	return damagedShare(c.of, c.check.End())
}

// damagedShare adds to an error about wrong bytes the command that makes the share again.
func damagedShare(of shard.Member, err error) error {
	return stage.Damaged(err, of.Dir, ShareFormat)
}
