package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tree is a prefix of all paths of the machine's files, "" except in tests.
type tree string

func (t tree) path(name string) string { return string(t) + name }

// read returns a file's text without the final newline.
func (t tree) read(name string) (string, error) {
	b, err := os.ReadFile(t.path(name))
	return strings.TrimSpace(string(b)), err
}

// write writes an attribute with one system call, as sysfs requires.
func (t tree) write(name, text string) error {
	f, err := os.OpenFile(t.path(name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func (t tree) exists(name string) bool {
	_, err := os.Lstat(t.path(name))
	return err == nil
}

// list returns the names in a directory, none if the directory does not exist.
func (t tree) list(dir string) ([]string, error) {
	entries, err := os.ReadDir(t.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// link returns the last element of a link's target, "" if there is no link.
func (t tree) link(name string) (string, error) {
	to, err := os.Readlink(t.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return filepath.Base(to), err
}

// device is the directory of a PCI function, driver the directory of a driver.
func device(address string) string { return "/sys/bus/pci/devices/" + address }
func driver(name string) string    { return "/sys/bus/pci/drivers/" + name }
