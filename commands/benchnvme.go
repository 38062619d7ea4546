package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"diskgnn/device/cuda"
	"diskgnn/internal/budget"
	"diskgnn/internal/driverate"
	"diskgnn/internal/fault"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/gpuqueue"
	"diskgnn/iostack/nvme/rate"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/target"
)

const benchNVMeTeaches = `Measures NVMe queues by random reads: driven by the host or by a GPU, beside the storage
backend that training uses, which reads the same file with the same number of reads in flight.
TARGET is soft:FILE, a file behind a controller in software; soft:FILE,FILE is two drives;
sysfs:ADDRESS is a drive of the machine, which nobody else may use. Nothing is written.

   diskgnn bench nvme soft:drive.img
   diskgnn bench nvme soft:drive.img --from gpu --queues 32 --block 4KiB,128KiB
   diskgnn bench nvme soft:drive.img --null          the rings alone: no byte is read

The rate of a controller in software depends on the file's drive, or on the page cache,
and on the processors. It is no prediction for a real drive with queues that a GPU drives
over the bus.`

// benchNVMe has the options of bench nvme.
type benchNVMe struct {
	blocks     []int
	depths     []int
	queues     int
	submitters int
	completers int
	from       string
	null       bool
	backend    string
	seconds    float64
}

// nvmeRates is bench nvme's output.
type nvmeRates struct {
	Target  string     `json:"target"`
	From    string     `json:"from"`
	GPU     string     `json:"gpu,omitempty"`
	Queues  int        `json:"queues"`
	Null    bool       `json:"null"`
	Backend string     `json:"backend,omitempty"`
	Rates   []nvmeRate `json:"rates"`

	Cautions []string `json:"cautions,omitempty"`
}

type nvmeRate struct {
	BlockBytes        int     `json:"block_bytes"`
	Depth             int     `json:"depth"`
	RequestsPerSecond float64 `json:"requests_per_second"`

	// Rate of the bytes read, and of its parts that the kernel read from the drive and found in the page
	// cache.
	Effective float64  `json:"bytes_per_second"`
	Device    *float64 `json:"device_bytes_per_second"`
	Cache     *float64 `json:"cache_bytes_per_second"`

	P50 float64 `json:"p50_seconds"`
	P95 float64 `json:"p95_seconds"`
	P99 float64 `json:"p99_seconds"`
	Max float64 `json:"max_seconds"`

	GPU *gpuCost `json:"gpu,omitempty"`

	Beside *float64 `json:"backend_requests_per_second"`
}

// gpuCost is the GPU's cost of driving the queues.
type gpuCost struct {
	Submit   float64 `json:"submit_seconds_per_1000"`
	Complete float64 `json:"complete_seconds_per_1000"`
	Share    float64 `json:"multiprocessor_share"`
}

// benchFrom lists the processors that can drive the queues.
var benchFrom = []string{"host", "gpu"}

func benchNVMeCommand() command {
	b := benchNVMe{blocks: []int{512, 4 << 10, 64 << 10}, depths: []int{64}, queues: 4, submitters: 1, completers: 32, from: "host", backend: all.Auto, seconds: 3}
	return command{
		name:     "bench nvme",
		usage:    "measure NVMe queues",
		teaches:  benchNVMeTeaches,
		operands: []string{"TARGET"},
		flags: flags{
			flag("block", "LIST", "sizes of reads", "512,4KiB,64KiB", listOf(&b.blocks, func(s string) (int, error) {
				if n, err := strconv.ParseUint(s, 10, 30); err == nil {
					return int(n), nil // a plain number is in bytes here, such as 512
				}
				size, err := budget.ParseSize(s, budget.UnitBytes)
				if err != nil {
					return 0, err
				}
				n, err := size.Bytes()
				return int(min(n, 1<<30)), err
			})),
			flag("depth", "LIST", "reads in flight in each queue", join(b.depths, ",", strconv.Itoa), listOf(&b.depths, func(s string) (int, error) {
				n, err := parseInt(s, 1)
				return int(min(n, 1<<16)), err
			})),
			intFlag("queues", "queue pairs of each drive; the drive may grant fewer", "", &b.queues, 1),
			intFlag("submitters", "goroutines that drive the queues; of a GPU it is one block", "", &b.submitters, 1),
			intFlag("completers", "blocks of the GPU that complete reads, at most one per queue", "", &b.completers, 1),
			stringFlag("from", "NAME", "processor that drives the queues: host or gpu", &b.from),
			boolFlag("null", "the controller in software answers reads without reading", &b.null),
			stringFlag("io", "NAME", "storage backend to compare with: uring, pread, cufile, or auto", &b.backend),
			positiveFlag("seconds", "seconds of each measurement; before it, load for 0.3 times as long, which does not count", &b.seconds),
		},
		run: shows(b.measure, nvmeRates.outcome),
	}
}

// measure measures every size and depth, and the backend beside each.
func (b *benchNVMe) measure(ctx context.Context, s *session) (r nvmeRates, err error) {
	named, err := target.Parse(s.args[0])
	if err != nil {
		return r, err
	}
	switch {
	case b.null && named.Kind != target.Soft:
		return r, fault.New(fault.ErrUsage, "--null: %s has no controller in software", named)
	case !slices.Contains(benchFrom, b.from):
		return r, fault.New(fault.ErrUsage, "--from %s is not one of %s", b.from, strings.Join(benchFrom, ", "))
	case b.from == "gpu" && b.submitters != 1:
		return r, fault.New(fault.ErrUsage, "--submitters %d: with --from gpu, exactly one block submits", b.submitters)
	}
	r = nvmeRates{Target: s.args[0], From: b.from, Null: b.null}
	var device *cuda.Device
	if b.from == "gpu" {
		if device, err = cuda.Open(0, cuda.Options{Code: gpuqueue.Code}); err != nil {
			return r, err
		}
		defer device.Close()
		r.GPU = device.Name
	}
	seed := uint64(0)
	for _, block := range b.blocks {
		for _, depth := range b.depths {
			seed++ // other blocks each time, since a cache may have the previous ones
			one, err := b.queued(ctx, &r, named, device, block, depth, seed)
			if err != nil {
				return r, fmt.Errorf("reads of %s, %d in flight: %w", whole(block), depth, err)
			}
			if !b.null && named.Kind == target.Soft && len(named.Parts) == 1 {
				if err := b.beside(ctx, &r, &one, named.Parts[0], seed<<32); err != nil {
					return r, err
				}
			}
			r.Rates = append(r.Rates, one)
		}
	}
	return r, nil
}

func (b *benchNVMe) effort() driverate.Effort { return scaled(driverate.Sustained, b.seconds) }

// queued measures one size and depth by queues of the drives.
func (b *benchNVMe) queued(ctx context.Context, r *nvmeRates, named target.Target, device *cuda.Device, block, depth int, seed uint64) (one nvmeRate, err error) {
	how := target.How{FS: vfs.OS, ReadOnly: true, Soft: soft.Options{Null: b.null, Queues: max(b.queues, 1), MaxEntries: max(depth+1, 64)}}
	controllers, err := named.Up(ctx, how, nvme.Options{Queues: b.queues, Depth: depth + 1})
	if err != nil {
		return one, err
	}
	defer func() {
		for _, c := range controllers {
			err = errors.Join(err, c.Close())
		}
	}()
	r.Cautions = target.Cautions(controllers)
	r.Queues = len(controllers[0].Queues())
	l := rate.Load{BlockBytes: block, Submitters: b.submitters, Completers: b.completers, Seed: seed, Effort: b.effort()}
	before, known := rate.DeviceBytes()
	known = known && named.Kind == target.Soft // reads of other drives bypass the kernel
	var m rate.Result
	if device == nil {
		m, err = rate.Host(ctx, controllers, l)
	} else {
		err = device.Attached(func() (err error) {
			m, err = rate.GPU(ctx, device, controllers, l)
			return err
		})
	}
	if err != nil {
		return one, err
	}
	one = nvmeRate{BlockBytes: block, Depth: controllers[0].Queues()[0].Depth() - 1, RequestsPerSecond: m.PerSecond}
	quantile := func(q float64) float64 { return m.Latency.Quantile(q).Seconds() }
	one.P50, one.P95, one.P99, one.Max = quantile(0.5), quantile(0.95), quantile(0.99), m.Latency.Max().Seconds()
	if !b.null {
		one.Effective = m.PerSecond * float64(block)
		if after, _ := rate.DeviceBytes(); known {
			fetched := one.Effective * float64(after-before) / float64(m.Requests*int64(block))
			had := max(0, one.Effective-fetched)
			one.Device, one.Cache = &fetched, &had
		}
	}
	if device != nil {
		one.GPU = &gpuCost{m.Submit.Seconds(), m.Complete.Seconds(), m.Share}
	}
	return one, nil
}

// beside measures the backend on the same file, with the same number of reads in flight.
func (b *benchNVMe) beside(ctx context.Context, r *nvmeRates, one *nvmeRate, path string, seed uint64) error {
	stack, _, err := all.Open(b.backend, iostack.Options{Workers: r.Queues * one.Depth})
	if err != nil {
		return err
	}
	r.Backend = stack.Name()
	measured, err := iostack.Random(ctx, stack, path, one.BlockBytes, seed, b.effort())
	one.Beside = &measured.PerSecond
	return errors.Join(err, stack.Close())
}

func (r nvmeRates) outcome() outcome {
	by := "the host"
	if r.GPU != "" {
		by = r.GPU
	}
	o := outcome{object: r, lines: []line{{"measured", fmt.Sprintf("%s, %s driven by %s", r.Target, units.Of(r.Queues, "queue"), by)}}}
	for _, caution := range r.Cautions {
		o.lines = append(o.lines, line{"caution", caution})
	}
	for _, one := range r.Rates {
		text := units.Count(int64(one.RequestsPerSecond)) + " requests/s"
		if r.Null {
			text += ", nothing read"
		} else {
			text += ", " + units.BytesPerSecond(one.Effective)
			if one.Device != nil {
				text += fmt.Sprintf(" (%s of the drive, %s of the page cache)", units.BytesPerSecond(*one.Device), units.BytesPerSecond(*one.Cache))
			}
		}
		latency := "; latency"
		if one.GPU != nil {
			latency += " of micro-batches"
		}
		text += fmt.Sprintf("%s %s median, %s at 99%%", latency, units.Seconds(one.P50), units.Seconds(one.P99))
		if one.GPU != nil {
			text += fmt.Sprintf("; a thousand requests take %s to submit and %s to complete, on %s of the GPU", units.Seconds(one.GPU.Submit), units.Seconds(one.GPU.Complete), percent(one.GPU.Share))
		}
		if one.Beside != nil {
			text += fmt.Sprintf("; %.2f times the rate of %s", one.RequestsPerSecond/max(*one.Beside, 1), r.Backend)
		}
		o.lines = append(o.lines, line{fmt.Sprintf("%s × %d", whole(one.BlockBytes), one.Depth), text})
	}
	return o
}
