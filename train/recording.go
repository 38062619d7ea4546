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

// recording writes a run's trace. For each training batch, in the order of computing, it has the
// reads of the store through the storage stack, and the times of drawing, assembling and computing.
// It outlives the attempts at a run. A nil recording does nothing.
type recording struct {
	fsys  vfs.FS
	name  string
	file  *trace.Recording // nil: no attempt has come so far
	known map[record.File]int32

	// State of one attempt:
	stack   *record.Stack
	numbers []int32 // in the trace, of the stack's files
	batch   trace.Batch

	mu     sync.Mutex
	loaded time.Time // when a batch left the first link for the last time
}

// newRecording refuses names that cannot be written, before there is a run: an existing file, the
// run's own path, a path below a file. Without a name it returns nil.
func newRecording(fsys vfs.FS, name, out string) (*recording, error) {
	if name == "" {
		return nil, nil
	}
	if filepath.Clean(name) == filepath.Clean(out) {
		return nil, fault.New(fault.ErrUsage, "--record %s is the directory of the run; name a file", name)
	}
	if err := vfs.CheckParents(fsys, name); err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	return &recording{fsys: fsys, name: name, known: map[record.File]int32{}}, trace.CheckNew(fsys, name)
}

// recordRoom returns the number of reads of a training batch that memory is taken for: one for each
// page of each row, and some for graphs.
func recordRoom(f *featurestore.Facts) int64 {
	return int64(f.Inputs(false))*(1+int64(f.RowBytes)/binio.Page) + 1024
}

// recordBytes returns the bytes that a recording holds with this number of slots: their reads, the
// reads of the batch being written, and its encoding.
func recordBytes(f *featurestore.Facts, slots int) int64 {
	const encoded, buffers = 16, 1 << 20
	return recordRoom(f)*(record.ReadBytes*int64(slots)+int64(unsafe.Sizeof(trace.Read{}))+encoded) + buffers
}

// wrap returns an attempt's stack, which records its reads.
func (r *recording) wrap(s iostack.Stack) iostack.Stack {
	if r == nil {
		return s
	}
	r.stack, r.numbers, r.loaded = record.Wrap(s), nil, time.Time{}
	return r.stack
}

// begin makes slots of training batches keep their reads, and begins the file, with the header of
// the first attempt.
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

// kept is the record of the batch in a slot.
type kept struct {
	*record.Batch
	of        *recording
	began     time.Time     // in the first link
	drawn     time.Duration // at work there, and none of the batches before it
	assembled time.Duration // at work in the links after it

	entered time.Time     // the link that it is in
	waited  time.Duration // for reads, before that
}

// Enter begins the record of another batch in the first link, and starts the time of the other
// links.
func (k *kept) Enter(link string) {
	now := time.Now()
	if link == epoch.LinkLoad {
		k.Reset()
		k.began, k.assembled = now, 0
		return
	}
	k.entered, k.waited = now, k.Waited()
}

// Leave adds a link's time without waiting to the time of assembling.
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

// alone returns a batch's part of a link's time where several batches are in the link at once, so
// that the parts add up to the link's time: the time since another batch left the link last, but at
// most the time that this batch was at work there.
func alone(began, now, left time.Time, waited time.Duration) time.Duration {
	from := began
	if left.After(from) {
		from = left
	}
	return max(0, min(now.Sub(from), now.Sub(began)-waited))
}

// add writes the record of a slot's batch. computing is the time of computing it.
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

// end finishes the trace of a run that ended with err, or removes it.
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
