package commands

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
)

// root is where the repository begins, seen from this package.
const root = ".."

// docPage is a Markdown file: its fenced blocks, and its text without them.
type docPage struct {
	name   string // from the repository's root, with slashes
	text   string
	blocks []block
}

// block is what stands between two fences.
type block struct {
	line     int // of the opening fence, from 1
	language string
	lines    []string
}

// readPages returns README.md and all pages of docs and examples, and others by name.
func readPages(t *testing.T, others ...string) []docPage {
	t.Helper()
	names := append([]string{"README.md"}, others...)
	for _, dir := range []string{"docs", "examples"} {
		err := fs.WalkDir(os.DirFS(root), dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(name, ".md") {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var pages []docPage
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		p, err := parsePage(name, string(text))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, p)
	}
	return pages
}

// parsePage takes a page apart. Lines of fences and of blocks are empty in its text.
func parsePage(name, text string) (docPage, error) {
	p := docPage{name: name}
	inside := false
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSuffix(line, "\n")
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !inside:
			p.blocks = append(p.blocks, block{line: n, language: language})
		case fence && language != "":
			return docPage{}, fmt.Errorf("%s:%d: a block begins inside another", name, n)
		case inside && !fence:
			b := &p.blocks[len(p.blocks)-1]
			b.lines = append(b.lines, line)
		case !fence:
			p.text += line
		}
		inside = inside != fence
		p.text += "\n"
	}
	if inside {
		return docPage{}, fmt.Errorf("%s: a block does not end", name)
	}
	return p, nil
}

// script returns the page's blocks of commands as one script for a shell, with the lines of
// pageCommands replaced, and which of these there were.
func (p docPage) script() (string, map[int]bool) {
	var out strings.Builder
	used := make(map[int]bool)
	for _, b := range p.blocks {
		if b.language != "sh" {
			continue
		}
		fmt.Fprintf(&out, ": %s:%d\n", p.name, b.line)
		continued := false
		for _, line := range b.lines {
			if i := p.row(line); i >= 0 && !continued {
				used[i] = true
				line = pageCommands[i].instead
			}
			out.WriteString(line + "\n")
			continued = strings.HasSuffix(line, `\`)
		}
	}
	return out.String(), used
}

// row returns the row of pageCommands that a line of a block is, or -1.
func (p docPage) row(line string) int {
	return slices.IndexFunc(pageCommands, func(c pageCommand) bool {
		return c.page == p.name && strings.HasPrefix(line, c.line)
	})
}

// pageWorld has what pages take for granted, by name: directories made once, from which every
// page that names them has copies of its own.
var pageWorld = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "diskgnn-pages")
	if err != nil {
		return "", err
	}
	sh := exec.Command("sh", "-eu", "-c", `
		diskgnn generate  --out graph --nodes 1500 --dim 16 --classes 4 --train-ratio 0.3
		diskgnn export    --dataset graph --format graphbolt --out source
		diskgnn presample --dataset graph --out samples --batch-size 256 --fanout 3,3 --epochs 2
		diskgnn pack      --dataset graph --samples samples --out pack
		diskgnn train     --pack pack --out run --hidden 8 --epochs 2
	`)
	sh.Dir = dir
	if out, err := sh.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("%w\n%s", err, out)
	}
	return dir, nil
})

// small stands before diskgnn in the PATH: pages are about graphs and models that take minutes.
const small = `#!/bin/sh
case $1 in
generate) exec "$DISKGNN" "$@" --nodes 1500 --dim 16 --train-ratio 0.3 ;;
train) exec "$DISKGNN" "$@" --hidden 8 ;;
esac
exec "$DISKGNN" "$@"
`

// helpers are shell functions that lines of pageCommands are replaced by.
const helpers = `
# interrupted RUN COMMAND: the command, with a SIGINT once the run has an epoch behind it. A run that ends before the
# signal is made again.
interrupted() {
	run=$1; shift
	for try in $(seq 20); do
		"$@" & pid=$!
		until [ -s "$run"/metrics.jsonl ] || ! kill -0 $pid; do sleep 0.01; done
		kill -INT $pid || true
		if wait $pid; then rm -r "$run"; else [ $? = 5 ]; return; fi
	done
	echo "it ended before the signal, 20 times"; return 1
}
`

// TestPages runs the commands of README, docs/ and examples: the blocks of a page in their
// order, in one shell, which ends at the first that fails. On graphs and models that are
// smaller than the page's, and but for pageCommands.
func TestPages(t *testing.T) {
	program, err := exec.LookPath("diskgnn")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash")
	}
	world, err := pageWorld()
	t.Cleanup(func() { os.RemoveAll(world) })
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "diskgnn"), []byte(small), 0o777); err != nil {
		t.Fatal(err)
	}
	fixtures := t.TempDir()
	writeFixtures(t, fixtures)
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[int]bool)
	t.Run("run", func(t *testing.T) {
		for _, p := range readPages(t) {
			script, rows := p.script()
			for i := range rows {
				used[i] = true
			}
			if script == "" {
				continue
			}
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				setup := pageSetups[p.name]
				dir := t.TempDir()
				for _, name := range strings.Fields(setup.copies) {
					if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(world, name))); err != nil {
						t.Fatal(err)
					}
				}
				sh := exec.CommandContext(t.Context(), "bash", "-euxc", "set -o pipefail\n"+helpers+setup.commands+"\n"+script)
				sh.Dir = dir
				sh.Env = append(os.Environ(), "DISKGNN="+program, "PATH="+bin+":"+os.Getenv("PATH"),
					"REPOSITORY="+repository, "WORLD="+world, "FIXTURES="+fixtures, "TERM=dumb")
				if out, err := sh.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	})
	for i, c := range pageCommands {
		if !used[i] {
			t.Errorf("%s has no line that begins with %q", c.page, c.line)
		}
		if c.why == "" {
			t.Errorf("%s: nothing says why %q is not run", c.page, c.line)
		}
	}
}

// Every block says what it is, so that none is left out by an oversight.
func TestPageBlocks(t *testing.T) {
	for _, p := range readPages(t) {
		for _, b := range p.blocks {
			if !slices.Contains([]string{"sh", "text", "yaml", "python", "go"}, b.language) {
				t.Errorf("%s:%d: the block says %q: sh is run, text is not", p.name, b.line, b.language)
			}
			if b.language == "text" && slices.ContainsFunc(b.lines, func(line string) bool {
				return strings.HasPrefix(line, "diskgnn ") && !strings.Contains(line, "──►")
			}) {
				t.Errorf("%s:%d: a block of text has a command", p.name, b.line)
			}
		}
	}
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// Commands within a sentence are not run, but there are such commands and flags, targets of
// make, and packages.
func TestPageMentions(t *testing.T) {
	flags := map[string][]string{}
	for command, list := range commandFlags(newApp(quiet())) {
		flags[command] = flagNames(list)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	mentions := 0
	for _, p := range readPages(t, "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "bench/README.md") {
		for _, span := range codeSpan.FindAllStringSubmatch(p.text, -1) {
			if why := mentioned(strings.Fields(span[1]), flags, string(makefile)); why != "" {
				t.Errorf("%s: `%s`: %s", p.name, span[1], why)
			}
			mentions++
		}
	}
	if mentions < 1000 {
		t.Errorf("only %d spans of code: the pages are not read", mentions)
	}
}

// mentioned says what is wrong with the words of a command.
func mentioned(words []string, flags map[string][]string, makefile string) string {
	ours := len(words) > 0 && words[0] == "diskgnn"
	if ours {
		words = words[1:]
	}
	switch {
	case len(words) == 0:
		return ""
	case len(words) > 1 && words[0] == "make":
		for _, target := range words[1:] {
			if target == "&&" {
				return ""
			}
			if regexp.MustCompile(`^[a-z0-9-]+$`).MatchString(target) && !regexp.MustCompile(`(?m)^`+target+`:`).MatchString(makefile) {
				return "there is no target " + target
			}
		}
		return ""
	case len(words) > 2 && words[0] == "go" && slices.Contains([]string{"run", "doc", "test"}, words[1]):
		for _, word := range words[2:] {
			dir, ours := strings.CutPrefix(word, "diskgnn/")
			if strings.HasPrefix(word, "./") || ours {
				if _, err := os.Stat(filepath.Join(root, strings.TrimSuffix(dir, "/..."))); err != nil {
					return "there is no package " + word
				}
			}
		}
		return ""
	}
	names, ok := flags[words[0]]
	if len(words) > 1 && !ok {
		names, ok = flags[words[0]+" "+words[1]]
	}
	if !ok {
		if ours && regexp.MustCompile(`^[a-z]+$`).MatchString(words[0]) && words[0] != "help" && !slices.Contains([]string{"bench", "simulate", "nvme"}, words[0]) {
			return "there is no such command"
		}
		return ""
	}
	for _, word := range words {
		if name, long := strings.CutPrefix(word, "--"); long && name != "" {
			name = regexp.MustCompile(`^[a-z-]*`).FindString(name)
			if !slices.Contains(names, name) && name != "help" && name != "version" {
				return "there is no --" + name
			}
		}
	}
	return ""
}

var (
	pageLink = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// links returns where a page's links lead: files from the repository's root, with anchors.
// Addresses of the Web are left out.
func (p docPage) links() []string {
	var all []string
	for _, m := range pageLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(p.text, "code"), -1) {
		switch to := m[1]; {
		case strings.Contains(to, "://"):
		case strings.HasPrefix(to, "#"):
			all = append(all, p.name+to)
		default:
			all = append(all, path.Join(path.Dir(p.name), to))
		}
	}
	return all
}

// anchors returns the names by which links lead to the page's headings, as forges make them.
func (p docPage) anchors() []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(p.text, -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return all
}

// TestPageLinks follows every link between files of the repository, also to headings.
func TestPageLinks(t *testing.T) {
	pages := readPages(t, "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "bench/README.md")
	links := 0
	for _, p := range pages {
		for _, link := range p.links() {
			links++
			name, anchor, _ := strings.Cut(link, "#")
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s: a link leads to %s, which is not there", p.name, name)
				continue
			}
			i := slices.IndexFunc(pages, func(q docPage) bool { return q.name == name })
			if anchor != "" && (i < 0 || !slices.Contains(pages[i].anchors(), anchor)) {
				t.Errorf("%s: a link leads to %s, where no heading has the name %s", p.name, name, anchor)
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links: the pages are not read", links)
	}
}

// TestPageIndex: the index leads to every page of docs, and README.md to the index.
func TestPageIndex(t *testing.T) {
	const index = "docs/README.md"
	pages := readPages(t)
	links := map[string][]string{}
	for _, p := range pages {
		for _, link := range p.links() {
			name, _, _ := strings.Cut(link, "#")
			links[p.name] = append(links[p.name], name)
		}
	}
	if !slices.Contains(links["README.md"], index) {
		t.Errorf("README.md does not lead to %s", index)
	}
	for _, p := range pages {
		if strings.HasPrefix(p.name, "docs/") && p.name != index && !slices.Contains(links[index], p.name) {
			t.Errorf("%s does not lead to %s", index, p.name)
		}
	}
}

// What is read of a page, by hand.
func TestParsePage(t *testing.T) {
	p, err := parsePage("docs/a.md", "# A `b` – *c*_d\n[x](../y.md#z) `[no](n.md)` [w](#v) [u](https://u)\n```sh\none \\\n  two\n# three\n```\nend\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.blocks) != 1 || p.blocks[0].line != 3 || p.blocks[0].language != "sh" || !slices.Equal(p.blocks[0].lines, []string{`one \`, "  two", "# three"}) {
		t.Errorf("blocks %+v", p.blocks)
	}
	if want := []string{"y.md#z", "docs/a.md#v"}; !slices.Equal(p.links(), want) {
		t.Errorf("links %q, want %q", p.links(), want)
	}
	if want := []string{"a-b--c_d"}; !slices.Equal(p.anchors(), want) {
		t.Errorf("anchors %q, want %q", p.anchors(), want)
	}
	if script, _ := p.script(); script != ": docs/a.md:3\none \\\n  two\n# three\n" {
		t.Errorf("script %q", script)
	}
	for _, text := range []string{"```\nnever ends\n", "```sh\n```go\n```\n"} {
		if _, err := parsePage("p", text); err == nil {
			t.Errorf("%q is a page", text)
		}
	}
	flags := map[string][]string{"train": {"out", "io"}, "bench io": {"drive-rate"}}
	for words, wrong := range map[string]bool{
		"diskgnn train --out RUN": false, "diskgnn train --uot RUN": true, "train --io=uring": false, "train --oi": true, "train": false,
		"diskgnn trian": true, "diskgnn bench io --drive-rate 1": false, "diskgnn bench io --rate": true, "diskgnn COMMAND": false,
		"make lint test": false, "make tset": true, "make PKG=./x": false, "go doc diskgnn/internal/vfs": false, "go doc diskgnn/vfs": true, "go run ./bench/none": true,
		"some --thing": false,
	} {
		if got := mentioned(strings.Fields(words), flags, "lint: x\ntest: y\n"); (got != "") != wrong {
			t.Errorf("%s: %q", words, got)
		}
	}
}
