package deps

import (
	"bytes"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Module is the path by which the repository's packages import each other.
const Module = "diskgnn"

// Source is one parsed Go file of the repository.
type Source struct {
	Path      string // relative to the root, with slashes
	Pkg       string // import path below the module, "" for the root's
	Test      bool   // its name ends in _test.go
	Generated bool   // it has the comment "Code generated … DO NOT EDIT."
	Text      []byte
	File      *ast.File
	Imports   []string
	Fset      *token.FileSet
}

// Read parses every Go file below root, with any build constraints, in the order of paths. It skips
// directories with a go.mod of their own, directories named testdata, and directories with a name that
// begins with "_" or ".".
func Read(root string) ([]*Source, error) {
	var all []*Source
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
			return enter(path, rel, d.Name())
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		s, err := parse(fset, path, rel)
		all = append(all, s)
		return err
	})
	return all, err
}

// enter returns filepath.SkipDir for a directory without packages of the module.
func enter(path, rel, name string) error {
	if rel == "." {
		return nil
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || err == nil {
		return filepath.SkipDir
	}
	return nil
}

func parse(fset *token.FileSet, path, rel string) (*Source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &Source{Path: rel, Test: strings.HasSuffix(rel, "_test.go"), Generated: ast.IsGenerated(f), Text: text, File: f, Fset: fset}
	if dir := filepath.ToSlash(filepath.Dir(rel)); dir != "." {
		s.Pkg = dir
	}
	for _, im := range f.Imports {
		p, err := strconv.Unquote(im.Path.Value)
		if err != nil {
			return nil, err
		}
		s.Imports = append(s.Imports, p)
	}
	return s, nil
}

// At returns a position in the form path:line.
func (s *Source) At(pos token.Pos) string {
	return s.Path + ":" + strconv.Itoa(s.Fset.Position(pos).Line)
}

// Lines counts the lines of the file.
func (s *Source) Lines() int { return bytes.Count(s.Text, []byte("\n")) }

// Constrained reports whether the file has a build constraint.
func (s *Source) Constrained() bool { return s.constraint() != nil }

func (s *Source) constraint() constraint.Expr {
	for _, group := range s.File.Comments {
		for _, c := range group.List {
			if constraint.IsGoBuild(c.Text) && c.Pos() < s.File.Package {
				if e, err := constraint.Parse(c.Text); err == nil {
					return e
				}
			}
		}
	}
	return nil
}

// Usual reports whether the file is part of a build for linux/amd64 without cgo and tags.
func (s *Source) Usual() bool {
	base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(s.Path), ".go"), "_test")
	for _, other := range []string{"_arm64", "_darwin", "_windows"} {
		if strings.HasSuffix(base, other) {
			return false
		}
	}
	e := s.constraint()
	return e == nil || e.Eval(func(tag string) bool {
		return tag == "linux" || tag == "amd64" || tag == "unix" || strings.HasPrefix(tag, "go1.")
	})
}

// TestOnly reports whether the file's package is for tests only.
func (s *Source) TestOnly() bool { return isTestPackage(s.Pkg) }

func isTestPackage(pkg string) bool {
	return strings.HasSuffix(pkg, "test") || strings.HasSuffix(pkg, "faultio")
}
