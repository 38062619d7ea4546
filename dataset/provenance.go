package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"path/filepath"
	"slices"

	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
)

// Verify compares the content parameters with the content, where that is possible. A part of a
// generated graph is generated again; the content of a graph from memory is hashed again. For an
// import, the hash of the source and the options without visible effect are not checked. Of the facts,
// classes that no node has, and which of two 16-bit types the features have, cannot be checked.

// origin has the content parameters of all sources.
type origin struct {
	Source string `json:"source"`

	// of imported ones
	Importer int    `json:"importer"`
	DType    string `json:"dtype"`
	For      string `json:"for"`

	Content     string `json:"content_sha256"`
	ClassNames  string `json:"class_names_sha256"`
	Compression string `json:"compression"`
}

// verifyOrigin checks the content parameters of a dataset with verified files. names are the classes'.
func (d *Dataset) verifyOrigin(ctx context.Context, t *Topology, names []string) error {
	f := &d.facts
	bad := func(format string, args ...any) error {
		return fault.New(fault.ErrCorrupt, "%s: "+format, append([]any{filepath.Join(d.dir, stage.MetaFile)}, args...)...)
	}
	metric := map[string]string{labelClass: classMetric, labelMultiHot: multiHotMetric, NoLabels: ""}
	if want := metric[f.LabelKind]; f.Metric != want {
		return bad("the metric of %s labels is %.20q, not %.20q", f.LabelKind, want, f.Metric)
	}
	var p origin
	if err := d.meta.DecodeParams(&p); err != nil {
		return err
	}
	if (p.Compression != "") != (f.Compression != "") {
		return bad("the parameters say that features are compressed by %.40q, the facts by %.20q", p.Compression, f.Compression)
	}
	hash, err := hex.DecodeString(p.Content)
	hashed := err == nil && len(hash) == sha256.Size
	switch p.Source {
	case "generator":
		return d.verifyGenerated(t, bad)
	case "memory":
		sum, err := d.hashContent(ctx)
		if err == nil && sum != p.Content {
			err = bad("content_sha256 does not match the files")
		}
		if err == nil && hashClassNames(names) != p.ClassNames {
			err = bad("class_names_sha256 does not match the names of the classes")
		}
		return err
	case "import":
		if !hashed || p.Importer < 1 || p.DType != "" && p.DType != string(f.DType) || (p.For == "predict") == f.Labelled() {
			return bad("the parameters (importer %d, for %.20q, dtype %.20q, content_sha256 %.80q) are invalid, or contradict the facts", p.Importer, p.For, p.DType, p.Content)
		}
		return nil
	}
	return bad("the parameters have the unknown source %.40q", p.Source)
}

const (
	generatedAgain = 1024     // nodes
	mostGenerator  = 16 << 20 // the largest number of elements that a generator may hold to be used for verifying
)

// verifyGenerated compares the parameters with the facts, and the first nodes with the output of the
// generator.
func (d *Dataset) verifyGenerated(t *Topology, bad func(format string, args ...any) error) error {
	var p generateParams
	if err := d.meta.DecodeParams(&p); err != nil {
		return err
	}
	f := &d.facts
	if p.Nodes != f.Nodes || p.Dim != f.Dim || p.Classes != f.Classes || p.DType != f.DType || p.Train != f.Train || p.Valid != f.Valid || p.Test != f.Test || p.MultiLabel != f.MultiLabel() {
		return bad("the parameters say %d nodes of %d × %s, %d classes, splits of %d, %d and %d nodes, multi-label: %t; the facts say %d nodes of %d × %s, %d classes, splits of %d, %d and %d nodes, multi-label: %t",
			p.Nodes, p.Dim, p.DType, p.Classes, p.Train, p.Valid, p.Test, p.MultiLabel, f.Nodes, f.Dim, f.DType, f.Classes, f.Train, f.Valid, f.Test, f.MultiLabel())
	}
	if p.Generator < 1 || p.Generator > generatorVersion {
		return bad("made by version %d of the generator; this program has version %d", p.Generator, generatorVersion)
	}
	if p.Generator != generatorVersion || int64(p.Dim)*int64(p.Classes) > mostGenerator {
		return nil
	}
	if p.Types < 0 || p.Types > mostTypes || p.Types == 1 || p.Featureless < 0 || p.Featureless > 0 && p.Featureless >= p.Types {
		return bad("the parameters say %d node types, %d without features", p.Types, p.Featureless)
	}
	model, types, err := p.generator()
	if err != nil {
		return bad("%v", err)
	}
	filling, err := p.filling(types)
	if err != nil || p.Fill != "" && p.Fill != FillMean {
		return bad("types cannot be filled by %.20q: %v", p.Fill, err)
	}
	if filling != nil {
		types = filling.Types()
	}
	if !types.Equal(f.Types) {
		return bad("%d node types, %d without features, are other types than the facts have", p.Types, p.Featureless)
	}
	return t.Guard(func() error {
		var row []uint32
		for v := range min(generatedAgain, f.Rows()) {
			row = model.row(row[:0], v)
			if !slices.Equal(row, t.Neighbors(uint32(v))) {
				return bad("seed %d and an average degree of %v do not generate the neighbours of row %d", p.Seed, p.AvgDegree, v)
			}
		}
		return nil
	})
}

// hashContent returns the hash of a dataset's content, as Raw has it.
func (d *Dataset) hashContent(ctx context.Context) (string, error) {
	f := &d.facts
	h := sha256.New()
	word := func(n int64) { h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) }
	word(int64(f.Dim))
	word(int64(f.Classes))
	h.Write([]byte(f.DType))
	names := []string{IndptrFile, IndicesFile, FeaturesFile}
	if f.Labelled() {
		names = append(names, LabelsFile, SplitFile(Train), SplitFile(Valid), SplitFile(Test))
	}
	if f.MultiLabel() {
		names = append(names, TargetsFile)
	}
	for _, name := range append(names, f.idFiles()...) {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		word(f.size(name))
		if err := d.copyTo(h, name); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// copyTo writes the content of a data file, of features before they were compressed.
func (d *Dataset) copyTo(w io.Writer, name string) (err error) {
	if name != FeaturesFile {
		file, err := d.fs.Open(d.path(name))
		if err != nil {
			return err
		}
		_, err = io.Copy(w, io.NewSectionReader(file, 0, d.facts.size(name)))
		return errors.Join(err, file.Close())
	}
	r, err := d.Features()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	buf, s := make([]byte, min(4*Granule, r.pieces.size)), newScratch()
	for off := int64(0); off < r.pieces.size; {
		part := buf[:min(int64(len(buf)), r.pieces.size-off)]
		n, err := r.read(s, part, off)
		if err != nil {
			return err
		}
		if _, err := w.Write(part[:n]); err != nil {
			return err
		}
		off += n
	}
	return nil
}
