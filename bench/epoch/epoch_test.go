package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/bench/internal/tool"
)

// Sampling and packing are measured also in a work directory that has both already.
func TestPrepareMeasuresAgain(t *testing.T) {
	dir := t.TempDir()
	program, calls := filepath.Join(dir, "program"), filepath.Join(dir, "calls")
	script := "#!/bin/sh\necho \"$@\" >> '" + calls + "'\necho '{\"seconds\": 8}'\n"
	if err := os.WriteFile(program, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	o := options{tool: &tool.Tool{Binary: program, Quiet: true}, work: filepath.Join(dir, "work"), graph: "computers", model: "gcn"}
	_, got, err := prepare(context.Background(), o, setups[o.graph])
	if want := (ahead{2, 2}); err != nil || got != want {
		t.Fatalf("%+v, %v, want %+v: the seconds of four epochs", got, err, want)
	}
	b, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		stage, flags, _ := strings.Cut(line, " ")
		if forced := strings.HasPrefix(flags, "--force "); forced != (stage != "import") {
			t.Errorf("%s %s", stage, flags)
		}
	}
}
