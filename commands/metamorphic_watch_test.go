package commands

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"

	"diskgnn/internal/mapped"
	"diskgnn/internal/metamorphic"
	"diskgnn/internal/vfs"
)

// An observer sees the operations of a command, each before it happens: operations on files, reads of storage
// stacks, which pass package vfs by, and reads of mappings. It sees a read of a stack after it.
type observer interface {
	vfs.Injector
	below(file string, offset int64, p []byte) (int, error)
	reads(files []*mapped.File)
}

// watch counts the operations of a command that runs in peace, by the ways in which kinds of faults count them.
// For a list of inputs it also sees before which operations they are open, from the kernel, in whatever way they
// were opened. It is safe for concurrent use.
type watch struct {
	mu     sync.Mutex
	all    int // operations
	onDisk int // of them on files,
	changes, writes,
	onlyReads int
	stack  int // of them reads of storage stacks
	inputs []string
	open   map[string][]int // by input: the operations before which it is open
	mapped map[string][]int // the reads of its mapping
}

func newWatch(inputs []string) *watch {
	return &watch{inputs: inputs, open: make(map[string][]int), mapped: make(map[string][]int)}
}

// Before implements vfs.Injector.
func (w *watch) Before(op vfs.Op, _ string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look()
	w.onDisk++
	switch op {
	case vfs.OpRead:
		w.onlyReads++
	case vfs.OpOpen, vfs.OpClose:
	default:
		w.changes++
		if op == vfs.OpWrite {
			w.writes++
		}
	}
	return nil
}

// below implements observer. It changes nothing.
func (w *watch) below(_ string, _ int64, p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look()
	w.stack++
	return len(p), nil
}

// reads implements observer.
func (w *watch) reads(files []*mapped.File) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range files {
		if name := f.Handle().Name(); slices.Contains(w.inputs, name) {
			w.mapped[name] = append(w.mapped[name], w.all)
		}
	}
	w.look()
}

// look counts an operation, and notes the inputs that the process has open before it. The lock is held.
func (w *watch) look() {
	at := w.all
	w.all++
	if len(w.inputs) == 0 {
		return
	}
	descriptors, _ := os.ReadDir("/proc/self/fd") // without it, no input is seen
	seen := make(map[string]bool)
	for _, d := range descriptors {
		name, err := os.Readlink("/proc/self/fd/" + d.Name())
		if err == nil && !seen[name] && slices.Contains(w.inputs, name) {
			w.open[name] = append(w.open[name], at)
		}
		seen[name] = true
	}
}

// choose returns an input that the command has open at some time, and an operation before which it changes. Every
// second one is an input that the command maps, before a read of the mapping, if there are any. A file that is
// replaced may be replaced before it is opened. It returns "" if no input was seen.
func (w *watch) choose(f *metamorphic.Fault, strike int) (name string, at int) {
	from := w.open
	if len(w.mapped) > 0 && strike%2 == 0 {
		from = w.mapped
	}
	if len(from) == 0 {
		return "", 0
	}
	rng := rand.New(rand.NewPCG(uint64(f.At), uint64(strike)))
	name = slices.Sorted(maps.Keys(from))[rng.IntN(len(from))]
	if times := from[name]; f.Kind == "replace" {
		at = rng.IntN(1 + times[len(times)-1])
	} else {
		at = times[rng.IntN(len(times))]
	}
	return name, at
}

// count returns the number of operations at which a fault of a kind can happen, for kinds that happen at one.
func (w *watch) count(kind string) int {
	switch kind {
	case "enospc", "edquot", "power":
		return w.changes
	case "torn", "misdirected":
		return w.writes
	case "misread":
		return w.onlyReads
	case "eio", "kill", "signal":
		return w.onDisk
	}
	if strings.HasPrefix(kind, "read-") {
		return w.stack
	}
	return w.all
}
