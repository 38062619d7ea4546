package exact

import (
	"context"
	"errors"
	"fmt"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/all"
)

// Plan is the predicted memory and reads of an evaluation or a prediction. The JSON keys are
// stable.
type Plan struct {
	Layers []LayerPlan `json:"layers"`

	MemoryBytes int64 `json:"memory_bytes"` // held at most
	DiskBytes   int64 `json:"disk_bytes"`   // of hidden states, at most at a time
	FreeBytes   int64 `json:"free_bytes"`   // where they would be

	BytesRead    int64 `json:"bytes_read"`     // of all layers
	FeatureBytes int64 `json:"feature_bytes"`  // of the feature table
	MaxReadBytes int64 `json:"max_read_bytes"` // that may be read

	// Engine computes the layers. The seconds of a GPU's plan leave out its computing. Note says why it is not the
	// machine's GPU.
	Engine string `json:"engine"`
	Note   string `json:"note,omitempty"`
	// Seconds is the predicted time: of all layers, and of opening and checking the inputs (OpenSeconds). The
	// file of a prediction counts as an array: a table takes longer. ReadRate is the measured rate of reading and
	// checking the features, in bytes per second, which stands for writes too.
	Seconds     float64 `json:"seconds"`
	OpenSeconds float64 `json:"open_seconds"`
	ReadRate    float64 `json:"read_bytes_per_second"`

	Problems []string `json:"problems,omitempty"` // for which the work would be refused
}

// LayerPlan is the part of a layer; layer 0 includes the input projection.
type LayerPlan struct {
	Layer     int   `json:"layer"` // from 0, the one that takes the features
	Nodes     int64 `json:"nodes"` // to be computed
	Edges     int64 `json:"edges"`
	Ranges    int64 `json:"ranges"` // tiles of destinations: so often its table is read
	Blocks    int64 `json:"blocks"` // of sources, that pass by each tile
	BytesRead int64 `json:"bytes_read"`
	// TopologyBytes are the bytes of the mapped topology that are looked at, once for each block.
	TopologyBytes int64 `json:"topology_bytes"`
	MemoryBytes   int64 `json:"memory_bytes"`        // of its buffers and the states in memory
	GPUBytes      int64 `json:"gpu_bytes,omitempty"` // of the GPU's memory, if that computes
	StateBytes    int64 `json:"state_bytes"`         // of its output, if that is a hidden state
	InMemory      bool  `json:"in_memory"`           // which is held in memory, not on disk
	// Seconds is the predicted time: of reading, of computing, and of writing hidden states or the file. It is less
	// where reading and computing overlap without slowing each other.
	Seconds        float64 `json:"seconds"`
	ReadSeconds    float64 `json:"read_seconds"`
	ComputeSeconds float64 `json:"compute_seconds"`
	WriteSeconds   float64 `json:"write_seconds"`
}

// PlanEvaluation predicts the memory and reads of Evaluate. It reads the topology and checks it,
// and writes nothing.
func PlanEvaluation(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (Plan, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return Plan{}, err
	}
	j := &job{fs: vfs.ReadOnly(fsys), options: o, report: rep, parts: parts{stack: all.Open}, scores: true}
	return j.planned(ctx, func(ctx context.Context) (file int64, err error) {
		_, err = j.examine(ctx, j.decide)
		return 0, err
	})
}

// PlanPrediction predicts the memory and reads of Predict in the same way.
func PlanPrediction(ctx context.Context, fsys vfs.FS, o PredictOptions, rep progress.Reporter) (Plan, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return Plan{}, err
	}
	j := &job{fs: vfs.ReadOnly(fsys), options: o.Options, report: rep, parts: parts{stack: all.Open}}
	return j.planned(ctx, func(ctx context.Context) (file int64, err error) {
		a, err := j.ask(ctx, &o, j.decide)
		if err != nil {
			return 0, err
		}
		return int64(a.len() * a.rowBytes()), a.close()
	})
}

// planned returns the plan of a decision, which returns the bytes of the file to make.
func (j *job) planned(ctx context.Context, decide func(context.Context) (file int64, err error)) (p Plan, err error) {
	err = j.do(ctx, func(ctx context.Context) error {
		file, err := decide(ctx)
		if err != nil {
			return err
		}
		if err := j.fill(&p); err != nil {
			return err
		}
		return j.foretell(ctx, &p, file)
	})
	if err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	return p, nil
}

// fill sets the plan's figures from the decision.
func (j *job) fill(p *Plan) error {
	p.Layers = []LayerPlan{}
	for k := range j.steps {
		s := &j.steps[k]
		if s.cost() == len(p.Layers) {
			p.Layers = append(p.Layers, LayerPlan{Layer: s.cost()})
		}
		l := &p.Layers[s.cost()]
		l.Nodes, l.Edges, l.Ranges, l.Blocks = int64(s.targets.len()), s.lists.edges, s.plan.Tiles, s.plan.Blocks
		l.BytesRead += s.plan.Read()
		l.TopologyBytes += s.plan.ListBytes
		l.MemoryBytes, l.GPUBytes = max(l.MemoryBytes, j.held(k)), max(l.GPUBytes, s.plan.GPU)
		l.StateBytes, l.InMemory = s.state, s.inMemory
		p.MemoryBytes = max(p.MemoryBytes, j.fixed+j.held(k))
	}
	r := j.reads()
	p.BytesRead, p.FeatureBytes, p.MaxReadBytes, p.DiskBytes = r.bytes, r.features, j.options.maxRead(&r), j.onDisk()
	if err := j.checkReads(); errors.Is(err, fault.ErrBudget) {
		p.Problems = append(p.Problems, err.Error())
	} else if err != nil {
		return err
	}
	dir, err := j.scratchDir()
	if err != nil {
		return err
	}
	where, err := vfs.Nearest(j.fs, dir)
	if err != nil {
		return err
	}
	p.FreeBytes, err = j.fs.Free(where)
	return err
}

// estimate sets the seconds of a plan for a file of the given size: bytes by the measured rate of reads, which also
// stands for writes, and computing by the measured speeds of the steps. Reads run ahead of the computing, but need
// processors and memory too: on two cores the time is nearer to the sum of both than to the longer one.
func (p *Plan) estimate(steps []step, speeds []speed, rate float64, file int64) {
	p.ReadRate = rate
	for k := range steps {
		s := &steps[k]
		l := &p.Layers[s.cost()]
		read, computed, written := float64(s.plan.Read())/rate, speeds[k].seconds(s), 0.0
		switch {
		case k == len(steps)-1:
			written = float64(file) / rate
		case !s.inMemory:
			written = float64(s.state) / rate
		}
		l.ReadSeconds += read
		l.ComputeSeconds += computed
		l.WriteSeconds += written
		l.Seconds += read + computed + written
		p.Seconds += read + computed + written
	}
	p.Seconds += p.OpenSeconds
}

// foretell measures the rate of reads and the speeds of the steps on the CPU, and sets the seconds of the plan for
// a file of the given size in bytes.
func (j *job) foretell(ctx context.Context, p *Plan, file int64) error {
	p.Engine, _, _ = j.libraries()
	p.Note = j.note
	p.OpenSeconds = time.Since(j.began).Seconds()
	if len(j.steps) == 0 {
		p.Seconds = p.OpenSeconds
		return nil
	}
	rate, err := j.readRate(ctx)
	if err != nil {
		return j.ofDataset(err)
	}
	speeds := make([]speed, len(j.steps))
	for k := range j.steps {
		if j.gpu == nil {
			speeds[k], err = j.speed(ctx, &j.steps[k])
		}
		if err != nil {
			return err
		}
	}
	p.estimate(j.steps, speeds, rate, file)
	return nil
}
