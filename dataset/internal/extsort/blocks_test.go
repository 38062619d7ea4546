package extsort

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// blocks returns a file of "row", nothing and "column".
func blocks(t *testing.T, name string, hidden bool) (*blockFile, []block) {
	t.Helper()
	f, err := createBlocks(vfs.OS, name, hidden)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	var list []block
	for _, raw := range []string{"row", "", "column"} {
		b, err := f.Write([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, b)
	}
	return f, list
}

func TestBlocksByHand(t *testing.T) {
	if n := unsafe.Sizeof(block{}); n != blockEntry {
		t.Errorf("a block takes %d bytes", n)
	}
	for _, hidden := range []bool{false, true} {
		name := filepath.Join(vfstest.TempDir(t), "scratch")
		f, list := blocks(t, name, hidden)
		for i, want := range []string{"row", "", "column"} {
			raw := make([]byte, list[i].Bytes())
			if err := f.Read(list[i], raw); err != nil || string(raw) != want {
				t.Errorf("block %d: %q, %v; want %q", i, raw, err, want)
			}
		}
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) != hidden {
			t.Errorf("hidden %v: %v", hidden, err)
		}
		if err := errors.Join(f.Close(), f.Close()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file was left: %v", err)
		}
	}
}

// TestDamaged changes a byte of the last block, and cuts it off.
func TestBlocksDamaged(t *testing.T) {
	for damage, want := range map[string]string{"rowcolUmn": "bytes 3 to 9 ", "rowcolum": "bytes 3 to 9: the file shrank"} {
		name := filepath.Join(vfstest.TempDir(t), "scratch")
		f, list := blocks(t, name, false)
		if err := os.WriteFile(name, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.Read(list[0], make([]byte, 3)); err != nil {
			t.Error(err)
		}
		if err := f.Read(list[2], make([]byte, 6)); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", damage, err)
		}
	}
}

// counted is a file system that counts its open files, each of which fails to close with err.
type counted struct {
	vfs.FS
	err  error
	open int
}

func (c *counted) Create(name string) (vfs.File, error) {
	f, err := c.FS.Create(name)
	if err == nil {
		c.open++
		f = &countedFile{f, c}
	}
	return f, err
}

type countedFile struct {
	vfs.File
	of *counted
}

func (f *countedFile) Close() error {
	f.of.open--
	return errors.Join(f.File.Close(), f.of.err)
}

// TestFails fails each operation, and at last the closing, of a file of one block. The error is
// returned, says what was attempted, and no file stays open.
func TestBlocksFail(t *testing.T) {
	boom, stuck := errors.New("boom"), errors.New("stuck")
	for _, c := range []struct {
		op     vfs.Op
		hidden bool
		says   string
	}{
		{vfs.OpCreate, false, "create "}, {vfs.OpCreate, true, "create "}, {vfs.OpRemove, false, "injected: remove"}, {vfs.OpRemove, true, "injected: remove"},
		{vfs.OpWrite, false, "write "}, {vfs.OpRead, true, "read "}, {vfs.OpClose, false, "stuck"}, {vfs.OpClose, true, "stuck"},
	} {
		fsys, want := &counted{FS: vfs.OS}, boom
		if c.op == vfs.OpClose {
			fsys.err, want = stuck, stuck
		}
		fail := &vfs.FailAt{Err: boom, Match: func(op vfs.Op, _ string) bool { return op == c.op }}
		f, err := createBlocks(vfs.Inject(fsys, fail), filepath.Join(vfstest.TempDir(t), "scratch"), c.hidden)
		if err == nil {
			var b block
			if b, err = f.Write([]byte("row")); err == nil {
				err = f.Read(b, make([]byte, 3))
			}
			err = errors.Join(err, f.Close())
		}
		if !errors.Is(err, want) || !strings.Contains(err.Error(), c.says) || fsys.open != 0 {
			t.Errorf("%s, hidden %v: %v, %d files are open", c.op, c.hidden, err, fsys.open)
		}
	}
}
