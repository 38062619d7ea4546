package exact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"diskgnn/internal/binio"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// errOther is the error of a file that is not the prediction of the options.
var errOther = errors.New("another prediction")

// lineageFormat is the format of Lineage.
var lineageFormat = stage.Format{Name: "diskgnn.prediction", Version: 1}

// lineageSuffix follows the name of the file of a prediction.
const lineageSuffix = ".lineage.json"

// Lineage names the sources of a prediction, and its bytes. It is the one JSON object of
// NAME.npy.lineage.json beside NAME.npy, and likewise for other suffixes. The file gets its name
// before the prediction does, so that no prediction lacks it. It has no path and no time: equal
// predictions have equal files. Only people and scripts read it; keys may be added.
type Lineage struct {
	Format stage.Format `json:"format"`
	// File is the prediction's name, without its directory, SHA256 its hash and Bytes its size.
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`

	Origin
}

// Origin names all that a prediction was made from.
type Origin struct {
	// Nodes names the selection of rows: all, a split, or list for the nodes of a file.
	Nodes string `json:"nodes"`
	// NodesSHA256 is the hash of the ids of a list, ascending, as little-endian uint32 of the dataset; ""
	// without a list.
	NodesSHA256 string `json:"nodes_sha256,omitempty"`
	// Output is the contents: logits, classes or embeddings.
	Output string `json:"output"`
	// Weights are best or final, and WeightsSHA256 is the hash of their file. Checked says that
	// this file, and the model in run.json, matched checksums.
	Weights       string `json:"weights"`
	WeightsSHA256 string `json:"weights_sha256"`
	Checked       bool   `json:"checked"`
	// Dataset is the fingerprint of the predicted graph, and TrainedOn of the run's graph.
	Dataset   string `json:"dataset"`
	TrainedOn string `json:"trained_on"`
	// StateDType is the type of hidden states, if it is not float32.
	StateDType string `json:"state_dtype,omitempty"`
	// BLAS names the library, on which the last bits depend.
	BLAS string `json:"blas"`
}

// lineageFile returns the name of a prediction's file of lineage.
func lineageFile(out string) string { return out + lineageSuffix }

// maxLineage bounds the bytes read of a lineage file, which takes about a thousand.
const maxLineage = 64 << 10

// newLineage returns the lineage, without its bytes, of the prediction out.
func newLineage(out string, from Origin) *Lineage {
	return &Lineage{Format: lineageFormat, File: filepath.Base(out), Origin: from}
}

// readLineage reads the lineage file of the prediction out.
func readLineage(fsys vfs.FS, out string) (*Lineage, error) {
	b, err := vfs.ReadSmall(fsys, lineageFile(out), maxLineage)
	if err != nil {
		return nil, err
	}
	l := new(Lineage)
	return l, json.Unmarshal(b, l)
}

// describes returns nil if l has the bytes of the file out, and all else as in now, and the file ids is there,
// unless its name is "".
func (l *Lineage) describes(ctx context.Context, fsys vfs.FS, out, ids string, now *Lineage) error {
	now.SHA256, now.Bytes = l.SHA256, l.Bytes
	if *now != *l {
		return errOther
	}
	if err := stage.CheckFile(ctx, fsys, out, l.Bytes, binio.CheckHash(out, l.SHA256), nil); err != nil || ids == "" {
		return err
	}
	_, err := fsys.Stat(ids)
	return err
}

// write writes the file durably, for a prediction of bytes bytes with the hash sum.
func (l *Lineage) write(fsys vfs.FS, out, sum string, bytes int64) error {
	l.SHA256, l.Bytes = sum, bytes
	b, err := json.MarshalIndent(l, "", "  ")
	if err == nil {
		err = vfs.ReplaceFile(fsys, lineageFile(out), append(b, '\n'))
	}
	if err != nil {
		_ = fsys.Remove(lineageFile(out) + vfs.TempSuffix) // if it is there
		return fmt.Errorf("write %s: %w", lineageFile(out), err)
	}
	return nil
}
