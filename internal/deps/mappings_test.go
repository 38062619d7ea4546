package deps

import (
	"go/ast"
	"slices"
	"testing"
)

// mapsMemory lists the packages that map memory, queues of the kernel, or registers. Files are mapped
// by internal/mapped alone, whose Guard compares them with what they were.
var mapsMemory = []string{"device", "iostack/uring", "iostack/nvme/internal/platform", "iostack/nvme/soft", "iostack/nvme/sysfs"}

// guardSuffices lists the packages that map files, or open a dataset's topology, and need not compare
// the files once more before a commit: nothing that they have mapped outlives the Guard.
var guardSuffices = map[string]string{
	"dataset/importer":              "scratch of its own, closed when the order of the nodes is found",
	"pack":                          "scratch of its own; the ranges journal what left the Guard",
	"featurestore/gids":             "the ranks of the nodes are made, and the topology is closed",
	"dataset/importer/importertest": "a test's",
	"presample/sampler/topology":    "the order of the seeds is made, and it is closed; who calls Open compares",
}

// TestMappingsAreCompared finds who maps a file and says nowhere that it is unchanged.
func TestMappingsAreCompared(t *testing.T) {
	maps, compares := map[string]string{}, map[string]bool{}
	for _, s := range load(t) {
		if s.Test || within(s.Pkg, "bench") {
			continue
		}
		if slices.Contains(s.Imports, Module+"/internal/mapped") {
			maps[s.Pkg] = s.Path
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				compares[s.Pkg] = compares[s.Pkg] || n.Sel.Name == "Unchanged"
			case *ast.CallExpr:
				switch f, _ := n.Fun.(*ast.SelectorExpr); {
				case f == nil:
				case f.Sel.Name == "Mmap" && s.Pkg != "internal/mapped" && !slices.Contains(mapsMemory, s.Pkg):
					t.Errorf("%s: files are mapped by internal/mapped", s.At(n.Pos()))
				case f.Sel.Name == "Topology" && len(n.Args) == 3, opensTopology(f):
					maps[s.Pkg] = s.At(n.Pos())
				}
			}
			return true
		})
	}
	for pkg, at := range maps {
		if why, ok := guardSuffices[pkg]; ok == compares[pkg] {
			t.Errorf("%s (%s) maps files: compares them before a commit: %t, need not, %q", pkg, at, compares[pkg], why)
		}
	}
	for pkg := range guardSuffices {
		if maps[pkg] == "" {
			t.Errorf("%s maps nothing", pkg)
		}
	}
	if len(maps) < 8 {
		t.Errorf("found %d packages that map files", len(maps))
	}
}

// opensTopology reports whether a function is that of presample/sampler/topology.
func opensTopology(f *ast.SelectorExpr) bool {
	x, ok := f.X.(*ast.Ident)
	return ok && x.Name == "topology" && f.Sel.Name == "Open"
}
