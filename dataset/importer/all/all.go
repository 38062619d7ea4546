// Package all lists the formats of sources, recognises the format of a source, and imports sources by
// the name of a format.
package all

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/dgl"
	"diskgnn/dataset/importer/dglchunked"
	"diskgnn/dataset/importer/gnnbenchmark"
	"diskgnn/dataset/importer/graphbolt"
	"diskgnn/dataset/importer/graphsaint"
	"diskgnn/dataset/importer/igb"
	"diskgnn/dataset/importer/offgs"
	"diskgnn/dataset/importer/ogb"
	"diskgnn/dataset/importer/pyg"
	"diskgnn/dataset/importer/raw"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// Formats are the formats that Import reads. If a source fits several of them, Auto takes the first.
var Formats = []importer.Format{
	graphbolt.Format,
	dglchunked.Format,
	graphsaint.Format,
	gnnbenchmark.Format,
	ogb.Format,
	igb.Format,
	igb.Heterogeneous,
	offgs.Format,
	dgl.Format,
	pyg.Format,
	raw.Typed,
	raw.SNAP,
	raw.WebGraph,
	raw.Format,
}

// Auto is the name of the format with which Find recognises the format by the source.
const Auto = "auto"

// Names returns the names of Formats, in that order.
func Names() []string {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = f.Name
	}
	return names
}

// Find returns the format with the given name, or, if that is Auto, the format that it recognises by
// the sources; sign then says by which property, for messages. An unknown name is an error of kind
// fault.ErrUsage, an unrecognised source one of kind fault.ErrInput.
func Find(fsys vfs.FS, name string, sources []string) (f importer.Format, sign string, err error) {
	if name == Auto || name == "" {
		return detect(fsys, sources)
	}
	i := slices.IndexFunc(Formats, func(f importer.Format) bool { return f.Name == name })
	if i < 0 {
		return f, "", fault.New(fault.ErrUsage, "--format %q is not one of %s, %s", name, Auto, strings.Join(Names(), ", "))
	}
	return Formats[i], "", nil
}

func detect(fsys vfs.FS, sources []string) (importer.Format, string, error) {
	for _, f := range Formats {
		if f.Detect == nil {
			continue
		}
		if sign := f.Detect(fsys, sources); sign != "" {
			return f, sign, nil
		}
	}
	for _, s := range sources {
		if _, err := fsys.Stat(s); err != nil {
			return importer.Format{}, "", fault.New(fault.ErrInput, "%s is missing", s)
		}
	}
	advice := ""
	if len(sources) == 1 {
		if file := within(fsys, sources[0]); file != "" {
			advice = fmt.Sprintf(", or import its file %s", file)
		} else if is := suggest(fsys, sources[0]); is != "" {
			return importer.Format{}, "", fault.New(fault.ErrInput, "the format of %s is not recognised: %s", sources[0], is)
		}
	}
	return importer.Format{}, "", fault.New(fault.ErrInput, "the format of %s is not recognised: give --format, one of %s%s", strings.Join(sources, ", "), strings.Join(Names(), ", "), advice)
}

// mostLooked is the number of files of a directory that within looks at.
const mostLooked = 100

// within returns a file in a directory, or in its directory raw, that is a graph of gnn-benchmark, or "".
// Other files are no sign: a file of torch may be a part of any format.
func within(fsys vfs.FS, dir string) string {
	for _, dir := range []string{dir, filepath.Join(dir, "raw")} {
		names, err := fsys.List(dir)
		if err != nil {
			continue
		}
		for _, name := range names[:min(len(names), mostLooked)] {
			file := filepath.Join(dir, name)
			if gnnbenchmark.Format.Detect(fsys, []string{file}) != "" {
				return file
			}
		}
	}
	return ""
}

// Import makes the dataset out of a graph in the format of the given name, which may be Auto; see
// importer.Import.
func Import(ctx context.Context, fsys vfs.FS, out, format string, o importer.Options, rep progress.Reporter) (dataset.Result, error) {
	f, err := find(fsys, format, &o, rep)
	if err != nil {
		return dataset.Result{}, err
	}
	return importer.Import(ctx, fsys, out, f, o, rep)
}

// Agrees is importer.Agrees for the format of the given name, which may be Auto.
func Agrees(ctx context.Context, fsys vfs.FS, out, format string, o importer.Options) error {
	f, err := find(fsys, format, &o, progress.Discard)
	if err != nil {
		return err
	}
	return importer.Agrees(ctx, fsys, out, f, o)
}

// MakePlan is importer.MakePlan for the format of the given name, which may be Auto.
func MakePlan(ctx context.Context, fsys vfs.FS, out, format string, o importer.Options, rep progress.Reporter) (importer.Plan, error) {
	f, err := find(fsys, format, &o, rep)
	if err != nil {
		return importer.Plan{}, err
	}
	return importer.MakePlan(ctx, fsys, out, f, o, rep)
}

func find(fsys vfs.FS, format string, o *importer.Options, rep progress.Reporter) (importer.Format, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return importer.Format{}, err
	}
	if o.Edges != "" && (format == Auto || format == "") {
		format = raw.Format.Name
	}
	f, sign, err := Find(fsys, format, o.Sources)
	if err == nil && sign != "" {
		rep.Logf("reading the source as %s: %s", f.Name, sign)
	}
	return f, err
}
