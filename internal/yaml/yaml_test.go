package yaml

import (
	"fmt"
	"strings"
	"testing"

	"diskgnn/internal/limittest"
)

// laughs is the text of a billion laughs: each of so many levels stands for so many of
// the level before.
func laughs(levels, each int) string {
	text := "a0: &a0 [ha]\n"
	for i := 1; i <= levels; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), each), ", "))
	}
	return text
}

// TestBombs reads texts that stand for gigabytes, or take them to be read.
func TestBombs(t *testing.T) {
	merges := "a0: &a0 {x: 1}\n"
	for i := 1; i < 25; i++ {
		merges += fmt.Sprintf("a%d: &a%d {<<: [*a%d, *a%d]}\n", i, i, i-1, i-1)
	}
	const most = 64 << 20
	for name, c := range map[string]struct{ text, says string }{
		"brackets":          {strings.Repeat("[", 40_000), "line 1: nested more than 64 deep"},
		"too many of them":  {strings.Repeat("[", 200_000), "200000 bytes, more than the limit of 65536"},
		"closed brackets":   {strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000), "nested more than 64 deep"},
		"braces":            {strings.Repeat("{a: ", 16_000), "nested more than 64 deep"},
		"entries":           {strings.Repeat("- ", 32_000), "line 1: nested more than 64 deep"},
		"keys":              {strings.Repeat("? ", 32_000), "nested more than 64 deep"},
		"anchors":           {strings.Repeat("&a ", 21_000), "unexpected scalar value"},
		"tags":              {strings.Repeat("!a ", 21_000), "not allowed in this context"},
		"laughs":            {laughs(9, 10), "more than 100000 values"},
		"deep laughs":       {laughs(60, 2), "more than 100000 values"},
		"an alias of lines": {"*\n\x00\n\n(", `the alias *\x00\n( has`},
		"itself":            {"a: &a [*a]", "line 1: the alias *a has no anchor before it"},
		"nothing":           {"a: 1\nb: *c", "line 2: the alias *c"},
		"merges":            {merges, "line 2: merge keys"},
		"merges itself":     {"a: &a\n  <<: *a\n", "line 2: merge keys"},
		"indented":          {indented(350), ""},
		"flat":              {"[" + strings.Repeat("1,", 30_000) + "1]", ""},
		"a text":            {"a: \"" + strings.Repeat("x", 60_000) + "\"", ""},
		"comments":          {strings.Repeat("# [[[[\n", 9000), ""},
		"documents":         {strings.Repeat("---\n", 16_000), ""},
		"entries of lines":  {strings.Repeat("- 1\n", 16_000), ""},
		"some aliases":      {laughs(3, 10), ""},
	} {
		var err error
		var v any
		n := limittest.Allocated(func() { err = Unmarshal([]byte(c.text), &v) })
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %.300v", name, err)
		}
		if n > most {
			t.Errorf("%s: %d MiB were allocated for %d bytes", name, n>>20, len(c.text))
		}
	}
}

// indented nests mappings by indentation.
func indented(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// TestAliases reads what PyYAML writes of an object that is there twice.
func TestAliases(t *testing.T) {
	var v struct{ A, B struct{ X []int } }
	if err := Unmarshal([]byte("a: &id001\n  x: [1, 2]\nb: *id001\n"), &v); err != nil || len(v.B.X) != 2 || v.B.X[1] != 2 {
		t.Errorf("%+v, %v", v, err)
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte("a: &x [1, {b: *x}]\n- ? c\n--- !t\n|\n d"))
	f.Add([]byte(laughs(3, 3)))
	f.Fuzz(func(t *testing.T, text []byte) {
		var v any
		var err error
		if n := limittest.Allocated(func() { err = Unmarshal(text, &v) }); n > 128<<20 {
			t.Errorf("%d MiB were allocated for %d bytes (%v)", n>>20, len(text), err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is several lines", err)
		}
	})
}

func TestStrict(t *testing.T) {
	var v struct {
		A struct{ B int }
	}
	if err := Strict([]byte("a:\n  b: 3\n"), &v); err != nil || v.A.B != 3 {
		t.Error(v, err)
	}
	if err := Unmarshal([]byte("a:\n  c: 3\n"), &v); err != nil {
		t.Error(err)
	}
	if err := Strict([]byte("a:\n  c: 3\n"), &v); err == nil || !strings.Contains(err.Error(), `unknown field "c"`) || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

// TestLongMessage does not repeat a text that is all one line.
func TestLongMessage(t *testing.T) {
	for _, text := range []string{"|e: " + strings.Repeat("x", 4000) + "\n", "a: *" + strings.Repeat("x", 4000)} {
		var v struct{ A int }
		if err := Unmarshal([]byte(text), &v); err == nil || len(err.Error()) > 400 {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}
