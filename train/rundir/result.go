package rundir

import (
	"encoding/json"

	"diskgnn/pipeline"
	"diskgnn/train/engine"
	"diskgnn/train/score"
)

// Setup is a run's resolved engine, storage stack and use of memory.
type Setup struct {
	Engine    string `json:"engine"`
	IO        string `json:"io"`
	Threads   int    `json:"threads"`
	Memory    int64  `json:"memory_bytes"`  // given
	Planned   int64  `json:"planned_bytes"` // of them used, as planned
	CacheRows int64  `json:"cache_rows"`    // ranks below are held in RAM or by the GPU
	CacheSize int64  `json:"cache_bytes"`   // in RAM
	// HeldSize is the bytes of further rows in RAM, for evaluation batches alone.
	HeldSize int64 `json:"held_bytes,omitempty"`
	// ExactSize is the bytes of an exact validation, beside the cache and the slots.
	ExactSize int64 `json:"exact_bytes,omitempty"`
	// CachePolicy chooses the cache's rows, for a store with several policies. StoreState is the
	// most bytes that the run's checkpoints hold of the store's state.
	CachePolicy string `json:"cache_policy,omitempty"`
	StoreState  int64  `json:"store_state_bytes,omitempty"`
	// FaultThreads is the number of threads that take page faults, for a store that maps its rows.
	// Unchecked says that no checksum is compared when rows are read.
	FaultThreads int  `json:"fault_threads,omitempty"`
	Unchecked    bool `json:"unchecked,omitempty"`
	// Accumulator is the number of accesses that batches exceed that are read together, for a store that
	// gathers batches.
	Accumulator int64 `json:"accumulator,omitempty"`
	// PageCache is the method that bounds the page cache to Memory, for a store that maps its rows:
	// cgroup or drop.
	PageCache string `json:"page_cache,omitempty"`
	// Topology is the place that neighbours are read from, if batches are drawn while training and
	// it is not mapped. TopologySize is its bytes in memory.
	Topology     string `json:"topology,omitempty"`
	TopologySize int64  `json:"topology_memory_bytes,omitempty"`
	Slots        int    `json:"slots"`
	EvalSlots    int    `json:"eval_slots"`
	Ranks        int    `json:"ranks,omitempty"` // that train together; 0: one
	// With a GPU, it holds the ranks below GPUCacheRows; GPUBytes is all of its memory that the run
	// holds.
	GPUCacheRows int64 `json:"gpu_cache_rows,omitempty"`
	GPUCacheSize int64 `json:"gpu_cache_bytes,omitempty"`
	GPUBytes     int64 `json:"gpu_bytes,omitempty"`
	engine.Info
}

// OnGPU returns the number of rows on the GPU, and their bytes.
func (s *Setup) OnGPU() (rows, bytes int64) { return s.GPUCacheRows, s.GPUCacheSize }

// Epoch is a line of metrics.jsonl. Epochs count from 0.
type Epoch struct {
	Epoch int `json:"epoch"`
	// Seconds is the time of training, without validation. The first epoch of each process
	// includes filling the caches.
	Seconds       float64     `json:"seconds"`
	LR            score.Score `json:"lr"`             // undefined where nothing is computed
	Loss          score.Score `json:"loss"`           // mean over the labelled seed nodes
	TrainAccuracy score.Score `json:"train_accuracy"` // of the forward passes trained on, dropout included
	ValidAccuracy score.Score `json:"valid_accuracy"`
	// BytesRead is the bytes read from disk for the epoch's batches, UsefulBytes the part of them
	// that batches use: graphs, and rows that no cache held.
	BytesRead   int64 `json:"bytes_read"`
	UsefulBytes int64 `json:"useful_bytes"`
	// SSDBytesRead and SSDUsefulBytes are the SSD level's part of both: pages that batches of a
	// segment share, and the rows in them.
	SSDBytesRead   int64 `json:"ssd_bytes_read"`
	SSDUsefulBytes int64 `json:"ssd_useful_bytes"`
	// GraphBytesRead is the part of BytesRead for graphs; RAMBytes are the rows served by the
	// cache, without a read.
	GraphBytesRead int64 `json:"graph_bytes_read"`
	RAMBytes       int64 `json:"ram_bytes"`
	// GPUServedBytes is the part of RAMBytes from the GPU's memory.
	GPUServedBytes int64 `json:"gpu_served_bytes"`
	// InputNodes counts the rows of the batches, from any level. Requests counts the reads that
	// were submitted for the batches, or the pages that the kernel read.
	InputNodes int64 `json:"input_nodes"`
	Requests   int64 `json:"requests"`
	// TopologyBytesRead is the part of GraphBytesRead for neighbours, if batches are drawn while
	// training from a topology that is not mapped; TopologyRequests counts its requests.
	TopologyBytesRead int64 `json:"topology_bytes_read,omitempty"`
	TopologyRequests  int64 `json:"topology_requests,omitempty"`
	// BufferBytes is the part of RAMBytes from rows that a paging store holds permanently; accesses
	// of the other rows' pages are PageMisses, each of which read one page, and PageHits.
	BufferBytes int64 `json:"buffer_bytes,omitempty"`
	PageHits    int64 `json:"page_hits,omitempty"`
	PageMisses  int64 `json:"page_misses,omitempty"`
	// RankBytes is the bytes that rank 0 and the others sent each other for the epoch, if there are
	// several ranks.
	RankBytes int64 `json:"rank_bytes,omitempty"`
	// ReadRate is in bytes per second, over the time in which a read was in flight. It covers all
	// reads since the epoch before: of batches ahead and validation too.
	ReadRate       score.Score `json:"read_rate"`
	ReadSeconds    float64     `json:"read_seconds"` // waiting for features
	ComputeSeconds float64     `json:"compute_seconds"`

	Batches        int                 `json:"batches"`
	Links          []pipeline.LinkTime `json:"stages"`
	BoundLink      string              `json:"bound_stage"`   // the slowest link, by itself
	BoundSeconds   float64             `json:"bound_seconds"` // that it takes alone
	ValidSeconds   float64             `json:"valid_seconds"`
	ValidBytesRead int64               `json:"valid_bytes_read"`
	// ValidExact says that the validation score is exact: of the validation nodes, each computed from all of its
	// neighbours.
	ValidExact bool `json:"valid_exact,omitempty"`
}

// LevelBytes is the bytes that an epoch's batches had from one level.
type LevelBytes struct {
	Level string `json:"level"` // gpu, ram, ssd, cold, graphs
	Bytes int64  `json:"bytes"`
}

// Levels divides the bytes of the epoch's batches by the level they came from, the fastest first:
// rows from the GPU's memory and from RAM, without reads, and bytes read, in whole pages, for
// shared rows (ssd), for a batch's own rows (cold) and for graphs. Stores without a pack read all
// rows as cold ones.
func (e *Epoch) Levels() []LevelBytes {
	return []LevelBytes{
		{"gpu", e.GPUServedBytes}, {"ram", e.RAMBytes - e.GPUServedBytes},
		{"ssd", e.SSDBytesRead}, {"cold", e.BytesRead - e.SSDBytesRead - e.GraphBytesRead}, {"graphs", e.GraphBytesRead},
	}
}

// Add adds the counts and bytes of other batches of the epoch, but no times.
func (e *Epoch) Add(o *Epoch) {
	e.BytesRead += o.BytesRead
	e.UsefulBytes += o.UsefulBytes
	e.SSDBytesRead += o.SSDBytesRead
	e.SSDUsefulBytes += o.SSDUsefulBytes
	e.GraphBytesRead += o.GraphBytesRead
	e.RAMBytes += o.RAMBytes
	e.GPUServedBytes += o.GPUServedBytes
	e.InputNodes += o.InputNodes
	e.Requests += o.Requests
	e.TopologyBytesRead += o.TopologyBytesRead
	e.TopologyRequests += o.TopologyRequests
	e.BufferBytes += o.BufferBytes
	e.PageHits += o.PageHits
	e.PageMisses += o.PageMisses
}

// Origin of a result.
const (
	ResultNew     = "new"     // trained from the start
	ResultResumed = "resumed" // from a checkpoint
	ResultDone    = "done"    // nothing was left to do
)

// Result is the result of a run, over all of its processes.
type Result struct {
	State string `json:"state"`
	Setup
	PreloadBytes   int64   `json:"preload_bytes"`
	PreloadSeconds float64 `json:"preload_seconds"`
	Metric         string  `json:"metric"`
	Epochs         []Epoch `json:"epochs"`
	// StoppedEarly says that Epochs are fewer than --epochs because scores no longer improved.
	StoppedEarly bool `json:"stopped_early"`
	// BestEpoch is the first with the best validation score, the last epoch without validation
	// batches, and -1 if nothing was trained.
	BestEpoch     int         `json:"best_epoch"`
	ValidAccuracy score.Score `json:"valid_accuracy"` // of the best epoch
	TestAccuracy  score.Score `json:"test_accuracy"`  // of the best epoch's weights
	Seconds       float64     `json:"seconds"`        // of the whole run
	PeakRSSBytes  int64       `json:"peak_rss_bytes"`
	PeakAnonBytes int64       `json:"peak_anon_bytes"`
}

// Exact reports whether the scores of the best epoch's weights are exact.
func (r *Result) Exact() bool {
	return r.BestEpoch >= 0 && r.BestEpoch < len(r.Epochs) && r.Epochs[r.BestEpoch].ValidExact
}

// decode reads a line of metrics.jsonl. Numbers that the line lacks are undefined.
func (e *Epoch) decode(line []byte) error {
	*e = Epoch{LR: score.Undefined, Loss: score.Undefined, TrainAccuracy: score.Undefined, ValidAccuracy: score.Undefined, ReadRate: score.Undefined}
	return json.Unmarshal(line, e)
}
