package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What is printed of go test's events in testdata: a package with failures, one that panics, one
// that does not compile, one without tests, one that passes.
const (
	results = `# toy/c [toy/c.test]
c/c_test.go:5:31: undefined: undefined
    a_test.go:18: 1 is not 2
        by far
--- FAIL: TestBad/inner (0.00s)
--- FAIL: TestBad (0.00s)
FAIL
FAIL	toy/a	0.006s
FAIL	toy/c [build failed]
?   	toy/d	[no test files]
ok  	toy/e	0.004s
    b_test.go:6: before
--- FAIL: TestPanics (0.00s)
panic: out of luck [recovered, repanicked]

goroutine 20 [running]:
`
	result  = "FAIL\ttoy/b\t0.019s\n"
	skipped = `skipped tests: 4
	no drive is here: toy/a TestSkips, toy/a TestSome/one, toy/e TestOther
	no reason given: toy/e TestMute
`
)

func TestPrinter(t *testing.T) {
	stream, err := os.ReadFile(filepath.Join("testdata", "stream.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p := printer{out: &out, all: make(outcomes)}
	if err := p.read(bytes.NewReader(stream)); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.HasPrefix(got, results) || !strings.HasSuffix(got, result) {
		t.Errorf("%s\nwant\n%s…%s", got, results, result)
	}
	out.Reset()
	p.all.list(&out)
	if out.String() != skipped {
		t.Errorf("%s\nwant\n%s", &out, skipped)
	}
}

// With -v, output comes as it does from go test. Lines that are no events pass, the last without
// its end, too.
func TestVerbose(t *testing.T) {
	const stream = `no event
{"a": 1}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.004s\n"}
{"Action":"pass","Package":"p"}
the end`
	var out bytes.Buffer
	p := printer{out: &out, all: make(outcomes), verbose: true}
	if err := p.read(strings.NewReader(stream)); err != nil {
		t.Fatal(err)
	}
	want := "no event\n{\"a\": 1}\n=== RUN   TestA\n--- PASS: TestA (0.00s)\nok  \tp\t0.004s\nthe end"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", &out, want)
	}
}

// A test that is under way when its package ends has failed; a binary's PASS becomes a result.
func TestEnds(t *testing.T) {
	const stream = `{"Action":"output","Package":"p","Test":"TestA","Output":"sent to its end\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"fine\n"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}
{"Action":"output","Package":"q.test","Output":"PASS\n"}
{"Action":"pass","Package":"q.test","Elapsed":0.25}
`
	var out bytes.Buffer
	p := printer{out: &out, all: make(outcomes)}
	if err := p.read(strings.NewReader(stream)); err != nil {
		t.Fatal(err)
	}
	if want := "sent to its end\nok  \tq.test\t0.250s\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}

func TestReason(t *testing.T) {
	for _, c := range []struct{ output, want string }{
		{"    a_test.go:1: a note\n    a_test.go:2: no drive\n        in sight\n--- SKIP: TestA (0.00s)\n", "no drive in sight"},
		{"    --- SKIP: TestA (0.00s)\n        a_test.go:1: no drive\n", "no drive"},
		{"--- SKIP: TestA (0.00s)\n", "no reason given"},
		{"    testscript.go:1: WORK=$WORK\n        # A copy (0.000s)\n        > [!exec:rclone] skip 'there is no rclone'\n    --- SKIP: TestA (0.00s)\n", "there is no rclone"},
	} {
		if got := reason(c.output); got != c.want {
			t.Errorf("%q: %q, want %q", c.output, got, c.want)
		}
	}
}

// The list names no more tests than a line holds.
func TestListIsShort(t *testing.T) {
	all := make(outcomes)
	for _, test := range strings.Split("a b c d e f g h i j", " ") {
		all.add(name{"diskgnn/p", test}, "skip", "x_test.go:1: why\n")
	}
	all.add(name{"diskgnn/p", "later"}, "skip", "")
	for _, test := range []string{"ran", "later"} {
		all.add(name{"diskgnn/p", test}, "pass", "")
		all.add(name{"diskgnn/p", test}, "skip", "")
	}
	var out bytes.Buffer
	all.list(&out)
	if want := "skipped tests: 10\n\twhy: p a, p b, p c, p d, p e, p f, p g, p h, and 2 more\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}

func TestMain(m *testing.M) {
	if os.Getenv("GOTEST_ITSELF") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fakeGo makes a go command that fails, prints events and notes in dir/calls how it was called.
func fakeGo(t *testing.T, dir string) (tool string) {
	t.Helper()
	tool = filepath.Join(dir, "go")
	script := `#!/bin/sh
echo "$@" >>` + dir + `/calls
case "$*" in *second*) exit 0 ;; esac
printf '%s\n' '{"Action":"output","Package":"p","Test":"TestA","Output":"x_test.go:1: why\n"}' '{"Action":"skip","Package":"p","Test":"TestA"}' '{"Action":"skip","Package":"p","Test":"TestB"}'
exit 3
`
	if err := os.WriteFile(tool, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	return tool
}

// The command ends with the exit code of go test, or with that of wrong usage.
func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
	}{{[]string{"-p", "2", "./..."}, 3}, {[]string{"-v", "second"}, 0}, {[]string{"-log", t.TempDir() + "/log", "-count=1", "second"}, 0}, {nil, 2}, {[]string{"-log", t.TempDir()}, 1}} {
		cmd := exec.Command(os.Args[0], c.args...)
		cmd.Env = append(os.Environ(), "GOTEST_ITSELF=1", "GO="+fakeGo(t, t.TempDir()))
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != c.code {
			t.Errorf("%q: exit code %d, want %d: %v, %s", c.args, cmd.ProcessState.ExitCode(), c.code, err, out)
		}
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	tool := fakeGo(t, dir)
	var out bytes.Buffer
	code, err := run(t.Context(), tool, "", []string{"-p", "2", "./...", "--", "-C", "second", ".", "--", "second.test", "-test.count=1"}, &out)
	if want := "FAIL\nskipped tests: 2\n\tno reason given: p TestB\n\twhy: p TestA\n"; code != 3 || err != nil || out.String() != want {
		t.Errorf("exit code %d, %v, %q, want 3 and %q", code, err, &out, want)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	want := "test -json -p 2 ./...\ntest -C second -json .\ntool test2json -t -p second.test second.test -test.v=test2json -test.count=1\n"
	if err != nil || string(calls) != want {
		t.Errorf("%v, called\n%s\nwant\n%s", err, calls, want)
	}
}

// A test that ran in one of the logged runs, before or after one that skipped it, is not listed.
func TestLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for _, o := range []outcomes{
		{{"p", "TestA"}: "", {"p", "TestB"}: "why\tnot", {"p", "TestC"}: "why\tnot"},
		{{"p", "TestA"}: "later", {"p", "TestB"}: "", {"p", "TestC"}: "why\tnot"},
	} {
		if err := o.save(log); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	code, err := run(t.Context(), "", log, nil, &out)
	if want := "skipped tests: 1\n\twhy\tnot: p TestC\n"; code != 0 || err != nil || out.String() != want {
		t.Errorf("exit code %d, %v, %q, want %q", code, err, &out, want)
	}
	if err := os.WriteFile(log, []byte("p\tTestA\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), "", log, nil, &out); err == nil {
		t.Error("a log with a broken line is read")
	}
	out.Reset()
	if _, err := run(t.Context(), "true", log, []string{"./..."}, &out); err != nil || out.Len() > 0 {
		t.Errorf("%v, %q beside a log", err, &out)
	}
}

func TestSplit(t *testing.T) {
	got := split([]string{"a", "--", "b", "c"})
	if !slices.EqualFunc(got, [][]string{{"a"}, {"b", "c"}}, slices.Equal) {
		t.Errorf("%q", got)
	}
}
