// Package record records the reads of each batch. It wraps any stack without a change of its users: reads
// that are awaited under a batch's context belong to the batch.
//
//	stack := record.Wrap(inner)          given to the store in inner's place
//	b := record.NewBatch(n)              one for each slot
//	ctx = b.Context(ctx)                 of all waits of the slot's batch
//	reads := b.Reads()                   when the batch has its features; then b.Reset()
//
// Failed reads, and reads that are awaited under another context, such as reads to fill a cache, belong to
// no batch. A read for several batches belongs to the batch that waits for it. Reads that bypass the stack,
// such as page faults, are not recorded.
package record

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
	"unsafe"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// Read is a recorded request: a range of bytes of a file. File is the file's number in Stack.Files.
type Read struct {
	Offset, Bytes int64
	File          int32
	order         int64 // among all requests
}

// File is a file with recorded reads.
type File struct {
	Name   string // path with which the file was opened
	Size   int64  // bytes
	Direct bool   // reads bypass the page cache
}

type inner = iostack.Stack

// Stack wraps another stack and records its requests. In steady state it allocates nothing: lists are
// reused.
type Stack struct {
	inner

	mu      sync.Mutex
	order   int64
	waiting map[*iostack.Group]*[]Read // submitted, and not waited for
	idle    []*[]Read
	numbers map[string]int32 // of files, by name
	files   []File
	last    iostack.File // the file of the latest request,
	number  int32        // and its number
}

var _ iostack.DeviceStack = (*Stack)(nil)

// Wrap returns a stack that reads through inner and records the requests. Closing the result closes inner.
func Wrap(inner iostack.Stack) *Stack {
	return &Stack{inner: inner, waiting: map[*iostack.Group]*[]Read{}, numbers: map[string]int32{}}
}

// Files returns the files with recorded reads, from the given number on: element i is the file of number
// from + i.
func (s *Stack) Files(from int) []File {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.files[from:])
}

// Submit submits the requests to the wrapped stack, and records all of at least one byte.
func (s *Stack) Submit(g *iostack.Group, reqs []iostack.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock() // the order is that in which the inner stack gets them
	if err := s.inner.Submit(g, reqs); err != nil {
		return err
	}
	list := s.waiting[g]
	if list == nil {
		if n := len(s.idle); n > 0 {
			list, s.idle = s.idle[n-1], s.idle[:n-1]
		} else {
			list = new([]Read)
		}
		s.waiting[g] = list
	}
	for i := range reqs {
		if r := &reqs[i]; r.Len() > 0 {
			*list = append(*list, Read{Offset: r.Offset, Bytes: int64(r.Len()), File: s.file(r.File), order: s.order})
			s.order++
		}
	}
	return nil
}

func (s *Stack) file(f iostack.File) int32 {
	if f == s.last {
		return s.number
	}
	n, ok := s.numbers[f.Name()]
	if !ok {
		n = int32(len(s.files))
		direct, _ := f.Direct()
		s.numbers[f.Name()] = n
		s.files = append(s.files, File{Name: f.Name(), Size: f.Size(), Direct: direct})
	}
	s.last, s.number = f, n
	return n
}

// Wait waits for a group. If all requests succeeded, they belong to the batch of the context.
func (s *Stack) Wait(ctx context.Context, g *iostack.Group) error {
	began := time.Now()
	err := s.inner.Wait(ctx, g)
	b, _ := ctx.Value(key{}).(*Batch)
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.waiting[g]
	delete(s.waiting, g)
	if b != nil {
		b.waited += time.Since(began)
		if list != nil && err == nil {
			b.reads = append(b.reads, *list...)
		}
	}
	if list != nil {
		*list = (*list)[:0]
		s.idle = append(s.idle, list)
	}
	return err
}

// OpenStriped opens files of the wrapped stack as one.
func (s *Stack) OpenStriped(paths []string, unit int) (iostack.File, error) {
	return iostack.OpenStriped(s.inner, paths, unit)
}

// RegisterDevice registers device memory with the wrapped stack.
func (s *Stack) RegisterDevice(bufs ...device.Buffer) error {
	return iostack.RegisterDevice(s.inner, bufs...)
}

// UnregisterDevice unregisters device memory with the wrapped stack.
func (s *Stack) UnregisterDevice(bufs ...device.Buffer) error {
	return iostack.UnregisterDevice(s.inner, bufs...)
}

// DeviceTerms returns an error: reads by a GPU could not be recorded.
func (s *Stack) DeviceTerms(iostack.DeviceNeed) (iostack.DeviceTerms, error) {
	return iostack.DeviceTerms{}, fault.New(fault.ErrUsage, "reads are recorded: a GPU cannot read by itself, since only reads of the host are recorded")
}

// NewDeviceReader returns the error of DeviceTerms.
func (s *Stack) NewDeviceReader(_ device.GPU, n iostack.DeviceNeed) (iostack.DeviceReader, error) {
	_, err := s.DeviceTerms(n)
	return nil, err
}

// Batch collects the reads of one batch after another, all through one stack. Any goroutine may wait under
// its context. The methods are for one goroutine at a time, while no goroutine waits under the context.
type Batch struct {
	parent, context context.Context // the latest, of which there is one in a run

	reads  []Read        // guarded by the stack's mutex while something waits
	waited time.Duration // likewise
}

type key struct{}

// ReadBytes is the memory of one recorded read, in bytes.
const ReadBytes = int64(unsafe.Sizeof(Read{}))

// NewBatch returns an empty Batch with room for the given number of reads. It grows if there are more.
func NewBatch(room int) *Batch { return &Batch{reads: make([]Read, 0, room)} }

// Context returns a context derived from ctx: reads that are awaited under it belong to the batch.
func (b *Batch) Context(ctx context.Context) context.Context {
	if b.parent != ctx {
		b.parent, b.context = ctx, context.WithValue(ctx, key{}, b)
	}
	return b.context
}

// Reset discards the collected reads, and the time of Waited.
func (b *Batch) Reset() { b.reads, b.waited = b.reads[:0], 0 }

// Waited returns the time that waits under the batch's context have taken since Reset.
func (b *Batch) Waited() time.Duration { return b.waited }

// Reads returns the batch's reads since Reset, in the order of submission. The slice is valid until Reset.
func (b *Batch) Reads() []Read {
	slices.SortFunc(b.reads, func(x, y Read) int { return cmp.Compare(x.order, y.order) })
	return b.reads
}
