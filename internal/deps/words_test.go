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

// others is the same for all other comments.
var others = map[string][4]int{
	"bench":        {9, 3, 2, 2},
	"cmd":          {72, 6, 2, 5},
	"dataset":      {223, 66, 50, 38},
	"device":       {38, 11, 7, 7},
	"doctor":       {6, 0, 0, 1},
	"featurestore": {306, 60, 71, 56},
	"graph":        {7, 0, 1, 2},
	"inspection":   {1, 0, 0, 0},
	"internal":     {99, 15, 5, 14},
	"iostack":      {123, 27, 10, 10},
	"pack":         {94, 19, 13, 20},
	"pipeline":     {6, 2, 0, 1},
	"presample":    {102, 29, 21, 29},
	"simulate":     {31, 10, 5, 4},
	"train":        {335, 81, 28, 73},
}

// messages is the same for string literals of three words or more outside tests.
var messages = map[string][4]int{
	"bench":        {5, 2, 0, 0},
	"cmd":          {101, 6, 5, 8},
	"dataset":      {14, 5, 1, 7},
	"device":       {4, 1, 0, 0},
	"doctor":       {4, 0, 0, 0},
	"featurestore": {18, 3, 1, 5},
	"inspection":   {2, 0, 0, 0},
	"internal":     {5, 4, 2, 3},
	"iostack":      {12, 0, 1, 1},
	"pack":         {1, 4, 0, 0},
	"presample":    {2, 1, 0, 0},
	"simulate":     {8, 1, 0, 0},
	"train":        {35, 6, 3, 10},
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
		if c := counts[dir]; c.Uses != ceilings[dir] {
			t.Errorf("%q: {%d, %d, %d, %d}, in %d words; `%s` has %v, and may only fall", dir, c.Uses[0], c.Uses[1], c.Uses[2], c.Uses[3], c.Words, name, ceilings[dir])
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
