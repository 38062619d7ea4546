package deps

import "go/ast"

// Function is a declared function or method.
type Function struct {
	Name  string // with its package and receiver: "train.(runner).prepare"
	Path  string
	Lines int // number of lines, without the doc comment
	// Table means that the function only returns literals without functions: it is a table.
	Table bool
}

// Functions returns the functions that a source declares.
func (s *Source) Functions() []Function {
	var list []Function
	for _, d := range s.File.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := s.Pkg + "."
		if f.Recv != nil {
			name += "(" + Receiver(f) + ")."
		}
		first, last := s.Fset.Position(f.Pos()).Line, s.Fset.Position(f.End()).Line
		list = append(list, Function{name + f.Name.Name, s.Path, last - first + 1, isTable(f)})
	}
	return list
}

// Receiver returns the name of the type that a method is declared on, "" for a function.
func Receiver(f *ast.FuncDecl) string {
	name := ""
	if f.Recv == nil {
		return name
	}
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

func isTable(f *ast.FuncDecl) bool {
	if f.Body == nil || len(f.Body.List) != 1 {
		return false
	}
	r, ok := f.Body.List[0].(*ast.ReturnStmt)
	if !ok {
		return false
	}
	table := true
	ast.Inspect(r, func(n ast.Node) bool {
		_, code := n.(*ast.FuncLit)
		table = table && !code
		return table
	})
	return table
}

// MaxLines returns the largest permitted length of functions of a package, in lines.
func MaxLines(pkg string) int {
	if within(pkg, "train") {
		return 60
	}
	return 80
}

// Long returns the functions that are longer than MaxLines, without tests, packages for tests, generated
// files and tables.
func Long(all []*Source) []Function {
	var list []Function
	for _, s := range all {
		if s.Test || s.TestOnly() || s.Generated {
			continue
		}
		for _, f := range s.Functions() {
			if f.Lines > MaxLines(s.Pkg) && !f.Table {
				list = append(list, f)
			}
		}
	}
	return list
}
