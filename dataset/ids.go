package dataset

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
)

// Values of Facts.OriginalIDs.
const (
	IDNumbers = "number"
	IDNames   = "name"
)

// Form is the set of properties that decide the version of a dataset's format.
type Form struct {
	Compressed  bool // the features are compressed
	OriginalIDs bool // the dataset has original ids of the nodes
	// Typed says that the graph has several node types or relations. Such a dataset has one version, and names
	// its other properties itself.
	Typed bool
}

const formatName = "diskgnn.dataset"

// forms has the properties of each version of the format.
var forms = stage.Versions[Form]{1: {}, 2: {Compressed: true}, 3: {OriginalIDs: true}, 4: {Compressed: true, OriginalIDs: true}, 5: {Typed: true}}

// Format returns the format, with the version that has the properties.
func (f Form) Format() stage.Format {
	if f.Typed {
		f = Form{Typed: true}
	}
	for version, form := range forms {
		if form == f {
			return stage.Format{Name: formatName, Version: version}
		}
	}
	panic("dataset: a form without a version")
}

// form returns that which the facts call for.
func (f *Facts) form() Form { return Form{f.Compression != "", f.OriginalIDs != "", f.Types != nil} }

// idFiles lists the files that hold the nodes' original ids.
func (f *Facts) idFiles() []string {
	switch f.OriginalIDs {
	case IDNumbers:
		return []string{NodeIDsFile}
	case IDNames:
		return []string{NameOffsetsFile, NamesFile}
	}
	return nil
}

func (f *Facts) checkIDs() error {
	switch f.OriginalIDs {
	case "", IDNumbers:
		if f.NameBytes != 0 {
			return fault.New(fault.ErrCorrupt, "it has %d bytes of names, but its nodes have no names", f.NameBytes)
		}
	case IDNames:
		if f.NameBytes < f.Nodes || f.NameBytes > min(MaxFile, f.Nodes*MaxName) {
			return fault.New(fault.ErrCorrupt, "it has %d bytes of names, which is impossible for %d nodes", f.NameBytes, f.Nodes)
		}
	default:
		return fault.New(fault.ErrVersion, "it needs a newer program: its original ids are of the kind %.20q", f.OriginalIDs)
	}
	return nil
}

// MaxName is the most bytes that a node's name may have.
const MaxName = 1 << 12

// CheckName returns the reason why name cannot be the name of a node, or "". A name has 1 to MaxName
// bytes of UTF-8 without control characters.
func CheckName(name []byte) string {
	switch {
	case len(name) == 0:
		return "it is empty"
	case len(name) > MaxName:
		return "it has more than " + strconv.Itoa(MaxName) + " bytes"
	}
	for i := 0; i < len(name); {
		if c := name[i]; c >= ' ' && c < utf8.RuneSelf && c != 0x7F {
			i++
			continue
		}
		r, n := utf8.DecodeRune(name[i:])
		if r == utf8.RuneError && n == 1 {
			return "it is not UTF-8"
		}
		if unicode.IsControl(r) {
			return "it has a control character"
		}
		i += n
	}
	return ""
}

// IDs reads the original ids of nodes, in ascending order of the nodes, and checks them. It holds two
// granules. It is not safe for concurrent use.
type IDs struct {
	of      *Dataset
	node    int64                // the present one, or -1
	numbers *numberStream[int64] // ids, or where the next name ends
	number  int64                // of the present node
	bytes   *stream              // of names, or nil
	ahead   []byte               // of bytes, not taken yet
	name    []byte               // of the present node
	end     int64                // of the name
}

// IDs opens the original ids. The caller closes the result. A dataset without original ids
// (Facts.OriginalIDs is "") is an error of kind fault.ErrUsage.
func (d *Dataset) IDs() (_ *IDs, err error) {
	defer func() { err = d.damaged(err) }()
	s := &IDs{of: d, node: -1}
	switch d.facts.OriginalIDs {
	case IDNumbers:
		s.numbers, err = openNumbers[int64](d, NodeIDsFile)
		return s, err
	case IDNames:
	default:
		return nil, fault.New(fault.ErrUsage, "%s has no original ids", d.dir)
	}
	if s.numbers, err = openNumbers[int64](d, NameOffsetsFile); err != nil {
		return nil, err
	}
	if s.bytes, err = d.stream(NamesFile); err != nil {
		return nil, errors.Join(err, s.numbers.close())
	}
	first, err := s.take()
	if err == nil && first != 0 {
		err = fault.New(fault.ErrCorrupt, "%s: the first name begins at byte %d, not at byte 0", d.path(NameOffsetsFile), first)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close closes the files.
func (s *IDs) Close() error {
	err := s.numbers.close()
	if s.bytes != nil {
		err = errors.Join(err, s.bytes.close())
	}
	return err
}

func (s *IDs) take() (int64, error) {
	some, err := s.numbers.peek()
	if err != nil {
		return 0, err
	}
	if len(some) == 0 {
		return 0, fault.New(fault.ErrCorrupt, "%s: its original ids end at node %d", s.of.dir, s.node)
	}
	s.numbers.skip(1)
	return some[0], nil
}

// To moves to node v, so that Number and Append return its id. v must not be less than the present
// node.
func (s *IDs) To(v int64) error {
	for s.node < v {
		if err := s.next(); err != nil {
			return s.of.damaged(err)
		}
	}
	return nil
}

// next goes to the next node.
func (s *IDs) next() (err error) {
	if s.number, err = s.take(); err != nil {
		return err
	}
	s.node++
	if s.bytes == nil {
		if uint64(s.number) >= uint64(s.of.facts.Nodes) {
			return fault.New(fault.ErrCorrupt, "%s: node %d has the original id %d, but the graph has %d nodes", s.of.path(NodeIDsFile), s.node, s.number, s.of.facts.Nodes)
		}
		return nil
	}
	length := s.number - s.end
	if length < 1 || length > MaxName || s.number > s.of.facts.NameBytes || s.node == s.of.facts.Nodes-1 && s.number != s.of.facts.NameBytes {
		return fault.New(fault.ErrCorrupt, "%s: the name of node %d is from byte %d to %d, which is impossible in %d bytes of names", s.of.path(NameOffsetsFile), s.node, s.end, s.number, s.of.facts.NameBytes)
	}
	s.end, s.name = s.number, s.name[:0]
	for int64(len(s.name)) < length {
		if len(s.ahead) == 0 {
			if s.ahead, err = s.bytes.next(); err != nil {
				return err
			}
		}
		n := min(length-int64(len(s.name)), int64(len(s.ahead)))
		s.name, s.ahead = append(s.name, s.ahead[:n]...), s.ahead[n:]
	}
	if why := CheckName(s.name); why != "" {
		return fault.New(fault.ErrCorrupt, "%s: the name of node %d is %.40q: %s", s.of.path(NamesFile), s.node, s.name, why)
	}
	return nil
}

// Number returns the original id of the present node, if the ids are numbers.
func (s *IDs) Number() int64 { return s.number }

// Append appends the original id of the present node as text, a number or a name, to b.
func (s *IDs) Append(b []byte) []byte {
	if s.bytes == nil {
		return strconv.AppendInt(b, s.number, 10)
	}
	return append(b, s.name...)
}

// ScanIDs reads and checks one of the files of original ids and calls see for consecutive pieces of
// it, valid during the call. A file that the dataset does not have is an error of kind fault.ErrUsage.
func (d *Dataset) ScanIDs(ctx context.Context, file string, see func(piece []byte) error) (err error) {
	defer func() { err = d.damaged(err) }()
	if !slices.Contains(d.facts.idFiles(), file) {
		return fault.New(fault.ErrUsage, "%s has no %s", d.dir, file)
	}
	return d.scan(ctx, file, see)
}

// Nodes looks up nodes by their original ids, given as text: entry i of the result is the node with
// ids[i], or -1 if there is none. It reads all original ids, and holds a map of the given ones. A dataset
// without original ids is an error of kind fault.ErrUsage.
func (d *Dataset) Nodes(ctx context.Context, ids []string) (_ []int64, err error) {
	s, err := d.IDs()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	found := make(map[string]int64, len(ids))
	for _, id := range ids {
		found[id] = -1
	}
	var text []byte
	for v := range d.facts.Nodes {
		if v%(1<<16) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := s.To(v); err != nil {
			return nil, err
		}
		text = s.Append(text[:0])
		if _, wanted := found[string(text)]; wanted {
			found[string(text)] = v
		}
	}
	nodes := make([]int64, len(ids))
	for i, id := range ids {
		nodes[i] = found[id]
	}
	return nodes, nil
}

// verifyIDs reads all original ids. Numbers must be all those below the number of nodes: it holds
// a bit a node for that. Of names see verifyNames.
func (d *Dataset) verifyIDs(ctx context.Context) (err error) {
	switch d.facts.OriginalIDs {
	case "":
		return nil
	case IDNames:
		return d.verifyNames(ctx)
	}
	s, err := d.IDs()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	seen := make([]uint64, (d.facts.Nodes+63)/64)
	for v := range d.facts.Nodes {
		if v%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.To(v); err != nil {
			return err
		}
		word, bit := &seen[s.number/64], uint64(1)<<(s.number%64)
		if *word&bit != 0 {
			return fault.New(fault.ErrCorrupt, "%s: node %d has the original id %d, which another node has too", d.path(NodeIDsFile), v, s.number)
		}
		*word |= bit
	}
	return nil
}

func (r *Raw) checkIDs() error {
	n := r.NumNodes()
	if r.NodeIDs != nil && r.Names != nil || r.NodeIDs != nil && len(r.NodeIDs) != n || r.Names != nil && len(r.Names) != n {
		return fault.New(fault.ErrInput, "the dataset has %d original ids and %d names, but %d nodes", len(r.NodeIDs), len(r.Names), n)
	}
	seen := make([]bool, n)
	for v, id := range r.NodeIDs {
		if uint64(id) >= uint64(n) || seen[id] {
			return fault.New(fault.ErrInput, "node %d has the original id %d, which is out of range for %d nodes, or which another node has too", v, id, n)
		}
		seen[id] = true
	}
	names := map[string]bool{}
	for v, name := range r.Names {
		if why := CheckName([]byte(name)); why != "" {
			return fault.New(fault.ErrInput, "the name of node %d is %.40q: %s", v, name, why)
		}
		if names[name] {
			return fault.New(fault.ErrInput, "two nodes are called %q", name)
		}
		names[name] = true
	}
	return nil
}

func (r *Raw) idFiles() []namedBytes {
	switch {
	case r.NodeIDs != nil:
		return []namedBytes{{NodeIDsFile, binio.Bytes(r.NodeIDs)}}
	case r.Names != nil:
		offsets, text := []int64{0}, []byte{}
		for _, name := range r.Names {
			text = append(text, name...)
			offsets = append(offsets, int64(len(text)))
		}
		return []namedBytes{{NameOffsetsFile, binio.Bytes(offsets)}, {NamesFile, text}}
	}
	return nil
}

// NameWriter writes the files of the nodes' names, node by node in ascending order.
type NameWriter struct {
	w             *Writer
	offsets, text *Array
	end           int64
	word          [1]int64
}

// StartNames creates the two files of names and returns their writer.
func (w *Writer) StartNames() (*NameWriter, error) {
	n := &NameWriter{w: w}
	var err error
	if n.offsets, err = w.Create(NameOffsetsFile); err != nil {
		return nil, err
	}
	if n.text, err = w.Create(NamesFile); err != nil {
		return nil, errors.Join(err, n.offsets.Discard())
	}
	if err := n.mark(); err != nil {
		return nil, errors.Join(err, n.Discard())
	}
	return n, nil
}

func (n *NameWriter) mark() error {
	n.word[0] = n.end
	_, err := n.offsets.Write(binio.Bytes(n.word[:]))
	return err
}

// Append adds the name of the next node.
func (n *NameWriter) Append(name []byte) error {
	if _, err := n.text.Write(name); err != nil {
		return err
	}
	n.end += int64(len(name))
	return n.mark()
}

// Finish syncs both files, sets Facts.NameBytes and saves the journal.
func (n *NameWriter) Finish() error {
	if err := n.offsets.Finish(); err != nil {
		return err
	}
	if err := n.text.Finish(); err != nil {
		return err
	}
	return n.w.update(func(s *journal) { s.Facts.NameBytes = n.end })
}

// Discard closes the files if Finish was not called; a later run writes them again.
func (n *NameWriter) Discard() error { return errors.Join(n.offsets.Discard(), n.text.Discard()) }
