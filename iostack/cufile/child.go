package cufile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

const (
	// taskVariable is the environment's, which makes a process a probe's child.
	taskVariable = "DISKGNN_CUFILE_PROBE"
	// answerMark begins the line that holds the answer.
	answerMark = "diskgnn-cufile-probe "
)

// task is what a child does.
type task struct {
	File   string `json:"file"`   // to be read; none: open the driver alone
	Direct bool   `json:"direct"` // without compatibility mode
}

// answer is what it found.
type answer struct {
	Error      string     `json:"error"`     // what failed
	Final      bool       `json:"final"`     // it would fail with compatibility mode, too
	Forbidden  bool       `json:"forbidden"` // there was no compatibility mode
	Library    string     `json:"library"`
	Properties properties `json:"properties"`
}

// served says that children of this program would find their task.
var served atomic.Bool

// Child does the task of a probe's child if this process is one, and reports whether
// it was: main calls it first of all, and returns then.
func Child() bool {
	text, ok := os.LookupEnv(taskVariable)
	if !ok {
		served.Store(true)
		return false
	}
	var t task
	var a answer
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		a.Error = err.Error()
	} else {
		a = try(t)
	}
	line, err := json.Marshal(a)
	if err != nil {
		return true // an answer of none
	}
	fmt.Printf("%s%s\n", answerMark, line)
	return true
}

// openDevice takes the first device; tests put another in its place.
var openDevice = func() (*cuda.Device, error) { return cuda.Open(0, cuda.Options{}) }

func try(t task) (a answer) {
	l, err := loadLibrary()
	if err != nil {
		return answer{Error: err.Error(), Final: true}
	}
	a.Library = l.path()
	d, err := openDevice()
	if err != nil {
		return answer{Error: err.Error(), Final: true}
	}
	defer d.Close()
	if err := a.read(d, l, t); err != nil {
		a.Error = strings.TrimPrefix(err.Error(), Name+": ")
	}
	return a
}

// read opens the library's driver and reads the task's file.
func (a *answer) read(d *cuda.Device, l library, t task) (err error) {
	if t.Direct {
		if a.Forbidden, err = l.forbidCompatibility(); err != nil {
			return err
		}
	}
	s, err := start(d, false, l, iostack.Options{Workers: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if a.Properties, err = l.properties(); err != nil || t.File == "" {
		return err
	}
	return compareHead(d, s, t.File)
}

// compareHead reads the first bytes of a file into device memory and into host memory,
// and compares them.
func compareHead(d *cuda.Device, s *Stack, path string) (err error) {
	const most = 1 << 20
	detach, err := d.Attach()
	if err != nil {
		return err
	}
	defer detach()
	f, err := s.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n := min(f.Size(), most)
	arena, err := d.NewArena(n)
	if err != nil {
		return err
	}
	defer arena.Free()
	to, err := arena.Take(n)
	if err != nil {
		return err
	}
	if err := s.RegisterDevice(to); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.UnregisterDevice(to)) }()

	var g iostack.Group
	want, got := make([]byte, n), make([]byte, n)
	if err := s.Submit(&g, []iostack.Request{{File: f, Device: to}, {File: f, Buf: want}}); err != nil {
		return err
	}
	if err := s.Wait(context.Background(), &g); err != nil {
		return err
	}
	stream, err := d.NewStream()
	if err != nil {
		return err
	}
	defer stream.Free()
	if err := errors.Join(stream.CopyOut(got, to), stream.Synchronize()); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fault.New(fault.ErrDevice, "the bytes that arrived in device memory are not the file's")
	}
	return nil
}
