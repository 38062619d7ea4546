// Package memgroup limits the memory of this process, with the page cache of the files that it reads: it
// makes a memory cgroup below the process's own, and moves the process there.
//
//	own group ─┬─ diskgnn-PID   made by Enter, removed by Leave; holds this process alone
//	           └─ …             other groups, left as they are
//
// In version 2 of cgroups the memory controller must be enabled for the process's group, and no other
// process may be in that group: a group either has processes or enables controllers for groups below it.
// In version 1 the controller must be hierarchical, so that the limits of groups above still hold.
//
// Memory that was charged to another group before is not moved: the process's memory so far, and file
// pages in the page cache. At the limit the kernel first frees file pages, and ends the process only if
// that does not suffice.
package memgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Group is the group that this process has made and joined.
type Group struct {
	in    tree
	own   string // directory of the group that the process came from
	dir   string // directory of the group that it has joined
	pid   string
	hands bool // Enter enabled the memory controller for groups below own
}

// prefix begins the names of groups; the number of the process follows.
const prefix = "diskgnn-"

// Enter makes a group with a limit in bytes and moves this process there, with all its threads. With
// delegated it does so only if the process may divide its own group: the group belongs to the user, who
// is not root, or has systemd's mark of delegation. After an error everything is unchanged, and the error
// has the reason.
func Enter(limit int64, delegated bool) (*Group, error) {
	h, err := find("/proc/self")
	if err != nil {
		return nil, err
	}
	if delegated && !isDelegated(h.dir) {
		return nil, fmt.Errorf("the cgroup %s was not delegated", h.dir)
	}
	return h.enter(kernel{}, limit, os.Getpid())
}

// home is the memory cgroup of a process.
type home struct {
	dir     string
	version int
}

func find(proc string) (home, error) {
	groups, err := os.ReadFile(filepath.Join(proc, "cgroup"))
	if err != nil {
		return home{}, fmt.Errorf("the system has no cgroups: %w", err)
	}
	mounts, err := os.ReadFile(filepath.Join(proc, "mountinfo"))
	if err != nil {
		return home{}, fmt.Errorf("the system has no cgroups: %w", err)
	}
	return parse(string(groups), string(mounts))
}

// parse finds the group: a line of cgroup is NUMBER:CONTROLLERS:PATH, version 2 has no
// controllers; one of mountinfo is
//
//	ID PARENT DEVICE ROOT POINT OPTIONS … - TYPE SOURCE OPTIONS
//
// and the group lies where the path leads from the root at the point. A memory controller of
// version 1 is in use if it is mounted: version 2 has none then.
func parse(groups, mounts string) (home, error) {
	for version := 1; version <= 2; version++ {
		path, ok := groupPath(groups, version)
		if !ok {
			continue
		}
		for line := range strings.Lines(mounts) {
			mount, source, _ := strings.Cut(line, " - ")
			m, s := strings.Fields(mount), strings.Fields(source)
			if len(m) < 5 || len(s) < 3 {
				continue
			}
			switch {
			case version == 1 && (s[0] != "cgroup" || !has(s[2], "memory")):
				continue
			case version == 2 && s[0] != "cgroup2":
				continue
			}
			if rel, err := filepath.Rel(unescape(m[3]), path); err == nil && filepath.IsLocal(rel) {
				return home{filepath.Join(unescape(m[4]), rel), version}, nil
			}
		}
	}
	return home{}, errors.New("no memory cgroup is mounted")
}

func groupPath(groups string, version int) (string, bool) {
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) == 3 && (version == 1 && has(f[1], "memory") || version == 2 && f[0] == "0" && f[1] == "") {
			return f[2], true
		}
	}
	return "", false
}

// has reports whether a comma-separated list has a word.
func has(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// unescape undoes mountinfo's escapes of blanks.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func (h home) enter(in tree, limit int64, pid int) (_ *Group, err error) {
	g := &Group{in: in, own: h.dir, dir: filepath.Join(h.dir, prefix+strconv.Itoa(pid)), pid: strconv.Itoa(pid)}
	if err := h.able(in); err != nil {
		return nil, err
	}
	h.sweep(in)
	if err := in.mkdir(g.dir); err != nil {
		return nil, err
	}
	if h.version == 1 {
		err = g.limit1(limit)
	} else {
		err = g.limit2(limit)
	}
	if err != nil {
		return nil, errors.Join(err, g.in.rmdir(g.dir))
	}
	return g, nil
}

// limit1 sets the limit, in version 1, and moves the process to the group. After an error the process
// has not moved.
func (g *Group) limit1(limit int64) error {
	if err := g.write(g.dir, "memory.limit_in_bytes", strconv.FormatInt(limit, 10)); err != nil {
		return err
	}
	return g.move(g.dir)
}

// limit2 does the same in version 2. The process must leave its own group before the controller can be
// enabled below it; only then can the new group have a limit.
func (g *Group) limit2(limit int64) error {
	if err := g.move(g.dir); err != nil {
		return err
	}
	err := g.handDown()
	if err == nil {
		err = g.write(g.dir, "memory.max", strconv.FormatInt(limit, 10))
	}
	if err != nil {
		return errors.Join(err, g.handNoMore(), g.move(g.own))
	}
	return nil
}

func (g *Group) handDown() error {
	down, err := g.in.read(filepath.Join(g.own, "cgroup.subtree_control"))
	if err != nil || contains(down, "memory") {
		return err
	}
	if err := g.write(g.own, "cgroup.subtree_control", "+memory"); err != nil {
		return fmt.Errorf("the cgroup has other processes: %w", err)
	}
	g.hands = true
	return nil
}

// handNoMore disables the controllers below the own group, which keep processes out of it.
func (g *Group) handNoMore() error {
	if !g.hands {
		return nil
	}
	g.hands = false
	return g.write(g.own, "cgroup.subtree_control", "-memory")
}

func (g *Group) move(dir string) error { return g.write(dir, "cgroup.procs", g.pid) }

func (g *Group) write(dir, file, text string) error {
	return g.in.write(filepath.Join(dir, file), text)
}

// Leave moves the process back to the group that it was in, and removes its own.
func (g *Group) Leave() error {
	err := g.handNoMore()
	if err == nil {
		err = g.move(g.own)
	}
	if err == nil {
		err = g.in.rmdir(g.dir)
	}
	if err != nil {
		return fmt.Errorf("leave the memory cgroup %s: %w", g.dir, err)
	}
	return nil
}

// Dir returns the directory of the group.
func (g *Group) Dir() string { return g.dir }

// able returns the reason why the process's group can have no memory group below it, or nil.
func (h home) able(in tree) error {
	if h.version == 2 {
		have, err := in.read(filepath.Join(h.dir, "cgroup.controllers"))
		if err == nil && !contains(have, "memory") {
			err = fmt.Errorf("the cgroup %s has no memory controller", h.dir)
		}
		return err
	}
	below, err := in.read(filepath.Join(h.dir, "memory.use_hierarchy"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // without this file, groups are always hierarchical
	}
	if err == nil && below != "1" {
		err = fmt.Errorf("the limits of the cgroup %s would not hold for groups below it", h.dir)
	}
	return err
}

// sweep removes groups of processes that ended without Leave. It ignores errors.
func (h home) sweep(in tree) {
	names, _ := in.list(h.dir)
	for _, name := range names {
		number, ok := strings.CutPrefix(name, prefix)
		if pid, err := strconv.Atoi(number); ok && err == nil && in.gone(pid) {
			_ = in.rmdir(filepath.Join(h.dir, name)) // fails for a group with processes
		}
	}
}

// contains reports whether a blank-separated list has a word.
func contains(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}

// tree is the file system of cgroups: groups are directories with files of the kernel.
type tree interface {
	mkdir(dir string) error
	rmdir(dir string) error
	list(dir string) ([]string, error)
	read(file string) (string, error) // without surrounding white space
	write(file, text string) error
	gone(pid int) bool // no process has that number
}

// kernel is the tree of the kernel.
type kernel struct{}

func (kernel) mkdir(dir string) error { return os.Mkdir(dir, 0o755) }

func (kernel) rmdir(dir string) error {
	if err := rmdir(dir); err != nil {
		return &fs.PathError{Op: "remove", Path: dir, Err: err}
	}
	return nil
}

func (kernel) list(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (kernel) read(file string) (string, error) {
	b, err := os.ReadFile(file)
	return strings.TrimSpace(string(b)), err
}

func (kernel) write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func (kernel) gone(pid int) bool { return gone(pid) }
