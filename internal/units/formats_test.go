package units_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// unread are directories whose programs speak to those who change this one, or whose texts are
// code in another language.
var unread = []string{"bench", "internal/demo", "internal/tools", "internal/mutate", "internal/gotest", "examples", "testdata", "train/cpu/sgemm/gen"}

// source is a file of the module that is neither a test nor unread.
type source struct {
	name string
	file *ast.File
}

var positions = token.NewFileSet()

// sources parses them, once for all tests.
var sources = sync.OnceValues(func() (list []source, err error) {
	root := filepath.Join("..", "..")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		name = filepath.ToSlash(name)
		switch {
		case d.IsDir() && (slices.Contains(unread, name) || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(positions, path, nil, parser.SkipObjectResolution)
		list = append(list, source{name, file})
		return err
	})
	return list, err
})

// eachSaid calls see for every call in the module by which users are told something.
func eachSaid(t *testing.T, see func(name string, line int, format string, args []ast.Expr)) {
	t.Helper()
	list, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if format, args := said(n); format != "" {
				see(s.name, positions.Position(n.Pos()).Line, format, args)
			}
			return true
		})
	}
}

// saying are the functions by which users are told something, with the place of the format.
var saying = map[string]int{
	"Sprintf": 0, "Errorf": 0, "Logf": 0, "Printf": 0, "Fprintf": 1, "New": 1, "usage": 0, "refuse": 0, "add": 1, "Appendf": 1,
}

// said returns the format of a call that says something, and the other arguments.
func said(n ast.Node) (format string, args []ast.Expr) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", nil
	}
	var name string
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
	}
	at, ok := saying[name]
	if !ok || at >= len(call.Args) {
		return "", nil
	}
	lit, ok := call.Args[at].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", nil
	}
	format, err := strconv.Unquote(lit.Value)
	if err != nil {
		return "", nil
	}
	return format, call.Args[at+1:]
}

var (
	// Whole numbers with a unit at them are sizes as flags take them: --memory 123MiB.
	figure = regexp.MustCompile(`%[-+ 0-9.]*([fg] ?|d )(s|ms|µs|us|ns|sec|secs|seconds|KiB|MiB|GiB|TiB|kB|KB|MB|GB|TB)(/s)?\b`)
	spaced = regexp.MustCompile(`%[-+ 0-9.]*[fgd] %%`)
	snake  = regexp.MustCompile(`(^|[^%\w./"'-])[a-z]+(_[a-z0-9]+)+\b`)
)

// There is one way to write durations and sizes: what users read has them from this package and
// from budget.FormatBytes.
func TestOneWayToWriteFigures(t *testing.T) {
	eachSaid(t, func(name string, line int, format string, args []ast.Expr) {
		switch {
		case strings.HasPrefix(name, "internal/units/"), name == "internal/budget/size.go":
			return // which write them
		case strings.HasPrefix(name, "simulate/"), name == "commands/simulatebeacon.go":
			return // a simulation's own time, and its tables, are in one unit
		}
		if m := figure.FindString(format); m != "" {
			t.Errorf("%s:%d: %q: %s is written here", name, line, format, m)
		}
		if m := spaced.FindString(format); m != "" && strings.HasPrefix(name, "commands/") {
			t.Errorf("%s:%d: %q: elsewhere there is no space in %s", name, line, format, m)
		}
		for _, arg := range args {
			if text := bare(arg); text != "" {
				t.Errorf("%s:%d: %q: %s is written by time.Duration", name, line, format, text)
			}
		}
	})
}

// bare returns what of an argument is a duration that no function takes.
func bare(arg ast.Expr) string {
	call, ok := arg.(*ast.CallExpr)
	if !ok {
		return ""
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && (sel.Sel.Name == "Since" || sel.Sel.Name == "Until" || sel.Sel.Name == "Duration") {
		return fmt.Sprintf("time.%s", sel.Sel.Name)
	}
	if sel.Sel.Name == "Round" || sel.Sel.Name == "Truncate" {
		if _, ok := sel.X.(*ast.CallExpr); ok {
			return sel.Sel.Name
		}
	}
	return ""
}

// Messages have the words of users and of the field, not names of fields and keys. Importers and
// the presets of drives name keys of the user's own files.
func TestMessagesInWords(t *testing.T) {
	eachSaid(t, func(name string, line int, format string, _ []ast.Expr) {
		if strings.HasPrefix(name, "dataset/") || name == "simulate/drives/machine.go" {
			return
		}
		for _, m := range snake.FindAllString(strings.ReplaceAll(format, "io_uring", ""), -1) {
			t.Errorf("%s:%d: %q says %q", name, line, format, strings.TrimSpace(m))
		}
	})
}
