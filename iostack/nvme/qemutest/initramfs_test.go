package qemutest

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// member is a file of the guest's initial file system.
type member struct {
	name         string
	mode         int
	major, minor int
	data         []byte
}

// pack writes the guest's initial file system, a cpio archive of the form newc: programs and
// what they link to, by the names that they have there, their directories, and a console,
// which is the standard output of /init.
func pack(name string, files map[string]string) error {
	all := []member{{name: "dev", mode: 0o040755}, {name: "dev/console", mode: 0o020600, major: 5, minor: 1}}
	made := map[string]bool{".": true}
	for _, to := range slices.Sorted(maps.Keys(files)) {
		b, err := os.ReadFile(files[to])
		if err != nil {
			return err
		}
		var dirs []member
		for dir := path.Dir(to); !made[dir]; dir = path.Dir(dir) {
			made[dir] = true
			dirs = append(dirs, member{name: dir, mode: 0o040755})
		}
		slices.Reverse(dirs)
		all = append(append(all, dirs...), member{name: to, mode: 0o100755, data: b})
	}
	var out bytes.Buffer
	for i, f := range append(all, member{name: "TRAILER!!!"}) {
		// ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
		fmt.Fprint(&out, "070701")
		for _, v := range []int{i + 1, f.mode, 0, 0, 1, 0, len(f.data), 0, 0, f.major, f.minor, len(f.name) + 1, 0} {
			fmt.Fprintf(&out, "%08x", v)
		}
		fmt.Fprintf(&out, "%s\x00", f.name)
		for out.Len()%4 != 0 {
			out.WriteByte(0)
		}
		out.Write(f.data)
		for out.Len()%4 != 0 {
			out.WriteByte(0)
		}
	}
	return os.WriteFile(name, out.Bytes(), 0o600)
}

// libraryDirs is where loaders look for libraries.
var libraryDirs = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}

// librariesOf returns the loader of a program and the libraries that it links to, and these,
// by the names under which they are found; nothing of a program that is static.
func librariesOf(program string) (found []string, err error) {
	seen := map[string]bool{}
	for next := []string{program}; len(next) > 0; {
		name := next[0]
		next = next[1:]
		f, err := elf.Open(name)
		if err != nil {
			return nil, err
		}
		needs, err := f.ImportedLibraries()
		if err != nil {
			return nil, err
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				b, err := io.ReadAll(p.Open())
				if err != nil {
					return nil, err
				}
				needs = append(needs, strings.TrimRight(string(b), "\x00"))
			}
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		for _, need := range needs {
			if seen[filepath.Base(need)] {
				continue
			}
			seen[filepath.Base(need)] = true
			at, err := locate(need)
			if err != nil {
				return nil, err
			}
			found, next = append(found, at), append(next, at)
		}
	}
	return found, nil
}

func locate(library string) (string, error) {
	if filepath.IsAbs(library) {
		return library, nil
	}
	for _, dir := range libraryDirs {
		if at := filepath.Join(dir, library); exists(at) {
			return at, nil
		}
	}
	return "", fmt.Errorf("no %s in %s", library, strings.Join(libraryDirs, ", "))
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// An archive has every directory before what is in it, once.
func TestPack(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := pack(to, map[string]string{"init": from, "lib/a/x": from, "lib/a/y": from, "lib/z": from}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for rest := b; len(rest) > 0; {
		var size, length int
		fmt.Sscanf(string(rest[54:62]), "%x", &size)
		fmt.Sscanf(string(rest[94:102]), "%x", &length)
		names = append(names, string(rest[110:][:length-1]))
		data := (110 + length + 3) &^ 3
		if size > 0 && string(rest[data:][:size]) != "12345" {
			t.Errorf("%s has %q", names[len(names)-1], rest[data:][:size])
		}
		rest = rest[(data+size+3)&^3:]
	}
	if want := "dev dev/console init lib lib/a lib/a/x lib/a/y lib/z TRAILER!!!"; strings.Join(names, " ") != want {
		t.Errorf("%q, want %q", names, want)
	}
}
