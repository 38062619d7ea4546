package sysfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

// helperName is argument 0 of the helper process.
const helperName = "diskgnn-nvme-giveback"

// Messages from the helper and to it.
const (
	ready = "ready\n"
	taken = "taken" // the function has no driver any more
)

// The helper is this program: an init function runs before main.
func init() {
	if len(os.Args) == 4 && os.Args[0] == helperName {
		os.Exit(assist(tree(os.Args[1]), os.Args[2], os.Args[3]))
	}
}

// assist is the main function of the helper: it gives a function back when its standard input ends.
func assist(t tree, address, to string) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	if _, err := os.Stdout.WriteString(ready); err != nil {
		return 1
	}
	said, _ := io.ReadAll(os.Stdin)
	if has, err := t.link(device(address) + "/driver"); string(said) != taken && (has != "" || err != nil) {
		return 0 // nothing was taken: a driver is at work
	}
	if err := t.giveBack(address, to); err != nil {
		os.Stdout.WriteString(strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	return 0
}

// helper is the process that gives a function back.
type helper struct {
	cmd  *exec.Cmd
	life *os.File // closed, it ends the helper's standard input
	says *os.File
}

// newHelper starts a helper, which shares the memory and the lock by their files.
func (f *function) newHelper(memory *os.File) (_ *helper, err error) {
	in, life, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	says, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, life.Close())
	}
	defer out.Close()
	h := &helper{life: life, says: says, cmd: &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{helperName, string(f.tree), f.address, f.driver},
		Stdin: in, Stdout: out, ExtraFiles: []*os.File{memory, f.bar},
		Dir: "/", SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // a signal to the group is not for it
	}}
	if err := h.cmd.Start(); err != nil {
		return nil, errors.Join(err, life.Close(), says.Close())
	}
	said := make([]byte, len(ready))
	if _, err := io.ReadFull(says, said); err != nil || string(said) != ready {
		return nil, errors.Join(fmt.Errorf("the helper that gives the drive back does not answer: %w", err), h.cmd.Process.Kill(), h.giveBack())
	}
	return h, nil
}

// taken tells the helper that the function was taken. An error means that the helper was killed, which
// giveBack detects.
func (h *helper) taken() { h.life.WriteString(taken) }

// errGone is the error of a helper that ended without an answer.
var errGone = errors.New("the helper was killed")

// giveBack lets the helper give the function back, if it was taken, and waits for it.
func (h *helper) giveBack() error {
	if err := h.life.Close(); err != nil {
		return err
	}
	said, err := io.ReadAll(h.says)
	err = errors.Join(err, h.says.Close())
	exit := h.cmd.Wait()
	switch {
	case len(said) > 0:
		return errors.Join(errors.New(string(said)), err)
	case exit != nil:
		return errors.Join(errGone, err)
	}
	return err
}
