package ogb

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/torchfile"
	"diskgnn/internal/fault"
)

// Files of MAG240M beside the directory processed.
const (
	metaFile  = "meta.pt"
	splitFile = "split_dict.pt"
)

// testSets are the sets of split_dict.pt to test with, of which the first that is there is taken
// unless --task names one.
var testSets = []string{"test-whole", "test"}

// openLSC opens MAG240M, of OGB's large-scale challenge.
func (s *source) openLSC() error {
	types, err := s.readMeta()
	if err != nil {
		return err
	}
	labelled, err := s.typeWithLabels(types)
	if err != nil {
		return err
	}
	all, err := s.setTypes(types, labelled)
	if err != nil {
		return err
	}
	var found importer.Problems
	found.Add(s.findRelations(all))
	s.label.Open = s.processed(labelled, "node_label.npy")
	s.feat = s.processed(labelled, "node_feat.npy")
	s.noteFeatures(s.typesWith(types, func(name string) string { return s.path(name, "node_feat.npy") }))
	found.Add(s.readSets())
	return found.Err()
}

// readMeta returns how many nodes there are of each type: meta.pt is a dictionary of these, and of
// num_classes.
func (s *source) readMeta() (types []stream.Type, err error) {
	name := filepath.Join(s.dir, metaFile)
	s.files = append(s.files, name)
	f, err := torchfile.Open(s.fs, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	d, ok := torchfile.Dict(f.Root())
	if !ok {
		return nil, fault.New(fault.ErrInput, "%s is not a dictionary of node types and their numbers of nodes", name)
	}
	for i, k := range d.Keys {
		key, ok := k.(string)
		n, ok2 := torchfile.Int(d.Values[i])
		switch {
		case !ok || !ok2:
			return nil, fault.New(fault.ErrInput, "%s: entry %d is not a name with a number", name, i)
		case key == "num_classes":
			if n < 1 || n > dataset.MaxTargets {
				return nil, fault.New(fault.ErrInput, "%s: num_classes is %d instead of 1 to %d", name, n, dataset.MaxTargets)
			}
			s.sh.Classes = int(n)
		case !stream.IsName(key):
			return nil, fault.New(fault.ErrInput, "%s: %.80q cannot be the name of a type", name, key)
		default:
			types = append(types, stream.Type{Name: key, Count: n})
		}
	}
	return types, nil
}

// path is the path of a file in processed.
func (s *source) path(name ...string) string {
	return filepath.Join(append([]string{s.dir, "processed"}, name...)...)
}

func (s *source) processed(name ...string) func() (matrix.Matrix, error) {
	path := s.path(name...)
	s.files = append(s.files, path)
	return func() (matrix.Matrix, error) { return matrix.Open(s.fs, matrix.Spec{Path: path}) }
}

func (s *source) typeWithLabels(types []stream.Type) (string, error) {
	var found []string
	for _, t := range types {
		if exists(s.fs, s.path(t.Name, "node_label.npy")) {
			found = append(found, t.Name)
		}
	}
	if len(found) != 1 {
		return "", fault.New(fault.ErrInput, "%s: %d node types have a node_label.npy (%s), but exactly one must", s.path(), len(found), strings.Join(found, ", "))
	}
	return found[0], nil
}

// findRelations adds the types of edges, which have directories in processed.
func (s *source) findRelations(all *stream.Types) error {
	names, err := s.fs.List(s.path())
	if err != nil {
		return fmt.Errorf("list %s: %w", s.path(), err)
	}
	slices.Sort(names)
	var found importer.Problems
	var dirs []string
	for _, name := range names {
		if !strings.Contains(name, separator) {
			continue
		}
		dirs = append(dirs, s.path(name))
		file := s.path(name, "edge_index.npy")
		r, _, err := s.twoRows(file, func() (*npz.Array, error) { return npz.Open(s.fs, file) })
		if err == nil {
			err = s.addRelation(name, all, r)
		}
		found.Add(err)
	}
	if len(s.rels) == 0 && len(found) == 0 {
		return fault.New(fault.ErrInput, "%s has no directories of edges, like author___writes___paper", s.path())
	}
	if err := found.Err(); err != nil {
		return err
	}
	return s.dropEdgeData("", dirs...)
}

// readSets finds the sets of split_dict.pt: a dictionary of arrays by name.
func (s *source) readSets() (err error) {
	name := filepath.Join(s.dir, splitFile)
	s.files = append(s.files, name)
	f, err := torchfile.Open(s.fs, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	d, ok := torchfile.Dict(f.Root())
	if !ok {
		return fault.New(fault.ErrInput, "%s is not a dictionary of sets", name)
	}
	has := func(key string) bool { _, ok := d.Get(key); return ok }
	test := s.task
	if test == "" {
		test = testSets[max(slices.IndexFunc(testSets, has), 0)]
	} else {
		s.sh.Reading["task"] = test
	}
	for i, key := range []string{"train", "valid", test} {
		v, ok := d.Get(key)
		if !ok {
			return fault.New(fault.ErrInput, "%s has no set %q; it has %.200s", name, key, strings.Join(torchfile.Keys(d), ", "))
		}
		a, err := f.Array(v, key)
		if err != nil {
			return err
		}
		if err := errors.Join(a.Vector(-1), a.Close()); err != nil {
			return err
		}
		s.splits[i] = list(name+": "+key, func() (matrix.Matrix, error) { return matrix.Open(s.fs, matrix.Spec{Path: name, Key: key}) })
	}
	s.sh.Held, err = torchfile.Held(s.fs, name)
	return err
}
