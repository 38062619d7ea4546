package commands

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestMemoryBeyond: a --memory that no machine has is named by every command that takes one, also
// from a configuration file or the environment; and by a run that is resumed, which recalls it.
func TestMemoryBeyond(t *testing.T) {
	const more, much = ", which is more than the ", "8000TiB"
	seen := 0
	for command, flags := range commandFlags(newApp(quiet())) {
		if !slices.Contains(flagNames(flags), "memory") {
			continue
		}
		seen++
		args := append([]string{"diskgnn"}, strings.Fields(command)...)
		if command == "simulate beacon" {
			args = append(args, "--explain", "parameters")
		}
		for memory, want := range map[string]bool{much: true, "1MiB": false} {
			var stderr bytes.Buffer
			run(builtin, append(slices.Clone(args), "--memory", memory), io.Discard, &stderr)
			if got := strings.Contains(stderr.String(), more); got != want {
				t.Errorf("%s --memory %s: %s", command, memory, &stderr)
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d commands take --memory", seen)
	}
	t.Chdir(t.TempDir())
	t.Setenv("DISKGNN_MEMORY", much)
	var stderr bytes.Buffer
	if run(builtin, []string{"diskgnn", "generate"}, io.Discard, &stderr); !strings.Contains(stderr.String(), more) {
		t.Errorf("from the environment: %s", &stderr)
	}
	t.Setenv("DISKGNN_MEMORY", "")
	diskgnn(t, "generate --out g --nodes 300 --dim 4 --classes 3")
	diskgnn(t, "train --dataset g --fanout 2,2 --out r --hidden 4 --epochs 1 --memory "+much)
	for flag, want := range map[string]string{"": "r was begun with --memory", "--memory 1GiB": "", "--memory " + much: "--memory allows"} {
		p := begin(t, "train --out r --resume "+flag)
		if code := p.end(); code != exitDone || strings.Count(p.stderr.String(), more) != min(len(want), 1) || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("resumed with %q: exit code %d, %s", flag, code, &p.stderr)
		}
	}
}
