package array

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"diskgnn/device"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/uring"
)

// BenchmarkBesideUring reads blocks of a file at random places, by io_uring and by the queues
// of a soft drive that serves the same file, by turns. It gives both rates, in reads per
// second, and the second one's share of the first.
//
//	go test -run '^$' -bench BesideUring ./iostack/nvme/array
func BenchmarkBesideUring(b *testing.B) {
	const file = 1 << 30
	name := filepath.Join(b.TempDir(), "drive")
	content := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	out, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	for range file / len(content) {
		if _, err := out.Write(content); err != nil {
			b.Fatal(err)
		}
	}
	if err := out.Sync(); err != nil {
		b.Fatal(err)
	}
	for _, block := range []int{4 << 10, 128 << 10} {
		b.Run(fmt.Sprintf("block=%d", block), func(b *testing.B) {
			const depth = 64
			options := iostack.Options{Workers: depth}
			ring, err := uring.New(options)
			if err != nil {
				b.Skip(err)
			}
			defer ring.Close()
			d, err := soft.Open(vfs.OS, name, soft.Options{ReadOnly: true, Workers: depth})
			if err != nil {
				b.Fatal(err)
			}
			queues, err := New(context.Background(), []nvme.Transport{d}, Options{Options: options}, func([]*nvme.Controller) (Table, error) { return &copying{}, nil })
			if err != nil {
				b.Fatal(err)
			}
			defer queues.Close()
			files := [2]iostack.File{}
			if files[0], err = ring.Open(name); err == nil {
				files[1], err = queues.Flat()
			}
			if err != nil {
				b.Fatal(err)
			}
			mem, err := device.NewHost(2 * depth * block)
			if err != nil {
				b.Fatal(err)
			}
			defer mem.Free()
			rng := rand.New(rand.NewPCG(1, 2))
			var spent [2]time.Duration
			reads := 0
			reqs := make([]iostack.Request, depth)
			var groups [2]iostack.Group
			b.ReportAllocs()
			for b.Loop() {
				for i, s := range []iostack.Stack{ring, queues} {
					_ = s.Register(mem.Bytes())
					begin := time.Now()
					for k := range 16 { // two groups by turns: the queue does not run dry
						g := &groups[k%2]
						if err := s.Wait(context.Background(), g); err != nil {
							b.Fatal(err)
						}
						for j := range reqs {
							at := (k%2*depth + j) * block
							reqs[j] = iostack.Request{File: files[i], Offset: rng.Int64N(file/int64(block)) * int64(block), Buf: mem.Bytes()[at:][:block]}
						}
						if err := s.Submit(g, reqs); err != nil {
							b.Fatal(err)
						}
					}
					for k := range groups {
						if err := s.Wait(context.Background(), &groups[k]); err != nil {
							b.Fatal(err)
						}
					}
					spent[i] += time.Since(begin)
					_ = s.Unregister(mem.Bytes())
				}
				reads += 16 * depth
			}
			rate := func(i int) float64 { return float64(reads) / spent[i].Seconds() }
			b.ReportMetric(rate(0), "uring/s")
			b.ReportMetric(rate(1), "nvme/s")
			b.ReportMetric(rate(1)/rate(0), "share")
			b.ReportMetric(0, "ns/op")
		})
	}
}
