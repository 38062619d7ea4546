package pread

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"diskgnn/iostack"
)

const benchBytes = 256 << 20

func benchFile(b *testing.B) string {
	path, _ := writeFile(b, benchBytes)
	return path
}

// go test -run '^$' -bench Sequential ./iostack/pread
func BenchmarkSequential(b *testing.B) {
	path := benchFile(b)
	for _, depth := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			s := newStack(b, iostack.Options{})
			b.SetBytes(benchBytes)
			for b.Loop() {
				if _, err := iostack.Sequential(context.Background(), s, path, 1<<20, depth); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRandom reads micro-batches of 256 pages.
//
//	go test -run '^$' -bench Random ./iostack/pread
func BenchmarkRandom(b *testing.B) {
	path := benchFile(b)
	for _, c := range []struct {
		name         string
		length, skip int
	}{{"pages", 4096, 0}, {"rows of 512 bytes", 512, 512}} {
		b.Run(c.name, func(b *testing.B) {
			s := newStack(b, iostack.Options{})
			f := openFile(b, s, path)
			mem := hostBuffer(b, 256*4096)
			rng := rand.New(rand.NewPCG(5, 6))
			reqs := make([]iostack.Request, 256)
			var g iostack.Group
			b.SetBytes(int64(len(reqs) * c.length))
			b.ReportAllocs()
			for b.Loop() {
				for i := range reqs {
					reqs[i] = iostack.Request{File: f, Offset: rng.Int64N(benchBytes/4096)*4096 + int64(c.skip), Buf: mem[i*4096:][:c.length]}
				}
				if err := s.Submit(&g, reqs); err != nil {
					b.Fatal(err)
				}
				if err := s.Wait(context.Background(), &g); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(reqs)*b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
