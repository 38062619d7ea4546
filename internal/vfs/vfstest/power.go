package vfstest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"diskgnn/internal/vfs"
)

// PowerCommand is a command under test. It must run without other commands, and the order of its
// operations must not depend on the clock.
type PowerCommand struct {
	// Before makes the files below the root before the command runs; nil: none.
	Before func(root string) error
	// Run runs the command, first and again after each loss of power.
	Run func(fsys vfs.FS, root string) error
	// Made returns the content of the command's output files below the root, by name.
	Made func(root string) (map[string][]byte, error)
	// Left, if not nil, checks the files below the root when the power is back.
	Left func(root string, made map[string][]byte) error
}

// states is the number of tested states of each command, unless DISKGNN_POWER sets the number of states
// after each operation.
const states = 20

// SweepPower runs the command to its end, and then again with the power cut after each of its
// operations, or after some of them (see states). If a command ends without an error before the cut, its
// output must survive. The command then runs again and must make the same output. Every third time the
// power is cut once more while it resumes.
func SweepPower(t *testing.T, c PowerCommand) {
	t.Helper()
	root := filepath.Join(DurableDir(t), "root")
	fresh := func() *vfs.Volatile {
		t.Helper()
		err := errors.Join(os.RemoveAll(root), os.Mkdir(root, 0o777))
		if c.Before != nil {
			err = errors.Join(err, c.Before(root))
		}
		v, verr := vfs.NewVolatile(root)
		if err = errors.Join(err, verr); err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := fresh()
	if err := c.Run(v, root); err != nil {
		t.Fatal(err)
	}
	n := v.Changes()
	want, err := c.Made(root)
	if err != nil || len(want) == 0 {
		t.Fatalf("%d files were made (%v)", len(want), err)
	}
	step, each := max(1, n/states), 1
	if k, err := strconv.Atoi(os.Getenv("DISKGNN_POWER")); err == nil {
		step, each = 1, k
	}
	tried, seen := 0, make(map[[sha256.Size]byte]bool)
	cuts := []int{n, n, n, n, n} // nothing is under way: every kind of loss
	for cut := 0; cut < n; cut += step {
		cuts = append(cuts, cut)
	}
	for _, cut := range cuts {
		for i := range each {
			seed := uint64(tried)
			tried++
			what := fmt.Sprintf("cut at operation %d of %d, seed %d, of %d", cut, n, seed, each*len(cuts))
			ended, err := crash(fresh(), root, &c, cut, seed)
			if err == nil && ended {
				err = lasts(&c, root, want)
			}
			if err == nil && c.Left != nil {
				err = c.Left(root, want)
			}
			again := seed%3 == 0
			if err == nil && !again {
				var state [sha256.Size]byte
				if state, err = sum(root); seen[state] && err == nil {
					continue
				}
				seen[state] = true
			}
			if err == nil && again {
				what += ", and again"
				var v *vfs.Volatile
				if v, err = vfs.NewVolatile(root); err == nil {
					_, err = crash(v, root, &c, (7*cut+5*i)%(n+1), seed+2)
				}
			}
			if err == nil {
				err = c.Run(vfs.Unsynced(vfs.OS), root)
			}
			if err == nil {
				err = same(&c, root, want)
			}
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	t.Logf("%d operations, %d states, %d of them distinct or cut again", n, tried, len(seen)+(tried+2)/3)
}

// sum returns a checksum of everything below the root.
func sum(root string) (s [sha256.Size]byte, err error) {
	h := sha256.New()
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q\n", path)
		if d.IsDir() {
			return nil
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(h, "%d\n", len(b))
		h.Write(b)
		return err
	})
	return [sha256.Size]byte(h.Sum(nil)), err
}

// DurableDir returns a directory that is removed after the test. It is in memory if possible, since the
// test makes thousands of small files, and always on the same file system.
func DurableDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "power")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// crash runs the command until the power is cut, and makes the state after it. It reports whether
// the command had ended without an error by then.
func crash(v *vfs.Volatile, root string, c *PowerCommand, cut int, seed uint64) (ended bool, err error) {
	v.CutAt(cut)
	err = c.Run(v, root)
	if err != nil && !errors.Is(err, vfs.ErrPower) {
		return false, fmt.Errorf("ends with another error: %w", err)
	}
	return err == nil, v.Crash(seed)
}

// lasts checks that the complete output of a finished command exists.
func lasts(c *PowerCommand, root string, want map[string][]byte) error {
	got, err := c.Made(root)
	if err != nil {
		return fmt.Errorf("the command had ended: %w", err)
	}
	for name := range want {
		if b, ok := got[name]; !ok || !bytes.Equal(b, want[name]) {
			return fmt.Errorf("the command had ended, but %s has other bytes than it made", name)
		}
	}
	return nil
}

// same compares the output with want.
func same(c *PowerCommand, root string, want map[string][]byte) error {
	got, err := c.Made(root)
	if err != nil {
		return err
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, slices.Sorted(maps.Keys(want))) {
		return fmt.Errorf("made are %q", names)
	}
	for name := range want {
		if !bytes.Equal(got[name], want[name]) {
			return fmt.Errorf("%s has other bytes than without the cut", name)
		}
	}
	return nil
}

// Files returns the contents of all files below a directory, by path, except files with the base names
// in but.
func Files(dir string, but ...string) (map[string][]byte, error) {
	found := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || slices.Contains(but, d.Name()) {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		found[name], err = os.ReadFile(path)
		return err
	})
	return found, err
}
