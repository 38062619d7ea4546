package memgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// fake is a tree of groups that obeys the kernel's rules.
type fake struct {
	version int
	files   map[string]string // by path; a directory has ""
	procs   map[int]string    // the group of each process
	fail    string            // the operation that fails, "write memory.max" or such
	done    []string          // what succeeded
}

const own = "/g/own"

// newFake has the processes 7, in own, and others elsewhere.
func newFake(version int) *fake {
	f := &fake{version: version, files: map[string]string{}, procs: map[int]string{7: own, 8: "/g"}}
	f.made("/g")
	f.made(own)
	f.files["/g/cgroup.subtree_control"] = "memory"
	return f
}

// made has the files of a new group.
func (f *fake) made(dir string) {
	f.files[dir] = ""
	f.files[dir+"/cgroup.procs"] = ""
	if f.version == 1 {
		f.files[dir+"/memory.use_hierarchy"], f.files[dir+"/memory.limit_in_bytes"] = "1", "none"
		return
	}
	f.files[dir+"/cgroup.controllers"], f.files[dir+"/cgroup.subtree_control"] = "cpu memory", ""
}

// hands tells whether a group of version 2 hands controllers down.
func (f *fake) hands(dir string) bool {
	return f.version == 2 && f.files[dir+"/cgroup.subtree_control"] != ""
}

func (f *fake) empty(dir string) bool {
	for _, in := range f.procs {
		if in == dir {
			return false
		}
	}
	return true
}

func (f *fake) end(err error, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if f.fail != "" && strings.HasPrefix(what, f.fail) {
		return errors.New("no " + what)
	}
	if err != nil {
		return &fs.PathError{Op: what, Err: err}
	}
	f.done = append(f.done, what)
	return nil
}

func (f *fake) mkdir(dir string) error {
	var err error
	if _, ok := f.files[dir]; ok {
		err = fs.ErrExist
	}
	if err = f.end(err, "mkdir %s", filepath.Base(dir)); err == nil {
		f.made(dir)
	}
	return err
}

func (f *fake) rmdir(dir string) error {
	var err error
	if !f.empty(dir) {
		err = syscall.EBUSY
	}
	if err = f.end(err, "rmdir %s", filepath.Base(dir)); err == nil {
		for name := range f.files {
			if name == dir || filepath.Dir(name) == dir {
				delete(f.files, name)
			}
		}
	}
	return err
}

func (f *fake) list(dir string) (names []string, err error) {
	for name := range f.files {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

func (f *fake) read(file string) (string, error) {
	text, ok := f.files[file]
	if !ok {
		return "", &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
	}
	return text, nil
}

func (f *fake) gone(pid int) bool { return f.procs[pid] == "" }

func (f *fake) write(file, text string) error {
	dir, name := filepath.Dir(file), filepath.Base(file)
	var err error
	switch _, ok := f.files[file]; {
	case name == "memory.max" && f.hands(filepath.Dir(dir)):
	case !ok:
		err = fs.ErrNotExist
	case name == "cgroup.procs" && f.hands(dir):
		err = syscall.EBUSY
	case name == "cgroup.subtree_control" && text == "+memory" && !f.empty(dir):
		err = syscall.EBUSY
	}
	if err := f.end(err, "write %s %s to %s", name, text, filepath.Base(dir)); err != nil {
		return err
	}
	switch {
	case name == "cgroup.procs":
		f.procs[7] = dir
	case text == "+memory":
		f.files[file] = "memory"
	case text == "-memory":
		f.files[file] = ""
	default:
		f.files[file] = text
	}
	return nil
}

func (f *fake) enter() (*Group, error) { return home{own, f.version}.enter(f, 4096, 7) }

// TestEnterAndLeave, by both versions: what is done, in order, and that nothing of it stays.
func TestEnterAndLeave(t *testing.T) {
	for version, want := range map[int]string{
		1: "mkdir diskgnn-7, write memory.limit_in_bytes 4096 to diskgnn-7, write cgroup.procs 7 to diskgnn-7" +
			" | write cgroup.procs 7 to own, rmdir diskgnn-7",
		2: "mkdir diskgnn-7, write cgroup.procs 7 to diskgnn-7, write cgroup.subtree_control +memory to own, write memory.max 4096 to diskgnn-7" +
			" | write cgroup.subtree_control -memory to own, write cgroup.procs 7 to own, rmdir diskgnn-7",
	} {
		f := newFake(version)
		before := fmt.Sprint(f.files, f.procs)
		g, err := f.enter()
		if err != nil {
			t.Fatal(err)
		}
		if g.Dir() != own+"/diskgnn-7" || f.procs[7] != g.Dir() {
			t.Errorf("in %s", f.procs[7])
		}
		entered := strings.Join(f.done, ", ")
		f.done = nil
		if err := g.Leave(); err != nil {
			t.Fatal(err)
		}
		if got := entered + " | " + strings.Join(f.done, ", "); got != want {
			t.Errorf("version %d:\n%s, want\n%s", version, got, want)
		}
		if after := fmt.Sprint(f.files, f.procs); after != before {
			t.Errorf("version %d leaves %s", version, after)
		}
	}
}

// TestEnterFails: whatever cannot be done, everything is as it was.
func TestEnterFails(t *testing.T) {
	for _, c := range []struct {
		version int
		fail    string
		change  func(f *fake)
		want    string
	}{
		{1, "mkdir", nil, "no mkdir"},
		{1, "write memory.limit", nil, "no write memory.limit"},
		{1, "write cgroup.procs 7 to diskgnn", nil, "no write cgroup.procs"},
		{1, "", func(f *fake) { f.files[own+"/memory.use_hierarchy"] = "0" }, "would not hold"},
		{2, "mkdir", nil, "no mkdir"},
		{2, "write cgroup.procs 7 to diskgnn", nil, "no write cgroup.procs"},
		{2, "write cgroup.subtree_control +", nil, "other processes"},
		{2, "write memory.max", nil, "no write memory.max"},
		{2, "", func(f *fake) { f.procs[9] = own }, "other processes: write cgroup.subtree_control +memory"},
		{2, "", func(f *fake) { f.files[own+"/cgroup.controllers"] = "cpu" }, "has no memory controller"},
		{2, "", func(f *fake) { delete(f.files, own+"/cgroup.controllers") }, "cgroup.controllers"},
	} {
		f := newFake(c.version)
		if f.fail = c.fail; c.change != nil {
			c.change(f)
		}
		before := fmt.Sprint(f.files, f.procs)
		if _, err := f.enter(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("version %d, %s: %v", c.version, c.want, err)
		}
		if after := fmt.Sprint(f.files, f.procs); after != before {
			t.Errorf("version %d, %s: leaves %s, it was %s", c.version, c.want, after, before)
		}
	}
}

// TestUnhierarchical: a kernel without the file knows nothing but hierarchies.
func TestUnhierarchical(t *testing.T) {
	f := newFake(1)
	delete(f.files, own+"/memory.use_hierarchy")
	if _, err := f.enter(); err != nil {
		t.Error(err)
	}
}

// TestHandedDownAlready: then it stays so. The kernel lets the root have processes all the
// same; elsewhere the process cannot go back, which Leave says.
func TestHandedDownAlready(t *testing.T) {
	f := newFake(2)
	f.files[own+"/cgroup.subtree_control"] = "cpu memory"
	g, err := f.enter()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Leave(); err == nil || !strings.Contains(err.Error(), "leave the memory cgroup "+own+"/diskgnn-7: ") || f.files[own+"/cgroup.subtree_control"] != "cpu memory" {
		t.Errorf("%v, %q", err, f.files[own+"/cgroup.subtree_control"])
	}
}

// TestSweep: groups of processes that are gone are removed, no others.
func TestSweep(t *testing.T) {
	f := newFake(1)
	for _, name := range []string{"diskgnn-5", "diskgnn-8", "diskgnn-6", "diskgnn-x", "other-5"} {
		f.made(own + "/" + name)
	}
	f.procs[60] = own + "/diskgnn-6" // a child of a process that is gone
	if _, err := f.enter(); err != nil {
		t.Fatal(err)
	}
	names, _ := f.list(own)
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.Contains(n, "-") })
	if want := []string{"diskgnn-6", "diskgnn-7", "diskgnn-8", "diskgnn-x", "other-5"}; !slices.Equal(names, want) {
		t.Errorf("there are %v, want %v", names, want)
	}
}

// TestParse finds the group in what the kernel says.
func TestParse(t *testing.T) {
	const (
		hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
			"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		unified   = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		container = "600 500 0:26 /docker/a\\040b /sys/fs/c\\040g rw - cgroup2 cgroup rw\n"
	)
	for _, c := range []struct {
		groups, mounts string
		want           home
	}{
		{"5:devices:/\n4:memory:/a/b:c\n0::/\n", hybrid, home{"/sys/fs/cgroup/memory/a/b:c", 1}},
		{"4:cpu,memory:/\n", "1 2 0:3 / /m rw - cgroup cgroup rw,cpu,memory\n", home{"/m", 1}},
		{"0::/user.slice/s.scope\n", unified, home{"/sys/fs/cgroup/user.slice/s.scope", 2}},
		{"0::/docker/a b/x\n", container, home{"/sys/fs/c g/x", 2}},
		{"0::/elsewhere\n", container, home{}},
		{"4:memory:/a\n", unified, home{}},
		{"", hybrid, home{}},
		{"0::/a", "torn\n1 2 3 - cgroup2\n", home{}},
	} {
		got, err := parse(c.groups, c.mounts)
		if got != c.want || (err == nil) != (c.want != home{}) {
			t.Errorf("%q: %+v, %v", c.groups, got, err)
		}
	}
}
