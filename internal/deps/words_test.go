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
	"cmd":          {0, 0, 0, 0},
	"commands":     {0, 0, 0, 0},
	"dataset":      {0, 0, 0, 0},
	"device":       {0, 0, 0, 0},
	"doctor":       {0, 0, 0, 0},
	"featurestore": {0, 0, 0, 0},
	"graph":        {0, 0, 0, 0},
	"inspection":   {0, 0, 0, 0},
	"internal":     {0, 0, 0, 0},
	"iostack":      {0, 0, 0, 0},
	"pack":         {0, 0, 0, 0},
	"pipeline":     {0, 0, 0, 0},
	"presample":    {0, 0, 0, 0},
	"simulate":     {0, 0, 0, 0},
	"train":        {0, 0, 0, 0},
}

// others is the same for all other comments.
var others = map[string][4]int{
	"bench":        {6, 1, 2, 1},
	"commands":     {57, 2, 2, 5},
	"dataset":      {123, 45, 20, 16},
	"device":       {32, 10, 6, 7},
	"doctor":       {6, 0, 0, 1},
	"featurestore": {132, 28, 23, 23},
	"graph":        {4, 0, 1, 0},
	"inspection":   {1, 0, 0, 0},
	"internal":     {85, 12, 5, 12},
	"iostack":      {106, 21, 9, 9},
	"pack":         {41, 4, 6, 2},
	"pipeline":     {3, 2, 0, 1},
	"presample":    {62, 9, 6, 14},
	"simulate":     {29, 6, 5, 4},
	"train":        {255, 61, 24, 45},
}

// messages is the same for string literals of three words or more outside tests.
var messages = map[string][4]int{
	"dataset":  {0, 0, 0, 1},
	"internal": {0, 0, 2, 2},
	"train":    {1, 0, 0, 0},
}

// TestPagesArePlain holds the pages of docs, and the other pages that users read, to the limits of
// Wordings.
func TestPagesArePlain(t *testing.T) {
	names := []string{"README.md", "CONTRIBUTING.md", "bench/README.md", "examples/README.md"}
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

// TestCommentsBecomePlainer holds the comments that go doc prints, all other comments (tests
// included), and the messages to the counts that they had.
func TestCommentsBecomePlainer(t *testing.T) {
	docs, rest, texts := map[string]Count{}, map[string]Count{}, map[string]Count{}
	add := func(to map[string]Count, dir string, c Count) {
		c.Add(to[dir])
		to[dir] = c
	}
	for _, s := range load(t) {
		if s.Generated || s.Pkg == "" {
			continue
		}
		dir, _, _ := strings.Cut(s.Pkg, "/")
		printed, other := s.CountComments()
		if s.Test {
			other.Add(printed)
		} else {
			add(docs, dir, printed)
			add(texts, dir, s.CountMessages())
		}
		add(rest, dir, other)
	}
	held(t, "comments", comments, docs)
	held(t, "others", others, rest)
	held(t, "messages", messages, texts)
}

// held reports every directory with counts other than a table's.
func held(t *testing.T, name string, ceilings map[string][4]int, counts map[string]Count) {
	for _, dir := range slices.Sorted(maps.Keys(counts)) {
		c, most := counts[dir], ceilings[dir]
		for i, w := range Wordings {
			if c.Uses[i] > most[i] {
				t.Errorf("%s has %d times %q, more than the %d that `%s` allows: reword the new sentences", dir, c.Uses[i], w.Name, most[i], name)
			} else if c.Uses[i] < most[i] {
				t.Errorf("%s has only %d times %q: lower its bound in `%s` from %d: {%d, %d, %d, %d}", dir, c.Uses[i], w.Name, name, most[i], c.Uses[0], c.Uses[1], c.Uses[2], c.Uses[3])
			}
		}
	}
	for dir := range ceilings {
		if counts[dir].Words == 0 {
			t.Errorf("%s has no words: remove it from `%s`", dir, name)
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
	texts := map[string]string{"p/p.go": "// Package p is what.\npackage p\n\n// F does what.\nfunc F() {}\n\n// f does what.\nfunc f() {}\n\n// T is what.\ntype T int\n\n// m is what.\nfunc (T) m() {}\n\n// M is what.\nfunc (T) M() {}\n\n// C are what.\nconst (\n\tc = 1\n\tC = 2\n)\n\n// v is what.\nvar v, w = \"tell what it is\", `what was the matter?`\n\nvar short = \"what now\" // what\n"}
	for _, s := range written(t, texts) {
		docs, others := s.CountComments()
		if docs.Uses[0] != 5 || others.Uses[0] != 4 {
			t.Errorf("%d in printed comments, %d elsewhere; want 5 and 4", docs.Uses[0], others.Uses[0])
		}
		if got, want := s.CountMessages(), (Count{Words: 8, Uses: [4]int{2}}); got != want {
			t.Errorf("messages: %+v, want %+v", got, want)
		}
	}
}
