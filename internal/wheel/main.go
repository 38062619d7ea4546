// Command wheel packs the Python package and a program into a wheel, the archive that pip installs.
//
//	go run ./internal/wheel [-label gpu] -o DIR PACKAGE PROGRAM LICENCE...
//
// PACKAGE is a directory with a pyproject.toml and a package of the project's name. The wheel has the program as
// bin/diskgnn of the package, and a script diskgnn that starts it. Its version is the program's. Its platform is Linux
// with the version of glibc that the program's symbols need, 2.17 or later. Equal inputs give equal bytes.
package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"diskgnn/internal/vfs"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("wheel: ")
	label := flag.String("label", "", "local label of the version, such as gpu")
	out := flag.String("o", ".", "directory of the wheel")
	flag.Parse()
	if flag.NArg() < 2 {
		log.Fatal("usage: wheel [-label gpu] -o DIR PACKAGE PROGRAM LICENCE...")
	}
	name, data, err := build(flag.Arg(0), flag.Arg(1), *label, flag.Args()[2:])
	if err == nil {
		name = filepath.Join(*out, name)
		err = vfs.ReplaceFile(vfs.OS, name, data)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(name)
}

// build returns a wheel's name and bytes.
func build(pkg, program, label string, licences []string) (string, []byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", nil, err
	}
	v, err := version(info.Main.Version, label)
	if err != nil {
		return "", nil, err
	}
	binary, err := elf.Open(program)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", program, err)
	}
	defer binary.Close()
	platforms, err := platforms(binary)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", program, err)
	}
	text, err := os.ReadFile(filepath.Join(pkg, "pyproject.toml"))
	if err != nil {
		return "", nil, err
	}
	p, err := parseProject(string(text))
	if err != nil {
		return "", nil, err
	}
	files, err := collect(pkg, program, p, v, platforms, licences)
	if err != nil {
		return "", nil, err
	}
	data, err := archive(files, p.Name+"-"+v+".dist-info/RECORD")
	return fmt.Sprintf("%s-%s-py3-none-%s.whl", p.Name, v, strings.Join(platforms, ".")), data, err
}

var goVersion = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(?:-rc\.?(\d+))?(?:[-.](?:0\.)?(\d{14})-([0-9a-f]{12}))?(\+dirty)?$`)

// version returns Python's form of a version of Go: 1.2.3, 1.2.3rc1, or 1.2.3.dev20260102030405+g0123456789ab of a
// commit before 1.2.3. A program that was built without version control is 0.0.0.
func version(v, label string) (string, error) {
	if v == "" || v == "(devel)" {
		v = "v0.0.0"
	}
	m := goVersion.FindStringSubmatch(v)
	if m == nil {
		return "", fmt.Errorf("the program's version %s has no form in Python", v)
	}
	out, local := m[1], []string(nil)
	after := ".dev" // of the release to come
	if m[2] != "" {
		out, after = out+"rc"+m[2], ".post"
	}
	if m[3] != "" {
		out, local = out+after+m[3], append(local, "g"+m[4])
	}
	if m[5] != "" {
		local = append(local, "dirty")
	}
	if label != "" {
		local = append(local, label)
	}
	if len(local) > 0 {
		out += "+" + strings.Join(local, ".")
	}
	return out, nil
}

// platforms returns the tags of the platforms on which a program runs. A program without cgo needs glibc too, since it
// opens OpenBLAS by dlopen: it does not run on musl.
func platforms(f *elf.File) ([]string, error) {
	arch := map[elf.Machine]string{elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64"}[f.Machine]
	if arch == "" {
		return nil, fmt.Errorf("no tag for %v", f.Machine)
	}
	var needs []elf.DynamicVersionNeed
	if f.SectionByType(elf.SHT_GNU_VERNEED) != nil { // a program without cgo takes any version
		var err error
		if needs, err = f.DynamicVersionNeeds(); err != nil {
			return nil, err
		}
	}
	tags := []string{fmt.Sprintf("manylinux_2_%d_%s", glibc(needs), arch)}
	if tags[0] == "manylinux_2_17_"+arch {
		tags = append(tags, "manylinux2014_"+arch) // its name before pip 20.3
	}
	return tags, nil
}

// glibc returns the version 2.N of glibc that the needs call for, at least 17, the oldest with a tag.
func glibc(needs []elf.DynamicVersionNeed) int {
	floor := 17
	for _, library := range needs {
		for _, n := range library.Needs {
			var minor int
			if _, err := fmt.Sscanf(n.Dep, "GLIBC_2.%d", &minor); err == nil {
				floor = max(floor, minor)
			}
		}
	}
	return floor
}

// project is the part of a pyproject.toml that the metadata of a wheel has.
type project struct {
	Name, Description, License string
	RequiresPython             string `json:"requires-python"`
	Dependencies               []string
}

// parseProject reads the table [project], in which every value is one of JSON too, on the line of its key.
func parseProject(text string) (p project, err error) {
	_, table, ok := strings.Cut(text, "\n[project]\n")
	if !ok {
		return p, fmt.Errorf("pyproject.toml has no table [project]")
	}
	table, _, _ = strings.Cut(table, "\n[")
	values := make(map[string]json.RawMessage)
	for line := range strings.Lines(table) {
		if line = strings.TrimSpace(line); line != "" {
			key, value, _ := strings.Cut(line, " = ")
			values[key] = json.RawMessage(value)
		}
	}
	all, err := json.Marshal(values)
	if err == nil {
		err = json.Unmarshal(all, &p)
	}
	if err != nil {
		err = fmt.Errorf("pyproject.toml: %w", err)
	}
	return p, err
}

// script is the command that a wheel installs. It does not import the package, which takes longer than most commands.
const script = `#!python
import importlib.util, os, sys
program = os.path.join(os.path.dirname(importlib.util.find_spec("diskgnn").origin), "bin", "diskgnn")
os.execv(program, [program] + sys.argv[1:])
`

// file is a file of a wheel.
type file struct {
	name string
	mode fs.FileMode
	data []byte
}

// collect returns the files of a wheel but RECORD, which lists them.
func collect(pkg, program string, p project, version string, platforms, licences []string) ([]file, error) {
	var files []file
	add := func(name string, mode fs.FileMode, from string) error {
		data, err := os.ReadFile(from)
		files = append(files, file{name, mode, data})
		return err
	}
	sources, err := os.ReadDir(filepath.Join(pkg, p.Name))
	if err != nil {
		return nil, err
	}
	for _, s := range sources {
		if !s.Type().IsRegular() {
			continue
		}
		if err := add(path.Join(p.Name, s.Name()), 0o644, filepath.Join(pkg, p.Name, s.Name())); err != nil {
			return nil, err
		}
	}
	if err := add(p.Name+"/bin/diskgnn", 0o755, program); err != nil {
		return nil, err
	}
	metadata := fmt.Sprintf("Metadata-Version: 2.4\nName: %s\nVersion: %s\nSummary: %s\nLicense-Expression: %s\nRequires-Python: %s\n",
		p.Name, version, p.Description, p.License, p.RequiresPython)
	for _, d := range p.Dependencies {
		metadata += "Requires-Dist: " + d + "\n"
	}
	about := p.Name + "-" + version + ".dist-info/"
	for _, l := range licences {
		metadata += "License-File: " + filepath.Base(l) + "\n"
		if err := add(about+"licenses/"+filepath.Base(l), 0o644, l); err != nil {
			return nil, err
		}
	}
	tags := "Wheel-Version: 1.0\nGenerator: diskgnn\nRoot-Is-Purelib: false\n"
	for _, platform := range platforms {
		tags += "Tag: py3-none-" + platform + "\n"
	}
	return append(files,
		file{p.Name + "-" + version + ".data/scripts/diskgnn", 0o755, []byte(script)},
		file{about + "METADATA", 0o644, []byte(metadata)}, file{about + "WHEEL", 0o644, []byte(tags)}), nil
}

// archive returns a zip of the files and of their record. Its times are the earliest that a zip can have.
func archive(files []file, record string) ([]byte, error) {
	var list strings.Builder
	for _, f := range files {
		sum := sha256.Sum256(f.data)
		fmt.Fprintf(&list, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	list.WriteString(record + ",,\n")
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range append(files, file{record, 0o644, []byte(list.String())}) {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return out.Bytes(), err
}
