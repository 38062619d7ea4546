package commands

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// openTerminal opens a terminal of 80 columns and 24 lines: what is written to it, and what is shown
// there.
func openTerminal(t *testing.T) (in, shown *os.File) {
	t.Helper()
	shown, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	t.Cleanup(func() { shown.Close() })
	fd := int(shown.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("unlock the terminal: %v", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if in, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: helpWidth}); err != nil {
		t.Fatal(err)
	}
	return in, shown
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// onTerminal runs a command whose stderr is a terminal, and returns what was shown there, line
// by line, also of bars that were drawn over.
func onTerminal(t *testing.T, command string) []string {
	t.Helper()
	in, shown := openTerminal(t)
	cmd := exec.Command("diskgnn", strings.Fields(command)...)
	cmd.Env = append(os.Environ(), "TERM=xterm")
	cmd.Stderr = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	text, _ := io.ReadAll(shown) // which ends with EIO
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, text)
	}
	return strings.FieldsFunc(escapes.ReplaceAllString(string(text), ""), func(r rune) bool { return r == '\n' || r == '\r' })
}

// On a terminal of 80 columns the bar of training shows loss and rate, and no line of an epoch
// or of a bar is broken.
func TestTrainOnTerminal(t *testing.T) {
	t.Chdir(t.TempDir())
	diskgnn(t, "generate --out g --nodes 20000 --dim 64 --classes 4 --train-ratio 0.4")
	lines := onTerminal(t, "train --dataset g --out r --fanout 5,5 --batch-size 64 --hidden 512 --epochs 2 --schedule cosine --ram-cache 100%")
	var bars, epochs int
	whole := regexp.MustCompile(`^train: \[=* *\] +\d+% · loss \d\.\d{4} · [\d.]+ .?i?B/s · [\d.]+/s( · .* left)?$`)
	for _, l := range lines {
		l = strings.TrimRight(l, " ")
		if n := utf8.RuneCountInString(l); n > helpWidth && (strings.HasPrefix(l, "epoch ") || strings.HasPrefix(l, "train: ") || strings.HasPrefix(l, "bound by ")) {
			t.Errorf("%d columns: %s", n, l)
		}
		if whole.MatchString(l) {
			bars++
		}
		if strings.HasPrefix(l, "epoch ") {
			epochs++
		}
	}
	if bars == 0 || epochs != 2 {
		t.Errorf("%d bars with loss and rate, %d epochs:\n%s", bars, epochs, strings.Join(lines, "\n"))
	}
}

// TestWentAway: nobody reads a pipe or a terminal any more, which is no error; a full disk is one.
func TestWentAway(t *testing.T) {
	o := outcome{text: "the result"}
	in, shown := openTerminal(t)
	defer in.Close()
	if err := o.print(in, false); err != nil {
		t.Errorf("a terminal: %v", err)
	}
	shown.Close()
	if _, err := in.WriteString("x"); !errors.Is(err, syscall.EIO) {
		t.Errorf("a terminal that hung up: %v", err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	reader.Close()
	for _, f := range []*os.File{in, writer} {
		if err := o.print(f, false); err != nil {
			t.Errorf("%s: %v", f.Name(), err)
		}
	}
	for _, want := range []error{syscall.ENOSPC, syscall.EIO} {
		if err := o.print(broken{want}, false); !errors.Is(err, want) {
			t.Errorf("%v became %v", want, err)
		}
	}
	closed, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	if wentAway(closed, &os.PathError{Op: "write", Path: "out", Err: syscall.EIO}) {
		t.Error("a file on a damaged disk went away")
	}
}

// broken fails every write.
type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }
