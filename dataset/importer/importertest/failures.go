package importertest

import (
	"iter"
	"slices"
	"testing"

	"diskgnn/internal/vfs"
)

// Failure is a file system, an operation of which fails.
type Failure struct {
	vfs.FS
	*vfs.FailAt
}

// Failures yields file systems over fsys. In the n-th, counted from 0, the n-th operation on files that is one
// of ops, or any if there are none, fails with err. The last file system is the first that does not fail: then
// Fired is false after its use. Files that are open after the use of a file system are errors of the test.
func Failures(t testing.TB, fsys vfs.FS, err error, ops ...vfs.Op) iter.Seq[*Failure] {
	t.Helper()
	match := func(op vfs.Op, _ string) bool { return len(ops) == 0 || slices.Contains(ops, op) }
	return func(yield func(*Failure) bool) {
		for n := 0; ; n++ {
			files := NewFiles(fsys)
			fail := &vfs.FailAt{N: n, Err: err, Match: match}
			more := yield(&Failure{vfs.Inject(files, fail), fail})
			if left := files.StillOpen(); len(left) > 0 {
				t.Errorf("%v: %q are open", fail, left)
			}
			if !more || !fail.Fired() {
				return
			}
		}
	}
}
