package deps

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// comments is how often the package comments and the comments of exported declarations below a
// directory have each of Wordings. It only falls.
var comments = map[string][4]int{
	"bench":        {0, 0, 0, 0},
	"cmd":          {0, 1, 0, 0},
	"dataset":      {2, 0, 0, 0},
	"device":       {0, 0, 0, 0},
	"doctor":       {0, 0, 0, 0},
	"featurestore": {1, 1, 0, 0},
	"graph":        {0, 0, 0, 0},
	"inspection":   {0, 0, 0, 0},
	"internal":     {0, 0, 0, 0},
	"iostack":      {0, 0, 0, 0},
	"pack":         {0, 0, 1, 0},
	"pipeline":     {0, 0, 0, 0},
	"presample":    {0, 0, 0, 1},
	"simulate":     {0, 0, 0, 0},
	"train":        {8, 4, 0, 7},
}

// TestPagesArePlain holds README.md, CONTRIBUTING.md and every page of docs to the limits of Wordings.
func TestPagesArePlain(t *testing.T) {
	names := []string{"README.md", "CONTRIBUTING.md"}
	err := fs.WalkDir(os.DirFS(root), "docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 50 {
		t.Fatalf("found %d pages: is %q the repository?", len(names), root)
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		c := CountPage(string(text))
		for i, most := range c.Allowed() {
			if c.Uses[i] > most {
				t.Errorf("%s: %d times %q in %d words, more than %d", name, c.Uses[i], Wordings[i].Name, c.Words, most)
			}
		}
	}
}

// TestCommentsBecomePlainer holds the comments that go doc prints to the counts that they had.
func TestCommentsBecomePlainer(t *testing.T) {
	counts := map[string]Count{}
	for _, s := range load(t) {
		if s.Test || s.Generated || s.Pkg == "" {
			continue
		}
		dir, _, _ := strings.Cut(s.Pkg, "/")
		c := counts[dir]
		c.Add(s.CountDocs())
		counts[dir] = c
	}
	for _, dir := range slices.Sorted(maps.Keys(counts)) {
		if c := counts[dir]; c.Uses != comments[dir] {
			t.Errorf("%q: {%d, %d, %d, %d}, in %d words; `comments` has %v, and may only fall", dir, c.Uses[0], c.Uses[1], c.Uses[2], c.Uses[3], c.Words, comments[dir])
		}
	}
	for dir := range comments {
		if counts[dir].Words == 0 {
			t.Errorf("%s has no comments: remove it from `comments`", dir)
		}
	}
}

// What is counted, by hand.
func TestCountWords(t *testing.T) {
	page := "# What it is\n\nRows whose page, `what` of [what](what.md) as\nmany. Those of that of.\n\n```sh\nwhat\n```\n"
	want := Count{Words: 15, Uses: [4]int{2, 1, 1, 2}}
	if got := CountPage(page); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := (Count{Words: 10001}).Allowed(), [4]int{16, 6, 4, 5}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	texts := map[string]string{"p/p.go": "// Package p is what.\npackage p\n\n// F does what.\nfunc F() {}\n\n// f does what.\nfunc f() {}\n\n// T is what.\ntype T int\n\n// m is what.\nfunc (T) m() {}\n\n// M is what.\nfunc (T) M() {}\n\n// C are what.\nconst (\n\tc = 1\n\tC = 2\n)\n\n// v is what.\nvar v = 1\n"}
	for _, s := range written(t, texts) {
		if got := s.CountDocs().Uses[0]; got != 5 {
			t.Errorf("%d, want 5", got)
		}
	}
}
