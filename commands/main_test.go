package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	stdflag "flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/urfave/cli/v2"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/iostack/nvme/spec"
)

// options are what the command of these tests binds its flags to.
type options struct {
	out    string
	epochs int
	rate   float64
	bands  []float64
	cache  *budget.Size
	memory int64
	seed   uint64
	force  bool
	args   []string
}

// try runs a command with one flag of every kind and two operands at most.
func try(args ...string) (options, string, string, int) {
	o := options{epochs: 3, rate: 0.5, cache: &budget.Size{Value: 5, Unit: budget.UnitPercent}}
	var stdout, stderr bytes.Buffer
	g := &globals{stores: builtin, stdout: &stdout, stderr: &stderr}
	app := newApp(g)
	app.Commands = append(app.Commands, g.add(command{
		name:     "probe",
		operands: []string{"SOURCE"},
		flags: []cli.Flag{
			outFlag(&o.out, "a thing"),
			intFlag("epochs", "how many", "", &o.epochs, 1),
			positiveFlag("rate", "a share", &o.rate),
			floatsFlag("bands", "edges", &o.bands),
			sizeFlag("cache", "a size", "", budget.UnitPercent, &o.cache),
			memoryFlag(&o.memory),
			seedFlag(&o.seed),
			forceFlag(&o.force),
		},
		run: func(_ context.Context, s *session) (outcome, error) {
			o.args = s.args
			return outcome{object: map[string]int{"epochs": o.epochs}, lines: []line{{"a", "1"}, {"longer", "2"}}, next: "do that"}, nil
		},
	}))
	err := app.RunContext(context.Background(), arrange(app, append([]string{"diskgnn"}, args...)))
	code := exitDone
	if err != nil {
		code = g.fail(err, g.json || asksForJSON(args))
	}
	return o, stdout.String(), stderr.String(), code
}

func TestFlagsMayFollowOperands(t *testing.T) {
	o, _, stderr, code := try("probe", "there", "--epochs", "7", "--force", "--rate=0.25", "--cache", "2GiB", "--seed", "9", "--memory", "1GiB", "--bands", "50,5%")
	if code != 0 {
		t.Fatal(stderr)
	}
	if o.epochs != 7 || !o.force || o.rate != 0.25 || o.cache.Value != 2<<30 || o.seed != 9 || o.memory != 1<<30 || !slices.Equal(o.bands, []float64{50, 5}) {
		t.Errorf("parsed %+v", o)
	}
	if !slices.Equal(o.args, []string{"there"}) {
		t.Errorf("operands %q", o.args)
	}
	if o, _, _, _ := try("probe", "--force", "--", "--epochs"); !slices.Equal(o.args, []string{"--epochs"}) {
		t.Errorf("after --: %q", o.args)
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "name a command"},
		{"prob", `unknown command "prob"; did you mean probe?`},
		{"zzzzzzz", `unknown command "zzzzzzz"; see diskgnn --help`},
		{"--jsn", "unknown flag --jsn"},
		{"probe", "SOURCE is missing"},
		{"probe a b", `unexpected argument "b"`},
		{"probe a --epohcs 3", "unknown flag --epohcs; did you mean --epochs?"},
		{"probe a --qqqqqqqqqq 3", "unknown flag --qqqqqqqqqq"},
		{"probe a --epochs", "--epochs needs a value"},
		{"probe --out --force a", "--out needs a value"},
		{"probe a --epochs x", `--epochs: "x" is no whole number`},
		{"probe a --epochs 0", "--epochs: 0 is less than 1"},
		{"probe a --seed -1", "--seed: -1 is less than 0"},
		{"probe a --rate 0", "--rate: 0 is not more than 0"},
		{"probe a --rate NaN", `--rate: "NaN" is no number`},
		{"probe a --bands 1,,2", `--bands: "" is no number`},
		{"probe a --cache 101%", `--cache: "101%" is more than 100%`},
		{"probe a --cache 5", `--cache: "5" has no unit: did you mean 5% or 5GiB?`},
		{"probe a --memory 4", `--memory: "4" has no unit: did you mean 4GiB?`},
		{"probe a --memory 10%", "--memory: 10%: give this size in bytes"},
		{"probe a --out=", "--out: is empty"},
		{"probe a --json=maybe", "--json: want true or false"},
		{"probe a --config nowhere.yaml", "--config: there is no file nowhere.yaml"},
	} {
		_, _, stderr, code := try(strings.Fields(c.args)...)
		wantCode := exitUsage
		if strings.Contains(c.args, "nowhere") {
			wantCode = exitInput
		}
		lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
		last := lines[len(lines)-1]
		if code != wantCode || !strings.Contains(last, c.want) {
			t.Errorf("%q: exit code %d, %q; want %q", c.args, code, last, c.want)
		}
		if c.args != "" && len(lines) != 1 {
			t.Errorf("%q: %d lines of error", c.args, len(lines))
		}
	}
}

func TestOutput(t *testing.T) {
	_, stdout, _, _ := try("probe", "a")
	if want := "a       1\nlonger  2\n\nnext: do that\n"; stdout != want {
		t.Errorf("printed %q, want %q", stdout, want)
	}
	_, stdout, _, _ = try("probe", "a", "--json")
	if want := "{\"epochs\":3}\n"; stdout != want {
		t.Errorf("printed %q, want %q", stdout, want)
	}
	_, stdout, stderr, code := try("probe", "a", "--epochs", "none", "--json")
	var failure struct {
		Error    string
		ExitCode int `json:"exit_code"`
	}
	if err := json.Unmarshal([]byte(stdout), &failure); err != nil || failure.ExitCode != code || !strings.Contains(stderr, failure.Error) {
		t.Errorf("with --json an error prints %q (%v), stderr %q", stdout, err, stderr)
	}
}

func TestConfig(t *testing.T) {
	write := func(text string) string {
		name := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return name
	}
	o, _, stderr, code := try("probe", "a", "--epochs", "9", "--config", write(`
# a comment
epochs: 4
rate: 0.125
bands: [20, 10]
cache: 7%
memory: 3GiB
force: true
out: "a dir"
version: {quiet: true}
probe:
  seed: 12
  rate: 0.75
`))
	if code != 0 {
		t.Fatal(stderr)
	}
	if o.epochs != 9 || o.rate != 0.75 || !slices.Equal(o.bands, []float64{20, 10}) ||
		o.cache.String() != "7%" || o.memory != 3<<30 || !o.force || o.out != "a dir" || o.seed != 12 {
		t.Errorf("parsed %+v", o)
	}
	if _, _, stderr, code := try("probe", "a", "--config", write("")); code != 0 {
		t.Errorf("an empty file: %s", stderr)
	}
	for text, want := range map[string]string{
		"epoch: 3":                         `c.yaml:1: unknown key "epoch"; did you mean epochs?`,
		"seed: 1\nepochs: 0":               "c.yaml:2: epochs: 0 is less than 1",
		"epochs: 1\nepochs: 2":             "epochs",
		"epochs: {a: 1}":                   `c.yaml:1: unknown section "epochs": sections have the names of commands`,
		"pre-sample:\n  epochs: 1":         `c.yaml:1: unknown section "pre-sample": sections have the names of commands; did you mean presample?`,
		"evel: {a: 1}":                     `c.yaml:1: unknown section "evel": sections have the names of commands; did you mean eval?`,
		"train:\n  epochs: {a: 1}":         "c.yaml:2: epochs: want a value, or a list of values",
		"epochs:":                          "c.yaml:1: epochs: want a value, or a list of values",
		"- epochs":                         `c.yaml:1: want "flag: value" lines`,
		"config: other.yaml":               `c.yaml:1: unknown key "config"`,
		"epochs: 1\nversion: {}\nseeds: 1": `c.yaml:3: unknown key "seeds"; did you mean seed?`,
		"version: {epochs: 3}":             `c.yaml:1: unknown key "epochs"`,
		"probe: 3":                         `want "flag: value" lines`,
		"epochs: [":                        "c.yaml cannot be read as YAML",
		"a: 1\n---\nb: 2":                  "has 2 YAML documents",
		strings.Repeat("[", 40_000):        "line 1: nested more than 64 deep",
		"a: &a [*a]":                       "the alias *a has no anchor",
		"batch_size: 3":                    `unknown key "batch_size"`,
		"probe: {a: 1}\nseed: 1":           `c.yaml:1: unknown key "a"`,
	} {
		_, _, stderr, code := try("probe", "a", "--config", write(text))
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %q; want %q", text, code, stderr, want)
		}
	}
}

// TestHugeConfig reads a configuration that goes on for ever.
func TestHugeConfig(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip(err)
	}
	_, _, stderr, code := try("probe", "a", "--config", "/dev/zero")
	if code != exitInput || !strings.Contains(stderr, "/dev/zero is larger than 64.0 KiB, the limit for such a file") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte("epochs: 4\nprobe:\n  fanout: [1, 2]\n"))
	f.Add([]byte("a: &x 1\nb: *x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _, err := parseConfig(text, "c.yaml", []string{"probe"})
		if err != nil && !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%q: %v is no usage error", text, err)
		}
	})
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{errors.New("bug"), 1},
		{fault.New(fault.ErrUsage, "x"), 2},
		{fault.New(fault.ErrExists, "x"), 2},
		{&fs.PathError{Op: "mkdir", Path: "x", Err: syscall.EACCES}, 2},
		{&fs.PathError{Op: "mkdir", Path: "x", Err: syscall.EROFS}, 2},
		{cli.Exit("x", 9), 2},
		{fault.New(fault.ErrInput, "x"), 3},
		{fault.New(fault.ErrCorrupt, "x"), 3},
		{fault.New(fault.ErrVersion, "x"), 3},
		{fault.New(fault.ErrLineage, "x"), 3},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, 3},
		{&fs.PathError{Op: "read", Path: "x", Err: syscall.EIO}, 3},
		{fmt.Errorf("read x: %w", spec.UnrecoveredReadError|spec.DNR), 3},
		{fmt.Errorf("read x: %w", spec.GuardCheckError), 3},
		{fmt.Errorf("read x: %w", spec.DataTransferError), 3},
		{fmt.Errorf("read x: %w", spec.InternalError), 3},
		{fmt.Errorf("read x: %w", spec.InvalidField), 1},
		{fmt.Errorf("read x: %w", spec.InvalidLogPage), 1},
		{&fs.PathError{Op: "read", Path: "x", Err: syscall.EISDIR}, 3},
		{&fs.PathError{Op: "mkdir", Path: "x", Err: syscall.ENOTDIR}, 3},
		{&fs.PathError{Op: "stat", Path: "x", Err: syscall.ELOOP}, 3},
		{&fs.PathError{Op: "read", Path: "x", Err: io.ErrUnexpectedEOF}, 3},
		{fmt.Errorf("read x: %w", io.EOF), 3},
		{&fs.PathError{Op: "stat", Path: "x", Err: syscall.ENAMETOOLONG}, 2},
		{fault.New(fault.ErrBudget, "x"), 4},
		{fmt.Errorf("write: %w", syscall.ENOSPC), 4},
		{fmt.Errorf("write: %w", syscall.EDQUOT), 4},
		{fmt.Errorf("write: %w", syscall.EFBIG), 4},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}, 4},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.ENFILE}, 4},
		{os.NewSyscallError("mmap", syscall.ENOMEM), 4},
		{fault.New(fault.ErrInput, "x: %w", syscall.EMFILE), 4},
		{errors.Join(context.Canceled, fmt.Errorf("write: %w", syscall.ENOSPC)), 4},
		{context.Canceled, 5},
		{fault.New(fault.ErrInterrupted, "x"), 5},
		{fault.New(fault.ErrLocked, "x"), 6},
		{fault.New(fault.ErrDevice, "x"), 1},
	} {
		if got := exitCode(c.err); got != c.code {
			t.Errorf("exitCode(%v) = %d, want %d", c.err, got, c.code)
		}
	}
	if err := interrupted(fmt.Errorf("batch 3: %w", context.Canceled), byItself); err.Error() != "interrupted; run the same command again to resume" {
		t.Error(err)
	}
	if cause := syscall.ENOSPC; interrupted(cause, byItself) != cause {
		t.Error("a signal hides another failure")
	}
}

// TestFullDisk: a disk that fills up names the next step of each kind of command, once.
func TestFullDisk(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "g.partial/x", Err: syscall.ENOSPC}
	for resumes, want := range map[string]string{
		byItself: "write g.partial/x: no space left on device; make room, then run the same command again to resume",
		byFlag:   "write g.partial/x: no space left on device; make room, then run the same command again with --resume",
		nothing:  "write g.partial/x: no space left on device; make room, then run the same command again",
	} {
		if got := withRemedy(full, resumes); got != want {
			t.Errorf("%q: %q, want %q", resumes, got, want)
		}
	}
	named := fmt.Errorf("%w; go on from the checkpoint 3 with: diskgnn train --out r --resume", full)
	if got := withRemedy(named, byFlag); got != named.Error() {
		t.Errorf("%q, want %q", got, named)
	}
}

// Every command says what it leaves behind when it is interrupted: those that make directories
// go on, and the others keep nothing.
func TestEveryCommandSaysHowToGoOn(t *testing.T) {
	resume := map[string]string{
		"generate": byItself, "import": byItself, "presample": byItself, "pack": byItself, "merge": byItself,
		"bench stores": byItself, "nvme load": byItself, "run": byItself, "train": byFlag,
	}
	seen := 0
	g := quiet()
	app := newApp(g)
	var walk func(prefix string, commands []*cli.Command)
	walk = func(prefix string, commands []*cli.Command) {
		for _, c := range commands {
			name := strings.TrimSpace(prefix + " " + c.Name)
			if len(c.Subcommands) > 0 {
				walk(name, c.Subcommands)
				continue
			}
			if c.Before == nil { // the library's own
				continue
			}
			g.resumes.Store(nil)
			if err := c.Before(cli.NewContext(app, stdflag.NewFlagSet("", stdflag.ContinueOnError), nil)); err != nil {
				t.Fatal(err)
			}
			want := nothing
			if r, ok := resume[name]; ok {
				want, seen = r, seen+1
			}
			if got := g.goOn(); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
	walk("", app.Commands)
	if seen != len(resume) {
		t.Errorf("%d commands that go on, want %d", seen, len(resume))
	}
}

// The plan of an import keeps nothing, and does not say that it would go on.
func TestImportPlanKeepsNothing(t *testing.T) {
	tree := filepath.Join("..", "dataset", "importer", "graphsaint", "testdata", "flickr")
	for flag, want := range map[string]string{"--plan": nothing, "--quiet": byItself} {
		g := quiet()
		app := newApp(g)
		if err := app.RunContext(t.Context(), arrange(app, []string{"diskgnn", "import", flag, "--out", filepath.Join(t.TempDir(), "D"), tree})); err != nil {
			t.Fatal(err)
		}
		if got := g.goOn(); got != want {
			t.Errorf("with %s: %q, want %q", flag, got, want)
		}
	}
}

// Every flag that takes a size refuses a number without a unit.
func TestEverySizeNeedsAUnit(t *testing.T) {
	seen := 0
	for command, flags := range commandFlags(newApp(quiet())) {
		for _, f := range flags {
			o, ok := f.(*option)
			if !ok || o.placeholder != "SIZE" {
				continue
			}
			seen++
			if err := o.Value.Set("5"); !errors.Is(err, fault.ErrUsage) || !strings.HasPrefix(err.Error(), `"5" has no unit: did you mean 5`) {
				t.Errorf("%s --%s 5: %v", command, o.Name, err)
			}
			if err := o.Value.Set("5GiB"); err != nil {
				t.Errorf("%s --%s 5GiB: %v", command, o.Name, err)
			}
		}
	}
	if seen < 14 {
		t.Errorf("%d flags take a size", seen)
	}
}
