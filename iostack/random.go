package iostack

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"diskgnn/device"
	"diskgnn/internal/driverate"
	"diskgnn/internal/fault"
)

// Random reads aligned blocks of blockBytes bytes of the file at path in a pseudo-random order, and returns
// the rate in requests per second. It keeps Caps.Depth reads in flight, the number that the stack carries
// out at the same time. With the zero effort it reads each block once. Otherwise it goes on until the
// effort is over, in another order after each pass. The seed determines the order. A partial block at the
// end of the file is left out.
//
// It holds 3 × max(depth, 16) blocks of host memory. If reads are buffered (File.Direct), the rate may be
// the rate of the page cache. A file of less than one block is an error of kind fault.ErrInput.
func Random(ctx context.Context, s Stack, path string, blockBytes int, seed uint64, e driverate.Effort) (r driverate.Rate, err error) {
	err = onBlocks(s, path, blockBytes, randomGroups*max(s.Caps().Depth, 16), func(f File, blocks int64, mem []byte) error {
		l := load{stack: s, file: f, mem: mem, block: blockBytes, order: newShuffled(blocks, seed), once: e.Once(), meter: driverate.NewMeter(e)}
		if err := l.run(ctx); err != nil {
			return err
		}
		r = l.meter.Rate()
		return nil
	})
	if err != nil {
		return r, fmt.Errorf("random rate: %w", err)
	}
	return r, nil
}

// Latency reads n aligned blocks of blockBytes bytes of the file at path in a pseudo-random order, one after the other,
// and returns the median of their times, the stack's own time included. The seed determines the order. Errors are as
// Random's; reads of the page cache are not told from reads of the drive.
func Latency(ctx context.Context, s Stack, path string, blockBytes int, seed uint64, n int) (time.Duration, error) {
	var times []time.Duration
	err := onBlocks(s, path, blockBytes, 1, func(f File, blocks int64, mem []byte) error {
		var g Group
		for order := newShuffled(blocks, seed); len(times) < n; {
			block, ok := order.next()
			if !ok {
				order = newShuffled(blocks, seed)
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			begin := time.Now()
			if err := s.Submit(&g, []Request{{File: f, Offset: block * int64(blockBytes), Buf: mem}}); err != nil {
				return err
			}
			if err := s.Wait(ctx, &g); err != nil {
				return err
			}
			times = append(times, time.Since(begin))
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("latency of random reads: %w", err)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// onBlocks opens a file with at least one block of blockBytes bytes, and calls do with its number of blocks and memory
// for the given number of blocks.
func onBlocks(s Stack, path string, blockBytes, held int, do func(f File, blocks int64, mem []byte) error) error {
	if blockBytes < 1 || blockBytes > mostHeld/held {
		return fault.New(fault.ErrUsage, "blocks of %d bytes are not possible", blockBytes)
	}
	f, err := s.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	blocks := f.Size() / int64(blockBytes)
	if blocks == 0 {
		return fault.New(fault.ErrInput, "%s has %d bytes, less than a block of %d", path, f.Size(), blockBytes)
	}
	mem, err := device.NewHost(held * blockBytes)
	if err != nil {
		return err
	}
	defer mem.Free()
	_ = s.Register(mem.Bytes()) // a hint
	defer func() { _ = s.Unregister(mem.Bytes()) }()
	return do(f, blocks, mem.Bytes())
}

// randomGroups is the number of micro-batches in flight: while one is awaited, the others keep the stack
// busy.
const randomGroups = 3

// load is a random load on one file.
type load struct {
	stack Stack
	file  File
	mem   []byte // of all groups
	block int    // bytes
	order shuffled
	once  bool // each block
	meter *driverate.Meter
}

// run reads until the meter ends the load. No read is in flight once it returns.
func (l *load) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var groups [randomGroups]Group
	var asked [randomGroups]int
	defer func() {
		cancel() // after an error, the rest need not be read
		for i := range groups {
			_ = l.stack.Wait(ctx, &groups[i])
		}
	}()
	each := len(l.mem) / randomGroups
	reqs := make([]Request, 0, each/l.block)
	// wait waits for group i, and reports whether the load continues.
	wait := func(i int) (bool, error) {
		// Reads from memory never wait, so ctx is checked separately.
		if err := errors.Join(ctx.Err(), l.stack.Wait(ctx, &groups[i])); err != nil {
			return false, err
		}
		n := asked[i]
		asked[i] = 0
		return n == 0 || l.meter.Done(int64(n)), nil
	}
	for i := 0; ; i = (i + 1) % randomGroups {
		more, err := wait(i)
		if !more || err != nil {
			return err
		}
		reqs = reqs[:0]
		for mem := l.mem[i*each : (i+1)*each]; len(mem) > 0; mem = mem[l.block:] {
			block, ok := l.order.next()
			if !ok && !l.once {
				l.order = newShuffled(int64(l.order.n), l.order.seed+1)
				block, ok = l.order.next()
			}
			if !ok {
				break
			}
			reqs = append(reqs, Request{File: l.file, Offset: block * int64(l.block), Buf: mem[:l.block]})
		}
		if len(reqs) == 0 {
			break
		}
		if err := l.stack.Submit(&groups[i], reqs); err != nil {
			return err
		}
		asked[i] = len(reqs)
	}
	for i := range groups {
		if _, err := wait(i); err != nil {
			return err
		}
	}
	return nil
}

// shuffled enumerates 0…n-1, each once, in a pseudo-random order without memory: a permutation of the next
// power of two, where numbers that are too large are skipped.
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
		// Each step is a bijection of the numbers of this width.
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
