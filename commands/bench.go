package commands

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"diskgnn/featurestore/stores"
	"diskgnn/internal/budget"
	"diskgnn/internal/driverate"
	"diskgnn/internal/fault"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/iostack/cufile"
)

const benchIOTeaches = `Measures the drive that PATH lies on, through the storage backend that training uses:
large sequential reads of several sizes and depths, where the fastest result counts, and
random reads of two sizes at growing depth. In a directory, it first writes a scratch
file, which also measures writing, and removes it at the end. A file is only read.

   diskgnn bench io .
   diskgnn bench io --io pread --size 8GiB /mnt/nvme

The figures are sustained rates. A throttled drive is faster for a second or more after it
was idle, so each measurement begins after seconds of load that do not count. All
measurements together take about 75 seconds. With --seconds 1 they take about 8 seconds,
which may be too short to show a throttle.

If the file system refuses direct I/O, the figures may be rates of memory, and the output
says so. It also says whether a GPU could read the file by itself (cufile, GPUDirect
Storage): directly, in compatibility mode, or not at all, with the reason.`

// benchCommand has the measurements of the machine and its stores.
func benchCommand(list stores.List) command {
	return command{
		name:    "bench",
		usage:   "measure the machine, and compare stores on it",
		subs:    []command{benchIOCommand(), benchStoresCommand(list), benchNVMeCommand()},
		unknown: "no subcommand %q; use io, stores or nvme",
		missing: "name a subcommand: io, stores or nvme",
	}
}

// benchIO has the options of bench io.
type benchIO struct {
	backend string
	size    int64
	seconds float64
}

// ioRates is bench io's output.
type ioRates struct {
	Path       string       `json:"path"`
	Bytes      int64        `json:"bytes"`
	Backend    string       `json:"backend"`
	Direct     bool         `json:"direct"`
	Buffered   string       `json:"buffered_because,omitempty"`
	Seconds    float64      `json:"measured_seconds"`
	Drained    float64      `json:"drained_seconds"`
	Sequential float64      `json:"sequential_bytes_per_second"`
	Shape      all.Shape    `json:"sequential_reads"`
	AfterIdle  float64      `json:"after_idle_bytes_per_second"`
	Write      *float64     `json:"write_bytes_per_second"`
	Swept      []all.Swept  `json:"swept"`
	Random     []randomRate `json:"random"`

	CuFile cufile.Verdict `json:"cufile"`
}

type randomRate struct {
	BlockBytes        int     `json:"block_bytes"`
	Depth             int     `json:"depth"`
	RequestsPerSecond float64 `json:"requests_per_second"`
}

func benchIOCommand() command {
	b := benchIO{backend: all.Auto, size: 4 << 30, seconds: driverate.Sustained.For.Seconds()}
	return command{
		name:     "bench io",
		usage:    "measure a drive",
		teaches:  benchIOTeaches,
		operands: []string{"PATH"},
		flags: flags{
			ioFlag(&b.backend),
			bytesFlag("size", "bytes of the scratch file; for a file, the bytes that are read in sequence, repeatedly", "4GiB", &b.size),
			positiveFlag("seconds", "seconds of each measurement of sequential reads or writes; before it, load for 0.3 times as long, which does not count", &b.seconds),
		},
		run: shows(b.measure, ioRates.outcome),
	}
}

// effort scales a sustained measurement to --seconds.
func (b *benchIO) effort() driverate.Effort { return scaled(driverate.Sustained, b.seconds) }

// randomEffort is the effort for each size and depth of random reads: short, since there are many.
func (b *benchIO) randomEffort() driverate.Effort {
	e := b.effort()
	return driverate.Effort{Drain: e.For / 5, For: e.For / 5}
}

// scaled returns an effort that measures for seconds seconds.
func scaled(e driverate.Effort, seconds float64) driverate.Effort {
	f := seconds / e.For.Seconds()
	return driverate.Effort{Drain: time.Duration(f * float64(e.Drain)), For: time.Duration(f * float64(e.For))}
}

// Sizes of random reads, in bytes, and their numbers in flight.
var (
	randomBlocks = []int{4 << 10, mostBlock}
	randomDepths = []int{1, 8, 32, 128}
)

// scratchFile is the name of the file that measures a directory. It is fixed, so that the next run
// replaces the file of a killed run.
const scratchFile = "diskgnn-bench-io.tmp"

// mostBlock is the larger block of random reads, in bytes.
const mostBlock = 64 << 10

// measure measures a file, or a directory by a scratch file.
func (b *benchIO) measure(ctx context.Context, s *session) (r ioRates, err error) {
	const longest = 3600
	if b.seconds > longest {
		return r, fault.New(fault.ErrUsage, "--seconds %v is more than %d", b.seconds, longest)
	}
	if b.size < mostBlock {
		return r, fault.New(fault.ErrUsage, "--size %s is too small to measure: give at least %s", budget.FormatBytes(b.size), budget.FormatBytes(mostBlock))
	}
	path := s.args[0]
	info, err := vfs.OS.Stat(path)
	if err != nil {
		return r, err
	}
	if !info.IsDir() {
		return b.read(ctx, s, path)
	}
	free, err := vfs.OS.Free(path)
	if err != nil {
		return r, err
	}
	if b.size > free {
		return r, fault.New(fault.ErrBudget, "a scratch file of %s does not fit: %s has %s free (give a smaller --size)",
			budget.FormatBytes(b.size), path, budget.FormatBytes(free))
	}
	// A backend that cannot be opened is an error before anything is written.
	if err := b.with(iostack.Options{}, func(iostack.Stack, string) error { return nil }); err != nil {
		return r, err
	}
	scratch := filepath.Join(path, scratchFile)
	lock, err := vfs.OS.Lock(scratch)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, vfs.OS.Remove(scratch), lock.Close()) }()
	s.rep.Logf("writing %s to %s, repeatedly for %s", budget.FormatBytes(b.size), scratch, units.Seconds(b.effort().Total().Seconds()))
	written, err := driverate.Write(ctx, vfs.OS, scratch, driverate.Writes{Bytes: b.size, Load: b.effort(), Whole: true})
	if err != nil {
		return r, err
	}
	if r, err = b.read(ctx, s, scratch); err != nil {
		return r, err
	}
	r.Path, r.Write = path, &written.PerSecond
	return r, nil
}

// read measures reading a file.
func (b *benchIO) read(ctx context.Context, s *session, path string) (r ioRates, err error) {
	err = b.with(iostack.Options{}, func(stack iostack.Stack, reason string) error {
		s.rep.Logf("%s", reason)
		f, err := stack.Open(path)
		if err != nil {
			return err
		}
		r.Path, r.Bytes, r.Backend = path, f.Size(), stack.Name()
		r.Direct, r.Buffered = f.Direct()
		return f.Close()
	})
	if err != nil {
		return r, err
	}
	if r.Bytes < mostBlock {
		return r, fault.New(fault.ErrInput, "%s has %s: too small to measure, it needs at least %s", path, budget.FormatBytes(r.Bytes), budget.FormatBytes(mostBlock))
	}
	idle := b.effort().Drain
	s.rep.Logf("reading in sequence for %s, after %s of rest", units.Seconds(all.SweepTime(b.effort()).Seconds()), units.Seconds(idle.Seconds()))
	select {
	case <-time.After(idle):
	case <-ctx.Done():
		return r, ctx.Err()
	}
	d := all.Drive{Kind: b.backend, Paths: []string{path}, Most: b.size}
	sweep, err := d.Best(ctx, b.effort())
	if err != nil {
		return r, err
	}
	r.Shape, r.Swept, r.AfterIdle = sweep.Best, sweep.All, sweep.First
	rate, err := d.At(ctx, r.Shape, b.effort())
	if err != nil {
		return r, err
	}
	r.Sequential, r.Seconds, r.Drained = rate.PerSecond, rate.Seconds, rate.Drained
	r.CuFile = cufile.Probe(ctx, path)
	s.rep.Logf("reading at random for %s", units.Seconds(float64(len(randomBlocks)*len(randomDepths))*b.randomEffort().Total().Seconds()))
	seed := uint64(0)
	for _, block := range randomBlocks {
		for _, depth := range randomDepths {
			seed++ // other blocks each time, since the drive may cache the previous ones
			err := b.with(iostack.Options{Workers: depth}, func(stack iostack.Stack, _ string) error {
				rate, err := iostack.Random(ctx, stack, path, block, seed<<32, b.randomEffort())
				r.Random = append(r.Random, randomRate{block, depth, rate.PerSecond})
				return err
			})
			if err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// with runs f on a stack of the chosen backend.
func (b *benchIO) with(o iostack.Options, f func(s iostack.Stack, reason string) error) error {
	stack, reason, err := all.Open(b.backend, o)
	if err != nil {
		return err
	}
	return errors.Join(f(stack, reason), stack.Close())
}

func (r ioRates) outcome() outcome {
	o := outcome{object: r, lines: []line{
		{"measured", fmt.Sprintf("%s, %s", r.Path, budget.FormatBytes(r.Bytes))},
		{"backend", r.Backend + ", direct"},
		{"sequential", fmt.Sprintf("%s, by %d reads of %s in flight%s", units.BytesPerSecond(r.Sequential), r.Shape.Depth, whole(r.Shape.Block), r.took())},
	}}
	if !r.Direct {
		o.lines[1].text = fmt.Sprintf("%s, buffered: the figures may be rates of memory (%s)", r.Backend, r.Buffered)
	}
	o.lines = append(o.lines, line{"from rest", units.BytesPerSecond(r.AfterIdle) + " in the first second, which a throttled drive does not sustain"})
	if r.Write != nil {
		o.lines = append(o.lines, line{"write", units.BytesPerSecond(*r.Write)})
	}
	if r.CuFile != (cufile.Verdict{}) {
		o.lines = append(o.lines, line{"cufile", r.CuFile.String()})
	}
	for _, one := range r.Random {
		o.lines = append(o.lines, line{
			fmt.Sprintf("random %s × %d", whole(one.BlockBytes), one.Depth),
			fmt.Sprintf("%s, %s requests/s", units.BytesPerSecond(one.RequestsPerSecond*float64(one.BlockBytes)), units.Count(int64(one.RequestsPerSecond))),
		})
	}
	return o
}

// took describes the duration of the measurement.
func (r ioRates) took() string {
	text := fmt.Sprintf("; measured for %s after %s of load", units.Seconds(r.Seconds), units.Seconds(r.Drained))
	if r.Seconds < 0.9*driverate.Sustained.For.Seconds() {
		text += ", which may be too short to show a throttle"
	}
	return text
}

// whole formats a size that is a whole number of KiB or MiB.
func whole(bytes int) string { return strings.Replace(budget.FormatBytes(int64(bytes)), ".0 ", " ", 1) }
