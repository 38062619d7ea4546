package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestVersion(t *testing.T) {
	for _, c := range []struct{ version, label, want string }{
		{"(devel)", "", "0.0.0"},
		{"", "gpu", "0.0.0+gpu"},
		{"v1.2.3", "", "1.2.3"},
		{"v1.2.3+dirty", "gpu", "1.2.3+dirty.gpu"},
		{"v1.2.3-rc.1", "", "1.2.3rc1"},
		{"v1.2.3-rc2", "", "1.2.3rc2"},
		{"v0.0.0-20260102030405-0123456789ab", "", "0.0.0.dev20260102030405+g0123456789ab"},
		{"v1.2.4-0.20260102030405-0123456789ab+dirty", "gpu", "1.2.4.dev20260102030405+g0123456789ab.dirty.gpu"},
		{"v1.2.3-rc.1.0.20260102030405-0123456789ab", "", "1.2.3rc1.post20260102030405+g0123456789ab"},
	} {
		if got, err := version(c.version, c.label); got != c.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", c.version, got, err, c.want)
		}
	}
	if v, err := version("v1.2.3-next", ""); err == nil {
		t.Errorf("v1.2.3-next is %s", v)
	}
}

// elfFile returns an executable of a machine, without sections.
func elfFile(t *testing.T, machine elf.Machine) *elf.File {
	t.Helper()
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64}
	copy(h.Ident[:], []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)})
	p := elf.Prog64{Type: uint32(elf.PT_LOAD)}
	var b bytes.Buffer
	for _, part := range []any{h, p} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	f, err := elf.NewFile(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPlatforms(t *testing.T) {
	for _, c := range []struct {
		machine elf.Machine
		want    string
	}{
		{elf.EM_X86_64, "manylinux_2_17_x86_64.manylinux2014_x86_64"},
		{elf.EM_AARCH64, "manylinux_2_17_aarch64.manylinux2014_aarch64"},
		{elf.EM_RISCV, ""},
	} {
		got, err := platforms(elfFile(t, c.machine))
		if strings.Join(got, ".") != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%v: %s, %v; want %s", c.machine, got, err, c.want)
		}
	}
}

// The floor is the highest version that a symbol needs, not the last or the first one, nor of another library.
func TestGlibc(t *testing.T) {
	for _, c := range []struct {
		versions []string
		want     int
	}{
		{nil, 17},
		{[]string{"GLIBC_2.2.5", "GLIBC_2.3.2"}, 17},
		{[]string{"GLIBC_2.3", "GLIBC_2.34", "GLIBC_2.32"}, 34},
		{[]string{"GLIBC_2.9", "GCC_99", "GLIBC_PRIVATE", "LIB_2.99"}, 17},
	} {
		needs := []elf.DynamicVersionNeed{{Name: "ld"}, {Name: "libc"}}
		for i, v := range c.versions {
			n := &needs[i%2]
			n.Needs = append(n.Needs, elf.DynamicVersionDep{Dep: v})
		}
		if got := glibc(needs); got != c.want {
			t.Errorf("%s: %d, want %d", c.versions, got, c.want)
		}
	}
}

// The floor of a program that C's linker made agrees with the versions of its symbols.
func TestGlibcOfSymbols(t *testing.T) {
	f, err := elf.Open("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil || f.SectionByType(elf.SHT_GNU_VERNEED) == nil {
		t.Skipf("/bin/sh is not linked with glibc: %v", err)
	}
	floor := 17
	for _, s := range symbols {
		if minor, err := strconv.Atoi(strings.TrimPrefix(s.Version, "GLIBC_2.")); err == nil {
			floor = max(floor, minor)
		}
	}
	tags, err := platforms(f)
	if want := fmt.Sprintf("manylinux_2_%d_", floor); err != nil || !strings.HasPrefix(tags[0], want) || (len(tags) == 2) != (floor == 17) {
		t.Errorf("%s, %v, want %s", tags, err, want)
	}
}

func TestParseProject(t *testing.T) {
	p, err := parseProject("[build]\nname = \"x\"\n\n[project]\nname = \"a\"\nrequires-python = \">=3.9\"\n\ndependencies = [\"numpy\", \"b\"]\n\n[tool]\nname = \"y\"\n")
	if err != nil || p.Name != "a" || p.RequiresPython != ">=3.9" || !slices.Equal(p.Dependencies, []string{"numpy", "b"}) {
		t.Errorf("%+v, %v", p, err)
	}
	for _, text := range []string{"name = \"a\"\n", "\n[project]\nname = 'a'\n", "\n[project]\nname\n"} {
		if p, err := parseProject(text); err == nil {
			t.Errorf("%q: %+v", text, p)
		}
	}
}

// A wheel has the package, the test's own program, the licence, and a record of all these files. Its bytes are the same
// each time.
func TestBuild(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := buildinfo.ReadFile(program); err != nil || info.Main.Version != "(devel)" && info.Main.Version != "" {
		t.Fatal(info, err)
	}
	pkg, licence := t.TempDir(), filepath.Join(t.TempDir(), "LICENSE")
	for name, text := range map[string]string{
		"pyproject.toml":  "\n[project]\nname = \"diskgnn\"\ndescription = \"d\"\nlicense = \"L\"\nrequires-python = \">=3.9\"\ndependencies = [\"numpy\"]\n",
		"diskgnn/a.py":    "a = 1\n",
		"diskgnn/c/no.py": "",
	} {
		name = filepath.Join(pkg, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(licence, []byte("free"), 0o666); err != nil {
		t.Fatal(err)
	}
	name, data, err := build(pkg, program, "gpu", []string{licence})
	if err != nil {
		t.Fatal(err)
	}
	if again, bytesAgain, err := build(pkg, program, "gpu", []string{licence}); again != name || !bytes.Equal(data, bytesAgain) || err != nil {
		t.Errorf("%s and %s of %d and %d bytes, %v", name, again, len(data), len(bytesAgain), err)
	}
	if !strings.HasPrefix(name, "diskgnn-0.0.0+gpu-py3-none-manylinux_2_") || !strings.HasSuffix(name, ".whl") {
		t.Error(name)
	}
	empty := t.TempDir()
	for name, args := range map[string][3]string{
		"no pyproject.toml":      {empty, program, licence},
		"no program":             {pkg, filepath.Join(pkg, "nothing"), licence},
		"a program that is text": {pkg, licence, licence},
		"no licence":             {pkg, program, filepath.Join(pkg, "nothing")},
	} {
		if _, _, err := build(args[0], args[1], "", args[2:]); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := os.WriteFile(filepath.Join(empty, "pyproject.toml"), []byte("\n[project]\nname = \"diskgnn\"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := build(empty, program, "", nil); err == nil {
		t.Error("no package: no error")
	}
	const about = "diskgnn-0.0.0+gpu.dist-info/"
	want := []string{"diskgnn/a.py", "diskgnn/bin/diskgnn", about + "licenses/LICENSE", "diskgnn-0.0.0+gpu.data/scripts/diskgnn", about + "METADATA", about + "WHEEL"}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	text, record := map[string]string{}, ""
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		mode := fs.FileMode(0o644)
		if strings.HasSuffix(f.Name, "/diskgnn") {
			mode = 0o755
		}
		if f.Mode() != mode || !f.Modified.Equal(time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%s: mode %v, time %v", f.Name, f.Mode(), f.Modified)
		}
		if names = append(names, f.Name); f.Name != about+"RECORD" {
			sum := sha256.Sum256(b)
			record += fmt.Sprintf("%s,sha256=%s,%d\n", f.Name, base64.RawURLEncoding.EncodeToString(sum[:]), len(b))
		}
		text[f.Name] = string(b)
	}
	if !slices.Equal(names, append(want, about+"RECORD")) {
		t.Errorf("files %q", names)
	}
	if record += about + "RECORD,,\n"; text[about+"RECORD"] != record {
		t.Errorf("the record %s, want %s", text[about+"RECORD"], record)
	}
	if own, err := os.ReadFile(program); err != nil || text["diskgnn/bin/diskgnn"] != string(own) {
		t.Errorf("another program: %v", err)
	}
	if want := "Metadata-Version: 2.4\nName: diskgnn\nVersion: 0.0.0+gpu\nSummary: d\nLicense-Expression: L\nRequires-Python: >=3.9\nRequires-Dist: numpy\nLicense-File: LICENSE\n"; text[about+"METADATA"] != want {
		t.Errorf("metadata %s", text[about+"METADATA"])
	}
	if w := text[about+"WHEEL"]; !strings.HasPrefix(w, "Wheel-Version: 1.0\nGenerator: diskgnn\nRoot-Is-Purelib: false\nTag: py3-none-manylinux_2_") {
		t.Errorf("WHEEL %s", w)
	}
}
