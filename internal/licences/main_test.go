package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Everything that is linked says on what terms, whatever is built.
func TestCollect(t *testing.T) {
	for _, tags := range []string{"", "gpu"} {
		var text bytes.Buffer
		if err := collect(&text, tags, []string{"diskgnn/cmd/diskgnn"}); err != nil {
			t.Fatalf("tags %q: %v", tags, err)
		}
		for _, want := range []string{"gorgonia.org/gorgonia v0.9.18, LICENSE", "github.com/klauspost/compress v1", "Go's standard library go1.", "Redistribution and use in source and binary forms"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("tags %q: %q is missing", tags, want)
			}
		}
		if got := strings.Contains(text.String(), "gorgonia.org/cu "); got != (tags == "gpu") {
			t.Errorf("tags %q: gorgonia.org/cu: %v", tags, got)
		}
		if strings.Contains(text.String(), "pgregory.net/rapid") {
			t.Error("a module that only tests import")
		}
	}
}

func TestLicences(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"LICENSE", "LICENSE-MIT.txt", "COPYING", "NOTICE", "licensing.go", "README.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := licences(dir)
	if want := []string{"COPYING", "LICENSE", "LICENSE-MIT.txt", "NOTICE"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}
