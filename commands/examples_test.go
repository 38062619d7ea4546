package commands

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/urfave/cli/v2"
)

// The configurations of examples/ are taken by every command that they have a section
// for: each key is a flag of it, each value one that the flag takes. Nothing runs.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	const cluster = "../examples/slurm/pipeline.yaml" // of a dataset that is there
	files = append(files, cluster)
	for _, file := range files {
		newExampleApp := func() *cli.App { return newApp(quiet()) }
		read, err := openConfiguration(newExampleApp(), file, builtin)
		if err != nil {
			t.Fatal(err)
		}
		general, sections := read.general, read.sections
		want := 4
		if file == cluster {
			want = 3
		}
		if len(sections) != want || sections["train"] == nil {
			t.Errorf("%s: sections for %d commands", file, len(sections))
		}
		for name, section := range sections {
			app := newExampleApp()
			i := slices.IndexFunc(app.Commands, func(c *cli.Command) bool { return c.Name == name })
			set := map[string]bool{}
			app.Commands[i].Action = func(c *cli.Context) error {
				for _, f := range c.FlagNames() {
					set[f] = true
				}
				return nil
			}
			if err := app.Run([]string{"diskgnn", name, "--config", file}); err != nil {
				t.Errorf("%s, %s: %v", file, name, err)
			}
			for _, s := range section {
				if !set[s.key] {
					t.Errorf("%s, %s: %s sets nothing", file, name, s.key)
				}
			}
		}
		for _, s := range general {
			if s.key != "memory" {
				t.Errorf("%s: %s is for a section", file, s.key)
			}
		}
	}
}
