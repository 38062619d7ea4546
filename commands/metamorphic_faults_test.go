package commands

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
	"diskgnn/internal/mapped"
	"diskgnn/internal/metamorphic"
	"diskgnn/internal/vfs"
)

// lies are the kinds of faults in which a drive has other bytes than were written, without an error.
var lies = []string{"torn", "misdirected", "misread"}

// A strike is a fault at a place of a step.
type strike struct {
	metamorphic.Fault // At: the operation, or the change of an input at rest
	input             *changed
}

// inputFault reports whether a kind of faults changes a file that a command reads.
func inputFault(kind string) bool { return kind == "flip" || kind == "shrink" || duringRun(kind) }

// duringRun reports whether a kind of faults changes a file that a command has open.
func duringRun(kind string) bool { return slices.Contains([]string{"replace", "moved", "cut"}, kind) }

// strikes returns the faults that strike a step: ten changes of successive files, or of files that the step has
// open, or three operations that divide the step. There are none if the step has nothing that the kind can meet.
func strikes(f *metamorphic.Fault, w *watch, files []string) (list []*strike) {
	if inputFault(f.Kind) {
		for i := range 10 {
			s := &strike{Fault: *f}
			s.At += i
			if !duringRun(f.Kind) && len(files) > 0 {
				s.input = &changed{name: files[s.At%len(files)], place: s.At/len(files)*7919 + s.At}
			} else if name, at := w.choose(f, i); name != "" {
				s.input = &changed{name: name, place: (s.At + 1) * 7919}
				s.At = at
			}
			if s.input != nil {
				list = append(list, s)
			}
		}
		return list
	}
	n := w.count(f.Kind)
	for i := range min(3, n) {
		s := &strike{Fault: *f}
		s.At = (f.At + i*n/3) % n
		list = append(list, s)
	}
	return list
}

// faulty runs a step with a fault. The command must end with a code that the fault's kind allows and a
// message of one line, or make the same output as in peace; run again without the fault, it must make that.
func (l *variantRun) faulty(s step, f *strike) error {
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
		c.watched(at)
		allowed = append(allowed, exitInterrupted)
	case "slow":
		c.watched(&slow{n: f.At})
	case "clock":
		if err := l.setTimes(s, f.At); err != nil {
			return err
		}
	case "torn", "misdirected", "misread":
		return l.onLyingDrive(s, f, c)
	case "read-error", "read-wrong", "read-short", "read-slow":
		c.below = (&badRead{kind: f.Kind, n: f.At, met: func() { l.faults[f.Kind+" met"]++ }}).below
		if f.Kind == "read-error" || f.Kind == "read-wrong" {
			allowed = append(allowed, exitInput)
		}
	case "replace", "moved", "cut":
		return l.whileOpen(s, f, at, c)
	}
	c.run()
	return l.judge(f, c, allowed...)
}

// whileOpen changes an input of a command while the command has it open.
func (l *variantRun) whileOpen(s step, f *strike, at *atOperation, c *call) error {
	put := f.input
	if err := put.prepare(f.Kind); err != nil || put.change == nil || f.Kind != "replace" && l.unchecked(s) {
		return err
	}
	at.do = put.change
	c.watched(at)
	c.run()
	if err := put.back(); err != nil {
		return err
	}
	allowed := []int{exitDone, exitInput}
	// Features of an unchecked store that were replaced before they were mapped may be no numbers: nothing
	// but the loss shows that.
	if l.unchecked(s) && strings.Contains(c.stderr.String(), "or the features are not finite") {
		allowed = append(allowed, exitUsage)
	}
	if err := l.judge(f, c, allowed...); err != nil {
		return fmt.Errorf("%s was changed: %w", put.name, err)
	}
	return nil
}

// judge compares the end of a command, which runs in peace, with the ends that its fault allows.
func (l *variantRun) judge(f *strike, c *call, allowed ...int) error {
	l.faults[fmt.Sprintf("%s exit %d", f.Kind, c.code)]++
	if !slices.Contains(allowed, c.code) {
		return fmt.Errorf("%s: exit code %d is none of %v: %s", f, c.code, allowed, c.describe())
	}
	if c.code != exitDone && strings.TrimSpace(c.stderr.String()) == "" {
		return fmt.Errorf("%s: exit code %d without a message: %s", f, c.code, c.describe())
	}
	return nil
}

// atOperation does something before the n-th operation, counted from 0: an observer says which these are.
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

// below implements observer.
func (a *atOperation) below(_ string, _ int64, p []byte) (int, error) {
	return len(p), a.Before(vfs.OpRead, "")
}

// reads implements observer. An error is one of the test's own calls.
func (a *atOperation) reads([]*mapped.File) {
	if err := a.Before(vfs.OpRead, ""); err != nil {
		panic(err)
	}
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

// below implements observer.
func (s *slow) below(_ string, _ int64, p []byte) (int, error) {
	return len(p), s.Before(vfs.OpRead, "")
}

// reads implements observer.
func (s *slow) reads([]*mapped.File) { _ = s.Before(vfs.OpRead, "") }

// badRead is a drive of which the n-th read of a storage stack fails, has the bytes of another place, has only
// some of the bytes, or takes long. The last two last for sixteen reads.
type badRead struct {
	kind string
	n    int
	seen atomic.Int64
	met  func()
}

func (b *badRead) below(_ string, _ int64, p []byte) (int, error) {
	i := b.seen.Add(1) - 1 - int64(b.n)
	if i == 0 {
		b.met()
	}
	long := i >= 0 && i < 16
	short := long && i%2 == 0 && b.kind == "read-short" // a read of less than a page is tried nine times
	switch {
	case i == 0 && b.kind == "read-error":
		return 0, syscall.EIO
	case i == 0 && b.kind == "read-wrong":
		slices.Reverse(p)
	case short && len(p) > 1024: // in whole sectors
		return len(p) / 2 &^ 511, nil
	case short:
		return (len(p) + 1) / 2, nil
	case long && b.kind == "read-slow":
		time.Sleep(time.Millisecond)
	}
	return len(p), nil
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

// overwrite puts bytes of another place of a file, which has the content b, at an offset. Drives misplace whole
// sectors, which hold whole numbers: so both places are multiples of eight bytes. The file stays open where it is
// open, and mapped where it is mapped: readers without package vfs see a misdirected read or write so.
func overwrite(name string, b []byte, offset int) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	offset &^= 7
	n := min(4096, len(b)-offset)
	_, err = f.WriteAt(b[(len(b)-n)/2&^7:][:n], int64(offset))
	return errors.Join(err, f.Close())
}

// signals are the signals of the faults of this name.
var signals = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1}

// process runs a step in a process of its own, to which a signal is sent before an operation.
func (l *variantRun) process(s step, f *strike) error {
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
		cuda.Emulate(emulator.Run, emulatedGPUs, false)
	}
	ownProcess()
	g := &globals{stores: builtin, stdout: os.Stdout, stderr: os.Stderr, args: os.Args, disk: vfs.Inject(vfs.OS, at)}
	os.Exit(g.run(newApp(g), os.Args))
}

// interrupted interrupts a step, which may be refused, before its n-th operation on files.
func (l *variantRun) interrupted(s step, n int) error {
	f := &strike{Fault: metamorphic.Fault{Variant: l.variant, Command: s.command, Kind: "interrupt", At: n}}
	c := &call{args: append(slices.Clip(s.args), "--quiet"), disk: vfs.Inject(vfs.OS, &atOperation{n: n, do: l.interrupt})}
	c.run()
	return l.judge(f, c, exitDone, exitInterrupted, exitUsage, exitSpace)
}

// power cuts the power below the variant's directory.
func (l *variantRun) power(s step, f *strike) error {
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
	place  int // the bit that changes, or the byte with it; taken modulo the size
	was    []byte
	change func() error // nil: the file is empty
}

func (c *changed) back() error { return os.WriteFile(c.name, c.was, 0o666) }

// inputFiles returns the files that a step reads, without those that it can do without.
func (s *step) inputFiles() (files []string, err error) {
	for _, dir := range s.inputs {
		err = errors.Join(err, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && d.Name() != "run.json" && !strings.HasSuffix(path, ".pages") && !strings.Contains(path, "checkpoints") &&
				d.Name() != "report.html" && d.Name() != "metrics.jsonl" {
				files = append(files, path)
			}
			return err
		}))
	}
	return files, err
}

// prepare reads the file, and decides its change.
func (c *changed) prepare(kind string) error {
	b, err := os.ReadFile(c.name)
	if err != nil || len(b) == 0 {
		return err
	}
	c.was = b
	bit := c.place % (8 * len(b))
	c.change = func() error {
		switch kind {
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
	return nil
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
func (l *variantRun) atRest(s step, f *strike) error {
	put := f.input
	if l.unchecked(s) && filepath.Base(put.name) == "features.bin" {
		return nil
	}
	if err := put.prepare(f.Kind); err != nil || put.change == nil {
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
func (l *variantRun) onLyingDrive(s step, f *strike, c *call) error {
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
