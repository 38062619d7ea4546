package iostack

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"diskgnn/device"
	"diskgnn/internal/fault"
)

// Random reads aligned blocks of the file at path in an order without pattern,
// each block at most once, and returns the requests that were served per second.
// There are always as many in flight as the stack carries out at the same time
// (Caps.Depth). It ends after the given time, or when every block has been read.
// The order follows from the seed; a partial block at the file's end is left out.
//
// It holds 3 × max(depth, 16) blocks of host memory meanwhile. Where reads are
// buffered (File.Direct) the rate may be that of memory. A file of less than one
// block is an error of kind fault.ErrInput.
func Random(ctx context.Context, s Stack, path string, blockBytes int, seed uint64, atMost time.Duration) (requestsPerSecond float64, err error) {
	batch := max(s.Caps().Depth, 16)
	if blockBytes < 1 || blockBytes > mostHeld/(randomGroups*batch) || atMost <= 0 {
		return 0, fault.New(fault.ErrUsage, "random rate: blocks of %d bytes for %v", blockBytes, atMost)
	}
	f, err := s.Open(path)
	if err != nil {
		return 0, fmt.Errorf("random rate: %w", err)
	}
	defer f.Close()
	blocks := f.Size() / int64(blockBytes)
	if blocks == 0 {
		return 0, fault.New(fault.ErrInput, "random rate: %s has %d bytes, a block %d", path, f.Size(), blockBytes)
	}
	mem, err := device.NewHost(randomGroups * batch * blockBytes)
	if err != nil {
		return 0, fmt.Errorf("random rate: %w", err)
	}
	defer mem.Free()
	_ = s.Register(mem.Bytes()) // a hint
	defer func() { _ = s.Unregister(mem.Bytes()) }()

	l := load{stack: s, file: f, mem: mem.Bytes(), block: blockBytes, order: newShuffled(blocks, seed)}
	begin := time.Now()
	n, err := l.run(ctx, begin.Add(atMost))
	if err != nil {
		return 0, fmt.Errorf("random rate: %w", err)
	}
	return float64(n) / time.Since(begin).Seconds(), nil
}

// randomGroups is how many micro-batches are submitted: while one is waited for,
// the others keep the stack busy.
const randomGroups = 3

// load is a random load on one file.
type load struct {
	stack Stack
	file  File
	mem   []byte // of all groups
	block int    // bytes
	order shuffled
}

// run reads until the deadline and returns how many requests were served. No
// read is in flight once it returns.
func (l *load) run(ctx context.Context, deadline time.Time) (served int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var groups [randomGroups]Group
	defer func() {
		cancel() // after an error, the rest need not be read
		for i := range groups {
			_ = l.stack.Wait(ctx, &groups[i])
		}
	}()
	each := len(l.mem) / randomGroups
	reqs := make([]Request, 0, each/l.block)
	for i := 0; ctx.Err() == nil && time.Now().Before(deadline); i = (i + 1) % randomGroups {
		if err := l.stack.Wait(ctx, &groups[i]); err != nil {
			return 0, err
		}
		reqs = reqs[:0]
		for mem := l.mem[i*each : (i+1)*each]; len(mem) > 0; mem = mem[l.block:] {
			block, ok := l.order.next()
			if !ok {
				break
			}
			reqs = append(reqs, Request{File: l.file, Offset: block * int64(l.block), Buf: mem[:l.block]})
		}
		if len(reqs) == 0 {
			break
		}
		if err := l.stack.Submit(&groups[i], reqs); err != nil {
			return 0, err
		}
		served += int64(len(reqs))
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	for i := range groups {
		if err := l.stack.Wait(ctx, &groups[i]); err != nil {
			return 0, err
		}
	}
	return served, nil
}

// shuffled enumerates 0…n-1, each once, without pattern and without memory: a
// permutation of the next power of two, of which what is too large is skipped.
type shuffled struct {
	n, seed uint64
	width   int // bits
	at      uint64
}

func newShuffled(n int64, seed uint64) shuffled {
	return shuffled{n: uint64(n), seed: seed, width: bits.Len64(uint64(n) - 1)}
}

func (s *shuffled) next() (v int64, ok bool) {
	for mask := uint64(1)<<s.width - 1; s.at <= mask; {
		x := s.at
		s.at++
		// Each step maps the numbers of that width one to one.
		for range 3 {
			x = (x*0x9e3779b97f4a7c15 + s.seed) & mask
			x ^= x >> (s.width/2 + 1)
		}
		if x < s.n {
			return int64(x), true
		}
	}
	return 0, false
}
