// Command licences collects the licences of all modules that a build of diskgnn links, and
// Go's own, into one text, for archives that hold the program without its source.
//
//	go run ./internal/licences -o THIRD_PARTY_LICENCES.txt -tags gpu ./cmd/diskgnn
//
// A module without a file that looks like a licence is an error: an archive must state the terms of
// its parts.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"diskgnn/internal/vfs"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("licences: ")
	out := flag.String("o", "", "file to write; stdout if empty")
	tags := flag.String("tags", "", "build tags")
	flag.Parse()
	var text bytes.Buffer
	if err := collect(&text, *tags, flag.Args()); err != nil {
		log.Fatal(err)
	}
	if *out == "" {
		_, _ = os.Stdout.Write(text.Bytes())
		return
	}
	if err := vfs.ReplaceFile(vfs.OS, *out, text.Bytes()); err != nil {
		log.Fatal(err)
	}
}

// module is a linked module and its directory.
type module struct{ path, version, dir string }

func collect(w io.Writer, tags string, packages []string) error {
	modules, err := linked(tags, packages)
	if err != nil {
		return err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	modules = append(modules, module{"Go's standard library", runtime.Version(), string(bytes.TrimSpace(root))})
	for _, m := range modules {
		names, err := licences(m.dir)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return fmt.Errorf("%s %s has no licence in %s", m.path, m.version, m.dir)
		}
		for _, name := range names {
			b, err := os.ReadFile(filepath.Join(m.dir, name))
			if err != nil {
				return err
			}
			rule := strings.Repeat("=", 80)
			fmt.Fprintf(w, "%s\n%s %s, %s\n%s\n\n%s\n\n", rule, m.path, m.version, name, rule, bytes.TrimSpace(b))
		}
	}
	return nil
}

// linked lists the modules that packages import, except this one, in order.
func linked(tags string, packages []string) ([]module, error) {
	const format = `{{with .Module}}{{if not .Main}}{{with .Replace}}{{.Path}}	{{.Version}}	{{.Dir}}{{else}}{{.Path}}	{{.Version}}	{{.Dir}}{{end}}{{end}}{{end}}`
	// -e: missing files of kernels, which are embedded, do not matter here.
	cmd := exec.Command("go", append([]string{"list", "-e", "-deps", "-tags", tags, "-f", format}, packages...)...)
	if tags != "" { // the gpu variant needs cgo, which is off by default where there is no C compiler
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	lines := strings.Fields(strings.ReplaceAll(string(b), "\t", "\x00"))
	slices.Sort(lines)
	var modules []module
	for _, line := range slices.Compact(lines) {
		f := strings.Split(line, "\x00")
		if len(f) != 3 || f[2] == "" {
			return nil, fmt.Errorf("%q is no module with a directory: go mod download", line)
		}
		modules = append(modules, module{f[0], f[1], f[2]})
	}
	return modules, nil
}

var licence = regexp.MustCompile(`(?i)^(unlicen[cs]e|licen[cs]e|copying|notice|patents|copyright)([-._].*)?$`)

// licences lists a directory's licence files.
func licences(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && licence.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
