package gpuqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/driverate"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/gpuqueue"
	"diskgnn/iostack/nvme/rate"
	"diskgnn/iostack/nvme/soft"
)

// benchEffort is a measurement's; each benchmark measures once, whatever b.N is.
var benchEffort = driverate.Effort{Drain: 500 * time.Millisecond, For: 2 * time.Second}

// benchDrive is the file that is read: DISKGNN_DRIVE, or one of 256 MiB, which the page cache
// has.
func benchDrive(b *testing.B) string {
	if _, err := cuda.Devices(); err != nil {
		b.Skip(err)
	}
	if name := os.Getenv("DISKGNN_DRIVE"); name != "" {
		return name
	}
	name := filepath.Join(b.TempDir(), "drive")
	content := make([]byte, 256<<20)
	rand.NewChaCha8([32]byte{}).Read(content)
	check(b, os.WriteFile(name, content, 0o600))
	return name
}

// upOn brings a controller up that serves a file.
func upOn(b *testing.B, name string, queues, depth int, o soft.Options) *nvme.Controller {
	o.ReadOnly = true
	d, err := soft.Open(vfs.OS, name, o)
	check(b, err)
	c, err := nvme.Open(context.Background(), d, nvme.Options{Queues: queues, Depth: depth + 1})
	check(b, err)
	return c
}

// BenchmarkRings is the requests per second of the rings without a medium, and what a GPU
// spends on a thousand of them: its time in submission and in completion, the wait for the
// controller included, and its share of multiprocessors.
func BenchmarkRings(b *testing.B) {
	name := benchDrive(b)
	for _, drives := range []int{1, 4} {
		for _, queues := range []int{1, 8, 32} {
			for _, depth := range []int{64, 1023} {
				b.Run(fmt.Sprintf("%d drives, %d queues, depth %d", drives, queues, depth), func(b *testing.B) {
					d := realDevice(b)
					var cs []*nvme.Controller
					for range drives {
						c := upOn(b, name, queues, depth, soft.Options{Null: true})
						defer c.Close()
						cs = append(cs, c)
					}
					for range b.N {
						r, err := rate.GPU(context.Background(), d, cs, rate.Load{BlockBytes: 512, Completers: 32, Effort: benchEffort})
						check(b, err)
						report(b, r)
						break // the queues are used up
					}
				})
			}
		}
	}
}

func report(b *testing.B, r rate.Result) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(r.PerSecond, "requests/s")
	b.ReportMetric(float64(r.Submit.Nanoseconds())/1e3, "µs-submit/1000")
	b.ReportMetric(float64(r.Complete.Nanoseconds())/1e3, "µs-complete/1000")
	b.ReportMetric(100*r.Share, "%SM")
	b.ReportMetric(float64(r.Latency.Quantile(0.5).Nanoseconds())/1e3, "µs-p50")
	b.ReportMetric(float64(r.Latency.Quantile(0.99).Nanoseconds())/1e3, "µs-p99")
}

// BenchmarkLaunches is a GPU's own time for a thousand requests: the controller has completed
// them all before the completion is launched, so that nothing is waited for.
func BenchmarkLaunches(b *testing.B) {
	name := benchDrive(b)
	for _, queues := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("%d queues", queues), func(b *testing.B) {
			d := realDevice(b)
			c := upOn(b, name, queues, 1023, soft.Options{Null: true})
			defer c.Close()
			a, err := gpuqueue.Open(d, []*nvme.Controller{c}, gpuqueue.Options{})
			check(b, err)
			w := &world{TB: b, Device: d, array: a, rnd: rand.New(rand.NewPCG(1, 1))}
			w.arena, err = d.NewArena(64 << 20)
			check(b, err)
			w.streams[0], err = d.NewStream()
			check(b, err)
			defer func() { check(b, a.Close()); w.arena.Free(); w.streams[0].Free() }()
			r := &reads{want: make([]byte, 1000*512)}
			for i := range 1000 {
				r.requests = append(r.requests, gpuqueue.Request{Block: uint64(i), Offset: uint64(512 * i), Blocks: 1})
			}
			w.set(r, r.requests)
			s := w.streams[0]
			submit, err := d.NewSpan()
			check(b, err)
			complete, err := d.NewSpan()
			check(b, err)
			defer submit.Free()
			defer complete.Free()
			var took [2]time.Duration
			var ticket gpuqueue.Ticket
			for range b.N {
				check(b, errors.Join(submit.Begin(s), a.Submit(&ticket, r.Reads, s), submit.End(s), s.Synchronize()))
				time.Sleep(5 * time.Millisecond) // the controller is through: what is measured is the GPU alone
				check(b, errors.Join(complete.Begin(s), a.Complete(&ticket, s), complete.End(s), a.End(&ticket), s.Synchronize()))
				for i, span := range []*cuda.Span{submit, complete} {
					_, t, err := span.Since(submit.Ended())
					check(b, err)
					took[i] += t
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(took[0].Nanoseconds())/1e3/float64(b.N), "µs-submit/1000")
			b.ReportMetric(float64(took[1].Nanoseconds())/1e3/float64(b.N), "µs-complete/1000")
		})
	}
}

// BenchmarkBeside reads through the controller in software beside the backend that training
// uses, in turns, and gives the ratio of the medians.
func BenchmarkBeside(b *testing.B) {
	name := benchDrive(b)
	const queues, rounds = 8, 5
	for _, block := range []int{4 << 10, 128 << 10} {
		for _, depth := range []int{8, 32} {
			b.Run(fmt.Sprintf("%d × %d", block, queues*depth), func(b *testing.B) {
				d := realDevice(b)
				for range min(b.N, 1) {
					var ours, theirs []float64
					for round := range rounds {
						// One half of what the queues hold is under way, the other is completed.
						c := upOn(b, name, queues, 2*depth, soft.Options{})
						r, err := rate.GPU(context.Background(), d, []*nvme.Controller{c}, rate.Load{BlockBytes: block, Completers: 32, Seed: uint64(round), Effort: benchEffort})
						check(b, errors.Join(err, c.Close()))
						ours = append(ours, r.PerSecond)
						stack, _, err := all.Open(all.Auto, iostack.Options{Workers: queues * depth})
						check(b, err)
						random, err := iostack.Random(context.Background(), stack, name, block, uint64(round)<<32, benchEffort)
						check(b, errors.Join(err, stack.Close()))
						theirs = append(theirs, random.PerSecond)
					}
					slices.Sort(ours)
					slices.Sort(theirs)
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(ours[rounds/2], "requests/s")
					b.ReportMetric(theirs[rounds/2], "backend-requests/s")
					b.ReportMetric(ours[rounds/2]/theirs[rounds/2], "ratio")
				}
			})
		}
	}
}

// BenchmarkStep is a step of products or of gathered rows on one stream, without reads and with a micro-batch under
// way on two others all the time, in turns: how much reading slows computing down. A product of 16,384 rows has
// about a block for each multiprocessor of an H200, one of 12,288 rows leaves a quarter of them free.
func BenchmarkStep(b *testing.B) {
	name := benchDrive(b)
	for _, rows := range []int{16384, 12288} {
		for _, completers := range []int{1, 2, 4, 8, 32} {
			b.Run(fmt.Sprintf("%d rows, %d completing blocks", rows, completers), func(b *testing.B) { benchStep(b, name, rows, completers) })
		}
	}
}

func benchStep(b *testing.B, name string, rows, completers int) {
	const width, queues, depth, block = 256, 8, 64, 4096
	d := realDevice(b)
	c := upOn(b, name, max(queues, completers), depth, soft.Options{})
	defer c.Close()
	a, err := gpuqueue.Open(d, []*nvme.Controller{c}, gpuqueue.Options{CompleteBlocks: completers, Batches: 2})
	check(b, err)
	w := &world{TB: b, Device: d, array: a, rnd: rand.New(rand.NewPCG(1, 1))}
	w.arena, err = d.NewArena(256 << 20)
	check(b, err)
	for i := range w.streams {
		w.streams[i], err = d.NewStream()
		check(b, err)
	}
	compute, err := d.NewStream()
	check(b, err)
	blas, err := compute.NewBLAS(cuda.Buffer{})
	check(b, err)
	span, err := d.NewSpan()
	check(b, err)
	defer func() {
		span.Free()
		blas.Free()
		compute.Free()
		check(b, a.Close())
		w.arena.Free()
		for _, s := range w.streams {
			s.Free()
		}
	}()
	matrix := func(n int) cuda.Buffer { return put(w, make([]float32, n)) }
	x, y, z, weights := matrix(rows*width), matrix(rows*width), matrix(rows*width), matrix(width*width)
	place := kernels.Place{Table: y, Near: rows, Source: x, RowBytes: 4 * width, Index: put(w, permuted(w.rnd, rows)), Rows: kernels.Rows(rows)}
	steps := []struct {
		name          string
		work          func() error
		alone, beside []time.Duration
	}{
		{name: "products", work: func() error {
			return blas.Sgemm(false, false, rows, width, width, 1, x, width, weights, width, 0, z, width)
		}},
		{name: "gathers", work: func() error { return place.Launch(compute) }},
	}
	took := func(work func() error) time.Duration {
		check(b, span.Begin(compute))
		for range 8 {
			check(b, work())
		}
		check(b, errors.Join(span.End(compute), compute.Synchronize()))
		_, took, err := span.Since(span.Ended())
		check(b, err)
		return took
	}
	n := a.Room() / 2
	var in [2]*reads
	var tickets [2]gpuqueue.Ticket
	_, blocks := a.Drives()
	for i := range in {
		in[i] = &reads{want: make([]byte, n*block)}
		for k := range n {
			in[i].requests = append(in[i].requests, gpuqueue.Request{Block: w.rnd.Uint64N(blocks - 8), Offset: uint64(block * k), Blocks: 8})
		}
		w.set(in[i], in[i].requests)
	}
	for i := range max(b.N, 40) {
		for s := range steps {
			s := &steps[s]
			if i == 0 {
				took(s.work) // loads its kernels
			}
			s.alone = append(s.alone, took(s.work))
			k := i % 2
			check(b, a.Submit(&tickets[k], in[k].Reads, w.streams[0]))
			check(b, a.Complete(&tickets[k], w.streams[1]))
			s.beside = append(s.beside, took(s.work))
			check(b, a.End(&tickets[k]))
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, s := range steps {
		slices.Sort(s.alone)
		slices.Sort(s.beside)
		alone, beside := s.alone[len(s.alone)/2], s.beside[len(s.beside)/2]
		b.ReportMetric(float64(alone.Nanoseconds())/1e3, "µs-"+s.name)
		b.ReportMetric(float64(beside)/float64(alone), "slowdown-of-"+s.name)
	}
	b.ReportMetric(float64(n), "reads/step")
}

func permuted(rnd *rand.Rand, n int) []uint32 {
	out := make([]uint32, n)
	for i, v := range rnd.Perm(n) {
		out[i] = uint32(v)
	}
	return out
}
