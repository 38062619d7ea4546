package all

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/device"
	"diskgnn/iostack"
)

const benchBytes = 256 << 20

func benchFile(b *testing.B) string {
	content := make([]byte, benchBytes)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	path := filepath.Join(b.TempDir(), "content.bin")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		b.Fatal(err)
	}
	return path
}

// forEach runs a benchmark on every backend at several depths.
func forEach(b *testing.B, run func(b *testing.B, s iostack.Stack, depth int)) {
	for _, backend := range backends {
		for _, depth := range []int{1, 8, 32, 128} {
			b.Run(fmt.Sprintf("%s/depth=%d", backend.kind, depth), func(b *testing.B) {
				s, _, err := Open(backend.kind, iostack.Options{Workers: depth})
				if err != nil {
					b.Skip(err)
				}
				defer s.Close()
				b.ReportAllocs()
				run(b, s, depth)
			})
		}
	}
}

// go test -run '^$' -bench Sequential ./iostack/all
func BenchmarkSequential(b *testing.B) {
	path := benchFile(b)
	forEach(b, func(b *testing.B, s iostack.Stack, depth int) {
		b.SetBytes(benchBytes)
		for b.Loop() {
			if _, err := iostack.Sequential(context.Background(), s, iostack.Reads{Paths: []string{path}, Bytes: 1 << 20, Depth: depth}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// go test -run '^$' -bench Pages ./iostack/all
func BenchmarkPages(b *testing.B) { benchRandom(b, 4096, 0) }

// BenchmarkRows reads rows of 512 bytes, which are bounced.
//
//	go test -run '^$' -bench Rows ./iostack/all
func BenchmarkRows(b *testing.B) { benchRandom(b, 512, 512) }

// benchRandom reads micro-batches of 256 requests at random pages.
func benchRandom(b *testing.B, length, skip int) {
	path := benchFile(b)
	mem, err := device.NewHost(256 * 4096)
	if err != nil {
		b.Fatal(err)
	}
	defer mem.Free()
	forEach(b, func(b *testing.B, s iostack.Stack, _ int) {
		f, err := s.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		_ = s.Register(mem.Bytes())
		rng := rand.New(rand.NewPCG(5, 6))
		reqs := make([]iostack.Request, 256)
		var g iostack.Group
		b.SetBytes(int64(len(reqs) * length))
		for b.Loop() {
			for i := range reqs {
				reqs[i] = iostack.Request{File: f, Offset: rng.Int64N(benchBytes/4096)*4096 + int64(skip), Buf: mem.Bytes()[i*4096:][:length]}
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
