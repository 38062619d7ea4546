package sysfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
)

// class is the PCI class of NVMe controllers.
const class = "0x010802"

// kernelDriver is the only driver from which a function is taken.
const kernelDriver = "nvme"

var (
	addressForm = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	pathForm    = regexp.MustCompile(`^(nvme\d+)c\d+(n\d+)$`) // one path of a namespace with several
)

// function is a PCI function that may be taken.
type function struct {
	tree    tree
	address string
	driver  string     // that it has; empty: none
	claims  []*os.File // its block devices, held so that nothing can mount them

	bar       *os.File // resource0, locked
	registers int      // its size in bytes
}

// unclaim gives up the block devices.
func (f *function) unclaim() error {
	var err error
	for _, c := range f.claims {
		err = errors.Join(err, c.Close())
	}
	f.claims = nil
	return err
}

// close closes all open files. It does not give the function back.
func (f *function) close() error {
	err := f.unclaim()
	if f.bar != nil {
		err = errors.Join(err, f.bar.Close())
	}
	return err
}

// arrival is the longest wait for the block devices of a function. After the function is bound, the
// kernel's driver makes them in the background.
const arrival = 5 * time.Second

// inspect returns an error if a function must not be taken. Else the function is locked until close, and
// its block devices are claimed until unclaim.
func inspect(address string, o Options) (_ *function, err error) {
	t, force := o.root, o.Force
	refuse := func(format string, args ...any) error {
		return fault.New(fault.ErrInput, "%s is not taken: "+format, append([]any{address}, args...)...)
	}
	if !addressForm.MatchString(address) {
		return nil, fault.New(fault.ErrUsage, "%q is no PCI address, such as 0000:01:00.0", address)
	}
	dir := device(address)
	if !t.exists(dir) {
		return nil, refuse("there is no such PCI function")
	}
	if is, err := t.read(dir + "/class"); err != nil {
		return nil, err
	} else if is != class {
		return nil, refuse("its class is %s, not %s of NVMe controllers", is, class)
	}
	if group, err := t.link(dir + "/iommu_group"); err != nil {
		return nil, err
	} else if group != "" {
		if kind, err := t.read("/sys/kernel/iommu_groups/" + group + "/type"); err != nil || kind != "identity" {
			return nil, refuse("an IOMMU translates its addresses; boot with iommu=pt, or with it off")
		}
	}
	f := &function{tree: t, address: address}
	if f.driver, err = t.link(dir + "/driver"); err != nil {
		return nil, err
	}
	switch {
	case f.driver == "" && !force:
		return nil, refuse("no driver is bound to it, so its content cannot be checked; force takes it")
	case f.driver != "" && f.driver != kernelDriver:
		return nil, refuse("the driver %s is bound to it", f.driver)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if err := f.lock(); err != nil {
		return nil, err
	}
	names, err := f.blocks()
	for err == nil && len(names) == 0 && f.driver != "" && o.pause != nil && o.pause() {
		names, err = f.blocks()
	}
	if err != nil {
		return nil, err
	}
	if len(names) == 0 && !force {
		return nil, refuse("it has no block devices, or not yet, so its content cannot be checked; force takes it")
	}
	for _, name := range names {
		why, err := f.used(name)
		if why == "" && err == nil {
			why, err = f.claim(name, force)
		}
		switch {
		case err != nil:
			return nil, refuse("inspect %s: %w", name, err)
		case why != "":
			return nil, refuse("%s %s", name, why)
		}
	}
	return f, nil
}

// blocks returns the names of the function's block devices, without partitions. A namespace with
// several paths has one device for all of them.
func (f *function) blocks() ([]string, error) {
	all, err := f.tree.list("/sys/class/block")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range all {
		to, err := os.Readlink(f.tree.path("/sys/class/block/" + name))
		if err != nil {
			return nil, err
		}
		if !strings.Contains(to, "/"+f.address+"/") || f.tree.exists("/sys/class/block/"+name+"/partition") {
			continue
		}
		if m := pathForm.FindStringSubmatch(name); m != nil {
			name = m[1] + m[2]
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// parts returns the names of a block device's partitions.
func (f *function) parts(name string) ([]string, error) {
	inside, err := f.tree.list("/sys/class/block/" + name)
	return slices.DeleteFunc(inside, func(part string) bool {
		return !f.tree.exists("/sys/class/block/" + name + "/" + part + "/partition")
	}), err
}

// used returns the use of a block device or of its partitions, for a message; "" if they are not in use.
func (f *function) used(name string) (why string, err error) {
	parts, err := f.parts(name)
	if err != nil {
		return "", err
	}
	mounts, err := f.tree.read("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	swaps, err := f.tree.read("/proc/swaps")
	if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without
		return "", err
	}
	for _, part := range append([]string{name}, parts...) {
		dir, node := "/sys/class/block/"+name, "/dev/"+part
		if part != name {
			dir += "/" + part
		}
		number, err := f.tree.read(dir + "/dev")
		if err != nil {
			return "", err
		}
		holders, err := f.tree.list(dir + "/holders")
		if err != nil {
			return "", err
		}
		if len(holders) > 0 {
			return fmt.Sprintf("is part of %s", strings.Join(holders, " and ")), nil
		}
		for line := range strings.Lines(mounts) {
			// 36 35 98:0 /root /mount/point options… - type source options
			before, after, _ := strings.Cut(line, " - ")
			is, of := strings.Fields(before), strings.Fields(after)
			if len(is) > 4 && is[2] == number || len(is) > 4 && len(of) > 1 && of[1] == node {
				return fmt.Sprintf("is mounted: %s at %s", part, is[4]), nil
			}
		}
		for line := range strings.Lines(swaps) {
			if is := strings.Fields(line); len(is) > 0 && is[0] == node {
				return fmt.Sprintf("is in use as swap space: %s", part), nil
			}
		}
	}
	return "", nil
}

// claim opens a block device exclusively. why is the reason if it must not be taken, else "".
func (f *function) claim(name string, force bool) (why string, err error) {
	parts, err := f.parts(name)
	if err != nil {
		return "", err
	}
	if len(parts) > 0 && !force {
		return "has partitions; force takes it", nil
	}
	b, err := os.OpenFile(f.tree.path("/dev/"+filepath.Base(name)), os.O_RDONLY|unix.O_EXCL, 0)
	switch {
	case errors.Is(err, unix.EBUSY):
		return "is held open by another program", nil
	case err != nil:
		return "", err
	}
	f.claims = append(f.claims, b)
	head := make([]byte, 8<<10)
	n, err := io.ReadFull(b, head)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return "", err
	}
	if tabled(head[:n]) && !force {
		return "has a partition table; force takes it", nil
	}
	return "", nil
}

// tabled reports whether a drive that begins with these bytes has a partition table: the
// signature of a boot record, or a GUID partition table's header in the second block.
func tabled(head []byte) bool {
	at := func(offset int, text string) bool {
		return len(head) >= offset+len(text) && string(head[offset:offset+len(text)]) == text
	}
	return at(510, "\x55\xaa") || at(512, "EFI PART") || at(4096, "EFI PART")
}
