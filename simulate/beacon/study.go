package beacon

import (
	"context"
	"runtime"
	"sync/atomic"

	"diskgnn/internal/errgroup"
	"diskgnn/simulate/kernel"
)

// Source draws or reads the batches of a study. Trace may be called concurrently.
type Source interface {
	// Trace returns a batch, counted from 0, for the page size and the rules of the parameters.
	Trace(ctx context.Context, p *Params, batch int) (*Trace, error)
}

// Trees is the source of random trees of a workload: see Workload.Trace.
type Trees struct {
	Workload
	Seed uint64
}

// Trace implements Source.
func (t Trees) Trace(_ context.Context, p *Params, batch int) (*Trace, error) {
	return t.Workload.Trace(p, t.Seed, batch)
}

// Study is a simulation of the batches of a source on several platforms, with one set of parameters.
type Study struct {
	Source    Source
	Params    *Params
	Platforms []Platform
}

// Outcome has the means over a study's batches on one platform.
type Outcome struct {
	Platform string `json:"platform"`
	Batches  int    `json:"batches"`

	Seconds     float64 `json:"seconds_per_batch"` // time between successive batches
	Preparation float64 `json:"preparation_seconds"`
	Compute     float64 `json:"compute_seconds"`
	Targets     float64 `json:"targets_per_second"`
	PerSecond   float64 `json:"batches_per_second"`

	Nodes        float64 `json:"nodes"`    // nodes of a batch
	Commands     float64 `json:"commands"` // pages read for a batch
	RoundTrips   float64 `json:"host_round_trips"`
	ChannelBytes float64 `json:"channel_bytes"`
	PCIeBytes    float64 `json:"pcie_bytes"`
	UsefulBytes  float64 `json:"useful_bytes"`

	Dies     int `json:"dies"` // of the drive
	Channels int `json:"channels"`
	Cores    int `json:"cores"`

	DiesBusy     float64 `json:"dies_busy"` // mean while a batch is prepared
	ChannelsBusy float64 `json:"channels_busy"`
	CoresBusy    float64 `json:"cores_busy"`
	DieQueue     int     `json:"die_queue"` // the most waiting commands
	ChannelQueue int     `json:"channel_queue"`

	Latency Latency   `json:"latency_seconds"` // of a batch
	Command Parts     `json:"command_seconds"` // mean of a command
	Hops    []HopSpan `json:"hops"`            // of the first batch
	Joules  Joules    `json:"joules"`
	Watts   float64   `json:"watts"`

	// Of the first batch, in bins of BinSeconds.
	BinSeconds      float64   `json:"bin_seconds"`
	DieTimeline     []float64 `json:"die_timeline"`
	ChannelTimeline []float64 `json:"channel_timeline"`
	CoreTimeline    []float64 `json:"core_timeline"`
	Events          float64   `json:"events"`
}

// Latency is the time of a batch by part, in seconds. Flash is the time without the host's round trips and
// without transfers on PCIe that nothing else overlaps.
type Latency struct {
	Host  float64 `json:"host"`
	PCIe  float64 `json:"pcie"`
	Flash float64 `json:"flash"`
	DNN   float64 `json:"dnn"`
}

// Parts is the time of a command by stage, in seconds.
type Parts struct {
	Dispatch float64 `json:"dispatch"` // firmware or router, and the command's bytes
	Wait     float64 `json:"wait"`     // for the die
	Sense    float64 `json:"sense"`
	Sample   float64 `json:"sample"`
	Held     float64 `json:"held"` // for the channel
	Transfer float64 `json:"transfer"`
	Behind   float64 `json:"behind"` // DRAM, and PCIe
}

// HopSpan is the time from a hop's first command to the end of its last.
type HopSpan struct {
	Start    float64 `json:"start"`
	End      float64 `json:"end"`
	Commands int64   `json:"commands"`
}

// RunAll simulates the first batches of every study on up to workers goroutines (0: one per processor),
// and returns the outcomes by study and platform. The result does not depend on workers, and the memory
// does not depend on batches. It calls done, unless nil, after each run of a batch on a platform, from
// several goroutines.
func RunAll(ctx context.Context, studies []Study, batches, workers int, done func()) ([][]Outcome, error) {
	sums := make([][]sum, len(studies))
	for i := range studies {
		sums[i] = make([]sum, len(studies[i].Platforms))
	}
	for batch := range batches {
		traces := make([]*Trace, len(studies))
		if err := each(ctx, workers, len(studies), func(ctx context.Context, i int) (err error) {
			traces[i], err = studies[i].Source.Trace(ctx, studies[i].Params, batch)
			return err
		}); err != nil {
			return nil, err
		}
		type job struct{ study, platform int }
		var jobs []job
		for i := range studies {
			for j := range studies[i].Platforms {
				jobs = append(jobs, job{i, j})
			}
		}
		if err := each(ctx, workers, len(jobs), func(ctx context.Context, k int) error {
			j := jobs[k]
			s := &studies[j.study]
			b, err := Run(s.Params, &s.Platforms[j.platform], traces[j.study])
			if err != nil {
				return err
			}
			sums[j.study][j.platform].add(b, s.Params)
			if done != nil {
				done()
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	all := make([][]Outcome, len(studies))
	for i := range studies {
		for j := range studies[i].Platforms {
			all[i] = append(all[i], sums[i][j].outcome(studies[i].Platforms[j].Name))
		}
	}
	return all, nil
}

// each calls f with 0 … n−1, by at most workers goroutines; 0: one per processor.
func each(ctx context.Context, workers, n int, f func(context.Context, int) error) error {
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(workers, n) {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := f(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// sum adds up batches of one platform, in order.
type sum struct {
	n     float64
	total Outcome
	stage Stages
}

func (s *sum) add(b *Batch, p *Params) {
	t := &s.total
	if s.n == 0 {
		t.Dies, t.Channels, t.Cores = p.dies(), p.Flash.Channels, p.Firmware.Cores
		bin := b.DieBusy.Bin.Seconds()
		t.BinSeconds, t.DieTimeline, t.ChannelTimeline, t.CoreTimeline = bin, b.DieBusy.Busy, b.ChannelBusy.Busy, b.FirmwareBusy.Busy
		for _, h := range b.Hops {
			t.Hops = append(t.Hops, HopSpan{h.Start.Seconds(), h.End.Seconds(), h.Commands})
		}
	}
	s.n++
	t.Seconds += b.Period.Seconds()
	t.Preparation += b.Preparation.Seconds()
	t.Compute += b.Compute.Seconds()
	t.Targets += b.Throughput()
	t.PerSecond += 1 / b.Period.Seconds()
	t.Nodes += float64(b.Nodes)
	t.Commands += float64(b.Commands)
	t.RoundTrips += float64(b.RoundTrips)
	t.ChannelBytes += float64(b.ResultBytes)
	t.PCIeBytes += float64(b.PCIeBytes)
	t.UsefulBytes += float64(b.UsefulBytes)
	over := b.Flash.Seconds()
	t.DiesBusy += b.Die.Busy.Seconds() / over
	t.ChannelsBusy += b.Channel.Busy.Seconds() / over
	t.CoresBusy += b.Firmware.Busy.Seconds() / over
	t.DieQueue = max(t.DieQueue, b.DieQueue)
	t.ChannelQueue = max(t.ChannelQueue, b.ChannelQueue)
	host := kernel.Time(b.RoundTrips)*p.Host.RoundTrip + b.HostSampling
	t.Latency.Host += host.Seconds()
	t.Latency.PCIe += b.PCIeAlone.Seconds()
	t.Latency.Flash += (b.Preparation - host - b.PCIeAlone).Seconds()
	t.Latency.DNN += b.Compute.Seconds()
	t.Joules.add(&b.Joules)
	t.Events += float64(b.Events)
	s.stage.add(&b.Stages)
}

func (s *sum) outcome(platform string) Outcome {
	t := s.total
	commands := t.Commands
	for _, x := range []*float64{
		&t.Seconds, &t.Preparation, &t.Compute, &t.Targets, &t.PerSecond, &t.Nodes, &t.Commands, &t.RoundTrips, &t.ChannelBytes, &t.PCIeBytes,
		&t.UsefulBytes, &t.DiesBusy, &t.ChannelsBusy, &t.CoresBusy, &t.Latency.Host, &t.Latency.PCIe, &t.Latency.Flash, &t.Latency.DNN, &t.Events,
	} {
		*x /= s.n
	}
	t.Joules.scale(1 / s.n)
	t.Watts = t.Joules.Total() / t.Seconds
	t.Platform, t.Batches = platform, int(s.n)
	mean := func(ps float64) float64 { return ps / float64(kernel.Second) / commands }
	g := &s.stage
	t.Command = Parts{mean(g.Dispatch), mean(g.Wait), mean(g.Sense), mean(g.Sample), mean(g.Held), mean(g.Transfer), mean(g.Behind)}
	return t
}
