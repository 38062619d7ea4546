package pipeline

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
	"sync"
	"time"
	"unsafe"
)

// Recorder keeps the latest spans in a ring of fixed size, for a trace. Several
// pipelines may share one. Its methods are safe for concurrent use.
type Recorder struct {
	since time.Time // origin of all times

	mu    sync.Mutex
	lanes []string
	ring  []event
	count int // events added so far
}

// Lane is a row of the trace: the spans of one worker, one after another. It is an index of the recorder.
type Lane int

// event is a span as the recorder keeps it.
type event struct {
	lane                Lane
	item                int
	begin, length, wait time.Duration // wait: idle before begin
}

// RecorderBytes returns the memory of NewRecorder(spans), in bytes.
func RecorderBytes(spans int) int64 { return int64(unsafe.Sizeof(event{})) * int64(max(1, spans)) }

// NewRecorder returns a recorder of the given number of latest spans, at least one. It allocates their
// memory at once: 40 bytes each.
func NewRecorder(spans int) *Recorder {
	return &Recorder{since: time.Now(), ring: make([]event, max(1, spans))}
}

// Lane adds a lane with the given name and returns it.
func (r *Recorder) Lane(name string) Lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lanes = append(r.lanes, name)
	return Lane(len(r.lanes) - 1)
}

// Add records the work of a lane on an item, from begin until now.
func (r *Recorder) Add(lane Lane, item int, begin time.Time) {
	r.AddSpan(lane, item, begin, time.Since(begin))
}

// AddSpan records the work of a lane on an item, from begin on, for the given length.
func (r *Recorder) AddSpan(lane Lane, item int, begin time.Time, length time.Duration) {
	r.add(event{lane: lane, item: item, begin: begin.Sub(r.since), length: length})
}

func (r *Recorder) add(e event) {
	r.mu.Lock()
	r.ring[r.count%len(r.ring)] = e
	r.count++
	r.mu.Unlock()
}

// Dropped returns the number of spans that were overwritten by later ones.
func (r *Recorder) Dropped() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(0, r.count-len(r.ring))
}

// WriteTrace writes the spans as a Chrome trace (the JSON object form of the Trace
// Event Format): a complete event per span, with the item as argument "batch" and
// the microseconds waited before it as "blocked_us". It loads in chrome://tracing
// and in Perfetto.
func (r *Recorder) WriteTrace(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := bufio.NewWriterSize(w, 1<<16)
	_, _ = b.WriteString(`{"displayTimeUnit":"ms","traceEvents":[`) // bufio keeps the first error for Flush
	var line []byte
	for i, name := range r.lanes {
		line = r.appendLane(line[:0], i, name)
		_, _ = b.Write(line)
	}
	for i := max(0, r.count-len(r.ring)); i < r.count; i++ {
		line = r.appendEvent(line[:0], &r.ring[i%len(r.ring)])
		_, _ = b.Write(line)
	}
	_, _ = b.WriteString("\n]}\n")
	return b.Flush()
}

// appendLane appends the metadata events that name a lane and give it its place.
func (r *Recorder) appendLane(b []byte, lane int, name string) []byte {
	if lane > 0 {
		b = append(b, ',')
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		panic(err) // a string always can
	}
	tid := strconv.Itoa(lane + 1)
	b = append(b, "\n"+`{"ph":"M","pid":1,"tid":`+tid+`,"name":"thread_name","args":{"name":`...)
	b = append(b, quoted...)
	b = append(b, "}},\n"+`{"ph":"M","pid":1,"tid":`+tid+`,"name":"thread_sort_index","args":{"sort_index":`+tid+`}}`...)
	return b
}

func (r *Recorder) appendEvent(b []byte, e *event) []byte {
	quoted, err := json.Marshal(r.lanes[e.lane])
	if err != nil {
		panic(err)
	}
	b = append(b, ",\n"+`{"ph":"X","pid":1,"tid":`...)
	b = strconv.AppendInt(b, int64(e.lane)+1, 10)
	b = append(b, `,"name":`...)
	b = append(b, quoted...)
	b = append(b, `,"ts":`...)
	b = appendMicros(b, e.begin)
	b = append(b, `,"dur":`...)
	b = appendMicros(b, e.length)
	b = append(b, `,"args":{"batch":`...)
	b = strconv.AppendInt(b, int64(e.item), 10)
	b = append(b, `,"blocked_us":`...)
	b = appendMicros(b, e.wait)
	return append(b, "}}"...)
}

// appendMicros appends microseconds with three decimals.
func appendMicros(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, float64(d)/1e3, 'f', 3, 64)
}

// Span is the work of a lane on an item.
type Span struct {
	Lane          string
	Item          int
	Begin, Length time.Duration // since the recorder was made
}

// Latest returns the latest spans, at most most, in the order in which they were recorded.
func (r *Recorder) Latest(most int) []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(most, r.count, len(r.ring))
	list := make([]Span, n)
	for i := range list {
		e := &r.ring[(r.count-n+i)%len(r.ring)]
		list[i] = Span{r.lanes[e.lane], e.item, e.begin, e.length}
	}
	return list
}
