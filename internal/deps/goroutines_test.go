package deps

import (
	"go/ast"
	"testing"
)

// A panic in a goroutine ends the process with exit code 2 and a stack, unless it is
// recovered there. So those of the program either belong to a group of internal/errgroup,
// which returns the panic as an error, or defer fault.Crash first.
func TestGoroutinesRecover(t *testing.T) {
	found := 0
	for _, s := range load(t) {
		if s.Test || isTestPackage(s.Pkg) || within(s.Pkg, "bench") || s.Pkg == "internal/errgroup" {
			continue
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			var body *ast.FuncLit
			switch n := n.(type) {
			case *ast.GoStmt:
				body, _ = n.Call.Fun.(*ast.FuncLit)
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "Go" || len(n.Args) != 1 {
					return true
				}
				if body, _ = n.Args[0].(*ast.FuncLit); body != nil && body.Type.Results != nil {
					return true // a group's: TestForeignCodeIsConfined says which
				}
			default:
				return true
			}
			if found++; body == nil || !defersCrash(body) {
				t.Errorf("%s: a goroutine that does not begin with defer fault.Crash()", s.At(n.Pos()))
			}
			return true
		})
	}
	if found < 10 {
		t.Errorf("found %d goroutines", found)
	}
}

// defersCrash tells whether a function's first statement is defer fault.Crash().
func defersCrash(f *ast.FuncLit) bool {
	if len(f.Body.List) == 0 {
		return false
	}
	d, ok := f.Body.List[0].(*ast.DeferStmt)
	if !ok {
		return false
	}
	call, ok := d.Call.Fun.(*ast.SelectorExpr)
	if !ok || call.Sel.Name != "Crash" {
		return false
	}
	x, ok := call.X.(*ast.Ident)
	return ok && x.Name == "fault"
}
