package deps

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// changing lists the standard library's and x/sys's functions that change a file
// system. Stages reach them through internal/vfs alone, so that a test can fail
// each one.
var changing = map[string][]string{
	"os": {
		"Chmod", "Chtimes", "Create", "CreateTemp", "Link", "Mkdir", "MkdirAll", "MkdirTemp",
		"Remove", "RemoveAll", "Rename", "Symlink", "Truncate", "WriteFile", "CopyFS", "OpenRoot",
	},
	"io/ioutil": {"WriteFile", "TempFile", "TempDir"},
	"golang.org/x/sys/unix": {
		"Creat", "Fallocate", "Ftruncate", "Link", "Mkdir", "Mkdirat", "Pwrite", "Pwritev",
		"Rename", "Renameat", "Renameat2", "Rmdir", "Symlink", "Truncate", "Unlink", "Unlinkat", "Write",
	},
	"syscall": {
		"Creat", "Fallocate", "Ftruncate", "Link", "Mkdir", "Mkdirat", "Pwrite",
		"Rename", "Renameat", "Rmdir", "Symlink", "Truncate", "Unlink", "Unlinkat", "Write",
	},
}

// opening lists the functions that may open for writing, and which argument
// holds the flags.
var opening = map[string]map[string]int{
	"os":                    {"OpenFile": 1},
	"golang.org/x/sys/unix": {"Open": 1, "Openat": 2},
	"syscall":               {"Open": 1, "Openat": 2},
}

var writeFlags = []string{"O_WRONLY", "O_RDWR", "O_CREATE", "O_CREAT", "O_TRUNC", "O_APPEND", "O_TMPFILE"}

// mayWrite lists the trees that are no stage, or that write no files: internal/memgroup and
// iostack/nvme/sysfs write attributes of the kernel, the latter registers too, behind a prefix that
// its tests replace; iostack/nvme/internal/platform opens devices, and
// device makes files in memory, without names.
var mayWrite = []string{"internal/vfs", "internal/memgroup", "internal/demo", "internal/mutate", "internal/gotest", "bench", "iostack/nvme/sysfs", "iostack/nvme/internal/platform", "device"}

func TestWritesPassTheSeam(t *testing.T) {
	for _, s := range load(t) {
		if s.Test || s.TestOnly() || slices.ContainsFunc(mayWrite, func(tree string) bool { return within(s.Pkg, tree) }) {
			continue
		}
		for _, found := range writes(s.File) {
			t.Errorf("%s: %s goes around internal/vfs", s.At(found.pos), found.call)
		}
	}
}

type call struct {
	call string
	pos  token.Pos
}

// writes returns the mentions of functions in a file that change files. Mentions
// count, not only calls: a function value writes as well.
func writes(f *ast.File) []call {
	names := make(map[string]string) // local name → import path
	for _, im := range f.Imports {
		path, err := strconv.Unquote(im.Path.Value)
		if err != nil {
			continue
		}
		local := path[strings.LastIndex(path, "/")+1:]
		if im.Name != nil {
			local = im.Name.Name
		}
		names[local] = path
	}
	var found []call
	reading := make(map[*ast.SelectorExpr]bool)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, _ := sel.X.(*ast.Ident)
			if pkg == nil {
				return true
			}
			if arg, ok := opening[names[pkg.Name]][sel.Sel.Name]; ok && arg < len(n.Args) && readOnly(n.Args[arg]) {
				reading[sel] = true
			}
		case *ast.SelectorExpr:
			pkg, _ := n.X.(*ast.Ident)
			if pkg == nil {
				return true
			}
			path := names[pkg.Name]
			_, opens := opening[path][n.Sel.Name]
			if slices.Contains(changing[path], n.Sel.Name) || opens && !reading[n] {
				found = append(found, call{pkg.Name + "." + n.Sel.Name, n.Pos()})
			}
		}
		return true
	})
	return found
}

// readOnly reports whether an expression of open flags names a flag and none
// that writes.
func readOnly(flags ast.Expr) bool {
	named, writing := false, false
	ast.Inspect(flags, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(sel.Sel.Name, "O_") {
			named = true
			writing = writing || slices.Contains(writeFlags, sel.Sel.Name)
		}
		return true
	})
	return named && !writing
}

// TestWritesAreSeen checks the check.
func TestWritesAreSeen(t *testing.T) {
	const text = `package p
import ("os"; u "golang.org/x/sys/unix")
func f(flags int) {
	os.Create("a")
	g := os.Rename
	os.OpenFile("a", os.O_RDONLY|u.O_DIRECT, 0)
	os.OpenFile("a", os.O_RDWR, 0)
	os.OpenFile("a", flags, 0)
	u.Open("a", u.O_RDONLY, 0)
	u.Ftruncate(0, 0)
	os.Open("a")
	_ = g
}`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range writes(f) {
		got = append(got, c.call)
	}
	want := []string{"os.Create", "os.Rename", "os.OpenFile", "os.OpenFile", "u.Ftruncate"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
