package tool

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
)

// Sources are the files of the real graphs that examples import, by the examples' names, as
// they lie in the directory that DISKGNN_DATA names.
var Sources = map[string]string{"computers": "amazon-computers.npz", "physics": "coauthor-physics.npz", "fb100": "fb100.npz", "tolokers": "tolokers"}

// Examples are the configurations of examples, named GRAPH or GRAPH-VARIANT, and their graphs.
type Examples struct {
	*Tool
	dir, data string
	Work      string // scratch directory, in which datasets are kept
}

// FlagExamples returns what -bin, -examples, -data and -work will name; name ends the default of
// the last.
func FlagExamples(name string) *Examples {
	e := &Examples{Tool: Flag()}
	flag.StringVar(&e.dir, "examples", "examples", "directory of the configurations")
	flag.StringVar(&e.data, "data", os.Getenv("DISKGNN_DATA"), "directory of the graphs")
	flag.StringVar(&e.Work, "work", filepath.Join(os.TempDir(), "diskgnn-"+name), "scratch directory; datasets are kept there")
	return e
}

// Graph returns the name of an example's graph.
func Graph(example string) string {
	graph, _, _ := strings.Cut(example, "-")
	return graph
}

// Config returns the file of an example's configuration.
func (e *Examples) Config(example string) string { return filepath.Join(e.dir, example+".yaml") }

// MakeDataset imports or generates an example's graph, if that is not done yet.
func (e *Examples) MakeDataset(ctx context.Context, example, out string) error {
	args := []string{"generate"}
	if source, imported := Sources[Graph(example)]; imported {
		args = []string{"import", filepath.Join(e.data, source)}
	}
	return e.Run(ctx, new(any), append(args, "--config", e.Config(example), "--out", out)...)
}
