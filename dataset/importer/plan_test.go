package importer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

func TestProblems(t *testing.T) {
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	var p Problems
	if p.Add(nil); p.Err() != nil || len(p) != 0 {
		t.Errorf("no problem: %v", p)
	}
	if p.Add(a); p.Err() != a {
		t.Errorf("one: %v", p.Err())
	}
	p.Add(fmt.Errorf("both: %w", Problems{b, c}))
	if err := p.Err(); err == nil || err.Error() != "3 problems: a; b; c" || !errors.Is(err, b) || !errors.Is(err, c) {
		t.Errorf("three: %v", err)
	}
	if p.Add(Problems{}); len(p) != 4 {
		t.Errorf("%d problems, with one that says nothing", len(p))
	}
}

// TestGuessLines counts the lines of files that are read whole, and estimates those of others by
// their first 64 KiB.
func TestGuessLines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	im := &importing{fs: vfs.OS}
	for _, c := range []struct {
		content string
		lines   int64
		whole   bool
	}{
		{"", 0, true}, {"a", 1, true}, {"a\n", 1, true}, {"a\nb", 2, true}, {"\n\n", 2, true},
		{strings.Repeat("1234567\n", 8192), 8192, true}, // 64 KiB
		{strings.Repeat("1234567\n", 8192) + "1", 8192, false},
		{strings.Repeat("1234567\n", 8192) + strings.Repeat("1", 4096), 8704, false}, // 512 lines of eight bytes
		{strings.Repeat("1", 3<<16), 3, false},                                       // one line at least in 64 KiB
	} {
		if err := os.WriteFile(name, []byte(c.content), 0o666); err != nil {
			t.Fatal(err)
		}
		if n, whole, err := im.guessLines(name); err != nil || n != c.lines || whole != c.whole {
			t.Errorf("%d bytes: %d lines, whole %v, %v; want %d, %v", len(c.content), n, whole, err, c.lines, c.whole)
		}
	}
	if _, _, err := im.guessLines(name + ".none"); !errors.Is(err, fault.ErrInput) {
		t.Errorf("a missing file: %v", err)
	}
}
