package importer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// TestDegreeCounter counts the edges 5→1, 2→1 and 1→1, and their reverses.
func TestDegreeCounter(t *testing.T) {
	for both, want := range map[bool][]uint32{false: {0, 3, 0, 0, 0, 0}, true: {0, 4, 1, 0, 0, 1}} {
		c := make(degreeCounter, 6)
		if err := c.AddAll([]uint32{1, 5, 1, 2, 1, 1}, both); err != nil || !slices.Equal(c, want) {
			t.Errorf("both %v: %d, %v; want %d", both, c, err, want)
		}
	}
}

// harm returns what does something to an existing file.
func harm(do func(f *os.File) error) func(name string) error {
	return func(name string) error {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(do(f), f.Close())
	}
}

// TestScratchFile writes two granules and a byte, and reads them back unless they changed.
func TestScratchFile(t *testing.T) {
	content := make([]byte, 2*dataset.Granule+1)
	for i := range content {
		content[i] = byte(i >> 10)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		harm func(name string) error
		want error
		says string
	}{
		{t.Context(), func(string) error { return nil }, nil, ""},
		{done, func(string) error { return nil }, context.Canceled, ""},
		{t.Context(), func(name string) error { return os.Truncate(name, 1000) }, fault.ErrCorrupt, "x has 1000 bytes instead of 2097153"},
		{t.Context(), harm(func(f *os.File) error { _, err := f.WriteAt([]byte{99}, dataset.Granule); return err }), fault.ErrCorrupt, "x: bytes 1048576 to 2097152 do not match"},
		{t.Context(), harm(func(f *os.File) error { _, err := f.WriteAt([]byte{99}, 2*dataset.Granule); return err }), fault.ErrCorrupt, "x: bytes 2097152 to 2097153 do not match"},
	} {
		name := filepath.Join(vfstest.TempDir(t), "x")
		s, err := createScratch(vfs.OS, name)
		if err != nil {
			t.Fatal(err)
		}
		for part := range slices.Chunk(content, 100_000) {
			if err := s.write(part); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(s.buf.Flush(), c.harm(name)); err != nil {
			t.Fatal(err)
		}
		got, err := s.read(c.ctx)
		if c.want == nil && (err != nil || !bytes.Equal(got, content)) || !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d bytes, %v; want %v %q", len(got), err, c.want, c.says)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file is left: %v", err)
		}
	}
}

// TestScratchFilesChange changes one of the files that a graph is searched in after it was compared
// with its checksums: the search's order is refused.
func TestScratchFilesChange(t *testing.T) {
	for what, change := range map[string]func(name string) error{
		"cut inside the page": func(name string) error { return os.Truncate(name, 20) },
		"an id out of range":  harm(func(f *os.File) error { _, err := f.WriteAt([]byte{0xFF}, 3); return err }),
	} {
		g, dir := &adjacency{fs: vfs.OS}, vfstest.TempDir(t)
		// A path of nodes 0, 1, 2, …
		for i, content := range [][]byte{binio.Bytes([]int64{0, 1, 3, 5, 6}), binio.Bytes([]uint32{1, 0, 2, 1, 3, 2})} {
			s, err := createScratch(vfs.OS, filepath.Join(dir, fmt.Sprint(i)))
			if err != nil {
				t.Fatal(err)
			}
			g.files = append(g.files, s)
			err = errors.Join(s.write(content), s.buf.Flush())
			if err == nil {
				err = os.Chtimes(s.name, time.Time{}, time.Unix(1e9, 0)) // times are noted in steps
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := g.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		from, to := make([]uint32, 4), make([]uint32, 4)
		search := func() error { return g.guard(func() error { return g.search(t.Context(), from, to) }) }
		if err := search(); err != nil || !slices.Equal(from, []uint32{1, 0, 2, 3}) {
			t.Errorf("%v, %v", from, err)
		}
		name := g.files[1].name
		if err := change(name); err != nil {
			t.Fatal(err)
		}
		if err := search(); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", what, err)
		}
		g.Indices = []uint32{1, 0, 900, 1, 3, 2}
		if err := g.search(t.Context(), from, to); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("a neighbour that is no node: %v", err)
		}
		if err := g.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestScratchFileFails returns the errors of making, writing and removing the file.
func TestScratchFileFails(t *testing.T) {
	boom := errors.New("boom")
	fails := func(op vfs.Op) (create, write, read, closed error) {
		fsys := vfs.Inject(vfs.OS, &vfs.FailAt{Err: boom, Match: func(o vfs.Op, _ string) bool { return o == op }})
		s, err := createScratch(fsys, filepath.Join(vfstest.TempDir(t), "x"))
		if err != nil {
			return err, nil, nil, nil
		}
		write = s.write(make([]byte, 300<<10)) // more than is held
		_, read = s.read(t.Context())
		return nil, write, read, s.close()
	}
	if create, _, _, _ := fails(vfs.OpCreate); !errors.Is(create, boom) {
		t.Errorf("create: %v", create)
	}
	if _, write, read, _ := fails(vfs.OpWrite); !errors.Is(write, boom) || !errors.Is(read, boom) || !strings.HasPrefix(write.Error(), "write ") {
		t.Errorf("write: %v, %v", write, read)
	}
	if _, _, _, closed := fails(vfs.OpRemove); !errors.Is(closed, boom) {
		t.Errorf("remove: %v", closed)
	}
}
