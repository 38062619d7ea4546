package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// ErrPower is the error of every operation after the power was cut.
var ErrPower = errors.New("the power is off")

// sector is the bytes that a drive writes atomically: less than a page, so that pages may be torn.
const sector = 512

// Volatile is a file system that can lose power. Operations below its root change the files of the
// operating system, so that mappings and direct reads see them. It also records the durable state of
// the drive. Crash turns the root into a state that is possible after a loss of power:
//
//   - A file has the content of its last Sync. Of the changes after it, each sector is old or new, and
//     the size is any of the sizes since then.
//   - A directory has the entries of its last SyncDir. Of the changes after it, any subset happened, but
//     changes of one file keep their order. A rename happens or not, independently of the content.
//
// All contents are held in memory, so it is for tests with small files.
type Volatile struct {
	root string

	mu      sync.Mutex
	tree    *node
	pending []change // of entries, in order
	changes int      // operations so far
	cut     int      // number of the operation at which the power is cut; negative: never
	off     bool
}

// node is a file or a directory.
type node struct {
	dir           bool
	entries, kept map[string]*node // of a directory: now, and on the drive
	now, synced   []byte           // of a file
	dirty         map[int]bool     // its sectors that may be as they were or as they became
}

// change is one atomic operation on entries.
type change []entry

// entry is the new node of one name; without a node, the name is removed.
type entry struct {
	in   *node
	name string
	node *node
}

// NewVolatile returns a file system with an existing root; the present content of the root is durable.
func NewVolatile(root string) (*Volatile, error) {
	v := &Volatile{root: filepath.Clean(root), cut: -1}
	var err error
	v.tree, err = load(v.root)
	return v, err
}

func load(name string) (*node, error) {
	st, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		b, err := os.ReadFile(name)
		return &node{now: b, synced: slices.Clone(b)}, err
	}
	n := &node{dir: true, entries: make(map[string]*node)}
	list, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if n.entries[e.Name()], err = load(filepath.Join(name, e.Name())); err != nil {
			return nil, err
		}
	}
	n.kept = maps.Clone(n.entries)
	return n, nil
}

// CutAt cuts the power at the n-th operation from now, counted from 0. Operations that change something
// or make it durable count. This operation and all later ones fail with ErrPower.
func (v *Volatile) CutAt(n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cut = v.changes + n
}

// Changes returns the number of operations so far that changed something or made it durable.
func (v *Volatile) Changes() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changes
}

// inside returns the path of a name below the root.
func (v *Volatile) inside(name string) (parts []string, ok bool) {
	rel, err := filepath.Rel(v.root, filepath.Clean(name))
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return nil, false
	}
	if rel == "." {
		return nil, true
	}
	return strings.Split(rel, string(filepath.Separator)), true
}

// find returns the node that has a name now, or nil, and its directory.
func (v *Volatile) find(name string) (dir *node, base string, n *node) {
	parts, ok := v.inside(name)
	if !ok {
		return nil, "", nil
	}
	n = v.tree
	for _, p := range parts {
		if dir, base = n, p; dir == nil || !dir.dir {
			return nil, "", nil
		}
		n = dir.entries[p]
	}
	return dir, base, n
}

// do runs op, an operation that changes something, unless the power is off. Then it calls then, which
// records the change.
func (v *Volatile) do(name string, op func() error, then func() error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.inside(name); !ok {
		return fmt.Errorf("vfs: %s is not below %s", name, v.root)
	}
	if v.off = v.off || v.changes == v.cut; v.off {
		return fmt.Errorf("%s: %w", name, ErrPower)
	}
	v.changes++
	if err := op(); err != nil {
		return err
	}
	return then()
}

// look fails once the power is off.
func (v *Volatile) look() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.off {
		return ErrPower
	}
	return nil
}

func (v *Volatile) enter(c change) {
	for _, e := range c {
		e.apply(e.in.entries)
	}
	v.pending = append(v.pending, c)
}

func (e *entry) apply(entries map[string]*node) {
	if e.node == nil {
		delete(entries, e.name)
	} else {
		entries[e.name] = e.node
	}
}

// touch records that bytes of a file differ from the drive.
func (n *node) touch(from, to int) {
	if n.dirty == nil {
		n.dirty = make(map[int]bool)
	}
	for s := from / sector; s*sector < to; s++ {
		n.dirty[s] = true
	}
}

func (n *node) write(b []byte, off int64) {
	at := int(off)
	if end := at + len(b); end > len(n.now) {
		n.resize(end)
	}
	n.touch(at, at+len(b))
	copy(n.now[at:], b)
}

func (n *node) resize(size int) {
	n.touch(min(size, len(n.now)), max(size, len(n.now)))
	if size < len(n.now) {
		n.now = n.now[:size:size]
		return
	}
	n.now = append(n.now, make([]byte, size-len(n.now))...)
}

// volatileFile is an open file of one.
type volatileFile struct {
	File
	v    *Volatile
	node *node

	mu sync.Mutex
	at int64 // offset of the next Write or Read
}

// open opens a file by the given function. creates and truncates tell whether the function makes a
// missing file and empties an existing one.
func (v *Volatile) open(name string, open func(string) (File, error), creates, truncates bool) (File, error) {
	var f File
	var n *node
	op := func() (err error) { f, err = open(name); return err }
	then := func() error {
		dir, base, was := v.find(name)
		switch n = was; {
		case n == nil && dir == nil:
			return fmt.Errorf("vfs: %s is in no directory", name)
		case n == nil:
			n = new(node)
			v.enter(change{{dir, base, n}})
		case truncates:
			n.resize(0)
		}
		return nil
	}
	v.mu.Lock()
	_, _, was := v.find(name)
	v.mu.Unlock()
	var err error
	if was == nil && creates || truncates {
		err = v.do(name, op, then)
	} else if err = errors.Join(v.look(), op()); err == nil {
		n = was
	}
	if err != nil {
		return nil, err
	}
	return &volatileFile{File: f, v: v, node: n}, nil
}

// Create implements FS.
func (v *Volatile) Create(name string) (File, error) { return v.open(name, OS.Create, true, true) }

// OpenReadWrite implements FS.
func (v *Volatile) OpenReadWrite(name string) (File, error) {
	return v.open(name, OS.OpenReadWrite, true, false)
}

// Open implements FS.
func (v *Volatile) Open(name string) (File, error) { return v.open(name, OS.Open, false, false) }

func (v *Volatile) openDirect(name string) (File, error) {
	return v.open(name, func(name string) (File, error) { return OpenDirect(OS, name) }, false, false)
}

func (f *volatileFile) Write(p []byte) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err = f.v.do(f.Name(), func() (err error) { n, err = f.File.WriteAt(p, f.at); return err }, func() error { f.node.write(p, f.at); return nil })
	f.at += int64(n)
	return n, err
}

func (f *volatileFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.v.do(f.Name(), func() (err error) { n, err = f.File.WriteAt(p, off); return err }, func() error { f.node.write(p, off); return nil })
	return n, err
}

func (f *volatileFile) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.File.ReadAt(p, f.at)
	if f.at += int64(n); n > 0 {
		err = nil
	}
	return n, err
}

func (f *volatileFile) Truncate(size int64) error {
	return f.v.do(f.Name(), func() error { return f.File.Truncate(size) }, func() error { f.node.resize(int(size)); return nil })
}

func (f *volatileFile) Sync() error {
	return f.v.do(f.Name(), func() error { return nil }, func() error {
		if f.node == nil {
			return nil // not below the root
		}
		f.node.synced, f.node.dirty = slices.Clone(f.node.now), nil
		return nil
	})
}

// Rename implements FS.
func (v *Volatile) Rename(from, to string) error {
	return v.do(to, func() error { return OS.Rename(from, to) }, func() error {
		fromDir, fromBase, n := v.find(from)
		toDir, toBase, _ := v.find(to)
		v.enter(change{{toDir, toBase, n}, {fromDir, fromBase, nil}})
		return nil
	})
}

// Link implements FS.
func (v *Volatile) Link(from, to string) error {
	return v.do(to, func() error { return OS.Link(from, to) }, func() error {
		toDir, toBase, _ := v.find(to)
		_, _, n := v.find(from)
		if n == nil { // from outside the root, where everything is durable
			b, err := os.ReadFile(from)
			if err != nil {
				return err
			}
			n = &node{now: b, synced: slices.Clone(b)}
		}
		v.enter(change{{toDir, toBase, n}})
		return nil
	})
}

// Remove implements FS.
func (v *Volatile) Remove(name string) error {
	return v.do(name, func() error { return OS.Remove(name) }, func() error {
		dir, base, n := v.find(name)
		v.remove(dir, base, n)
		return nil
	})
}

// RemoveAll implements FS. It counts as one operation, but any part of it may survive a crash.
func (v *Volatile) RemoveAll(name string) error {
	return v.do(name, func() error { return OS.RemoveAll(name) }, func() error {
		if dir, base, n := v.find(name); n != nil {
			v.remove(dir, base, n)
		}
		return nil
	})
}

func (v *Volatile) remove(dir *node, base string, n *node) {
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		v.remove(n, name, n.entries[name])
	}
	v.enter(change{{dir, base, nil}})
}

// MkdirAll implements FS.
func (v *Volatile) MkdirAll(name string) error {
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		return v.look()
	}
	return v.do(name, func() error { return OS.MkdirAll(name) }, func() error {
		parts, _ := v.inside(name)
		at := v.tree
		for _, p := range parts {
			if at.entries[p] == nil {
				v.enter(change{{at, p, &node{dir: true, entries: make(map[string]*node), kept: make(map[string]*node)}}})
			}
			at = at.entries[p]
		}
		return nil
	})
}

// SyncDir implements FS.
func (v *Volatile) SyncDir(name string) error {
	return v.do(name, func() error { return nil }, func() error {
		_, _, dir := v.find(name)
		v.commit(func(c change) bool {
			return slices.ContainsFunc(c, func(e entry) bool { return e.in == dir })
		})
		return nil
	})
}

// commit makes the wanted pending changes durable, and earlier changes of the same files.
func (v *Volatile) commit(wanted func(c change) bool) {
	taken := make([]bool, len(v.pending))
	needed := make(map[*node]bool)
	for i := len(v.pending) - 1; i >= 0; i-- {
		c := v.pending[i]
		taken[i] = wanted(c) || slices.ContainsFunc(c, func(e entry) bool { return needed[e.node] })
		for _, e := range c {
			if taken[i] && e.node != nil {
				needed[e.node] = true
			}
		}
	}
	var rest []change
	for i, c := range v.pending {
		if !taken[i] {
			rest = append(rest, c)
			continue
		}
		for _, e := range c {
			e.apply(e.in.kept)
		}
	}
	v.pending = rest
}

// List implements FS.
func (v *Volatile) List(name string) ([]string, error) {
	if err := v.look(); err != nil {
		return nil, err
	}
	return OS.List(name)
}

// Stat implements FS.
func (v *Volatile) Stat(name string) (fs.FileInfo, error) {
	if err := v.look(); err != nil {
		return nil, err
	}
	return OS.Stat(name)
}

// Lock implements FS.
func (v *Volatile) Lock(name string) (l io.Closer, err error) {
	v.mu.Lock()
	_, _, was := v.find(name)
	v.mu.Unlock()
	lock := func() error { l, err = OS.Lock(name); return err }
	if was != nil {
		return l, errors.Join(v.look(), lock())
	}
	err = v.do(name, lock, func() error {
		dir, base, _ := v.find(name)
		v.enter(change{{dir, base, new(node)}})
		return nil
	})
	return l, err
}

// Free implements FS.
func (v *Volatile) Free(name string) (int64, error) { return OS.Free(name) }

// Crash turns the root into a possible state after the loss of power, chosen by a seed. The seed modulo
// 5 selects the kind of loss:
//
//	0  durable data and names alone
//	1  all names, and durable contents alone
//	2  all contents, and durable names alone
//	3  the first changes of names, as of a journal, and any sectors
//	4  any changes of names, and any sectors
//
// The Volatile must not be used afterwards.
func (v *Volatile) Crash(seed uint64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.off = true
	rng := rand.New(rand.NewPCG(seed, 0))
	first := rng.IntN(len(v.pending) + 1)
	lost := make(map[*node]bool) // nodes with a lost change: their later changes are lost too
	for i, c := range v.pending {
		drop := false
		switch seed % 5 {
		case 0, 2:
			drop = true
		case 3:
			drop = i >= first
		case 4:
			drop = rng.IntN(2) == 0 || slices.ContainsFunc(c, func(e entry) bool { return lost[e.node] })
		}
		for _, e := range c {
			switch {
			case !drop:
				e.apply(e.in.kept)
			case e.node != nil:
				lost[e.node] = true
			}
		}
	}
	list, err := os.ReadDir(v.root)
	for _, e := range list {
		err = errors.Join(err, os.RemoveAll(filepath.Join(v.root, e.Name())))
	}
	if err != nil {
		return err
	}
	return v.tree.store(v.root, rng, seed%5, make(map[*node]string))
}

// store writes the part of a directory that survives.
func (n *node) store(name string, rng *rand.Rand, kind uint64, stored map[*node]string) error {
	for _, base := range slices.Sorted(maps.Keys(n.kept)) {
		k, path := n.kept[base], filepath.Join(name, base)
		var err error
		switch {
		case k.dir:
			if err = os.Mkdir(path, 0o777); err == nil {
				err = k.store(path, rng, kind, stored)
			}
		case stored[k] != "":
			err = os.Link(stored[k], path)
		default:
			stored[k] = path
			err = os.WriteFile(path, k.left(rng, kind), 0o666)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// left returns the part of a file's content that survives.
func (n *node) left(rng *rand.Rand, kind uint64) []byte {
	switch kind {
	case 0, 1:
		return n.synced
	case 2:
		return n.now
	}
	lo, hi := min(len(n.synced), len(n.now)), max(len(n.synced), len(n.now))
	size := lo
	switch rng.IntN(3) {
	case 0:
		size = len(n.now)
	case 1:
		size = len(n.synced)
	default:
		size = min(hi, lo+rng.IntN((hi-lo)/sector+1)*sector)
	}
	b := make([]byte, size)
	copy(b, n.synced)
	for _, s := range slices.Sorted(maps.Keys(n.dirty)) {
		from := s * sector
		if rng.IntN(2) == 0 || from >= min(size, len(n.now)) {
			continue
		}
		copy(b[from:min(from+sector, size)], n.now[from:])
	}
	return b
}
