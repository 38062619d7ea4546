package train

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"
	"unsafe"

	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/record"
	"diskgnn/simulate/trace"
	"diskgnn/train/epoch"
)

// recording writes a run's trace: of each training batch that was computed, in that order,
// what its store read through the storage stack, and how long it was drawn, assembled and computed. It
// outlives the attempts at a run. Nil, it does nothing.
type recording struct {
	fsys  vfs.FS
	name  string
	file  *trace.Recording // nil: no attempt has come so far
	known map[record.File]int32

	// Of an attempt:
	stack   *record.Stack
	numbers []int32 // in the trace, of the stack's files
	batch   trace.Batch

	mu     sync.Mutex
	loaded time.Time // when a batch left the first link for the last time
}

// newRecording refuses, before there is a run, the name of a file that is there or cannot be:
// that of the run, and one below a file. Without a name there is nothing to write.
func newRecording(fsys vfs.FS, name, out string) (*recording, error) {
	if name == "" {
		return nil, nil
	}
	if filepath.Clean(name) == filepath.Clean(out) {
		return nil, fault.New(fault.ErrUsage, "--record %s: the run has that name; name a file", name)
	}
	if err := vfs.CheckParents(fsys, name); err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	return &recording{fsys: fsys, name: name, known: map[record.File]int32{}}, trace.CheckNew(fsys, name)
}

// recordRoom returns how many reads of a training batch there is room for: one of each page
// of each row, and some of graphs.
func recordRoom(f *featurestore.Facts) int64 {
	return int64(f.Inputs(false))*(1+int64(f.RowBytes)/binio.Page) + 1024
}

// recordBytes returns what a recording holds with so many slots: their reads, those of the
// batch that is written, and its encoding.
func recordBytes(f *featurestore.Facts, slots int) int64 {
	const encoded, buffers = 16, 1 << 20
	return recordRoom(f)*(record.ReadBytes*int64(slots)+int64(unsafe.Sizeof(trace.Read{}))+encoded) + buffers
}

// wrap returns the stack of an attempt, whose reads are kept.
func (r *recording) wrap(s iostack.Stack) iostack.Stack {
	if r == nil {
		return s
	}
	r.stack, r.numbers, r.loaded = record.Wrap(s), nil, time.Time{}
	return r.stack
}

// begin makes slots of training batches keep their reads, and begins the file, whose header
// is the first attempt's.
func (r *recording) begin(h trace.Header, slots []*epoch.Slot, f *featurestore.Facts) (err error) {
	if r == nil {
		return nil
	}
	caps := r.stack.Caps()
	h.InFlight, h.LongestRead = caps.Depth, caps.MaxIO
	for _, sl := range slots {
		sl.Watcher = &kept{Batch: record.NewBatch(int(recordRoom(f))), of: r}
	}
	if r.file == nil {
		r.file, err = trace.Begin(r.fsys, r.name, h)
	}
	return err
}

// kept is what a slot keeps of the batch in it.
type kept struct {
	*record.Batch
	of        *recording
	began     time.Time     // in the first link
	drawn     time.Duration // at work there, and none of the batches before it
	assembled time.Duration // at work in the links after it

	entered time.Time     // the link that it is in
	waited  time.Duration // for reads, before that
}

// Enter begins with another batch in the first link, and counts the time of the others.
func (k *kept) Enter(link string) {
	now := time.Now()
	if link == epoch.LinkLoad {
		k.Reset()
		k.began, k.assembled = now, 0
		return
	}
	k.entered, k.waited = now, k.Waited()
}

// Leave adds to the time of assembling what a link took, but for waiting.
func (k *kept) Leave(link string) {
	if link != epoch.LinkLoad {
		k.assembled += max(0, time.Since(k.entered)-(k.Waited()-k.waited))
		return
	}
	r, now := k.of, time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	k.drawn = alone(k.began, now, r.loaded, k.Waited())
	r.loaded = now
}

// On writes the batch that was computed.
func (r *recording) On(e epoch.Event) error {
	if e, ok := e.(*epoch.Computed); ok {
		return r.add(e.Slot.Watcher.(*kept), e.Took)
	}
	return nil
}

// alone returns the time of a batch in a link where several are side by side, so that the
// times of all of them add up to the link's: what passed since another left it for the last
// time, but no more than the batch was at work there.
func alone(began, now, left time.Time, waited time.Duration) time.Duration {
	from := began
	if left.After(from) {
		from = left
	}
	return max(0, min(now.Sub(from), now.Sub(began)-waited))
}

// add writes the batch of a slot, which took so long to compute.
func (r *recording) add(k *kept, computing time.Duration) error {
	if r == nil {
		return nil
	}
	reads := k.Reads()
	for _, f := range r.stack.Files(len(r.numbers)) {
		n, ok := r.known[f]
		if !ok {
			var err error
			if n, err = r.file.AddFile(trace.File{Name: filepath.Base(f.Name), Size: f.Size, Pages: f.Direct}); err != nil {
				return err
			}
			r.known[f] = n
		}
		r.numbers = append(r.numbers, n)
	}
	b := &r.batch
	b.SampleNanos, b.AssembleNanos, b.ComputeNanos, b.Reads = k.drawn.Nanoseconds(), k.assembled.Nanoseconds(), computing.Nanoseconds(), b.Reads[:0]
	for i := range reads {
		b.Reads = append(b.Reads, trace.Read{Offset: reads[i].Offset, Bytes: reads[i].Bytes, File: r.numbers[reads[i].File]})
	}
	return r.file.Append(b)
}

// end finishes the trace of a run that ended with err, or leaves nothing of it.
func (r *recording) end(err error) error {
	if r == nil || r.file == nil {
		return err
	}
	if err != nil {
		_ = r.file.Abandon(nil) // why there is none is why the run ended
		return err
	}
	return r.file.Finish()
}
