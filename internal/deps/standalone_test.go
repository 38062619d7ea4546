package deps

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// alone are modules beside this one, which use a part of it by itself, and the trees of that
// part.
var alone = map[string][]string{
	"examples/nvme-overlap": {"iostack", "device", "internal"},
}

// TestStandsAlone holds that nothing of the rest comes along, with the tag gpu and without.
func TestStandsAlone(t *testing.T) {
	for dir, trees := range alone {
		for _, tags := range []string{"", "gpu"} {
			// -e: the kernels that the tag gpu embeds are not built everywhere.
			cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-tags", tags, "-deps", "./...")
			cmd.Dir = filepath.Join(root, dir)
			cmd.Stderr = t.Output()
			b, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s: %v: %s", dir, err, b)
			}
			ours := 0
			for line := range strings.Lines(string(b)) {
				pkg, is := strings.CutPrefix(strings.TrimSpace(line), Module+"/")
				if !is {
					continue
				}
				ours++
				if !withinAny(pkg, trees) {
					t.Errorf("%s: %s comes along", dir, pkg)
				}
			}
			if ours < 5 {
				t.Errorf("%s: %d packages of this module", dir, ours)
			}
		}
	}
}

func withinAny(pkg string, trees []string) bool {
	for _, tree := range trees {
		if within(pkg, tree) {
			return true
		}
	}
	return false
}
