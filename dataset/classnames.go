package dataset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// ClassNamesFile is the data file with the names of the classes, in a dataset that has them.
const ClassNamesFile = "class_names.txt"

// MaxClassNames is the largest size in bytes of the names of all classes, each with a line feed. Reading
// them takes less than 16 MiB of memory.
const MaxClassNames = 1 << 20

// checkClassNames returns an error for a size that no names of the classes have.
func (f *Facts) checkClassNames() error {
	if n := f.ClassNameBytes; n != 0 && (!f.Labelled() || n > MaxClassNames || n < 2*int64(f.Classes)) {
		return fault.New(fault.ErrCorrupt, "it has %d bytes of class names, which is impossible for %d classes of %s labels", n, f.Classes, f.LabelKind)
	}
	return nil
}

// EncodeClassNames returns the names of all classes, in their order, as ClassNamesFile has them. Names
// that it may not have are an error of kind fault.ErrInput: each has the form of CheckName, and no two
// are equal.
func EncodeClassNames(names []string) ([]byte, error) {
	if err := checkNames(names, fault.ErrInput); err != nil {
		return nil, err
	}
	b := classLines(names)
	if len(b) > MaxClassNames {
		return nil, fault.New(fault.ErrInput, "the names of %d classes have %d bytes, more than %d", len(names), len(b), MaxClassNames)
	}
	return b, nil
}

// classLines returns names as ClassNamesFile has them.
func classLines(names []string) (b []byte) {
	for _, name := range names {
		b = append(append(b, name...), '\n')
	}
	return b
}

// checkNames checks the names of all classes. Its errors are of the given kind.
func checkNames(names []string, kind error) error {
	for class, name := range names {
		if why := CheckName([]byte(name)); why != "" {
			return fault.New(kind, "the name of class %d is %.40q: %s", class, name, why)
		}
	}
	if a, b := equalNames(names); b > 0 {
		return fault.New(kind, "classes %d and %d are both called %.40q", a, b, names[a])
	}
	return nil
}

// decodeClassNames reads names from the content of ClassNamesFile. Names that it may not have, or
// another number of them, are an error of kind fault.ErrCorrupt.
func decodeClassNames(b []byte, classes int) ([]string, error) {
	text, ended := strings.CutSuffix(string(b), "\n")
	if n := strings.Count(text, "\n") + 1; !ended || n != classes {
		return nil, fault.New(fault.ErrCorrupt, "it has %d lines instead of one for each of %d classes, or ends within one", n, classes)
	}
	names := strings.Split(text, "\n")
	if err := checkNames(names, fault.ErrCorrupt); err != nil {
		return nil, err
	}
	return names, nil
}

// equalNames returns two classes of equal names, or 0 and 0.
func equalNames(names []string) (a, b int) {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	for i := 1; i < len(sorted); i++ {
		if name := sorted[i]; name == sorted[i-1] {
			a = slices.Index(names, name)
			return a, a + 1 + slices.Index(names[a+1:], name)
		}
	}
	return 0, 0
}

// ClassNames reads and checks the names of all classes, in their order. The result is nil if the dataset
// has none, and the caller's.
func (d *Dataset) ClassNames() (_ []string, err error) {
	defer func() { err = d.damaged(err) }()
	if d.facts.ClassNameBytes == 0 {
		return nil, nil
	}
	b := make([]byte, d.facts.ClassNameBytes)
	if err := d.readAll(ClassNamesFile, b); err != nil {
		return nil, err
	}
	names, err := decodeClassNames(b, d.facts.Classes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.path(ClassNamesFile), err)
	}
	return names, nil
}

// WriteClassNames writes the names of all classes and sets Facts.ClassNameBytes. Errors are as of
// EncodeClassNames.
func (w *Writer) WriteClassNames(names []string) error {
	b, err := EncodeClassNames(names)
	if err != nil {
		return err
	}
	w.Facts().ClassNameBytes = int64(len(b))
	return w.Write(ClassNamesFile, b)
}

// checkClassNames refuses names that the format does not allow.
func (r *Raw) checkClassNames() error {
	if r.ClassNames == nil {
		return nil
	}
	if len(r.ClassNames) != r.Classes || r.Labels == nil {
		return fault.New(fault.ErrInput, "the dataset has %d names of classes, but %d classes", len(r.ClassNames), r.Classes)
	}
	_, err := EncodeClassNames(r.ClassNames)
	return err
}

// hashClassNames returns the SHA-256 of names as ClassNamesFile has them, or "" of nil.
func hashClassNames(names []string) string {
	if names == nil {
		return ""
	}
	return binio.Hash(classLines(names))
}

// mostCarried bounds the bytes of names that packs and runs copy into their run.json.
const mostCarried = 64 << 10

// CarriedClassNames is ClassNames for a pack or a run, which carries the names on: nil for more than
// 64 KiB of them.
func (d *Dataset) CarriedClassNames() ([]string, error) {
	if d.facts.ClassNameBytes > mostCarried {
		return nil, nil
	}
	return d.ClassNames()
}

// RecordedClassNames returns the names of the classes of the dataset from which dir, such as a pack, was
// made: dir's run.json has them. It returns nil if run.json has none, or invalid ones. No checksum covers
// run.json.
func RecordedClassNames(fsys vfs.FS, dir string) []string {
	var names []string
	if b := stage.RunFact(fsys, dir, stage.ClassNamesFact); b == nil || json.Unmarshal(b, &names) != nil {
		return nil
	}
	if b, err := EncodeClassNames(names); err != nil || len(b) > mostCarried || len(b) == 0 {
		return nil
	}
	return names
}
