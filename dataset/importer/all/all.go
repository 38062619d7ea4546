// Package all names the formats that graphs are imported from.
package all

import (
	"context"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/gnnbenchmark"
	"diskgnn/dataset/importer/graphbolt"
	"diskgnn/dataset/importer/pyg"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// Formats lists what Import reads. Of several formats that a source may have, Auto takes the
// first.
var Formats = []importer.Format{
	gnnbenchmark.Format,
	graphbolt.Format,
	pyg.Format,
}

// Names lists the formats' names.
func Names() []string {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = f.Name
	}
	return names
}

// Find returns the format of a name.
func Find(name string) (importer.Format, error) {
	i := slices.IndexFunc(Formats, func(f importer.Format) bool { return f.Name == name })
	if i < 0 {
		return importer.Format{}, fault.New(fault.ErrUsage, "--format %q: known are %s", name, strings.Join(Names(), ", "))
	}
	return Formats[i], nil
}

// Import makes a dataset of a graph in the format of the given name; see importer.Import.
func Import(ctx context.Context, fsys vfs.FS, out, format string, o importer.Options, rep progress.Reporter) (dataset.Result, error) {
	f, err := Find(format)
	if err != nil {
		return dataset.Result{}, err
	}
	return importer.Import(ctx, fsys, out, f, o, rep)
}
