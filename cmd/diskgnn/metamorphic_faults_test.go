package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/internal/metamorphic"
	"diskgnn/internal/vfs"
)

// lies are the kinds of faults in which a drive has other bytes than were written, without an error.
var lies = []string{"torn", "misdirected", "misread"}

// faulty runs a step with a fault. The command must end with a code that the fault's kind allows and a
// message of one line, or make the same output as in peace; run again without the fault, it must make that.
func (l *variantRun) faulty(s step, f *metamorphic.Fault) error {
	switch f.Kind {
	case "flip", "shrink":
		return l.atRest(s, f)
	case "power":
		return l.power(s, f)
	case "kill", "signal":
		return l.process(s, f)
	}
	c := &call{args: append(slices.Clip(s.args), "--quiet")}
	allowed := []int{exitDone}
	at := &atOperation{n: f.At}
	switch f.Kind {
	case "enospc", "edquot", "eio":
		errno := map[string]error{"enospc": syscall.ENOSPC, "edquot": syscall.EDQUOT, "eio": syscall.EIO}[f.Kind]
		fail := &vfs.FailAt{N: f.At, After: f.At%2 == 1, Err: errno}
		if f.Kind == "eio" {
			fail.Match = func(vfs.Op, string) bool { return true }
			allowed = append(allowed, exitInput)
		} else {
			allowed = append(allowed, exitSpace)
		}
		c.disk = vfs.Inject(vfs.OS, fail)
	case "interrupt":
		at.do = l.interrupt
		c.disk = vfs.Inject(vfs.OS, at)
		allowed = append(allowed, exitInterrupted)
	case "slow":
		c.disk = vfs.Inject(vfs.OS, &slow{n: f.At})
	case "clock":
		if err := l.setTimes(s, f.At); err != nil {
			return err
		}
	case "torn", "misdirected", "misread":
		return l.onLyingDrive(s, f, c)
	case "replace", "moved", "cut":
		put, err := l.changeInput(s, f)
		if err != nil || put == nil || f.Kind != "replace" && l.unchecked(s) {
			return err
		}
		at.do = put.change
		c.disk = vfs.Inject(vfs.OS, at)
		c.run()
		if err := put.back(); err != nil {
			return err
		}
		allowed = []int{exitDone, exitInput}
		// Features of an unchecked store that were replaced before they were mapped may be no numbers: nothing
		// but the loss shows that.
		if l.unchecked(s) && strings.Contains(c.stderr.String(), "or the features are not finite") {
			allowed = append(allowed, exitUsage)
		}
		return l.judge(f, c, allowed...)
	}
	c.run()
	return l.judge(f, c, allowed...)
}

// inputKind reports whether a kind of faults changes files that a command reads.
func inputKind(kind string) bool {
	return slices.Contains([]string{"flip", "shrink", "replace", "moved", "cut"}, kind)
}

// strikes returns the number of faults of a kind that strike a command. Faults of inputs are in successive files.
func strikes(kind string) int {
	if inputKind(kind) {
		return 10
	}
	return 3
}

// judge compares the end of a command, which runs in peace, with the ends that its fault allows.
func (l *variantRun) judge(f *metamorphic.Fault, c *call, allowed ...int) error {
	l.faults[fmt.Sprintf("%s exit %d", f.Kind, c.code)]++
	if !slices.Contains(allowed, c.code) {
		return fmt.Errorf("%s: exit code %d is none of %v: %s", f, c.code, allowed, c.describe())
	}
	if c.code != exitDone && strings.TrimSpace(c.stderr.String()) == "" {
		return fmt.Errorf("%s: exit code %d without a message: %s", f, c.code, c.describe())
	}
	return nil
}

// atOperation does something before the n-th operation on files, counted from 0.
type atOperation struct {
	n    int
	seen atomic.Int64
	do   func() error
}

// Before implements vfs.Injector.
func (a *atOperation) Before(vfs.Op, string) error {
	if a.seen.Add(1)-1 == int64(a.n) {
		return a.do()
	}
	return nil
}

// slow is a drive on which some successive operations take long.
type slow struct {
	n    int
	seen atomic.Int64
}

// Before implements vfs.Injector.
func (s *slow) Before(vfs.Op, string) error {
	if i := s.seen.Add(1) - 1 - int64(s.n); i >= 0 && i < 16 {
		time.Sleep(time.Millisecond)
	}
	return nil
}

// setTimes sets the times of a step's inputs as a machine with another clock does: to the future, or to
// the past.
func (l *variantRun) setTimes(s step, n int) error {
	at := time.Unix(int64(n%2)*(1<<33)+int64(n), 0)
	for _, dir := range s.inputs {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Chtimes(path, at, at))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unchecked reports whether a step maps rows that it does not check.
func (l *variantRun) unchecked(s step) bool {
	return s.command == "train" && l.p.Store(l.variant) == "mmap"
}

// overwrite puts bytes of another place of a file, which has the content b, at an offset. The file stays
// open where it is open, and mapped where it is mapped: readers without package vfs see a misdirected read
// or write so.
func overwrite(name string, b []byte, offset int) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	n := min(4096, len(b)-offset)
	_, err = f.WriteAt(b[(len(b)-n)/2:][:n], int64(offset))
	return errors.Join(err, f.Close())
}

// signals are the signals of the faults of this name.
var signals = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1}

// process runs a step in a process of its own, to which a signal is sent before an operation.
func (l *variantRun) process(s step, f *metamorphic.Fault) error {
	sent := syscall.SIGKILL
	if f.Kind == "signal" {
		sent = signals[f.At%len(signals)]
	}
	c := &call{args: append(slices.Clip(s.args), "--quiet")}
	cmd := exec.Command("diskgnn-struck", c.args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("DISKGNN_STRUCK=%d %d", f.At, int(sent)))
	cmd.Stderr, cmd.WaitDelay = &c.stderr, patience
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		return err
	}
	c.code = cmd.ProcessState.ExitCode()
	if f.Kind == "kill" {
		l.faults[fmt.Sprintf("%s exit %d", f.Kind, c.code)]++
		if c.code == exitInternal {
			return fmt.Errorf("%s: %s", f, c.describe())
		}
		return nil
	}
	return l.judge(f, c, exitDone, exitInterrupted)
}

// struck is the program, with a signal to itself before the operation on files that DISKGNN_STRUCK has
// beside the signal.
func struck() {
	at, sent := &atOperation{}, 0
	if _, err := fmt.Sscan(os.Getenv("DISKGNN_STRUCK"), &at.n, &sent); err != nil {
		panic(err)
	}
	at.do = func() error { return syscall.Kill(os.Getpid(), syscall.Signal(sent)) }
	if !onRealGPU() {
		cuda.Emulate(emulator.Run)
	}
	ownProcess()
	g := &globals{stdout: os.Stdout, stderr: os.Stderr, args: os.Args, disk: vfs.Inject(vfs.OS, at)}
	os.Exit(g.run(newApp(g), os.Args))
}

// interrupted interrupts a step, which may be refused, before its n-th operation on files.
func (l *variantRun) interrupted(s step, n int) error {
	f := &metamorphic.Fault{Variant: l.variant, Command: s.command, Kind: "interrupt", At: n}
	c := &call{args: append(slices.Clip(s.args), "--quiet"), disk: vfs.Inject(vfs.OS, &atOperation{n: n, do: l.interrupt})}
	c.run()
	return l.judge(f, c, exitDone, exitInterrupted, exitUsage, exitSpace)
}

// power cuts the power below the variant's directory.
func (l *variantRun) power(s step, f *metamorphic.Fault) error {
	v, err := vfs.NewVolatile(l.path("."))
	if err != nil {
		return err
	}
	v.CutAt(f.At)
	c := &call{args: append(slices.Clip(s.args), "--quiet"), disk: v}
	c.run()
	l.faults[fmt.Sprintf("%s exit %d", f.Kind, c.code)]++
	return v.Crash(uint64(f.At))
}

// changed is an input file with a change that can be taken back.
type changed struct {
	name   string
	was    []byte
	change func() error
}

func (c *changed) back() error { return os.WriteFile(c.name, c.was, 0o666) }

// changeInput chooses an input file of a step, and a change of it. It returns nil if there is none.
func (l *variantRun) changeInput(s step, f *metamorphic.Fault) (*changed, error) {
	var files []string
	for _, dir := range s.inputs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && d.Name() != "run.json" && !strings.HasSuffix(path, ".pages") && !strings.Contains(path, "checkpoints") &&
				d.Name() != "report.html" && d.Name() != "metrics.jsonl" {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, nil
	}
	c := &changed{name: files[f.At%len(files)]}
	b, err := os.ReadFile(c.name)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	c.was = b
	bit := (f.At/len(files)*7919 + f.At) % (8 * len(b))
	c.change = func() error {
		switch f.Kind {
		case "shrink", "cut":
			return os.Truncate(c.name, int64(bit/8))
		case "moved":
			return overwrite(c.name, b, bit/8)
		case "replace":
			other := slices.Clone(b)
			slices.Reverse(other)
			return errors.Join(os.WriteFile(c.name+".new", other, 0o666), os.Rename(c.name+".new", c.name))
		}
		other := slices.Clone(b)
		other[ofContent(b, bit/8)] ^= 1 << (bit % 8)
		return os.WriteFile(c.name, other, 0o666)
	}
	return c, nil
}

// ofContent returns the place of the n-th byte that is not zero, or n if all are: most zeros of small files fill
// pages, and no command reads them. n is taken modulo the number of places.
func ofContent(b []byte, n int) int {
	filled := len(b) - bytes.Count(b, []byte{0})
	if filled == 0 {
		return n % len(b)
	}
	n %= filled
	return slices.IndexFunc(b, func(x byte) bool {
		if x != 0 {
			n--
		}
		return n < 0
	})
}

// atRest changes an input before the step, and puts it back after it. The step may end well only if it
// did not need the changed bytes: then its output is the same as in peace, and later steps compare it.
func (l *variantRun) atRest(s step, f *metamorphic.Fault) error {
	put, err := l.changeInput(s, f)
	if err != nil || put == nil {
		return err
	}
	if err := put.change(); err != nil {
		return err
	}
	c := &call{args: append(slices.Clip(s.args), "--quiet")}
	c.run()
	if err := l.judge(f, c, exitDone, exitInput); err != nil {
		return fmt.Errorf("%s was changed: %w", put.name, err)
	}
	return put.back()
}

// onLyingDrive runs a step on a drive that writes or reads wrong bytes once, without an error. Where the output
// is wrong by it, verify must find it; then it is removed.
func (l *variantRun) onLyingDrive(s step, f *metamorphic.Fault, c *call) error {
	c.disk = &lying{FS: vfs.OS, at: int64(f.At), kind: f.Kind}
	c.run()
	if err := l.judge(f, c, exitDone, exitInput); err != nil {
		return err
	}
	if c.code != exitDone {
		return nil
	}
	if s.command == "predict" || s.command == "generate" && f.Kind == "misread" {
		return s.remove() // its sum is beside it; the files of an import have none
	}
	v := &call{args: []string{"verify", s.out, "--quiet"}}
	if v.run(); v.code == exitDone {
		return nil // later steps compare the bytes
	}
	if v.code != exitInput {
		return fmt.Errorf("%s: verify: %s", f, v.describe())
	}
	return s.remove()
}

// lying is a file system that writes or reads wrong bytes at one operation.
type lying struct {
	vfs.FS
	at   int64
	kind string
	seen atomic.Int64
}

func (l *lying) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &lyingFile{f, l}, nil
}

func (l *lying) Create(name string) (vfs.File, error)        { return l.wrap(l.FS.Create(name)) }
func (l *lying) OpenReadWrite(name string) (vfs.File, error) { return l.wrap(l.FS.OpenReadWrite(name)) }
func (l *lying) Open(name string) (vfs.File, error)          { return l.wrap(l.FS.Open(name)) }

// now reports whether this operation is the one that goes wrong.
func (l *lying) now() bool { return l.seen.Add(1)-1 == l.at }

type lyingFile struct {
	vfs.File
	l *lying
}

// Write implements io.Writer. A torn write leaves zeros in place of its second half.
func (f *lyingFile) Write(p []byte) (int, error) {
	if f.l.kind == "misread" || !f.l.now() {
		return f.File.Write(p)
	}
	q := slices.Clone(p)
	if f.l.kind == "torn" {
		clear(q[len(q)/2:])
	} else if len(q) > 0 { // to another place, and this one keeps other bytes
		q = append(q[1:], q[0])
	}
	return f.File.Write(q)
}

// WriteAt implements io.WriterAt.
func (f *lyingFile) WriteAt(p []byte, off int64) (int, error) {
	if f.l.kind == "misread" || !f.l.now() {
		return f.File.WriteAt(p, off)
	}
	if f.l.kind == "torn" {
		_, err := f.File.WriteAt(p[:len(p)/2], off)
		return len(p), err
	}
	_, err := f.File.WriteAt(p, off+int64(len(p)))
	return len(p), err
}

// ReadAt implements io.ReaderAt. A misdirected read has the bytes of another place.
func (f *lyingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if f.l.kind == "misread" && n > 1 && f.l.now() {
		slices.Reverse(p[:n])
	}
	return n, err
}

// Read implements io.Reader.
func (f *lyingFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if f.l.kind == "misread" && n > 1 && f.l.now() {
		slices.Reverse(p[:n])
	}
	return n, err
}
