package main

import (
	"cmp"
	"go/ast"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"diskgnn/internal/deps"
)

const (
	smallPackage = 120 // lines
	listed       = 15  // structs
	listedLong   = 60  // lines from which functions are listed
)

var defaultNames = []string{
	"gpu-cache|GPUCache|gpu_cache",
	"label-smoothing|[lL]abelSmoothing|label_smoothing",
	`\b(GAT|gat)\b`,
}

// House has all figures of a checkout.
type House struct {
	Parts       []Part          `json:"parts"`
	Packages    int             `json:"packages"`
	Small       []Count         `json:"small"`
	Unused      []string        `json:"unused"`
	OwnOnly     []string        `json:"own_package_only"`
	Over60      int             `json:"over_60"`
	Over60Train int             `json:"over_60_train"`
	Over80      int             `json:"over_80"`
	Longest     []deps.Function `json:"longest"`
	Folders     []Folder        `json:"folders"`
	Trees       []Count         `json:"trees_back"`
	ByFields    []Struct        `json:"by_fields"`
	ByMethods   []Struct        `json:"by_methods"`
	Crossed     []Count         `json:"crossed"`
	Kinds       []Count         `json:"kinds"`
}

// Part has the figures of the program, of bench, or of the examples.
type Part struct {
	Name        string  `json:"name"`
	Files       int     `json:"files"`
	Lines       int     `json:"lines"`
	Code        int     `json:"code"`
	Comment     int     `json:"comment"`
	Blank       int     `json:"blank"`
	TestLines   int     `json:"test_lines"`
	Packages    int     `json:"packages"` // directories with a Go file, including tests
	MedianFile  int     `json:"median_file"`
	Functions   int     `json:"functions"`
	PerThousand float64 `json:"functions_per_thousand_lines"`
	OneLine     float64 `json:"one_line_percent"`
}

// Count is a name with a number.
type Count struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

// Folder has the numbers of rooms and arrows of one folder, and its arrows that run back.
type Folder struct {
	Name   string       `json:"name"`
	Rooms  int          `json:"rooms"`
	Arrows int          `json:"arrows"`
	Back   []deps.Arrow `json:"back"`
}

// Struct is a struct type with its numbers of fields and methods, and of the files that have its methods.
type Struct struct {
	Name    string `json:"name"`
	Fields  int    `json:"fields"`
	Methods int    `json:"methods"`
	Files   int    `json:"files"`
}

func measure(root string, names []string) (*House, error) {
	all, err := deps.Read(root)
	if err != nil {
		return nil, err
	}
	var program, bench []*deps.Source
	for _, s := range all {
		if strings.HasPrefix(s.Pkg+"/", "bench/") {
			bench = append(bench, s)
		} else {
			program = append(program, s)
		}
	}
	examples, err := modules(root, "examples")
	if err != nil {
		return nil, err
	}
	h := &House{Parts: []Part{part("program", program), part("bench", bench), part("examples", examples)}}
	for _, p := range h.Parts {
		h.Packages += p.Packages
	}
	h.Small = small(program)
	h.Unused, h.OwnOnly = unused(all)
	h.long(all)
	h.Folders = folders(all)
	for _, tree := range []string{"train", "featurestore", "pack", ""} {
		h.Trees = append(h.Trees, Count{cmp.Or(tree, "all"), backBelow(h.Folders, tree)})
	}
	structs := structs(program)
	h.ByFields = most(structs, func(s Struct) int { return s.Fields })
	h.ByMethods = most(structs, func(s Struct) int { return s.Methods })
	for _, name := range names {
		h.Crossed = append(h.Crossed, Count{name, crossed(slices.Concat(all, examples), name)})
	}
	h.Kinds = kinds(all)
	return h, nil
}

// modules reads all modules below a folder of root.
func modules(root, folder string) ([]*deps.Source, error) {
	var all []*deps.Source
	err := filepath.WalkDir(filepath.Join(root, folder), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "go.mod" {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(p))
		if err != nil {
			return err
		}
		more, err := deps.Read(filepath.Dir(p))
		for _, s := range more {
			s.Path, s.Pkg = path.Join(filepath.ToSlash(rel), s.Path), path.Join(filepath.ToSlash(rel), s.Pkg)
		}
		all = append(all, more...)
		return err
	})
	return all, err
}

func part(name string, all []*deps.Source) Part {
	p := Part{Name: name}
	packages := map[string]bool{}
	var lines []int
	oneLine := 0
	for _, s := range all {
		packages[s.Pkg] = true
		if s.Generated {
			continue
		}
		if s.Test {
			p.TestLines += s.Lines()
			continue
		}
		code, comment, blank := split(s.Text)
		p.Code, p.Comment, p.Blank = p.Code+code, p.Comment+comment, p.Blank+blank
		lines = append(lines, s.Lines())
		for _, f := range s.Functions() {
			p.Functions++
			if f.Lines == 1 {
				oneLine++
			}
		}
	}
	p.Files, p.Packages = len(lines), len(packages)
	p.Lines = p.Code + p.Comment + p.Blank
	slices.Sort(lines)
	if p.Files > 0 {
		p.MedianFile = lines[p.Files/2]
	}
	p.PerThousand = 1000 * float64(p.Functions) / float64(max(p.Lines, 1))
	p.OneLine = 100 * float64(oneLine) / float64(max(p.Functions, 1))
	return p
}

// split counts lines with code, other lines with comments, and the rest.
func split(text []byte) (code, comment, blank int) {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	lines := map[int]bool{} // whether a line has code
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}
		first := file.Line(pos)
		for l := first; l <= first+strings.Count(lit, "\n"); l++ {
			lines[l] = lines[l] || tok != token.COMMENT
		}
	}
	for _, c := range lines {
		if c {
			code++
		} else {
			comment++
		}
	}
	return code, comment, strings.Count(string(text), "\n") - len(lines)
}

// small returns the packages with few lines, without packages of tests alone.
func small(all []*deps.Source) []Count {
	lines := map[string]int{}
	for _, s := range all {
		if !s.Test && !s.Generated {
			lines[s.Pkg] += s.Lines()
		}
	}
	var list []Count
	for _, pkg := range slices.Sorted(maps.Keys(lines)) {
		if lines[pkg] < smallPackage {
			list = append(list, Count{pkg, lines[pkg]})
		}
	}
	return list
}

// unused returns the exported functions that only tests and packages for tests name, and the exported
// functions that only their own package names. It ignores methods and types, which may be used without
// being named.
func unused(all []*deps.Source) (anywhere, outside []string) {
	declared := map[string]bool{}
	own, other := map[string]bool{}, map[string]bool{} // used names
	for _, s := range all {
		if s.Test || s.TestOnly() {
			continue
		}
		packages := map[string]string{} // by the name in the file
		for _, im := range s.File.Imports {
			p, ours := strings.CutPrefix(strings.Trim(im.Path.Value, `"`), deps.Module+"/")
			name := path.Base(p)
			if im.Name != nil {
				name = im.Name.Name
			}
			if ours {
				packages[name] = p
			}
		}
		functions := map[*ast.Ident]bool{}
		ast.Inspect(s.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				functions[n.Name] = true
				if n.Recv == nil && n.Name.IsExported() && s.File.Name.Name != "main" {
					declared[s.Pkg+"."+n.Name.Name] = true
				}
			case *ast.SelectorExpr:
				functions[n.Sel] = true // of another package, or no function
				if id, ok := n.X.(*ast.Ident); ok && packages[id.Name] != "" {
					other[packages[id.Name]+"."+n.Sel.Name] = true
				}
			case *ast.Ident:
				if !functions[n] {
					own[s.Pkg+"."+n.Name] = true
				}
			}
			return true
		})
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		switch {
		case other[name]:
		case own[name]:
			outside = append(outside, name)
		default:
			anywhere = append(anywhere, name)
		}
	}
	return anywhere, outside
}

// long lists long functions, longest first.
func (h *House) long(all []*deps.Source) {
	for _, s := range all {
		if s.Test || s.TestOnly() || s.Generated {
			continue
		}
		for _, f := range s.Functions() {
			if f.Lines <= listedLong || f.Table {
				continue
			}
			h.Over60++
			if deps.MaxLines(s.Pkg) == 60 {
				h.Over60Train++
			}
			if f.Lines > 80 {
				h.Over80++
			}
			h.Longest = append(h.Longest, f)
		}
	}
	slices.SortFunc(h.Longest, func(a, b deps.Function) int {
		return cmp.Or(b.Lines-a.Lines, strings.Compare(a.Name, b.Name))
	})
}

// folders returns the folders with ten rooms or more, or with arrows that run back.
func folders(all []*deps.Source) []Folder {
	names := map[string]bool{}
	for _, s := range all {
		for dir := s.Pkg; dir != "" && dir != "."; dir = path.Dir(dir) {
			names[dir] = true
		}
	}
	var list []Folder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		rooms, arrows := deps.Rooms(all, name)
		back := deps.Back(rooms, arrows)
		if len(rooms) >= 10 || len(back) > 0 {
			list = append(list, Folder{name, len(rooms), len(arrows), back})
		}
	}
	return list
}

// backBelow counts the arrows that run back in a folder and all folders below it.
func backBelow(all []Folder, tree string) (n int) {
	for _, f := range all {
		if tree == "" || f.Name == tree || strings.HasPrefix(f.Name, tree+"/") {
			n += len(f.Back)
		}
	}
	return n
}

func structs(all []*deps.Source) []Struct {
	found, files := map[string]*Struct{}, map[string]map[string]bool{}
	at := func(name string) *Struct {
		if found[name] == nil {
			found[name], files[name] = &Struct{Name: name, Fields: -1}, map[string]bool{}
		}
		return found[name]
	}
	for _, s := range all {
		if s.Test || s.TestOnly() || s.Generated {
			continue
		}
		for _, d := range s.File.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					name := s.Pkg + "." + deps.Receiver(d)
					at(name).Methods++
					files[name][s.Path] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					t, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					if st, ok := t.Type.(*ast.StructType); ok {
						at(s.Pkg + "." + t.Name.Name).Fields = st.Fields.NumFields()
					}
				}
			}
		}
	}
	var list []Struct
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if s := found[name]; s.Fields >= 0 {
			s.Files = len(files[name])
			list = append(list, *s)
		}
	}
	return list
}

func most(all []Struct, by func(Struct) int) []Struct {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Struct) int { return by(b) - by(a) })
	return all[:min(len(all), listed)]
}

// crossed counts the files with a match, tests aside.
func crossed(all []*deps.Source, expression string) (n int) {
	re := regexp.MustCompile(expression)
	for _, s := range all {
		if !s.Test && re.Match(s.Text) {
			n++
		}
	}
	return n
}

// kinds counts, by file, the comparisons of a model's kind: by == or !=, or in a case.
func kinds(all []*deps.Source) []Count {
	var list []Count
	for _, s := range all {
		if s.Test || s.TestOnly() {
			continue
		}
		n := 0
		compare := func(e ast.Expr) {
			if sel, ok := e.(*ast.SelectorExpr); ok {
				if id, ok := sel.X.(*ast.Ident); ok && id.Name == "model" {
					e = sel.Sel
				}
			} else if s.Pkg != "train/model" {
				return
			}
			if id, ok := e.(*ast.Ident); ok && slices.Contains([]string{"SAGE", "GCN", "GAT"}, id.Name) {
				n++
			}
		}
		ast.Inspect(s.File, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.BinaryExpr:
				if node.Op == token.EQL || node.Op == token.NEQ {
					compare(node.X)
					compare(node.Y)
				}
			case *ast.CaseClause:
				for _, e := range node.List {
					compare(e)
				}
			}
			return true
		})
		if n > 0 {
			list = append(list, Count{s.Path, n})
		}
	}
	return list
}
