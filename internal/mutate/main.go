// Command mutate measures the quality of tests by mutants: it changes one place of a package at a time,
// runs the tests on each change, and lists the changes with which no test failed.
//
//	go run ./internal/mutate -n 60 -seed 1 ./pipeline
//	go run ./internal/mutate -n 0 -only 'Sync\(' -tests ./commands ./internal/stage
//
// A mutant is compiled and tested with an overlay, so the source files do not change. Mutants that do not
// compile, or that compile to the same code as the original, are not counted. A mutant is killed if the
// tests of the package, or of the packages in -tests, fail or run out of time. The same seed draws the
// same mutants of the same code.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Resource limits of a mutant: a mutant that allocates or writes without end fails, and does not harm the
// machine.
const (
	mostMemory = 16 << 30 // bytes of address space
	mostFile   = 1 << 30  // bytes
)

// run has the measured tests and their settings.
type run struct {
	pkg     string
	tests   []string // the package's first
	only    string   // value of go test -run
	timeout time.Duration
	scratch string // a directory
	overlay string // name of the overlay file, which maps the original file to the mutant
	code    []byte // the original's
}

func main() {
	n := flag.Int("n", 60, "mutants to test; 0: all")
	seed := flag.Uint64("seed", 1, "draws the mutants")
	only := flag.String("only", "", "take only mutants with a first line, a kind or a file that matches this expression")
	tests := flag.String("tests", "", "further packages with tests to run, separated by spaces")
	which := flag.String("run", "", "run only the tests that match, as go test does")
	timeout := flag.Duration("timeout", 2*time.Minute, "of the tests of one package")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: mutate [flags] PACKAGE")
		flag.PrintDefaults()
		os.Exit(2)
	}
	filter, err := regexp.Compile(*only)
	r := &run{pkg: flag.Arg(0), tests: append([]string{flag.Arg(0)}, strings.Fields(*tests)...), only: *which, timeout: *timeout}
	if err == nil {
		err = r.all(*n, *seed, filter)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// all tests n mutants and lists the survivors.
func (r *run) all(n int, seed uint64, filter *regexp.Regexp) (err error) {
	if r.scratch, err = os.MkdirTemp("", "mutate"); err != nil {
		return err
	}
	defer os.RemoveAll(r.scratch)
	r.overlay = filepath.Join(r.scratch, "overlay.json")
	for what, most := range map[int]uint64{syscall.RLIMIT_AS: mostMemory, syscall.RLIMIT_FSIZE: mostFile} {
		if err := syscall.Setrlimit(what, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
	}
	list, err := mutants(r.pkg)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(m mutant) bool {
		return !filter.MatchString(m.line()) && !filter.MatchString(m.kind) && !filter.MatchString(filepath.Base(m.file))
	})
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	if err := r.original(); err != nil {
		return err
	}
	var killed, late, broken, equal int
	var survivors []mutant
	for _, m := range list {
		if n > 0 && killed+late+len(survivors) == n {
			break
		}
		fate, err := r.one(&m)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%-12s%s\n", fate, &m)
		switch fate {
		case broke:
			broken++
		case same:
			equal++
		case died:
			killed++
		case hung:
			late++
		default:
			survivors = append(survivors, m)
		}
	}
	slices.SortFunc(survivors, func(a, b mutant) int { return strings.Compare(a.String(), b.String()) })
	for i := range survivors {
		fmt.Println(&survivors[i])
	}
	fmt.Printf("%s: %d mutants of %d places (seed %d): %d killed, %d out of time, %d survived; passed over: %d that do not compile, %d of equal code\n",
		r.pkg, killed+late+len(survivors), len(list), seed, killed, late, len(survivors), broken, equal)
	return nil
}

// original compiles the unchanged package and checks that its tests pass.
func (r *run) original() error {
	if err := os.WriteFile(r.overlay, []byte("{}"), 0o666); err != nil {
		return err
	}
	var ok bool
	if r.code, ok = r.compile(); !ok {
		return fmt.Errorf("%s does not compile:\n%s", r.pkg, r.code)
	}
	for _, pkg := range r.tests {
		if out, err := r.test(pkg); err != nil {
			return fmt.Errorf("the tests of %s fail without a mutant: %w\n%s", pkg, err, out)
		}
	}
	return nil
}

// Outcomes of a mutant.
const (
	broke    = "no program"
	same     = "equal code"
	died     = "killed"
	hung     = "out of time"
	survived = "SURVIVED"
)

func (r *run) one(m *mutant) (fate string, err error) {
	name := filepath.Join(r.scratch, "mutant.go")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {m.file: name}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(name, m.source(), 0o666), os.WriteFile(r.overlay, replace, 0o666)); err != nil {
		return "", err
	}
	code, ok := r.compile()
	switch {
	case !ok:
		return broke, nil
	case bytes.Equal(code, r.code):
		return same, nil
	}
	for _, pkg := range r.tests {
		out, err := r.test(pkg)
		switch {
		case err == nil:
		case bytes.Contains(out, []byte("panic: test timed out")) || errors.Is(err, context.DeadlineExceeded):
			return hung, nil
		case bytes.Contains(out, []byte("[build failed]")):
			return broke, nil // it does not compile with the tests
		default:
			return died, nil
		}
	}
	return survived, nil
}

// compile returns the code of the package and its tests as an assembly listing. It includes the tests,
// since generic functions are compiled there. Equal code has equal listings.
func (r *run) compile() (listing []byte, ok bool) {
	const flags = "-gcflags=-S -c=1"
	listing, err := r.tool(10*time.Minute, "build", "-o", os.DevNull, flags, r.pkg)
	if err != nil {
		return listing, false
	}
	more, err := r.tool(10*time.Minute, "test", "-c", "-o", filepath.Join(r.scratch, "test"), "-vet=off", flags, r.pkg)
	return append(listing, more...), err == nil
}

func (r *run) test(pkg string) ([]byte, error) {
	return r.tool(r.timeout+time.Minute, "test", "-failfast", "-count=1", "-vet=off", "-run", r.only, "-timeout", r.timeout.String(), pkg)
}

// tool runs a verb of the go command with the overlay, and removes its files.
func (r *run) tool(limit time.Duration, verb string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, "go", append([]string{verb, "-overlay", r.overlay}, args...)...)
	tmp := filepath.Join(r.scratch, "tmp")
	if err := errors.Join(os.RemoveAll(tmp), os.Mkdir(tmp, 0o777)); err != nil {
		return nil, err
	}
	c.Env = append(os.Environ(), "TMPDIR="+tmp)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	return out, errors.Join(err, ctx.Err())
}
