package gpuqueue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/internal/fault"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/gpuqueue"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

// Micro-batches of all sizes land where they belong, through queues of all depths, in more
// than three laps of every ring, by several drives, completed in another order than they were
// submitted, by both shapes of kernels.
func TestReads(t *testing.T) {
	for _, c := range []struct{ drives, queues, depth, stride, block, bytes int }{
		{1, 1, 2, 0, 512, 4096}, {2, 3, 2, 4, 512, 8192}, {1, 1, 3, 0, 4096, 4096}, {3, 2, 5, 0, 512, 16384}, {2, 3, 10, 2, 512, 131072}, {1, 2, 70, 0, 4096, 12288},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			onDevices(t, func(t *testing.T, d *cuda.Device) {
				var commands atomic.Uint64
				w := newWorld(t, d, setup{drives: c.drives,
					soft: soft.Options{BlockBytes: c.block, StrideShift: c.stride, Fate: func(*spec.Command) soft.Fate {
						return soft.Fate{Hold: int(commands.Add(1) * 2654435761 >> 9 % 4)}
					}},
					nvme:  nvme.Options{Queues: c.queues, Depth: c.depth},
					array: gpuqueue.Options{RequestBytes: c.bytes, Requests: 4 * c.queues * c.depth}})
				slots := c.queues * (c.depth - 1)
				var ticket gpuqueue.Ticket
				for round := range 5 {
					if slots > 2 {
						r := w.draw(1+w.rnd.IntN(slots-2), c.bytes/c.block)
						check(t, w.array.Submit(&ticket, r.Reads, w.streams[round%2]))
						check(t, w.array.Complete(&ticket, w.streams[1]))
						check(t, w.array.End(&ticket))
						w.landed(fmt.Sprint("submitted ", round), r)
					}
					r := w.draw(1+w.rnd.IntN(2*slots), c.bytes/c.block)
					check(t, w.array.Read(&ticket, r.Reads, w.streams[round%2]))
					check(t, w.array.End(&ticket))
					w.landed(fmt.Sprint("read ", round), r)
				}
			})
		})
	}
}

// The reads of a ticket stay under way while another one's are completed, also one that was
// submitted later; slots come back in order, and what does not fit is refused until then.
func TestTickets(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		w := newWorld(t, d, setup{drives: 2, nvme: nvme.Options{Queues: 2, Depth: 11}, array: gpuqueue.Options{Batches: 6}})
		var tickets [3]gpuqueue.Ticket
		var sent [3][]*reads
		submit := func(i, n int, s *cuda.Stream) {
			t.Helper()
			r := w.draw(n, 8)
			check(t, w.array.Submit(&tickets[i], r.Reads, s))
			sent[i] = append(sent[i], r)
		}
		end := func(i int, s *cuda.Stream) {
			t.Helper()
			check(t, w.array.Complete(&tickets[i], s))
			check(t, w.array.End(&tickets[i]))
			for k, r := range sent[i] {
				w.landed(fmt.Sprintf("ticket %d, micro-batch %d", i, k), r)
			}
			sent[i] = nil
		}
		room := func(want int) {
			t.Helper()
			if got := w.array.Room(); got != want {
				t.Fatalf("room for %d, want %d", got, want)
			}
		}
		for range 4 { // 20 slots of a drive; a micro-batch of n takes n + 2
			submit(0, 3, w.streams[0])
			submit(1, 4, w.streams[1])
			submit(0, 1, w.streams[1])
			room(20 - 5 - 6 - 3)
			before := get[byte](w, sent[0][0].To)
			end(1, w.streams[0])
			if after := get[byte](w, sent[0][0].To); !bytes.Equal(before, after) {
				t.Error("a read of another ticket was completed")
			}
			room(6) // the first is under way still
			r := w.draw(5, 1)
			if err := w.array.Submit(&tickets[2], r.Reads, w.streams[0]); !errors.Is(err, gpuqueue.ErrFull) || !strings.Contains(err.Error(), "14 of 20 slots") {
				t.Fatal(err)
			}
			if err := w.array.Read(&tickets[2], r.Reads, w.streams[0]); !errors.Is(err, gpuqueue.ErrFull) {
				t.Fatal(err)
			}
			submit(2, 4, w.streams[1])
			end(2, w.streams[1])
			room(0)
			end(0, w.streams[0])
			room(20)
		}
		if err := w.array.Submit(&tickets[0], w.draw(19, 1).Reads, w.streams[0]); !errors.Is(err, fault.ErrUsage) {
			t.Error(err)
		}
	})
}

// Submissions run in the order of the calls, whatever their streams are, and so do
// completions; a submission waits for the completions whose slots it takes, and for no other.
func TestOrder(t *testing.T) {
	for seed := range uint64(8) {
		var ran []string
		d := cudatest.Emulator(func(kernel string, args []uint64, at func(uint64) []byte) {
			if kernel != "nvme_count" && kernel != "nvme_place" {
				base := uint64(0)
				if kernel != "nvme_read" {
					base = args[6]
				}
				ran = append(ran, fmt.Sprint(strings.TrimPrefix(kernel, "nvme_"), " ", base))
			}
			emulator.Run(kernel, args, at)
		}).OpenLate(t, seed)
		w := newWorld(t, d, setup{nvme: nvme.Options{Depth: 21}})
		ran = nil
		var x, y, v, z, c gpuqueue.Ticket
		var all []*reads
		submit := func(ticket *gpuqueue.Ticket, n, stream int) {
			all = append(all, w.draw(n, 1))
			check(t, w.array.Submit(ticket, all[len(all)-1].Reads, w.streams[stream]))
		}
		// Slots 0 to 3, 4 to 7, 8 to 11 and 12 to 15 of 20; those of y are free, but not before x's.
		submit(&x, 2, 0)
		submit(&y, 2, 1)
		check(t, w.array.Complete(&y, w.streams[1]))
		check(t, w.array.End(&y))
		submit(&v, 2, 0)
		submit(&z, 2, 1)     // with y's record
		last := w.draw(6, 1) // which waits for the first stream
		all = append(all, last)
		check(t, w.array.Complete(&z, w.streams[1]))
		check(t, w.array.Complete(&x, w.streams[0]))
		check(t, w.array.Submit(&c, last.Reads, w.streams[1])) // of slots 16 to 19 and x's
		check(t, w.streams[1].Synchronize())
		check(t, w.array.Complete(&c, w.streams[0]))
		check(t, w.array.Complete(&v, w.streams[1]))
		check(t, w.array.Read(&v, w.draw(2, 1).Reads, w.streams[0]))
		check(t, w.array.Read(&v, w.draw(2, 1).Reads, w.streams[1]))
		submit(&z, 2, 0)
		check(t, w.array.Complete(&z, w.streams[1]))
		for _, ticket := range []*gpuqueue.Ticket{&x, &v, &z, &c} {
			check(t, w.array.End(ticket))
		}
		for i, r := range all {
			w.landed(fmt.Sprint(i), r)
		}
		of := func(kinds ...string) (list []string) {
			for _, r := range ran {
				if slices.ContainsFunc(kinds, func(k string) bool { return strings.HasPrefix(r, k) }) {
					list = append(list, r)
				}
			}
			return list
		}
		if got, want := of("submit", "read"), []string{"submit 0", "submit 4", "submit 8", "submit 12", "submit 16", "read 0", "read 0", "submit 4"}; !slices.Equal(got, want) {
			t.Errorf("seed %d: %v, want %v", seed, got, want)
		}
		if got, want := of("complete", "read"), []string{"complete 4", "complete 12", "complete 0", "complete 16", "complete 8", "read 0", "read 0", "complete 4"}; !slices.Equal(got, want) {
			t.Errorf("seed %d: %v, want %v", seed, got, want)
		}
		if slices.Index(ran, "submit 16") < slices.Index(ran, "complete 0") {
			t.Errorf("seed %d: slots were taken before they were free: %v", seed, ran)
		}
	}
}

// Records of micro-batches are used again once their ticket was ended, which asks that it was
// completed.
func TestEnd(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		w := newWorld(t, d, setup{nvme: nvme.Options{Depth: 64}, array: gpuqueue.Options{Batches: 2}})
		var ticket gpuqueue.Ticket
		r := w.draw(2, 1)
		check(t, w.array.Submit(&ticket, r.Reads, w.streams[0]))
		if err := w.array.End(&ticket); !errors.Is(err, fault.ErrUsage) {
			t.Error(err)
		}
		check(t, w.array.Complete(&ticket, w.streams[0]))
		check(t, w.array.Submit(&ticket, w.draw(2, 1).Reads, w.streams[0]))
		if err := w.array.Submit(&ticket, w.draw(2, 1).Reads, w.streams[0]); !errors.Is(err, gpuqueue.ErrFull) {
			t.Error(err)
		}
		check(t, w.array.Complete(&ticket, w.streams[0]))
		check(t, w.array.End(&ticket))
		w.landed("the first", r)
		check(t, w.array.Submit(&ticket, w.draw(0, 1).Reads, w.streams[0]))
		check(t, w.array.Complete(&ticket, w.streams[0]))
		check(t, w.array.End(&ticket))
	})
}

// What a request cannot be, or the controller refuses, is its status; the others' data lands.
func TestStatuses(t *testing.T) {
	const blocks = driveBytes / 512
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		w := newWorld(t, d, setup{drives: 2, nvme: nvme.Options{Queues: 2, Depth: 40},
			soft: soft.Options{Fate: func(c *spec.Command) (f soft.Fate) {
				if first, _ := c.Blocks(); first == 77 {
					f.Status = spec.UnrecoveredReadError
				}
				return f
			}}})
		type row struct {
			gpuqueue.Request
			want gpuqueue.Status
		}
		rows := []row{
			{gpuqueue.Request{Block: 5, Offset: 0, Blocks: 8}, 0},
			{gpuqueue.Request{Block: 2 * blocks, Offset: 0, Blocks: 1}, gpuqueue.StatusRefused},
			{gpuqueue.Request{Block: 1 << 63, Offset: 0, Blocks: 1}, gpuqueue.StatusRefused},
			{gpuqueue.Request{Block: 5, Offset: 0, Blocks: 0}, gpuqueue.StatusRefused},
			{gpuqueue.Request{Block: 5, Offset: 0, Blocks: 9}, gpuqueue.StatusRefused},
			{gpuqueue.Request{Block: 5, Offset: 8, Blocks: 1}, gpuqueue.StatusRefused},
			{gpuqueue.Request{Block: 5, Offset: 16 << 10, Blocks: 1}, gpuqueue.StatusRefused},
			{gpuqueue.Request{Block: 5, Offset: 1<<64 - 16, Blocks: 1}, gpuqueue.StatusRefused},
			{gpuqueue.Request{Block: 5, Offset: 16<<10 - 496, Blocks: 1}, gpuqueue.StatusRefused},
			{gpuqueue.Request{Block: blocks - 1, Offset: 4096, Blocks: 2}, gpuqueue.Status(spec.LBAOutOfRange | spec.DNR)},
			{gpuqueue.Request{Block: blocks + 77, Offset: 4096, Blocks: 2}, gpuqueue.Status(spec.UnrecoveredReadError)},
			{gpuqueue.Request{Block: 2*blocks - 1, Offset: 16<<10 - 512, Blocks: 1}, 0},
		}
		for _, first := range []int{0, 1, 10, 9} { // where the list begins: the first failure is the error
			r := &reads{want: bytes.Repeat([]byte{0xFF}, 16<<10)}
			turned := append(append([]row(nil), rows[first:]...), rows[:first]...)
			for _, x := range turned {
				r.requests = append(r.requests, x.Request)
			}
			copy(r.want, w.content[5*512:][:8*512])
			copy(r.want[16<<10-512:], w.content[2*driveBytes-512:])
			for _, how := range []string{"submit", "read"} {
				w.set(r, r.requests)
				var ticket gpuqueue.Ticket
				if how == "read" {
					check(t, w.array.Read(&ticket, r.Reads, w.streams[0]))
				} else {
					check(t, w.array.Submit(&ticket, r.Reads, w.streams[0]))
					check(t, w.array.Complete(&ticket, w.streams[1]))
				}
				want, name := gpuqueue.ErrRequest, "request 1 of"
				switch first {
				case 1:
					name = "request 0 of"
				case 9:
					want, name = spec.LBAOutOfRange, "request 0 of"
				case 10:
					want, name = spec.UnrecoveredReadError, "request 0 of"
				}
				if err := w.array.End(&ticket); !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
					t.Errorf("%s from %d: %v, want %v of %s", how, first, err, want, name)
				}
				for i, s := range get[gpuqueue.Status](w, r.Status) {
					if s != turned[i].want {
						t.Errorf("%s: request %+v has status %#x, want %#x", how, turned[i].Request, uint32(s), uint32(turned[i].want))
					}
				}
				if got := get[byte](w, r.To); !bytes.Equal(got, r.want) {
					t.Errorf("%s: other bytes", how)
				}
			}
		}
	})
}

// A completion that is lost ends at the deadline: its request fails, what landed has its data,
// and the queue's later requests fail without a wait. After Close the controller comes back by
// a reset, and another array reads by it.
func TestLost(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		for _, how := range []string{"submit", "read"} {
			var drop atomic.Bool
			w := newWorld(t, d, setup{nvme: nvme.Options{Queues: 1, Depth: 8}, array: gpuqueue.Options{Timeout: 20 * time.Millisecond},
				soft: soft.Options{Fate: func(*spec.Command) soft.Fate { return soft.Fate{Drop: drop.Load()} }}})
			var ticket gpuqueue.Ticket
			drop.Store(true)
			start := func(a *gpuqueue.Array, r *reads) {
				t.Helper()
				if how == "read" {
					check(t, a.Read(&ticket, r.Reads, w.streams[0]))
					return
				}
				check(t, a.Submit(&ticket, r.Reads, w.streams[0]))
				check(t, a.Complete(&ticket, w.streams[1]))
			}
			for round := range 2 {
				r := w.draw(4, 8)
				start(w.array, r)
				if err := w.array.End(&ticket); !errors.Is(err, gpuqueue.ErrLost) || !errors.Is(err, fault.ErrDevice) || !strings.Contains(err.Error(), "deadline") {
					t.Errorf("%s %d: %v", how, round, err)
				}
				for i, s := range get[gpuqueue.Status](w, r.Status)[:4] {
					if s != gpuqueue.StatusTimeout {
						t.Errorf("%s %d: request %d has status %#x", how, round, i, uint32(s))
					}
				}
				if tail := w.controllers[0].Transport().Load32(spec.SubmissionDoorbell(1, 4)); tail != 4 {
					t.Errorf("%s %d: the doorbell is at %d", how, round, tail)
				}
				drop.Store(false) // the queue is dead all the same
			}
			check(t, w.array.Close())
			if status := w.controllers[0].Transport().Load32(spec.CSTS); status&spec.Ready != 0 {
				t.Errorf("CSTS %#x when memory was given back", status)
			}
			check(t, w.controllers[0].Reset(context.Background()))
			a, err := gpuqueue.Open(d, w.controllers, gpuqueue.Options{})
			check(t, err)
			r := w.draw(4, 8)
			start(a, r)
			check(t, a.End(&ticket))
			w.landed("after a reset", r)
			check(t, a.Close())
		}
	})
}

// Of two tickets with commands in one queue the first is lost; the other's reads land.
func TestLostBeside(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		w := newWorld(t, d, setup{nvme: nvme.Options{Depth: 30}, array: gpuqueue.Options{Timeout: time.Hour},
			soft: soft.Options{Fate: func(c *spec.Command) soft.Fate { first, _ := c.Blocks(); return soft.Fate{Drop: first == 1} }}})
		var lost, good gpuqueue.Ticket
		x := w.draw(1, 1)
		w.set(x, []gpuqueue.Request{{Block: 1, Offset: 0, Blocks: 1}})
		check(t, w.array.Submit(&lost, x.Reads, w.streams[1]))
		r := &reads{requests: []gpuqueue.Request{{Block: 2, Offset: 512, Blocks: 3}, {Block: 9, Offset: 0, Blocks: 1}}}
		r.want = append(append(r.want, w.content[9*512:10*512]...), w.content[2*512:5*512]...)
		w.set(r, r.requests)
		check(t, w.array.Submit(&good, r.Reads, w.streams[0]))
		check(t, w.array.Complete(&good, w.streams[0]))
		check(t, w.array.End(&good))
		w.landed("beside", r)
		w.array.Abort()
		check(t, w.array.Complete(&lost, w.streams[1]))
		if err := w.array.End(&lost); !errors.Is(err, gpuqueue.ErrLost) {
			t.Error(err)
		}
	})
}

// spied is a drive whose shared memory a test can write to.
type spied struct {
	*soft.Drive
	mu     sync.Mutex
	memory []*nvme.Memory
}

func (s *spied) Alloc(n int) (*nvme.Memory, error) {
	m, err := s.Drive.Alloc(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory = append(s.memory, m)
	return m, err
}

// A completion of a command that is not under way, or a second one of the same, ends the
// queue: no request is taken for another.
func TestProtocol(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		for _, how := range []string{"submit", "read"} {
			for what, ids := range map[string][]uint16{"not a slot": {99}, "not under way": {5}, "twice": {0, 0}} {
				s := new(spied)
				dropped := 0
				w := newWorld(t, d, setup{nvme: nvme.Options{Depth: 8}, array: gpuqueue.Options{Timeout: time.Hour},
					wrap: func(drive *soft.Drive) nvme.Transport { s.Drive = drive; return s },
					soft: soft.Options{Fate: func(*spec.Command) soft.Fate {
						if dropped++; dropped == 2 {
							s.mu.Lock()
							defer s.mu.Unlock()
							cq := s.memory[5].Bytes // after the admin queue's three and a page, the first queue's
							for i, id := range ids {
								c := spec.Completion{ID: id}
								atomic.StoreUint32((*uint32)(unsafe.Pointer(&cq[16*i+12])), c.Last(true))
							}
						}
						return soft.Fate{Drop: true}
					}}})
				var ticket gpuqueue.Ticket
				r := w.draw(2, 1)
				if how == "read" {
					check(t, w.array.Read(&ticket, r.Reads, w.streams[0]))
				} else {
					check(t, w.array.Submit(&ticket, r.Reads, w.streams[0]))
					check(t, w.array.Complete(&ticket, w.streams[0]))
				}
				if err := w.array.End(&ticket); !errors.Is(err, gpuqueue.ErrLost) || !strings.Contains(err.Error(), "not under way") {
					t.Errorf("%s, %s: %v", how, what, err)
				}
			}
		}
	})
}

// Abort ends a wait without a deadline.
func TestAbort(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		for _, how := range []string{"submit", "read"} {
			dropped := make(chan struct{}, 100)
			w := newWorld(t, d, setup{nvme: nvme.Options{Queues: 1, Depth: 8}, array: gpuqueue.Options{Timeout: time.Hour},
				soft: soft.Options{Fate: func(*spec.Command) soft.Fate { dropped <- struct{}{}; return soft.Fate{Drop: true} }}})
			go func() {
				<-dropped
				w.array.Abort()
			}()
			var ticket gpuqueue.Ticket
			r := w.draw(1, 8)
			if how == "read" {
				check(t, w.array.Read(&ticket, r.Reads, w.streams[0]))
			} else {
				check(t, w.array.Submit(&ticket, r.Reads, w.streams[0]))
				check(t, w.array.Complete(&ticket, w.streams[0]))
			}
			if err := w.array.End(&ticket); !errors.Is(err, gpuqueue.ErrLost) || !strings.Contains(err.Error(), "aborted") {
				t.Error(err)
			}
		}
	})
}

// What an array cannot consist of is refused, and leaves nothing behind.
func TestRefused(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		w := newWorld(t, d, setup{nvme: nvme.Options{Depth: 4}})
		other := newWorld(t, d, setup{nvme: nvme.Options{Depth: 8}})
		for want, open := range map[string]func() (*gpuqueue.Array, error){
			"0 drives":      func() (*gpuqueue.Array, error) { return gpuqueue.Open(d, nil, gpuqueue.Options{}) },
			"queue is lent": func() (*gpuqueue.Array, error) { return gpuqueue.Open(d, w.controllers, gpuqueue.Options{}) },
			"takes 131072": func() (*gpuqueue.Array, error) {
				return gpuqueue.Open(d, w.controllers, gpuqueue.Options{RequestBytes: 1 << 18})
			},
			"not possible: {Requ": func() (*gpuqueue.Array, error) {
				return gpuqueue.Open(d, w.controllers, gpuqueue.Options{RequestBytes: 512})
			},
			"queues of 8 entr": func() (*gpuqueue.Array, error) {
				return gpuqueue.Open(d, append(w.controllers[:1:1], other.controllers...), gpuqueue.Options{})
			},
		} {
			if a, err := open(); err == nil || !strings.Contains(err.Error(), want) || a != nil {
				t.Errorf("%v, want %q", err, want)
			}
		}
		r := w.draw(1, 1)
		for _, x := range []gpuqueue.Reads{
			{Requests: r.Requests.Slice(0, 24), Count: r.Count, To: r.To, Status: r.Status},
			{Requests: r.Requests, Count: r.Count, To: r.To, Status: r.Status.Slice(0, 8)},
			{Requests: r.Requests, Count: r.Count, To: r.To.Slice(8, 8), Status: r.Status},
			{Requests: r.Requests, Count: gpuqueue.Count{Most: -1}, To: r.To, Status: r.Status},
		} {
			if err := w.array.Submit(new(gpuqueue.Ticket), x, w.streams[0]); !errors.Is(err, fault.ErrUsage) {
				t.Error(err)
			}
		}
	})
}
