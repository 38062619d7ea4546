package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// mutant is a change of some bytes of a file.
type mutant struct {
	file     string
	text     []byte // of the file
	row      int    // line, from 1
	from, to int    // the bytes that are replaced
	by       string
	kind     string
}

// source returns the changed file. It keeps the original's line numbers.
func (m *mutant) source() []byte {
	old := m.text[m.from:m.to]
	s := append(append([]byte(nil), m.text[:m.from]...), m.by...)
	for range strings.Count(string(old), "\n") - strings.Count(m.by, "\n") {
		s = append(s, '\n')
	}
	return append(s, m.text[m.to:]...)
}

func (m *mutant) line() string {
	from := strings.LastIndexByte(string(m.text[:m.from]), '\n') + 1
	line, _, _ := strings.Cut(string(m.text[from:]), "\n")
	return strings.TrimSpace(line)
}

func (m *mutant) String() string {
	name := m.file
	if dir, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(dir, name); err == nil {
			name = rel
		}
	}
	old := strings.Join(strings.Fields(string(m.text[m.from:m.to])), " ")
	by := m.by
	if by == "" {
		by = "nothing"
	}
	return fmt.Sprintf("%s:%d: %s: %s → %s    in: %s", name, m.row, m.kind, old, by, m.line())
}

// swaps are the replacements of operators, and their names.
var swaps = map[token.Token]struct {
	by   string
	kind string
}{
	token.LSS: {"<=", "boundary"}, token.LEQ: {"<", "boundary"}, token.GTR: {">=", "boundary"}, token.GEQ: {">", "boundary"},
	token.EQL: {"!=", "comparison"}, token.NEQ: {"==", "comparison"},
	token.ADD: {"-", "arithmetic"}, token.SUB: {"+", "arithmetic"}, token.MUL: {"/", "arithmetic"}, token.QUO: {"*", "arithmetic"},
	token.REM: {"*", "arithmetic"}, token.SHL: {">>", "arithmetic"}, token.SHR: {"<<", "arithmetic"}, token.AND: {"|", "arithmetic"}, token.OR: {"&", "arithmetic"},
	token.ADD_ASSIGN: {"-=", "arithmetic"}, token.SUB_ASSIGN: {"+=", "arithmetic"}, token.MUL_ASSIGN: {"/=", "arithmetic"}, token.QUO_ASSIGN: {"*=", "arithmetic"},
	token.INC: {"--", "arithmetic"}, token.DEC: {"++", "arithmetic"},
	token.LAND: {"||", "logic"}, token.LOR: {"&&", "logic"},
}

func mutants(pkg string) ([]mutant, error) {
	out, err := exec.Command("go", "list", "-f", `{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}`, pkg).Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of %s: %w", pkg, err)
	}
	var list []mutant
	for _, name := range strings.Fields(string(out)) {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found, err := inFile(name, text)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return list, nil
}

func inFile(name string, text []byte) ([]mutant, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, 0)
	if err != nil {
		return nil, err
	}
	v := &visitor{fset: fset, name: name, text: text}
	ast.Walk(v, f)
	return v.found, nil
}

// visitor collects the mutants of a file.
type visitor struct {
	fset  *token.FileSet
	name  string
	text  []byte
	found []mutant
}

func (v *visitor) add(kind string, from, to token.Pos, by string) {
	p := v.fset.Position(from)
	v.found = append(v.found, mutant{v.name, v.text, p.Line, p.Offset, v.fset.Position(to).Offset, by, kind})
}

func (v *visitor) swap(op token.Token, at token.Pos) {
	if s, ok := swaps[op]; ok {
		v.add(s.kind, at, at+token.Pos(len(op.String())), s.by)
	}
}

// Visit implements ast.Visitor.
func (v *visitor) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.GenDecl:
		if n.Tok == token.IMPORT {
			return nil
		}
	case *ast.Field:
		return nil // names, types and tags
	case *ast.FuncDecl:
		if n.Body != nil {
			v.errors(n.Type, n.Body)
		}
	case *ast.FuncLit:
		v.errors(n.Type, n.Body)
	case *ast.BinaryExpr:
		v.swap(n.Op, n.OpPos)
	case *ast.IncDecStmt:
		v.swap(n.Tok, n.TokPos)
	case *ast.AssignStmt:
		v.swap(n.Tok, n.TokPos)
	case *ast.IfStmt:
		v.negate(n.Cond)
	case *ast.ForStmt:
		v.negate(n.Cond)
	case *ast.BasicLit:
		if i, err := strconv.ParseInt(n.Value, 0, 64); n.Kind == token.INT && err == nil {
			v.add("constant", n.Pos(), n.End(), strconv.FormatInt(i+1, 10))
			v.add("constant", n.Pos(), n.End(), strconv.FormatInt(i-1, 10))
		}
	case *ast.BlockStmt:
		v.remove(n.List)
	case *ast.CaseClause:
		v.remove(n.Body)
	case *ast.CommClause:
		v.remove(n.Body)
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Join" && isNamed(f.X, "errors") {
			v.drop(n.Args)
		}
	}
	return v
}

func isNamed(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// drop leaves out each of the joined errors in turn, with its computation.
func (v *visitor) drop(args []ast.Expr) {
	for _, a := range args {
		if _, ok := a.(*ast.CallExpr); ok {
			v.add("removed call", a.Pos(), a.End(), "nil")
		}
	}
}

// negate negates a condition, unless a swap of its operator already does so.
func (v *visitor) negate(cond ast.Expr) {
	b, ok := cond.(*ast.BinaryExpr)
	if cond != nil && !(ok && (b.Op == token.EQL || b.Op == token.NEQ)) {
		from, to := v.fset.Position(cond.Pos()).Offset, v.fset.Position(cond.End()).Offset
		v.add("negated condition", cond.Pos(), cond.End(), "!("+string(v.text[from:to])+")")
	}
}

// remove leaves out each of some statements in turn, but not declarations, without which the code does not
// compile.
func (v *visitor) remove(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt, *ast.BranchStmt:
			v.add("removed statement", s.Pos(), s.End(), "")
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				v.add("removed statement", s.Pos(), s.End(), "")
			}
		case *ast.IfStmt:
			v.add("removed statement", s.Pos(), s.End(), "")
		}
	}
}

// errors replaces each error that a function returns by nil, in turn.
func (v *visitor) errors(t *ast.FuncType, body *ast.BlockStmt) {
	if t.Results == nil {
		return
	}
	last := t.Results.List[len(t.Results.List)-1]
	if !isNamed(last.Type, "error") {
		return
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			if len(n.Results) == 0 || len(n.Results) < t.Results.NumFields() {
				return true // a call returns them all
			}
			if e := n.Results[len(n.Results)-1]; !isNamed(e, "nil") {
				v.add("error made nil", e.Pos(), e.End(), "nil")
			}
		}
		return true
	})
}
