package stage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"diskgnn/internal/fault"
)

// Versions is the one table of a format: how each of its versions is decoded, or what that version
// has. A format only grows: a new version is one more entry, and no entry is removed.
// docs/format/README.md lists the sentences that refuse other versions.
type Versions[D any] map[int]D

// Decoder returns the entry of a version. Without one the error is of kind fault.ErrVersion; refusal
// is its format, of the version and of the list of versions that are read (%d, %s).
func (t Versions[D]) Decoder(version int, refusal string) (D, error) {
	d, ok := t[version]
	if ok {
		return d, nil
	}
	var read []string
	for _, v := range slices.Sorted(maps.Keys(t)) {
		read = append(read, fmt.Sprint(v))
	}
	return d, fault.New(fault.ErrVersion, refusal, version, strings.Join(read, " and "))
}

// Of is Decoder for the directory dir.
func (t Versions[D]) Of(dir string, f Format) (D, error) {
	d, err := t.Decoder(f.Version, "is version %d, this program reads version %s: make it again, or use the program that made it")
	if err != nil {
		return d, fmt.Errorf("%s: %s %w", dir, f.Name, err)
	}
	return d, nil
}

// Formats lists the versions of a directory format in order, for Open.
func (t Versions[D]) Formats(name string) []Format {
	var formats []Format
	for _, v := range slices.Sorted(maps.Keys(t)) {
		formats = append(formats, Format{name, v})
	}
	return formats
}
