package raw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/names"
	"diskgnn/dataset/internal/extsort"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// ByEdges is the value of --node-ids with which the names in the edges are the names of the nodes.
const ByEdges = "edges"

// named is the state of a graph with names of nodes in its files. Opening the graph numbers the names,
// and reads every file with names into lists of numbers on disk.
type named struct {
	fs      vfs.FS
	spec    *matrix.Spec // of the table of ids; nil: the edges have them
	scratch string       // prefix of the names of scratch files
	memory  int64
	dict    *names.Dict
	edges   *names.List // source and destination by turns
	ends    matrix.Ends // once edges are open
	splits  []*names.List
	keys    []*names.List // of the tables with names in their rows
	rows    *extsort.Records
}

// openNamed begins to number the ids; column has them without --node-ids. held is the memory that
// reading tables takes meanwhile.
func openNamed(fsys vfs.FS, o *importer.Reading, column *matrix.Spec, held int64) (*named, error) {
	n := &named{fs: fsys, scratch: o.Scratch, memory: max((o.ScratchMemory-held)/2, names.Least)}
	if n.scratch == "" {
		return nil, fmt.Errorf("raw: no place for scratch files")
	}
	if o.NodeIDs == "" {
		n.spec = column
	} else if o.NodeIDs != ByEdges {
		file, err := openFile(fsys, o.NodeIDs, o)
		if err != nil {
			return nil, err
		}
		if n.spec = &file.spec; file.has(o.IDColumn) {
			n.spec.Columns = []string{o.IDColumn}
		}
	}
	if err := vfs.MakeParents(fsys, n.scratch); err != nil {
		return nil, err
	}
	var err error
	n.dict, err = names.New(fsys, n.path, n.memory)
	return n, err
}

func (n *named) path(what string) string { return n.scratch + "." + what + ".scratch" }

// close closes the files on disk, of which nothing is left.
func (n *named) close() error {
	errs := []error{n.dict.Close()}
	for _, l := range slices.Concat([]*names.List{n.edges}, n.keys, n.splits) {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	if n.rows != nil {
		errs = append(errs, n.rows.Close())
	}
	return errors.Join(errs...)
}

// define adds the ids of all nodes.
func (n *named) define(ctx context.Context, edges idEdges) (err error) {
	open := n.openEdges(edges)
	if n.spec != nil {
		open = func() (matrix.Words, error) { return matrix.OpenWords(n.fs, *n.spec, 1, false) }
	}
	w, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for row := int64(0); ; row++ {
		words, err := w.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if row%importer.Chunk == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		for _, id := range words {
			if why := dataset.CheckName(id); why != "" {
				return fault.New(fault.ErrInput, "%s: row %d: %.40q cannot be the id of a node: %s", w.Name(), row, id, why)
			}
			if err := n.dict.Add(id); err != nil {
				return err
			}
		}
	}
	if err := n.dict.Done(ctx); err != nil {
		return err
	}
	if n.dict.Len() == 0 {
		return fault.New(fault.ErrInput, "%s has no ids", w.Name())
	}
	if twice, id, row := n.dict.Twice(); n.spec != nil && twice > 0 {
		return fault.New(fault.ErrInput, "%s: row %d: an earlier row has the same id, %.40q: %s", w.Name(), row, id, many(twice, "row repeats an id", "rows repeat ids"))
	}
	return nil
}

// openEdges opens the ends of edges, sources first.
func (n *named) openEdges(edges idEdges) func() (matrix.Words, error) {
	return func() (w matrix.Words, err error) {
		w, n.ends, err = edges.words()
		return w, err
	}
}

func many(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// resolve reads the ids of a file, columns of them in each row, as a list of numbers.
func (n *named) resolve(ctx context.Context, what string, columns int, open func() (matrix.Words, error)) (_ *names.List, err error) {
	w, err := open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	l, err := names.NewList(n.fs, n.path(what))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	var words [][]byte
	unknown, first := int64(0), int64(-1)
	err = n.dict.Find(ctx, func() (_ []byte, err error) {
		if len(words) == 0 {
			if words, err = w.Next(); err != nil {
				return nil, err
			}
		}
		id := words[0]
		words = words[1:]
		return id[:min(len(id), dataset.MaxName+1)], nil // a longer one is no node's
	}, func(number uint32) error {
		if number == names.None {
			if unknown++; first < 0 {
				first = l.Len()
			}
		}
		return l.Add(number)
	})
	if err == nil {
		err = l.Done()
	}
	if err != nil {
		return nil, err
	}
	if unknown > 0 {
		id, err := nth(open, first, columns)
		if err != nil {
			return nil, err
		}
		return nil, fault.New(fault.ErrInput, "%s: row %d: the id %.40q is not in %s: %s", w.Name(), first/int64(columns), id, n.from(), many(unknown, "id is unknown", "ids are unknown"))
	}
	return l, nil
}

// from names the file that has the ids of the nodes.
func (n *named) from() string {
	if n.spec != nil {
		return n.spec.Path
	}
	return "the edges"
}

// nth returns the i-th id of a file.
func nth(open func() (matrix.Words, error), i int64, columns int) (_ string, err error) {
	w, err := open()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for row := int64(0); ; row++ {
		words, err := w.Next()
		if err != nil {
			return "", err
		}
		if row == i/int64(columns) {
			return string(words[i%int64(columns)]), nil
		}
	}
}

// settleNames numbers the nodes and reads all ids. Problems of all files are found.
func (s *source) settleNames(ctx context.Context, edges idEdges) error {
	n := s.named
	if err := n.define(ctx, edges); err != nil {
		return err
	}
	if err := s.setNodes("ids", n.from(), n.dict.Len(), nil); err != nil {
		return err
	}
	s.sh.Nodes, s.sh.NameBytes = n.dict.Len(), n.dict.Bytes()
	s.sh.Held += n.dict.Held()
	s.sh.Reading["node-ids"] = "table"
	if n.spec == nil {
		s.sh.Reading["node-ids"] = ByEdges
	}
	var found importer.Problems
	take := func(to **names.List, what string, columns int, open func() (matrix.Words, error)) error {
		l, err := n.resolve(ctx, what, columns, open)
		*to = l
		if err != nil && !errors.Is(err, fault.ErrInput) {
			return err
		}
		found.Add(err)
		return nil
	}
	if err := take(&n.edges, "edges", 2, n.openEdges(edges)); err != nil {
		return err
	}
	s.settleEnds(n.ends)
	if n.edges != nil {
		found.Add(s.findEdgeData())
	}
	n.splits = make([]*names.List, len(s.splits))
	for i, spec := range s.splits {
		if mask, err := s.isMask(spec); err != nil || mask {
			if err == nil && n.spec == nil {
				err = fault.New(fault.ErrInput, "%s is a mask, but with --node-ids edges nodes have no order: give a list of ids", spec.Path)
			}
			found.Add(err)
			continue
		}
		words := func() (matrix.Words, error) { return matrix.OpenWords(n.fs, spec, 1, true) }
		if err := take(&n.splits[i], fmt.Sprintf("split-%d", i), 1, words); err != nil {
			return err
		}
	}
	for i, t := range append([]*nodeTable{s.label, s.feat, s.sets}, s.masks...) {
		if t == nil || !t.keyed {
			continue
		}
		if err := take(&t.list, fmt.Sprintf("table-%d", i), 1, func() (matrix.Words, error) { return matrix.OpenKeys(n.fs, t.spec) }); err != nil {
			return err
		}
		n.keys = append(n.keys, t.list)
	}
	if s.feat != nil && s.feat.list != nil {
		found.Add(n.whole(ctx, s.feat))
		s.sh.Held += n.rowMemory(s.sh.Dim)
	}
	if n.edges != nil {
		s.sh.Edges, s.counted = n.edges.Len()/2, true
	}
	return found.Err()
}

// whole makes sure that every node has one row of features.
func (n *named) whole(ctx context.Context, t *nodeTable) error {
	file := t.spec.Path
	if t.list.Len() != n.dict.Len() {
		return fault.New(fault.ErrInput, "%s has features of %d ids, but there are %d in %s", file, t.list.Len(), n.dict.Len(), n.from())
	}
	seen := make([]uint64, (n.dict.Len()+63)/64)
	row := int64(0)
	return t.list.Each(ctx, func(nodes []uint32) error {
		for _, v := range nodes {
			if seen[v/64]&(1<<(v%64)) != 0 {
				return fault.New(fault.ErrInput, "%s: row %d: an earlier row has the same id", file, row)
			}
			seen[v/64] |= 1 << (v % 64)
			row++
		}
		return nil
	})
}

func (s *source) isMask(spec matrix.Spec) (bool, error) {
	m, err := matrix.Open(s.fs, spec)
	if errors.Is(err, fault.ErrInput) {
		return false, nil // of strings; other errors are found again when it is read
	}
	if err != nil {
		return false, err
	}
	return m.Mask() || m.Columns() > 1, m.Close()
}

// rowMemory is the memory of putting the features in order, in bytes.
func (n *named) rowMemory(dim int) int64 { return max(n.memory/4, extsort.LeastRecords) + 8*int64(dim) }

// keyedRows returns the features in the order of the nodes; in the file they are in any order.
func (s *source) keyedRows(first int64) (_ importer.RowStream, err error) {
	n := s.named
	if n.rows == nil {
		if n.rows, err = s.sortRows(context.Background()); err != nil {
			return nil, err
		}
	}
	return &sortedRows{n.rows}, n.rows.Start(first)
}

func (s *source) sortRows(ctx context.Context) (_ *extsort.Records, err error) {
	n := s.named
	m, err := s.feat.open(s.fs)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	rows, err := extsort.NewRecords(s.fs, n.path("rows"), extsort.RecordOptions{Records: s.sh.Nodes, Bytes: 4 * s.sh.Nodes * int64(s.sh.Dim), Memory: max(n.memory/4, extsort.LeastRecords), Hidden: true})
	if err != nil {
		return nil, err
	}
	row := make([]float32, s.sh.Dim)
	err = s.feat.list.Each(ctx, func(nodes []uint32) error {
		for _, v := range nodes {
			got, err := m.Floats(row)
			if err == nil && got < len(row) {
				err = fault.New(fault.ErrInput, "%s: truncated", m.Name())
			}
			if err == nil {
				err = rows.Add(v, binio.Bytes(row))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, rows.Close())
	}
	return rows, nil
}

// sortedRows yields rows; the sorter stays the source's.
type sortedRows struct{ s *extsort.Records }

func (r *sortedRows) Close() error { return nil }

func (r *sortedRows) Next(values []float32) error {
	for len(values) > 0 {
		row, err := r.s.Next()
		if err != nil {
			return err
		}
		values = values[copy(binio.Bytes(values), row)/4:]
	}
	return nil
}

func (n *named) eachEdge(ctx context.Context, add func(dst, src []int64) error) error {
	dst, src := make([]int64, importer.Chunk), make([]int64, importer.Chunk)
	return n.edges.Each(ctx, func(ends []uint32) error {
		for len(ends) > 0 {
			k := min(len(ends)/2, len(dst))
			for i := range k {
				src[i], dst[i] = int64(ends[2*i]), int64(ends[2*i+1])
			}
			if err := add(dst[:k], src[:k]); err != nil {
				return err
			}
			ends = ends[2*k:]
		}
		return nil
	})
}

// Names calls emit for the ids of all nodes.
func (s *source) Names(ctx context.Context, emit func(name []byte) error) error {
	if s.named == nil {
		return nil
	}
	return s.named.dict.Names(ctx, emit)
}

// Close removes the source's files on disk.
func (s *source) Close() error {
	if s.named == nil {
		return nil
	}
	return s.named.close()
}
