package exact

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// lineageFormat is the format of Lineage.
var lineageFormat = stage.Format{Name: "diskgnn.prediction", Version: 1}

// lineageSuffix follows the name of the file of a prediction.
const lineageSuffix = ".lineage.json"

// Lineage names the sources of a prediction, and its bytes. It is the one JSON object of
// NAME.npy.lineage.json beside NAME.npy, and likewise of other forms. The file gets its name before the
// prediction does, so that no prediction lacks it, and holds no path and no time: equal predictions
// have equal files. Only people and scripts read it; keys may be added.
type Lineage struct {
	Format stage.Format `json:"format"`
	// File is the prediction's name, without its directory, and SHA256 the hash of its Bytes bytes.
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Nodes are those that have a row: all, a split, or list, those that a file named.
	Nodes string `json:"nodes"`
	// Weights are best or final, and WeightsSHA256 the hash of the run's file of them. Checked says
	// that the file, and what the run says of its model, matched checksums.
	Weights       string `json:"weights"`
	WeightsSHA256 string `json:"weights_sha256"`
	Checked       bool   `json:"checked"`
	// Dataset is the fingerprint of the graph that was predicted on, and TrainedOn of the one that
	// the run was trained on.
	Dataset   string `json:"dataset"`
	TrainedOn string `json:"trained_on"`
	// BLAS is what last bits depend on.
	BLAS string `json:"blas"`
}

// lineageFile returns the name of the file that says what a prediction was made of.
func lineageFile(out string) string { return out + lineageSuffix }

// lineage says what the prediction is made of, but for its bytes.
func (j *job) lineage(o *PredictOptions) *Lineage {
	l := &Lineage{Format: lineageFormat, File: filepath.Base(o.Out), Nodes: o.Nodes, Weights: o.Weights, WeightsSHA256: j.run.WeightsSum(),
		Checked: j.run.Note() == "", Dataset: j.data.Fingerprint(), TrainedOn: j.run.Dataset()}
	if o.Nodes != AllNodes && !slices.Contains(splits, o.Nodes) {
		l.Nodes = "list"
	}
	l.BLAS = j.engine.Info().BLAS
	return l
}

// write makes the file durable, of a prediction that has so many bytes with that hash.
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
