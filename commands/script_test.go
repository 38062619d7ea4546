package commands

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"diskgnn/featurestore/all"
	"diskgnn/internal/vfs/vfstest"
)

// builtin is the list of stores of the program diskgnn.
var builtin = all.Builtin()

// quiet returns globals of the program without output.
func quiet() *globals { return (&globals{stores: builtin}).silent() }

func TestMain(m *testing.M) {
	testscript.Main(inMemory{m}, map[string]func(){"diskgnn": func() { Main(builtin) }, "diskgnn-struck": struck, "panics": panics})
}

// inMemory runs the tests with t.TempDir in memory: commands wait for the drive at every sync.
type inMemory struct{ *testing.M }

func (m inMemory) Run() int {
	// The process of the tests holds little, and would collect it all the time. Commands have processes
	// of their own.
	debug.SetGCPercent(800)
	return vfstest.Main(m.M)
}

// TestScripts runs testdata/script: the program as a user would, from the shell.
func TestScripts(t *testing.T) {
	t.Setenv("GOTMPDIR", t.TempDir()) // where scripts work
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("TERM", "dumb")
			fixtures, err := filepath.Abs(filepath.Join("..", "dataset", "importer", "testdata"))
			e.Setenv("FIXTURES", fixtures)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":      scriptCode,
			"flip":      scriptFlip,
			"cut":       scriptCut,
			"json":      scriptJSON,
			"npy":       scriptNPY,
			"same":      scriptSame,
			"everybyte": scriptEveryByte,
			"await":     scriptAwait,
			"mount":     scriptMount,
			"lock":      scriptLock,
			"isLink":    scriptIsLink,
		},
		Condition: func(name string) (bool, error) {
			if name == "mount" {
				return mountPermitted(), nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
	})
}

// scriptCode runs a program and checks its exit code: code N PROGRAM ARGUMENTS…
func scriptCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program arguments...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// scriptAwait waits until a file exists: await FILE.
func scriptAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await file")
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not appear", args[0])
		}
	}
}

// scriptIsLink checks that a name is a symbolic link: isLink NAME.
func scriptIsLink(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: isLink name")
	}
	st, err := os.Lstat(ts.MkAbs(args[0]))
	ts.Check(err)
	if st.Mode()&fs.ModeSymlink == 0 {
		ts.Fatalf("%s is no link any more", args[0])
	}
}

// scriptFlip inverts one byte of a file: flip FILE OFFSET; a negative offset
// counts from the end.
func scriptFlip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip file offset")
	}
	name := ts.MkAbs(args[0])
	off, err := strconv.Atoi(args[1])
	ts.Check(err)
	b, err := os.ReadFile(name)
	ts.Check(err)
	if off < 0 {
		off += len(b)
	}
	b[off] ^= 0xff
	ts.Check(os.WriteFile(name, b, 0o666))
}

// scriptEveryByte inverts one byte of every file of a directory in turn, and
// expects verify to name the file: everybyte DIR. What run.json says of how a stage was
// run is covered by nothing.
func scriptEveryByte(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: everybyte dir")
	}
	for name, text := range contents(ts, args[0]) {
		file := args[0] + "/" + name
		at := strconv.Itoa(len(text) / 3)
		scriptFlip(ts, false, []string{file, at})
		scriptCode(ts, false, []string{"3", "diskgnn", "verify", args[0], "--quiet"})
		if message := ts.ReadFile("stderr"); !strings.Contains(message, name) {
			ts.Fatalf("byte %s of %s is wrong, verify says %s", at, file, message)
		}
		scriptFlip(ts, false, []string{file, at})
	}
}

// scriptCut shortens a file: cut FILE BYTES-LESS.
func scriptCut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cut file bytes")
	}
	name := ts.MkAbs(args[0])
	less, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	st, err := os.Stat(name)
	ts.Check(err)
	ts.Check(os.Truncate(name, st.Size()-less))
}

// scriptJSON checks that the last line of stdout is a JSON object that has the
// keys: json KEY… or KEY=VALUE…
func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	text := strings.TrimSuffix(ts.ReadFile("stdout"), "\n")
	last := text[strings.LastIndex(text, "\n")+1:]
	var object map[string]any
	if err := json.Unmarshal([]byte(last), &object); err != nil {
		ts.Fatalf("the last line of stdout is no JSON object: %v\n%s", err, last)
	}
	for _, arg := range args {
		key, want, check := strings.Cut(arg, "=")
		got, ok := object[key]
		if ok == neg {
			ts.Fatalf("%q is there: %t", key, ok)
		}
		if check && fmt.Sprint(got) != want {
			ts.Fatalf("%s is %v, want %s", key, got, want)
		}
	}
}

// scriptNPY writes a NumPy array: npy FILE DTYPE ROWSxCOLUMNS VALUE…, with a dtype
// like <i8 or <f4. A single value is repeated.
func scriptNPY(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: npy file dtype shape values...")
	}
	total, shape := 1, ""
	for d := range strings.SplitSeq(args[2], "x") {
		n, err := strconv.Atoi(d)
		ts.Check(err)
		total *= n
		shape += d + ", "
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", args[1], shape)
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	var out bytes.Buffer
	out.WriteString("\x93NUMPY\x01\x00")
	write := func(v any) { ts.Check(binary.Write(&out, binary.LittleEndian, v)) }
	write(uint16(len(header)))
	out.WriteString(header)
	values := args[3:]
	for i := range total {
		text := values[0]
		if len(values) > 1 {
			text = values[i]
		}
		x, err := strconv.ParseFloat(text, 64)
		ts.Check(err)
		switch args[1] {
		case "<i8":
			write(int64(x))
		case "<i4":
			write(int32(x))
		case "<f4":
			write(float32(x))
		case "<f8":
			write(x)
		default:
			ts.Fatalf("npy: no dtype %s", args[1])
		}
	}
	name := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(name), 0o777))
	ts.Check(os.WriteFile(name, out.Bytes(), 0o666))
}

// scriptSame checks that two directories hold the same files with the same
// bytes, but for what run.json says of the run: same DIR DIR.
func scriptSame(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: same dir dir")
	}
	a, b := contents(ts, args[0]), contents(ts, args[1])
	same := len(a) == len(b)
	for name, text := range a {
		if b[name] != text {
			same = false
			if !neg {
				ts.Logf("%s differs", name)
			}
		}
	}
	if same == neg {
		ts.Fatalf("%s and %s are the same: %t", args[0], args[1], same)
	}
}

func contents(ts *testscript.TestScript, dir string) map[string]string {
	files := make(map[string]string)
	dir = ts.MkAbs(dir)
	ts.Check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "run.json" {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[rel] = string(b)
		return err
	}))
	return files
}
