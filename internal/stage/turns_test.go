package stage

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// pausing stops before its n-th operation, until it may go on.
type pausing struct {
	n    int
	stop chan struct{} // is closed at the operation
	goOn chan struct{}
}

func (p *pausing) Before(vfs.Op, string) error {
	if p.n--; p.n == -1 {
		close(p.stop)
		<-p.goOn
	}
	return nil
}

// TestTurns stops a stage before each of its operations, and lets another one make the same output, or
// replace it, meanwhile. Each of the two makes it, finds it made, or is refused by the other's lock; one of
// them makes it, and it is whole.
func TestTurns(t *testing.T) {
	for _, other := range []struct {
		seed  int
		force bool
	}{{1, false}, {2, true}} {
		for n, reached := 0, true; reached; n++ {
			synctest.Test(t, func(t *testing.T) {
				out := filepath.Join(t.TempDir(), "X")
				p := &pausing{n: n, stop: make(chan struct{}), goOn: make(chan struct{})}
				var first error
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, _, first = runStage(vfs.Inject(disk, p), out, 1, false)
				}()
				synctest.Wait()
				select {
				case <-p.stop:
				default:
					reached = false
				}
				_, _, second := runStage(disk, out, other.seed, other.force)
				close(p.goOn)
				<-ended
				for _, err := range []error{first, second} {
					if err != nil && !errors.Is(err, fault.ErrLocked) && !errors.Is(err, fault.ErrExists) {
						t.Errorf("operation %d, %+v: %v", n, other, err)
					}
				}
				if first != nil && second != nil {
					t.Errorf("operation %d, %+v: neither makes the directory: %v; %v", n, other, first, second)
				}
				m, err := Open(disk, out, "test directory", testFormat)
				if err == nil {
					err = checkFiles(disk, out, m.Files, Bytes)
				}
				if err != nil {
					t.Errorf("operation %d, %+v: %v", n, other, err)
				}
				if left := names(t, filepath.Dir(out)); len(left) != 1 {
					t.Errorf("operation %d, %+v: the parent has %q", n, other, left)
				}
			})
		}
	}
}
