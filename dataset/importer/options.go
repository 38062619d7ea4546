package importer

import (
	"strings"

	"diskgnn/dataset"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// Options say what to import, and how.
type Options struct {
	Sources []string // files or directories, as the format has it
	Reading          // what single formats know

	// Binarize makes every feature above zero one, and every other zero.
	Binarize bool
	// RowNormalize scales every feature row to the sum 1; rows of zeros stay. It
	// comes after Binarize, and needs features that are not negative.
	RowNormalize bool
	// Symmetrize stores every edge in both directions, once, and no self-loops.
	// Formats of undirected graphs imply it.
	Symmetrize bool
	// DType is that of the features; empty: float16 if the source has that, else
	// float32.
	DType dtype.Type
	// Compress stores the features compressed.
	Compress bool
	dataset.Resources
}

// Validate refuses what makes no sense, naming the flag.
func (o *Options) Validate() error {
	switch {
	case len(o.Sources) == 0 || o.Sources[0] == "":
		return fault.New(fault.ErrUsage, "import: nothing to import was named")
	case o.DType != "" && !dataset.FeatureType(o.DType):
		return fault.New(fault.ErrUsage, "--dtype %s: features are float32, float16 or bfloat16", o.DType)
	}
	return o.Resources.Validate()
}

// One returns the only source of a format that takes one.
func One(sources []string) (string, error) {
	if len(sources) != 1 {
		return "", fault.New(fault.ErrUsage, "%d sources (%s): the format takes one", len(sources), strings.Join(sources, ", "))
	}
	return sources[0], nil
}

// given lists the options of single formats that were given, by their flags' names.
func (r *Reading) given() []string {
	var names []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"task", r.Task != ""},
		{"feature", len(r.Features) > 0},
	} {
		if f.set {
			names = append(names, f.name)
		}
	}
	return names
}
