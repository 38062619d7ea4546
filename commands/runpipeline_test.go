package commands

import (
	"errors"
	"testing"

	"diskgnn/internal/fault"
)

// TestForceNamesSection looks at the remedy for errors that propose --force, which run does not have.
func TestForceNamesSection(t *testing.T) {
	flags := commandFlags(newApp(quiet()))
	p := &pipelineFile{configuration: &configuration{file: "f.yaml", flags: flags, sections: map[string][]setting{
		"import": nil, "presample": nil, "pack": nil, "train": {{key: "out", value: "a run"}}, "predict": nil,
	}}}
	const train = "; run always resumes train: remove the run (rm -r 'a run') to train again"
	for _, c := range []struct{ command, text, want string }{
		{"pack", "p exists; use --force to replace it", " (for --force, write force: true into the section pack of f.yaml)"},
		{"pack", "s is damaged: make it again, by its diskgnn presample with --force, or from a copy", " (for --force, write force: true into the section presample of f.yaml)"},
		{"presample", "g is damaged: make it again, by its diskgnn generate or import with --force, or from a copy", " (for --force, write force: true into the section import of f.yaml)"},
		{"train", "p is damaged: make it again, by its diskgnn pack --shard with --force, or from a copy", " (for --force, write force: true into the section pack of f.yaml)"},
		{"train", "no checkpoint can be used (--force starts over)", train},
		{"predict", "r is damaged: make it again, by its diskgnn train with --force, or from a copy", train},
		{"predict", "m is damaged: make it again, by its diskgnn merge with --force, or from a copy", ""}, // which has no section
		{"pack", "s is missing", ""},
	} {
		if got, want := p.named(c.command, fault.New(fault.ErrCorrupt, "%s", c.text)), c.command+": "+c.text+c.want; got.Error() != want || !errors.Is(got, fault.ErrCorrupt) {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
