package metamorphic

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// small is a program with every kind of line.
const small = `generate --nodes 40
presample --fanout 2,3
0 train --io pread
1 pack --workers 3
1 train --store rows
fault 1 pack enospc 17
`

func parsed(t *testing.T, text string) *Program {
	t.Helper()
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParse(t *testing.T) {
	p := parsed(t, "# a comment\n\n"+small)
	if got := p.String(); got != small {
		t.Errorf("a program comes back as\n%s", got)
	}
	if p.Value("presample", "fanout") != "2,3" || p.Value("presample", "seed") != "" || p.Free(1, "train", "store") != "rows" || p.Free(0, "train", "store") != "" || p.Free(2, "train", "store") != "" {
		t.Errorf("its settings are %+v", p)
	}
	if f := p.Fault; *f != (Fault{1, "pack", "enospc", 17}) {
		t.Errorf("its fault is %+v", f)
	}
	if p := parsed(t, "0\n1\n"); len(p.Variants) != 2 || p.String() != "0\n1\n" {
		t.Errorf("two variants without settings: %+v", p)
	}
	for _, text := range []string{
		"generate --nodes", "generate nodes 40", "generate --node 40", "train --io pread", "0 generate --nodes 40",
		"1 train --io pread", "0\n2", "fault 0 pack enospc 1", "0\n1\nfault 1 pack rust 1", "0\n1\nfault 2 pack eio 1", "0\n1\nfault 1 pack eio -1", "0\n1\nfault 1 pack eio",
	} {
		if p, err := Parse(text); err == nil {
			t.Errorf("%q is %+v", text, p)
		}
	}
}

// TestDrawer draws programs again, and every program is one that Parse reads, with options that have an
// effect.
func TestDrawer(t *testing.T) {
	a, b, other := NewDrawer(3), NewDrawer(3), NewDrawer(4)
	differ := false
	met := make(map[string]bool)
	for i := range 200 {
		p := a.Next()
		text := p.String()
		if again := b.Next().String(); again != text {
			t.Fatalf("program %d is\n%s\nand then\n%s", i, text, again)
		}
		differ = differ || other.Next().String() != text
		if got := parsed(t, text).String(); got != text {
			t.Fatalf("program %d comes back as\n%s, of\n%s", i, got, text)
		}
		for _, s := range p.Content {
			if !slices.ContainsFunc(Options, func(o Option) bool {
				return o.Command == s.Command && o.Flag == s.Flag && slices.Contains(o.Values, s.Value) && (o.When == nil || o.When(p))
			}) {
				t.Errorf("program %d has %s, without an effect:\n%s", i, s, text)
			}
		}
		for v := range p.Variants {
			for _, s := range p.settings(v) {
				met[names[s]] = true
			}
		}
		for _, flag := range notInReference {
			if v := p.Free(Reference, "train", flag); v != "" && v != "packed" {
				t.Errorf("the reference of program %d has --%s %s", i, flag, v)
			}
		}
	}
	if !differ {
		t.Error("two seeds draw the same programs")
	}
	for _, o := range Options {
		for _, v := range o.Values {
			if s := (Setting{o.Command, o.Flag, v}).String(); !met[s] {
				t.Errorf("%s was never drawn", s)
			}
		}
	}
}

func TestCoverage(t *testing.T) {
	p := parsed(t, small)
	c := NewCoverage()
	n := len(p.settings(0))
	c.Add(p, 0, true)
	if want := fmt.Sprintf("%d of %d pairs of settings ran, 0 were only refused", n*(n-1)/2, Pairs()); !strings.HasPrefix(c.Summary(), want) {
		t.Errorf("%d settings have %s", n, c.Summary())
	}
	c.Add(p, 1, false)
	missing := c.Missing(1 << 20)
	if !slices.Contains(missing, "pack --workers 3 | train --store rows") || slices.Contains(missing, "generate --nodes 40 | presample --fanout 2,3") {
		t.Errorf("missing are %q", missing)
	}
	if got := c.Missing(2); len(got) != 2 {
		t.Errorf("two of the missing pairs are %q", got)
	}
}

// TestShrink leaves the settings that a failure needs, and no others.
func TestShrink(t *testing.T) {
	d := NewDrawer(1)
	for i := range 12 {
		p := d.Next()
		var need []string
		for v := 1; v < len(p.Variants); v++ {
			if s := p.Free(v, "train", "io"); s == "uring" {
				need = append(need, "train --io uring")
				break
			}
		}
		if p.Value("train", "model") == "gat" {
			need = append(need, "train --model gat")
		}
		fails := func(q *Program) bool {
			text := q.String()
			return !slices.ContainsFunc(need, func(s string) bool { return !strings.Contains(text, s) })
		}
		small := Shrink(p, 1<<20, fails)
		if !fails(small) || small.Fault != nil || len(small.Variants) > 2 {
			t.Errorf("program %d shrinks to\n%s", i, small)
		}
		for _, q := range Simpler(small) {
			if fails(q) && q.String() != small.String() {
				t.Errorf("program %d shrinks to\n%s, but\n%s fails too", i, small, q)
			}
		}
	}
	calls := 0
	Shrink(parsed(t, small), 3, func(*Program) bool { calls++; return false })
	if calls != 3 {
		t.Errorf("at most 3 calls are %d", calls)
	}
}

func TestKind(t *testing.T) {
	if got := Kind("variant 12: 0.5 of a7"); got != "variant #: #.# of a#" {
		t.Error(got)
	}
}

// TestPlanted: every patch of a defect (make planted) fits the source: the lines that it removes or leaves
// are there, in order.
func TestPlanted(t *testing.T) {
	patches, err := filepath.Glob("testdata/planted/*.patch")
	if err != nil || len(patches) < 10 {
		t.Fatalf("%d patches (%v)", len(patches), err)
	}
	for _, name := range patches {
		patch, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var source, old string
		check := func() {
			if !strings.Contains(source, old) {
				t.Errorf("%s: the source has no lines\n%s", name, old)
			}
			old = ""
		}
		for line := range strings.Lines(string(patch)) {
			switch {
			case strings.HasPrefix(line, "--- a/"):
				b, err := os.ReadFile(filepath.Join("..", "..", strings.TrimSpace(line[6:])))
				if err != nil {
					t.Fatal(err)
				}
				source = string(b)
			case strings.HasPrefix(line, "@@"):
				check()
			case line[0] == ' ' || line[0] == '-':
				old += line[1:]
			}
		}
		check()
	}
}
