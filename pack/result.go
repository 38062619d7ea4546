package pack

import (
	"time"

	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
)

// Result is the outcome of Run. For a shard, all counts are of the shard. The JSON keys are stable.
type Result struct {
	Out         string `json:"out"`
	Fingerprint string `json:"fingerprint"`
	State       string `json:"state"` // new, resumed, or done: nothing had to be done
	DType       string `json:"dtype"`
	Codec       string `json:"codec"` // codec of the chunks
	IO          string `json:"io"`    // backend that read the table

	Batches  int   `json:"batches"`
	RowBytes int   `json:"row_bytes"`
	HotRows  int64 `json:"hot_rows"`
	SSDRows  int64 `json:"ssd_rows"`
	ColdRows int64 `json:"cold_rows"`
	EvalRows int64 `json:"eval_rows"`
	Segments int   `json:"segments"`
	// SegmentBatches is the number of batches that share rows; 1 means that none do.
	SegmentBatches int `json:"segment_batches"`
	// CacheRows are the band edges: the cache sizes, in rows, that trainers choose
	// from.
	CacheRows []int64 `json:"cache_rows"`

	HotBytes   int64 `json:"hot_bytes"`
	ColdBytes  int64 `json:"cold_bytes"`
	ColdStored int64 `json:"cold_stored_bytes"` // stored bytes of the chunks, compressed or not, with their padding to pages
	EvalBytes  int64 `json:"eval_bytes"`
	// EvalChunkBytes are the bytes of rows in the chunks of validation batches.
	EvalChunkBytes int64 `json:"eval_chunk_bytes,omitempty"`
	GraphBytes     int64 `json:"graph_bytes"`
	DiskBytes      int64 `json:"disk_bytes"`
	// Blowup is DiskBytes over the bytes of the dataset's feature table.
	Blowup       float64 `json:"blowup"`
	FeatureBytes int64   `json:"feature_bytes"` // the latter, uncompressed

	Ranges       int     `json:"ranges"` // number of ranges in which the table was read
	BytesRead    int64   `json:"bytes_read"`
	BytesWritten int64   `json:"bytes_written"`
	Seconds      float64 `json:"seconds"`
	// The parts of Seconds, which add up to it. DecideSeconds is the time to decide the pack's content:
	// under policy min it includes the simulation of the cache. GraphSeconds is for the graphs, RowSeconds
	// for the rows and everything else.
	DecideSeconds float64 `json:"decide_seconds"`
	GraphSeconds  float64 `json:"graph_seconds"`
	RowSeconds    float64 `json:"row_seconds"`

	PeakRSS  int64 `json:"peak_rss_bytes"`
	PeakAnon int64 `json:"peak_anon_bytes"`
}

// work is the record of a run's work.
type work struct {
	ranges    int   // in which the table was read
	tableRead int64 // bytes of the table's file
	scratch   int64 // bytes of scratch files that were written and read back
	again     int64 // bytes of rows of the pack that were read for chunks of validation batches

	decideSeconds, graphSeconds float64
}

// describe builds the result from the finished directory. Opening the directory checks it.
func (r *request) describe(state string, w work) (Result, error) {
	open := packfile.Open
	if !r.o.Shard.Whole() {
		open = packfile.OpenShard
	}
	made, err := open(r.fs, r.out)
	if err != nil {
		return Result{}, err
	}
	f, part := made.Facts(), made.Part()
	lo, hi := part.Batches(&f)
	if !part.Common {
		f.HotRows, f.EvalRows, f.Valid, f.Test = 0, 0, 0, 0
	}
	res := Result{
		Out: r.out, Fingerprint: made.Meta().Fingerprint, State: state, DType: string(f.DType), Codec: made.Params().Codec, IO: r.stack.Name(),
		Batches: hi - lo + f.Valid + f.Test, RowBytes: f.RowBytes,
		HotRows: f.HotRows, SSDRows: f.SSDRows, ColdRows: f.ColdRows, EvalRows: f.EvalRows,
		Segments: cut.SegmentsOf(hi-lo, f.Segment), SegmentBatches: f.Segment, CacheRows: made.Index().Edges,
		DecideSeconds: w.decideSeconds, GraphSeconds: w.graphSeconds,
	}
	for _, file := range made.Meta().Files {
		res.DiskBytes += file.Size
	}
	rb := int64(f.RowBytes)
	res.HotBytes, res.EvalBytes, res.ColdBytes = f.HotRows*rb, f.EvalRows*rb, f.ColdRows*rb
	res.EvalChunkBytes = f.EvalColdRows * rb
	res.GraphBytes = graphBytes(made)
	for g := range f.Groups() {
		file, _ := made.File(packfile.ColdFile(g))
		res.ColdStored += file.Size
	}
	res.FeatureBytes = f.TableBytes
	res.Blowup = float64(res.DiskBytes) / float64(max(res.FeatureBytes, 1))
	if state != "done" {
		res.Ranges = w.ranges
		res.BytesRead = w.tableRead + r.samplesRead(&f, part) + w.scratch + w.again
		res.BytesWritten = res.DiskBytes + 4*f.ColdRows + w.scratch
	}
	res.Seconds = time.Since(r.start).Seconds()
	if state != "done" {
		res.RowSeconds = res.Seconds - res.DecideSeconds - res.GraphSeconds
	}
	res.PeakAnon, res.PeakRSS = r.watch.Stop()
	return res, nil
}

// samplesRead returns the bytes of the batches that a part packs.
func (r *request) samplesRead(f *packfile.Facts, part packfile.Part) int64 {
	s := r.samples.Facts()
	n := s.Train.Bytes
	if lo, hi := part.Batches(f); hi-lo < f.Train {
		n = 0
		for i := lo; i < hi; i++ {
			n += r.samples.Info(i).Size
		}
	}
	if part.Common {
		n += s.Eval.Bytes
	}
	return n
}

// graphBytes adds up the graph files.
func graphBytes(r *packfile.Reader) int64 {
	f := r.Facts()
	eval, _ := r.File(packfile.EvalGraphFile)
	n := eval.Size
	for g := range f.Groups() {
		file, _ := r.File(packfile.GraphFile(g))
		n += file.Size
	}
	return n
}
