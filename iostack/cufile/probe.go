package cufile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
)

// Mode is the way in which a machine reads files into device memory.
type Mode string

const (
	Direct        Mode = "direct"             // the drive writes to the device's memory
	Compatibility Mode = "compatibility mode" // the library reads through host memory
	Unavailable   Mode = "unavailable"        // the library cannot be used
)

// Verdict is the result of Probe.
type Verdict struct {
	Mode    Mode   `json:"mode"`
	Reason  string `json:"reason,omitempty"`  // reason if the mode is not direct
	Library string `json:"library,omitempty"` // file of the library
}

// String returns the verdict in one line.
func (v Verdict) String() string {
	if v.Reason == "" {
		return string(v.Mode)
	}
	return string(v.Mode) + ": " + v.Reason
}

func unavailable(format string, args ...any) Verdict {
	return Verdict{Mode: Unavailable, Reason: strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")}
}

// patience is the time limit of a child process: CUDA starts slowly on large machines.
var patience = 30 * time.Second

// present returns the reason why a probe cannot succeed, nil if it may; tests replace it.
var present = func() error {
	_, err := cuda.Devices()
	return err
}

// Probe determines how the library reads files into the first device's memory. A child process tries it: if
// the child dies or hangs, the library is unavailable for that reason. The child reads the file at path, or
// a new file in path if it is a directory, and compares the bytes. With an empty path it only opens the
// library's driver. It first disables the library's compatibility mode: a read that then works is direct.
// (Libraries before CUDA 12.6 cannot disable it; for them the verdict follows from their report about
// nvidia-fs.)
//
// The child is this program, and its main must call Child first.
func Probe(ctx context.Context, path string) Verdict {
	if err := present(); err != nil {
		return unavailable("%v", err)
	}
	if !served.Load() {
		return unavailable("this program cannot run the process that would try it")
	}
	if info, err := os.Stat(path); path != "" && err != nil {
		return unavailable("%v", err)
	} else if path != "" && info.IsDir() {
		path = filepath.Join(path, scratchName)
		defer func() { _ = vfs.OS.Remove(path) }()
		if err := vfs.WriteFile(vfs.OS, path, bytes.Repeat([]byte("diskgnn "), 64<<10/8)); err != nil {
			return unavailable("no file to try it with: %v", err)
		}
	}
	strict, err := ask(ctx, task{File: path, Direct: true})
	switch {
	case err != nil:
		return unavailable("%v", err)
	case strict.Error == "" && (strict.Forbidden || strict.Properties.direct()):
		return Verdict{Mode: Direct, Library: strict.Library}
	case strict.Error == "":
		return Verdict{Mode: Compatibility, Reason: "nvidia-fs is not loaded", Library: strict.Library}
	case strict.Final:
		return unavailable("%s", strict.Error)
	}
	lax, err := ask(ctx, task{File: path})
	switch {
	case err != nil:
		return unavailable("%v", err)
	case lax.Error != "":
		return unavailable("%s", lax.Error)
	}
	return Verdict{Mode: Compatibility, Reason: strict.Error, Library: lax.Library}
}

const scratchName = "diskgnn-cufile-probe.tmp"

// ask runs a task in a child process.
func ask(ctx context.Context, t task) (a answer, err error) {
	self, err := os.Executable()
	if err != nil {
		return a, err
	}
	if t.File != "" {
		if t.File, err = filepath.Abs(t.File); err != nil {
			return a, err
		}
	}
	text, err := json.Marshal(t)
	if err != nil {
		return a, err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	child := exec.CommandContext(limited, self)
	child.Args = os.Args[:1]
	child.Env = append([]string{"CUFILE_LOGFILE_PATH=" + os.DevNull}, os.Environ()...) // if the user names none
	child.Env = append(child.Env, taskVariable+"="+string(text))
	child.Stdout, child.Stderr = &stdout, &stderr
	child.WaitDelay = time.Second
	if err := child.Start(); err != nil {
		return a, fmt.Errorf("start a process to try it in: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		defer fault.Crash()
		ended <- child.Wait()
	}()
	select {
	case err = <-ended:
	case <-limited.Done():
		// It has been killed, but a process that waits within the kernel may stay.
		select {
		case err = <-ended:
		case <-time.After(2 * child.WaitDelay):
			return a, errors.New("the process that tried it hangs within the kernel")
		}
	}
	switch {
	case ctx.Err() != nil:
		return a, ctx.Err()
	case limited.Err() != nil:
		return a, fmt.Errorf("the process that tried it hung: it was killed after %v", patience)
	}
	for line := range strings.Lines(stdout.String()) { // the library may have written others
		if text, ok := strings.CutPrefix(line, answerMark); ok && json.Unmarshal([]byte(text), &a) == nil {
			return a, nil
		}
	}
	if err == nil {
		return a, errors.New("the process that tried it ended without an answer")
	}
	if said := firstLine(stderr.String()); said != "" {
		return a, fmt.Errorf("the process that tried it died: %w (%s)", err, said)
	}
	return a, fmt.Errorf("the process that tried it died: %w", err)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// tried returns the verdict on the library's driver, from one probe per process.
var tried = sync.OnceValue(func() Verdict { return Probe(context.Background(), "") })

// Open starts a stack on the device of the options. Without one it opens the first device, and the stack
// closes it. A child process tries the library first (see Probe). If it is unavailable, the error is of
// kind fault.ErrUsage and states the reason.
func Open(options iostack.Options) (*Stack, Verdict, error) {
	v := tried()
	if v.Mode == Unavailable {
		return nil, v, fault.New(fault.ErrUsage, "GPUDirect Storage is unavailable: %s", v.Reason)
	}
	l, err := loadLibrary()
	if err != nil {
		return nil, v, fmt.Errorf("cufile: %w", err)
	}
	var d *cuda.Device
	owned := options.Device == nil
	if owned {
		d, err = openDevice()
	} else if lent, e := options.Device(); e != nil {
		err = e
	} else {
		d = cuda.DeviceOf(lent)
	}
	if err != nil {
		return nil, v, fmt.Errorf("cufile: %w", err)
	}
	s, err := start(d, owned, l, options)
	if err != nil {
		if owned {
			d.Close()
		}
		return nil, v, err
	}
	return s, v, nil
}

const (
	// taskVariable is the environment variable that makes a process the child of a probe.
	taskVariable = "DISKGNN_CUFILE_PROBE"
	// answerMark begins the line that holds the answer.
	answerMark = "diskgnn-cufile-probe "
)

// task is the task of a child.
type task struct {
	File   string `json:"file"`   // file to read; "": only open the driver
	Direct bool   `json:"direct"` // without compatibility mode
}

// answer is the child's result.
type answer struct {
	Error      string     `json:"error"`     // the failure
	Final      bool       `json:"final"`     // it would also fail in compatibility mode
	Forbidden  bool       `json:"forbidden"` // compatibility mode was disabled
	Library    string     `json:"library"`
	Properties properties `json:"properties"`
}

// served is set by Child: then children of this program do their task.
var served atomic.Bool

// Child does the task of a probe if this process is its child, and reports whether it is. main must call it
// first, and return if it returns true.
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

// openDevice opens the first device; tests replace it.
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
