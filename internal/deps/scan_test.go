package deps

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "diskgnn"

// source is one parsed Go file of the repository.
type source struct {
	path    string // relative to the root
	pkg     string // import path below the module
	test    bool
	file    *ast.File
	imports []string
	fset    *token.FileSet
}

func (s *source) at(pos token.Pos) string {
	return s.path + ":" + strconv.Itoa(s.fset.Position(pos).Line)
}

// constrained reports whether the file carries a build constraint.
func (s *source) constrained() bool {
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if constraint.IsGoBuild(c.Text) && c.Pos() < s.file.Package {
				return true
			}
		}
	}
	return false
}

// standIn reports whether the file's package exists for tests alone.
func (s *source) standIn() bool { return isTestPackage(s.pkg) }

func isTestPackage(pkg string) bool {
	return strings.HasSuffix(pkg, "test") || strings.HasSuffix(pkg, "faultio")
}

const root = "../.."

// sources parses every Go file of the module, whatever its build constraints.
// Directories with a go.mod of their own are other modules.
var sources = sync.OnceValues(func() ([]*source, error) {
	var all []*source
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel == "." {
				return nil
			}
			name := d.Name()
			_, statErr := os.Stat(filepath.Join(path, "go.mod"))
			if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || statErr == nil {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s := &source{path: rel, test: strings.HasSuffix(rel, "_test.go"), file: f, fset: fset}
		if dir := filepath.ToSlash(filepath.Dir(rel)); dir != "." {
			s.pkg = dir
		}
		for _, im := range f.Imports {
			p, err := strconv.Unquote(im.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, p)
		}
		all = append(all, s)
		return nil
	})
	return all, err
})

func load(t *testing.T) []*source {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("found %d Go files: is %q the repository?", len(all), root)
	}
	return all
}
