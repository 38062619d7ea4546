// Package trained reads runs: the model and the weights that a run ended with, or has so far. It makes
// engines of them for evaluation and prediction, and scores them on the batches of a pack.
package trained

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/train/cpu"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/safetensors"
)

// Which of a run's weights to use, as --weights names them.
const (
	WeightsBest  = "best"  // of the best validation epoch
	WeightsFinal = "final" // of the last epoch
)

// Run is a run opened for reading: its model and its weights. Of a run under way it has the
// best weights so far.
type Run struct {
	fs   vfs.FS
	dir  string
	file rundir.File
	sum  string // SHA-256 of the file of weights that was read
}

// Maker names the command that makes a damaged run again, for fault.Remake.
const Maker = "its diskgnn train"

// Open reads the run.json of the run in dir.
func Open(fsys vfs.FS, dir string) (*Run, error) {
	r, err := rundir.Read(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.ErrInput, "no run at %s", dir)
	}
	if err != nil {
		return nil, fault.Remake(err, dir, Maker)
	}
	if r.Dataset == "" {
		return nil, fault.New(fault.ErrVersion, "%s does not say which dataset it was trained on: an earlier version of this program made it; train again", dir)
	}
	if r.Setup.Engine == decide.EngineNone {
		return nil, fault.New(fault.ErrInput, "%s has no weights: it was trained with --engine none", dir)
	}
	if err := r.Params.Network.Validate(); err != nil {
		return nil, fault.New(fault.ErrCorrupt, "%s: %w", dir, err)
	}
	if m := r.Params.Metric; m != recipe.MetricAccuracy && m != recipe.MetricAUC && m != recipe.MetricF1 {
		return nil, fault.New(fault.ErrCorrupt, "%s has the unknown metric %.40q", dir, m)
	}
	if p := r.Preprocessing; p != nil {
		if err := p.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
	}
	return &Run{fs: fsys, dir: dir, file: r}, nil
}

// Dir returns the directory as it was given.
func (t *Run) Dir() string { return t.dir }

// Note returns a warning that the run's files have no checksums, "" if they have.
func (t *Run) Note() string { return t.file.Note(t.dir) }

// State returns the state of the run in run.json.
func (t *Run) State() string { return string(t.file.State) }

// Unfinished returns a warning that the run is not finished, "" if it is.
func (t *Run) Unfinished() string {
	if t.file.State == rundir.StateFinished {
		return ""
	}
	how := t.State()
	if t.file.State == rundir.StateRunning {
		how = "running or killed"
	}
	if lines, err := t.file.ReadLines(t.fs, t.dir); err == nil { // else their number is unknown
		how += fmt.Sprintf(", %d of %s", len(lines), units.Of(t.file.Params.Epochs, "epoch"))
	}
	return fmt.Sprintf("%s is not finished (%s): its weights are the best so far", t.dir, how)
}

// WeightsSum returns the SHA-256 of the file of weights that NewEngine or HashWeights read; "" before.
func (t *Run) WeightsSum() string { return t.sum }

// Dataset returns the fingerprint of the dataset that the run was trained on.
func (t *Run) Dataset() string { return t.file.Dataset }

// Model returns the model that was trained.
func (t *Run) Model() model.Model { return t.file.Params.Network }

// Metric returns the metric of the run's scores: accuracy, auc or f1.
func (t *Run) Metric() string { return t.file.Params.Metric }

// CheckDataset returns an error of kind fault.ErrLineage unless fingerprint is the fingerprint of the
// dataset that the run was trained on. The error calls the given dataset name.
func (t *Run) CheckDataset(name, fingerprint string) error {
	if want := t.file.Dataset; want != fingerprint {
		return fault.New(fault.ErrLineage, "%s was trained on the dataset %.12s…, but %s is %.12s…: it changed since, or is another one", t.dir, want, name, fingerprint)
	}
	return nil
}

// TrainedOn reports whether the run was trained on the dataset with the fingerprint.
func (t *Run) TrainedOn(fingerprint string) bool { return t.file.Dataset == fingerprint }

// ClassNames returns the names of the classes of the dataset that the run was trained on, or nil if it
// does not know them. The caller must not modify them.
func (t *Run) ClassNames() []string {
	m := t.Model()
	if names := t.file.ClassNames; len(names) == m.Classes() {
		return names
	}
	return nil
}

// MultiLabel reports whether the nodes that the run was trained on have any number of the classes. A
// run of an earlier version does not record it: then its loss decides.
func (t *Run) MultiLabel() bool {
	if t.file.LabelKind == "" {
		return t.file.Params.Loss == recipe.LossBinary
	}
	return t.file.LabelKind == dataset.LabelKind(true)
}

// CheckPreprocessing refuses a graph with other preprocessing than the run's graph. Differences in
// accepted, by names of dataset.PreprocessingNames, are permitted. It reports whether the run
// records its preprocessing. The error calls the graph name.
func (t *Run) CheckPreprocessing(name string, p dataset.Preprocessing, accepted []string) (known bool, err error) {
	was := t.file.Preprocessing
	if was == nil {
		return false, nil
	}
	var differ, names []string
	for _, d := range p.Differences(was) {
		if !slices.Contains(accepted, d.Name) {
			differ, names = append(differ, d.String()), append(names, d.Name)
		}
	}
	if differ == nil {
		return true, nil
	}
	return true, fault.New(fault.ErrLineage, "%s was preprocessed differently from the graph that %s was trained on (%s): import it alike, or go on with --accept %s",
		name, t.dir, strings.Join(differ, "; "), strings.Join(names, ","))
}

// CheckWidth refuses features of another width than the model's; source names them in the error.
func (t *Run) CheckWidth(source string, dim int) error {
	if m := &t.file.Params.Network; m.Features() != dim {
		return fault.New(fault.ErrInput, "%s takes %d features per node, but %s has %d", t.dir, m.Features(), source, dim)
	}
	return nil
}

// CheckShape refuses data that does not fit the model or that the run's metric cannot judge; multi
// says that nodes have any number of the classes.
func (t *Run) CheckShape(source string, dim, classes int, multi bool) error {
	if t.Metric() == recipe.MetricAUC && classes != 2 && !multi {
		return fault.New(fault.ErrInput, "%s has the metric auc, which needs two classes, but %s has %d", t.dir, source, classes)
	}
	if m := &t.file.Params.Network; m.Features() != dim || m.Classes() != classes {
		return fault.New(fault.ErrInput, "%s was trained on %d features and %d classes, but %s has %d features and %d classes", t.dir, m.Features(), m.Classes(), source, dim, classes)
	}
	if kind := dataset.LabelKind(multi); t.file.LabelKind != "" && t.file.LabelKind != kind {
		return fault.New(fault.ErrInput, "%s was trained on %s labels, but the labels of %s are %s", t.dir, t.file.LabelKind, source, kind)
	}
	return nil
}

// EngineOptions choose the weights of a run, and the library and threads that compute with them.
type EngineOptions struct {
	Weights string        // best or final
	Orders  []model.Order // of the layers; nil for the run's
	Threads int
	BLAS    string
}

// NewEngine makes an engine with the run's weights for evaluators: it is too small to train. It
// returns the engine's memory in bytes as well. If that and held, the bytes that the caller holds,
// exceed memory, NewEngine returns an error. It makes the engine only after the file of weights was
// found to match the model in run.json.
func (t *Run) NewEngine(o EngineOptions, held, memory int64) (*cpu.Engine, int64, error) {
	options := evaluating(t.file.Params.Network, o)
	layout := options.Network.Layout()
	count := int64(layout.Count())
	bytes, err := fits(options, 2*4*count, held, memory) // the file, and its tensors
	if err != nil {
		return nil, 0, err
	}
	tensors, err := t.tensors(o.Weights, 4*count)
	if err != nil {
		return nil, 0, err
	}
	if err := rundir.Fits(layout.Params, tensors); err != nil {
		return nil, 0, fault.New(fault.ErrInput, "%s: %w", filepath.Join(t.dir, weightsFile(o.Weights)), err)
	}
	e, err := cpu.New(options)
	if err != nil {
		return nil, 0, err
	}
	values := e.Values()
	rundir.Fill(layout.Params, tensors, func(i int) []float32 { return values[i].Data })
	return e, bytes, nil
}

// EmptyEngine is NewEngine for a model with weights that the caller restores. It has the memory of a copy of these.
func EmptyEngine(m model.Model, o EngineOptions, held, memory int64) (*cpu.Engine, int64, error) {
	options := evaluating(m, o)
	layout := m.Layout()
	bytes, err := fits(options, 4*int64(layout.Count()), held, memory)
	if err != nil {
		return nil, 0, err
	}
	e, err := cpu.New(options)
	return e, bytes, err
}

// evaluating returns the options of an engine that is too small to train.
func evaluating(m model.Model, o EngineOptions) engine.Config {
	if o.Orders != nil {
		m.Orders = o.Orders
	}
	ones := slices.Repeat([]int{1}, m.Layers())
	return engine.Config{Network: m, Sizes: graph.Sizes{Src: ones, Dst: ones, Edges: ones}, Threads: o.Threads, BLAS: o.BLAS, Recipe: recipe.Recipe{LR: 1}}
}

// fits returns the memory of an engine, with more bytes for its weights, and an error if that and held exceed memory.
func fits(o engine.Config, more, held, memory int64) (bytes int64, err error) {
	if bytes, _, err = cpu.MemoryBytes(o); err != nil {
		return 0, err
	}
	bytes += more
	return bytes, budget.Check("the engine", held+bytes, memory)
}

// HashWeights reads the file of the best or final weights, checks it, and returns its SHA-256.
func (t *Run) HashWeights(which string) (string, error) {
	layout := t.file.Params.Network.Layout()
	_, err := t.tensors(which, 4*int64(layout.Count()))
	return t.sum, err
}

func weightsFile(which string) string {
	if which == WeightsFinal {
		return rundir.FinalFile
	}
	return rundir.WeightsFile
}

// MostHeader bounds the bytes before the data in a file of weights: some 200 bytes for each of the
// parameters, and the name of the model.
const MostHeader = 4 << 20

// tensors reads a file of weights; bytes is the size of the model's parameters.
func (t *Run) tensors(which string, bytes int64) ([]safetensors.Tensor, error) {
	name := filepath.Join(t.dir, weightsFile(which))
	b, err := vfs.ReadExact(t.fs, name, func(size int64) error {
		if most := bytes + MostHeader; size > most {
			return fault.New(fault.ErrInput, "%s has %s, but the weights of the model have at most %s", name, budget.FormatBytes(size), budget.FormatBytes(most))
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.ErrInput, "%s has no %s: the run is %s", t.dir, weightsFile(which), t.file.State)
	}
	if err != nil {
		return nil, err
	}
	tensors, metadata, err := safetensors.Decode(b)
	if err == nil && t.file.Checked() && !safetensors.Checked(metadata) {
		err = rundir.ErrNoChecksum
	}
	if err != nil {
		return nil, fault.Remake(fmt.Errorf("%s: %w", name, err), t.dir, Maker)
	}
	t.sum = binio.Hash(b)
	return tensors, nil
}
