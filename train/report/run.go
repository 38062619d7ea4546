package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/pipeline"
)

// metricsFile has a line per epoch.
const metricsFile = "metrics.jsonl"

// The states of a run that a report tells apart from failures.
const (
	Running  = "running"
	Finished = "finished"
	Killed   = "killed" // run.json says running, but nobody does
)

// Run is a run as its directory tells it: run.json, and metrics.jsonl as Epochs.
// What is not there is zero, or nil where zero would be a value.
type Run struct {
	Dir     string     `json:"-"`
	State   string     `json:"state"`
	Error   string     `json:"error"`
	Program string     `json:"program"`
	Begun   time.Time  `json:"begun"`
	Ended   *time.Time `json:"ended"`
	Params  Params     `json:"params"`
	PackID  string     `json:"pack"` // fingerprint
	Pack    Pack       `json:"pack_facts"`
	Setup   Setup      `json:"setup"`
	Result  *Result    `json:"result"`
	Epochs  []Epoch    `json:"-"`
	// DriveRate is the drive's sequential rate in bytes per second, if somebody
	// measured it.
	DriveRate float64 `json:"-"`
}

// Params are what the weights follow from.
type Params struct {
	Model          string  `json:"model"`
	Dims           []int   `json:"dims"`
	Epochs         int     `json:"epochs"`
	LR             float64 `json:"lr"`
	Dropout        float64 `json:"dropout"`
	Metric         string  `json:"metric"`
	LayerOrder     string  `json:"layer_order"`
	Seed           uint64  `json:"seed"`
	ShuffleBatches bool    `json:"shuffle_batches"`

	Heads           int    `json:"heads"`
	Norm            string `json:"norm"`
	Residual        bool   `json:"residual"`
	InputProjection bool   `json:"input_projection"`
	Activation      string `json:"activation"`
	Aggregator      string `json:"aggregator"`
	GCNNorm         string `json:"gcn_norm"`

	Optimizer      string  `json:"optimizer"`
	WeightDecay    float64 `json:"weight_decay"`
	LabelSmoothing float64 `json:"label_smoothing"`
	Loss           string  `json:"loss"`

	Schedule        string  `json:"schedule"`
	Warmup          int     `json:"warmup"`
	MinLR           float64 `json:"min_lr"`
	PlateauFactor   float64 `json:"plateau_factor"`
	PlateauPatience int     `json:"plateau_patience"`
	Patience        int     `json:"patience"`
	ValidateEvery   int     `json:"validate_every"`
}

// Pack is what was trained on.
type Pack struct {
	Dir             string  `json:"dir"`
	Nodes           int64   `json:"nodes"`
	Dim             int     `json:"dim"`
	Classes         int     `json:"classes"`
	DType           string  `json:"dtype"`
	RowBytes        int     `json:"row_bytes"`
	Codec           string  `json:"codec"`
	Policy          string  `json:"policy"`
	LeastCacheRows  int64   `json:"least_cache_rows"`
	Segment         int     `json:"segment"`
	Fanout          []int   `json:"fanout"`
	Epochs          int     `json:"epochs"`
	BatchesPerEpoch int     `json:"batches_per_epoch"`
	DiskBytes       int64   `json:"disk_bytes"`
	Blowup          float64 `json:"blowup"`
}

// Setup is what the run computed with.
type Setup struct {
	Engine    string   `json:"engine"`
	IO        string   `json:"io"`
	Threads   int      `json:"threads"`
	Memory    int64    `json:"memory_bytes"`
	Planned   int64    `json:"planned_bytes"`
	CacheRows int64    `json:"cache_rows"`
	CacheSize int64    `json:"cache_bytes"`
	Slots     int      `json:"slots"`
	EvalSlots int      `json:"eval_slots"`
	BLAS      string   `json:"blas"`
	SIMD      string   `json:"simd"`
	Device    string   `json:"device"`
	Precision string   `json:"precision"`
	Orders    []string `json:"layer_orders"`
}

// Result is what is known at the end only.
type Result struct {
	StoppedEarly   bool     `json:"stopped_early"`
	PreloadBytes   int64    `json:"preload_bytes"`
	PreloadSeconds float64  `json:"preload_seconds"`
	TestAccuracy   *float64 `json:"test_accuracy"`
	Seconds        float64  `json:"seconds"`
	PeakRSSBytes   int64    `json:"peak_rss_bytes"`
	PeakAnonBytes  int64    `json:"peak_anon_bytes"`
}

// Epoch is a line of metrics.jsonl. Numbers that are undefined are nil.
type Epoch struct {
	Epoch          int                  `json:"epoch"`
	Seconds        float64              `json:"seconds"`
	LR             *float64             `json:"lr"`
	Loss           *float64             `json:"loss"`
	TrainAccuracy  *float64             `json:"train_accuracy"`
	ValidAccuracy  *float64             `json:"valid_accuracy"`
	BytesRead      int64                `json:"bytes_read"`
	UsefulBytes    int64                `json:"useful_bytes"`
	SSDBytesRead   int64                `json:"ssd_bytes_read"`
	GraphBytesRead int64                `json:"graph_bytes_read"`
	RAMBytes       int64                `json:"ram_bytes"`
	ReadRate       *float64             `json:"read_rate"`
	Stages         []pipeline.StageTime `json:"stages"`
}

// What is read of a run's directory is bounded, whoever wrote it: run.json, some 2 kB for
// an epoch, as of half a million epochs, a line of metrics.jsonl by many times its length.
const (
	MostRun  = 1 << 30
	mostLine = 64 << 10
)

// Read reads a run's directory, whatever the run's state.
func Read(fsys vfs.FS, dir string) (*Run, error) {
	name := filepath.Join(dir, stage.RunFile)
	b, err := vfs.ReadSmall(fsys, name, MostRun)
	if err != nil {
		return nil, err
	}
	r := &Run{Dir: dir}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fault.New(fault.ErrCorrupt, "%s: %v", name, err)
	}
	name = filepath.Join(dir, metricsFile)
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if r.Epochs, err = decodeEpochs(f); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// decodeEpochs reads the lines that were written whole: a run that was killed may
// have left a part of one more.
func decodeEpochs(from io.Reader) ([]Epoch, error) {
	var epochs []Epoch
	for lines := bufio.NewReaderSize(from, mostLine); ; {
		n := len(epochs)
		bad := func(format string, args ...any) error {
			return fault.New(fault.ErrCorrupt, "line %d: "+format, append([]any{n + 1}, args...)...)
		}
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return epochs, nil
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, bad("it is longer than %d bytes", mostLine)
		case err != nil:
			return nil, err
		}
		var e Epoch
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, bad("%w", err)
		}
		if e.Epoch < 0 || e.Epoch > math.MaxInt32 || n > 0 && e.Epoch <= epochs[n-1].Epoch {
			return nil, bad("epoch %d", e.Epoch)
		}
		for i := range e.Stages {
			e.Stages[i].Workers = max(1, e.Stages[i].Workers)
		}
		epochs = append(epochs, e)
	}
}

// best returns the index of the first epoch with the best validation score, -1 where
// nothing was validated.
func (r *Run) best() int {
	best := -1
	for i := range r.Epochs {
		if v := r.Epochs[i].ValidAccuracy; v != nil && (best < 0 || *v > *r.Epochs[best].ValidAccuracy) {
			best = i
		}
	}
	return best
}
