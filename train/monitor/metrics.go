package monitor

import (
	"time"

	"diskgnn/internal/budget"
	"diskgnn/train/rundir"
)

// count is a metric that sums up a value of epochs: a sample of its family.
type count struct {
	family, help string
	label, value string // "" where the family has one sample
	of           func(*rundir.Epoch) float64
}

// counters are the counts of the training batches. Counts of a family are next to each other.
var counters = []count{
	{"diskgnn_read_bytes_total", "Bytes read from disk for training batches, by content: rows of one batch (cold), rows that batches share (ssd), graphs, or the topology.", "level", "cold",
		func(e *rundir.Epoch) float64 { return float64(e.BytesRead - e.SSDBytesRead - e.GraphBytesRead) }},
	{"diskgnn_read_bytes_total", "", "level", "ssd", func(e *rundir.Epoch) float64 { return float64(e.SSDBytesRead) }},
	{"diskgnn_read_bytes_total", "", "level", "graph", func(e *rundir.Epoch) float64 { return float64(e.GraphBytesRead - e.TopologyBytesRead) }},
	{"diskgnn_read_bytes_total", "", "level", "topology", func(e *rundir.Epoch) float64 { return float64(e.TopologyBytesRead) }},
	{"diskgnn_useful_bytes_total", "Read bytes that training batches used.", "", "",
		func(e *rundir.Epoch) float64 { return float64(e.UsefulBytes) }},
	{"diskgnn_served_bytes_total", "Bytes of rows that training batches took without reading, by the cache that had them: the GPU's, RAM's, or the buffer of rows held for good.", "source", "gpu",
		func(e *rundir.Epoch) float64 { return float64(e.GPUServedBytes) }},
	{"diskgnn_served_bytes_total", "", "source", "ram", func(e *rundir.Epoch) float64 { return float64(e.RAMBytes - e.GPUServedBytes - e.BufferBytes) }},
	{"diskgnn_served_bytes_total", "", "source", "buffer", func(e *rundir.Epoch) float64 { return float64(e.BufferBytes) }},
	{"diskgnn_read_requests_total", "Reads submitted for training batches.", "", "",
		func(e *rundir.Epoch) float64 { return float64(e.Requests) }},
	{"diskgnn_topology_requests_total", "Reads of neighbours, by batches that are drawn while training.", "", "",
		func(e *rundir.Epoch) float64 { return float64(e.TopologyRequests) }},
	{"diskgnn_input_nodes_total", "Rows that training batches took, wherever they came from.", "", "",
		func(e *rundir.Epoch) float64 { return float64(e.InputNodes) }},
	{"diskgnn_page_accesses_total", "Accesses of pages by a store that holds pages; each miss read one.", "result", "hit",
		func(e *rundir.Epoch) float64 { return float64(e.PageHits) }},
	{"diskgnn_page_accesses_total", "", "result", "miss", func(e *rundir.Epoch) float64 { return float64(e.PageMisses) }},
	{"diskgnn_validation_read_bytes_total", "Bytes read from disk for validation batches.", "", "",
		func(e *rundir.Epoch) float64 { return float64(e.ValidBytesRead) }},
	{"diskgnn_validation_seconds_total", "Seconds of validating.", "", "",
		func(e *rundir.Epoch) float64 { return e.ValidSeconds }},
	{"diskgnn_rank_bytes_total", "Bytes that rank 0 and the other ranks sent each other, counted at the ends of epochs.", "", "",
		func(e *rundir.Epoch) float64 { return float64(e.RankBytes) }},
}

// metrics returns the exposition of the run's state. Counters count this process' work; other
// ranks' reads are added at checkpoints and the ends of epochs. Unknown values are left out.
func (s *state) metrics(held budget.Usage) []byte {
	var x exposition
	x.family("diskgnn_phase", gauge, "1 for the phase that the run is in, 0 for the other phases.")
	for _, p := range phases {
		v := 0.0
		if p == s.phase {
			v = 1
		}
		x.sample(v, "phase", string(p))
	}
	x.family("diskgnn_memory_bytes", gauge, "Memory that counts against --memory.")
	x.sample(float64(held.Anon), "kind", "anonymous")
	x.sample(float64(held.Locked), "kind", "locked")
	x.one("process_resident_memory_bytes", gauge, "Resident memory size in bytes.", float64(held.RSS))
	if s.begun {
		s.runMetrics(&x)
	}
	return x.Bytes()
}

// runMetrics writes the metrics that need the run's directory.
func (s *state) runMetrics(x *exposition) {
	f := &s.file
	x.family("diskgnn_run_info", gauge, "The run's program, directory and setup, as labels.")
	x.sample(1, "program", f.Version, "run", s.dir, "store", f.Store, "model", f.Params.Model, "metric", f.Params.Metric,
		"engine", f.Setup.Engine, "blas", f.Setup.BLAS, "simd", f.Setup.SIMD, "device", f.Setup.Device, "io", f.Setup.IO)
	x.one("diskgnn_run_start_time_seconds", gauge, "When the run began, in its first process, since the Unix epoch.", seconds(f.Begun))
	x.one("diskgnn_memory_limit_bytes", gauge, "The limit of --memory.", float64(f.Setup.Memory))
	if f.Setup.GPUBytes > 0 {
		x.one("diskgnn_gpu_memory_bytes", gauge, "Memory of the GPU that the run holds.", float64(f.Setup.GPUBytes))
	}
	x.one("diskgnn_planned_epochs", gauge, "Epochs of the whole run, unless it stops early.", float64(f.Params.Epochs))
	x.one("diskgnn_epoch_batches", gauge, "Training batches of an epoch.", float64(s.perEpoch()))
	x.one("diskgnn_epoch", gauge, "The epoch under way, from 0.", float64(s.sums.Epoch))
	x.one("diskgnn_epoch_batches_done", gauge, "Batches of the epoch under way that are trained on.", float64(s.done))
	x.one("diskgnn_running_loss", gauge, "Mean loss of the epoch under way, so far.", float64(s.sums.Loss))

	x.one("diskgnn_epochs_total", counter, "Epochs finished by this process.", float64(s.finished))
	x.one("diskgnn_batches_total", counter, "Training batches done by this process, and the ranks that train with it.", float64(s.batches+s.done))
	x.one("diskgnn_steps_total", counter, "Updates of the weights.", float64(s.steps+s.stepsOf(s.done)))
	x.one("diskgnn_preload_bytes_total", counter, "Bytes read to fill the cache before training.", float64(s.preloadBytes))
	x.one("diskgnn_preload_seconds_total", counter, "Seconds of filling the cache before training.", s.preloadSeconds)
	for i, c := range counters {
		if c.help != "" {
			x.family(c.family, counter, c.help)
		}
		var labels []string
		if c.label != "" {
			labels = []string{c.label, c.value}
		}
		x.sample(s.ended[i]+c.of(&s.sums), labels...)
	}
	if len(s.stages) > 0 {
		x.family("diskgnn_stage_workers", gauge, "Batches that a stage can work on at the same time.")
		for _, l := range s.stages {
			x.sample(float64(l.Workers), "stage", l.Link)
		}
		x.family("diskgnn_stage_busy_seconds_total", counter, "Seconds in which a stage was at work on training batches, summed over its workers.")
		for _, l := range s.stages {
			x.sample(l.Busy, "stage", l.Link)
		}
		x.family("diskgnn_stage_waited_seconds_total", counter, "Seconds in which a stage waited for a batch or a free slot, summed over its workers.")
		for _, l := range s.stages {
			x.sample(l.Blocked, "stage", l.Link)
		}
	}
	if len(s.moved) > 0 {
		var latest time.Time
		for _, moved := range s.moved {
			if at := moved(); at.After(latest) {
				latest = at
			}
		}
		x.one("diskgnn_last_move_time_seconds", gauge, "When a batch last entered or left a stage, since the Unix epoch.", seconds(latest))
	}
	if s.epochs > 0 {
		s.epochMetrics(x)
	}
}

// seconds returns a time in seconds since the Unix epoch.
func seconds(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }

// epochMetrics writes the metrics of finished epochs.
func (s *state) epochMetrics(x *exposition) {
	x.one("diskgnn_loss", gauge, "Mean loss of the latest finished epoch.", float64(s.last.Loss))
	x.one("diskgnn_learning_rate", gauge, "Learning rate of the latest finished epoch.", float64(s.last.LR))
	x.one("diskgnn_epoch_seconds", gauge, "Seconds of training of the latest finished epoch.", s.last.Seconds)
	if s.last.TrainAccuracy.Defined() || s.valid.Defined() {
		x.family("diskgnn_score", gauge, "Latest score, of the metric that diskgnn_run_info names.")
		x.sample(float64(s.last.TrainAccuracy), "split", "train")
		x.sample(float64(s.valid), "split", "valid")
	}
	if s.best.Defined() {
		x.one("diskgnn_best_score", gauge, "Best validation score so far.", float64(s.best))
		x.one("diskgnn_best_epoch", gauge, "Epoch that validated best so far, from 0.", float64(s.bestAt))
	}
}
