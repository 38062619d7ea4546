package deps

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// requirements returns the versions in a go.mod.
func requirements(t *testing.T, dir string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", filepath.Join(root, dir, "go.mod"))
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	var mod struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(b, &mod); err != nil {
		t.Fatal(err)
	}
	versions := make(map[string]string)
	for _, r := range mod.Require {
		versions[r.Path] = r.Version
	}
	return versions
}

// documented returns the rows of the tables in docs/dependencies.md, by section
// and module.
func documented(t *testing.T) map[string]map[string][]string {
	t.Helper()
	f, err := os.Open(filepath.Join(root, "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sections := make(map[string]map[string][]string)
	section := ""
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "## "); ok {
			section = name
			sections[section] = make(map[string][]string)
		}
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| module ") || strings.HasPrefix(line, "| --- ") {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		for _, cell := range cells {
			if cell == "" {
				t.Errorf("an empty cell in %q", line)
			}
		}
		sections[section][cells[0]] = cells
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return sections
}

// program is the package whose binary is the program.
const program = "cmd/diskgnn"

// linkedInto returns the packages of the module that a package imports, directly or not,
// itself among them, in any variant.
func linkedInto(pkg string, all []*Source) map[string]bool {
	imports := make(map[string][]string)
	for _, s := range all {
		if s.Test {
			continue
		}
		for _, im := range s.Imports {
			if ours, ok := strings.CutPrefix(im, Module+"/"); ok {
				imports[s.Pkg] = append(imports[s.Pkg], ours)
			}
		}
	}
	reached, next := map[string]bool{pkg: true}, []string{pkg}
	for len(next) > 0 {
		last := len(next) - 1
		from := next[last]
		next = next[:last]
		for _, to := range imports[from] {
			if !reached[to] {
				reached[to] = true
				next = append(next, to)
			}
		}
	}
	return reached
}

func TestLinkedInto(t *testing.T) {
	all := []*Source{
		{Pkg: "cmd/diskgnn", Imports: []string{"fmt", "diskgnn/train"}},
		{Pkg: "train", Imports: []string{"diskgnn/graph", "example.org/a"}},
		{Pkg: "train", Test: true, Imports: []string{"diskgnn/traintest"}},
		{Pkg: "graph", Imports: []string{"diskgnn/graph/codec"}},
		{Pkg: "bench", Imports: []string{"diskgnn/train", "diskgnn/bench/tool"}},
	}
	want := map[string]bool{"cmd/diskgnn": true, "train": true, "graph": true, "graph/codec": true}
	if got := linkedInto(program, all); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestDependenciesAreDocumented compares docs/dependencies.md with what the program links,
// and what the rest of the source imports, which together go.mod calls direct.
func TestDependenciesAreDocumented(t *testing.T) {
	versions := requirements(t, ".")
	linked, tested := make(map[string]bool), make(map[string]bool)
	all := load(t)
	reached := linkedInto(program, all)
	for _, s := range all {
		for _, im := range s.Imports {
			if first, _, _ := strings.Cut(im, "/"); !strings.Contains(first, ".") {
				continue // the standard library, or ours
			}
			mod := moduleOf(im, versions)
			if mod == "" {
				t.Errorf("%s: go.mod requires no module for %s", s.Path, im)
				continue
			}
			if reached[s.Pkg] && !s.Test {
				linked[mod] = true
			} else {
				tested[mod] = true
			}
		}
	}
	maps.DeleteFunc(tested, func(m string, _ bool) bool { return linked[m] })
	docs := documented(t)
	check := func(section string, imported map[string]bool, versions map[string]string) {
		for _, mod := range slices.Sorted(maps.Keys(imported)) {
			if docs[section][mod] == nil {
				t.Errorf("docs/dependencies.md, %s: %s is missing", section, mod)
			}
		}
		for mod, row := range docs[section] {
			if imported != nil && !imported[mod] {
				t.Errorf("docs/dependencies.md, %s: nothing imports %s", section, mod)
			}
			if versions[mod] != row[1] {
				t.Errorf("docs/dependencies.md: %s is %s, go.mod has %s", mod, row[1], versions[mod])
			}
		}
	}
	check("Linked into the program", linked, versions)
	check("Tests and measurements", tested, versions)
	check("Pinned", nil, versions)
	for mod, row := range docs["Tools"] {
		for dir := range strings.SplitSeq(row[3], ", ") {
			if got := requirements(t, dir)[mod]; got != row[1] {
				t.Errorf("docs/dependencies.md: %s is %s, %s/go.mod has %s", mod, row[1], dir, got)
			}
		}
	}
}

// moduleOf returns the required module that provides an import path.
func moduleOf(path string, versions map[string]string) string {
	best := ""
	for mod := range versions {
		if (path == mod || strings.HasPrefix(path, mod+"/")) && len(mod) > len(best) {
			best = mod
		}
	}
	return best
}
