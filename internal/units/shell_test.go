package units

import (
	"os/exec"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func TestWord(t *testing.T) {
	for path, want := range map[string]string{
		"/data/run-1/a_b.c": "/data/run-1/a_b.c",
		"my run":            "'my run'",
		"$HOME":             "'$HOME'",
		"~":                 "'~'",
		"it's":              `'it'\''s'`,
		`a"b\n`:             `'a"b\n'`,
		"-x":                "./-x",
		"":                  "''",
		"größe":             "größe",
		"a\nb":              `$'a\012b'`,
		"\xff'":             `$'\377\''`,
		"a#b!c":             "'a#b!c'",
	} {
		if got := ShellWord(path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
}

// TestShells has a shell read words: it must come out with the path.
func TestShells(t *testing.T) {
	read := func(t *rapid.T, shell, word string) string {
		out, err := exec.CommandContext(t.Context(), shell, "-c", "printf %s "+word).Output()
		if err != nil {
			t.Fatalf("%s reads %s: %v", shell, word, err)
		}
		return string(out)
	}
	for shell, chars := range map[string]string{"sh": "aZ0 ~$'\"\\*?&;|<>()[]{}#!=%^`-ß", "bash": "a '\"\\$\n\t\x01\x7f\xff\u00a0\u200b"} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("no %s here", shell)
			continue
		}
		rapid.Check(t, func(t *rapid.T) {
			path := strings.Join(rapid.SliceOfN(rapid.SampledFrom(strings.Split(chars, "")), 1, 12).Draw(t, "path"), "")
			word := ShellWord(path)
			if strings.IndexFunc(word, unicode.IsControl) >= 0 {
				t.Fatalf("%q is written in several lines", path)
			}
			if got := read(t, shell, word); strings.TrimPrefix(got, "./") != strings.TrimPrefix(path, "./") {
				t.Fatalf("%q is written %s, which %s reads as %q", path, word, shell, got)
			}
		})
	}
}
