package exact

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
)

// lockHook calls before, ahead of every lock.
type lockHook struct {
	vfs.FS
	before func()
}

func (l lockHook) Lock(name string) (io.Closer, error) {
	l.before()
	return l.FS.Lock(name)
}

// TestOneAtATime: while a prediction is made, another of the same name is refused, and one that was
// made before the claim is not replaced.
func TestOneAtATime(t *testing.T) {
	w := smallWorld(t)
	o := PredictOptions{Options: w.options(), Out: w.path("out.npy")}
	var second error
	begun := 0
	stack := func(kind string, so iostack.Options) (iostack.Stack, string, error) {
		if begun++; begun == 1 {
			again := o
			again.Output, again.Scratch, again.Force = Classes, w.path("elsewhere"), true
			_, second = predict(context.Background(), disk, again, progress.Discard, parts{stack: all.Open})
		}
		return all.Open(kind, so)
	}
	p, err := predict(context.Background(), disk, o, progress.Discard, parts{stack: stack})
	if err != nil || !errors.Is(second, fault.ErrLocked) || begun == 0 {
		t.Fatalf("%v, and meanwhile %v", err, second)
	}
	st, err := os.Stat(o.Out)
	check(t, err)
	if least := 4 * p.Rows * int64(p.Columns); st.Size() <= least {
		t.Errorf("the file has %d bytes, logits have %d", st.Size(), least)
	}
	if _, err := os.Stat(o.Out + vfs.TempSuffix); err == nil {
		t.Error("the file of the claim is still there")
	}
	// Between the look and the lock, another process finishes.
	late := lockHook{disk, func() { check(t, os.WriteFile(w.path("late.npy"), nil, 0o666)) }}
	o.Out = w.path("late.npy")
	if _, err := predict(context.Background(), late, o, progress.Discard, parts{stack: all.Open}); !errors.Is(err, fault.ErrExists) {
		t.Errorf("made meanwhile: %v", err)
	}
	// A prediction that fails before it writes leaves nothing.
	o.Out, o.Nodes = w.path("out2.npy"), w.path("absent")
	if _, err := predict(context.Background(), disk, o, progress.Discard, parts{stack: all.Open}); err == nil {
		t.Error("of no nodes")
	}
	for _, name := range []string{"late.npy.tmp", "out2.npy.tmp", "out2.npy"} {
		if _, err := os.Stat(w.path(name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	if n := device.HostBytes(); n != 0 {
		t.Errorf("%d bytes of host memory were not given back", n)
	}
}

// TestLeftStates: states that a crash left are removed before new ones are written, or the error says why not.
func TestLeftStates(t *testing.T) {
	w := smallWorld(t)
	o := w.options()
	o.Scratch = w.path("scratch")
	dir, err := scratchDir(o.Run, o.Scratch)
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, statePrefix+"7")
	if err := errors.Join(disk.MkdirAll(dir), vfs.WriteFile(disk, left, []byte("left"))); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	in := &vfs.FailAt{Err: boom, Match: func(op vfs.Op, name string) bool { return op == vfs.OpRemove && name == left }}
	if _, err := Evaluate(t.Context(), vfs.Inject(disk, in), o, progress.Discard); !errors.Is(err, boom) {
		t.Errorf("a state that cannot be removed: %v", err)
	}
	if _, err := Evaluate(t.Context(), disk, o, progress.Discard); err != nil {
		t.Error(err)
	}
	if there, err := vfs.Exists(disk, left); err != nil || there {
		t.Errorf("the state is there: %t, %v", there, err)
	}
}
