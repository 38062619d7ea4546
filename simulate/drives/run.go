package drives

import (
	"context"

	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
	"diskgnn/simulate/kernel"
)

// Result is the times of a simulated run. Durations are in seconds of virtual time.
type Result struct {
	Drives  int     `json:"drives"`
	Batches int     `json:"batches"`
	Seconds float64 `json:"seconds"`

	SampleSeconds float64 `json:"sample_seconds"`
	ReadSeconds   float64 `json:"read_seconds"` // time with reads of features or assembling in progress
	// AssembleSeconds is the part of ReadSeconds in which the host assembled batches.
	AssembleSeconds float64 `json:"assemble_seconds"`
	ComputeSeconds  float64 `json:"compute_seconds"`

	Rows        int64   `json:"rows"`
	HitRatio    float64 `json:"hit_ratio"` // of the rows
	Requests    int64   `json:"requests"`
	BytesRead   int64   `json:"bytes_read"`
	UsefulBytes int64   `json:"useful_bytes"`

	// Rates are over ReadSeconds; the rate of useful bytes counts the bytes served by caches.
	RequestsPerSecond float64 `json:"requests_per_second"`
	BytesPerSecond    float64 `json:"bytes_per_second"`
	UsefulPerSecond   float64 `json:"useful_bytes_per_second"`

	// Shares of ReadSeconds in which each part was busy. InFlight is the mean number of requests in flight
	// over its limit.
	DrivesBusy  float64 `json:"drives_busy"`
	LinkBusy    float64 `json:"link_busy"`
	ThreadsBusy float64 `json:"threads_busy"`
	InFlight    float64 `json:"in_flight"`

	MeanLatency float64 `json:"mean_latency_seconds"` // of requests, from submission to arrival
	P99Latency  float64 `json:"p99_latency_seconds"`
	DriveQueue  float64 `json:"drive_queue"` // mean number of requests that wait at a drive, over Seconds

	// Bound is the part with the largest share of the time: sampling, computing, assembling, drives, link,
	// threads, requests in flight (more of them would help), or latency if no part is busy half of the time.
	Bound string `json:"bound"`
}

// Kinds of events.
const (
	evStart     = iota // a batch gets a slot
	evSampled          // batch B is sampled
	evArrive           // request A arrives at its drive
	evEnter            // request A enters the drive's queue
	evLeave            // request A leaves the drive
	evDone             // the bytes of request A have arrived
	evBuffered         // batch B has its rows from RAM, or from the page cache
	evAssembled        // batch B is assembled
	evCopied           // batch B is on the GPU
	evComputed         // batch B is computed
)

// request is a read in flight.
type request struct {
	batch, drive int32
	bytes        int64
	since        kernel.Time
}

// flow is the progress of a batch.
type flow struct {
	waits  int  // requests in flight, and one for rows from RAM or from the page cache
	issued bool // all requests are submitted
}

// run is a simulation of loads on a machine.
type run struct {
	kernel.Sim
	m     Machine
	loads []Load

	sampler, threads, assembler, link, gpu *kernel.Server
	drives                                 []*kernel.Server
	queues                                 []*kernel.Pool
	slots                                  *kernel.Pool
	cost                                   kernel.Time
	delay                                  kernel.Time

	next    int // the next batch to start
	sampled int // number of sampled batches
	issuing int // the batch that submits requests
	kind    int // index of its present Reads
	taken   int64
	total   int64 // requests submitted

	flows    []flow
	requests []request
	idle     []int32 // free entries of requests
	inFlight int

	reading   int // batches with reads of features or assembling in progress
	readSince kernel.Time
	readTime  kernel.Time
	flight    float64 // Σ requests in flight × picoseconds
	flightAt  kernel.Time
	latency   kernel.Histogram
}

// Run simulates the loads of batches on a machine. The result depends on the loads and the machine alone.
// If ctx ends, Run returns its error after at most 65,536 further events. A machine out of bounds is an
// error of Machine.Check; a run that may exceed 100 days of virtual time is an error of kind
// fault.ErrInput.
func Run(ctx context.Context, loads []Load, m Machine) (Result, error) {
	if err := m.Check(); err != nil {
		return Result{}, err
	}
	if s := serial(loads, m); s > longest {
		return Result{}, fault.New(fault.ErrInput, "the batches may take %.0f days, one request after another; at most %d days can be simulated", s/86400, longest/86400)
	}
	r := newRun(loads, m)
	r.start()
	var e kernel.Event
	for r.Next(&e) {
		r.handle(&e)
		if r.Events()&0xffff == 0 && ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
	}
	return r.result(), nil
}

func newRun(loads []Load, m Machine) *run {
	r := &run{
		m: m, loads: loads, flows: make([]flow, len(loads)),
		sampler: kernel.NewServer(1), assembler: kernel.NewServer(1), link: kernel.NewServer(1), gpu: kernel.NewServer(1),
		threads: kernel.NewServer(m.Software.Threads), slots: kernel.NewPool(m.Slots),
		cost: micros(m.Software.CostMicros), delay: m.Drive.delay(),
	}
	for range m.Drives {
		r.drives = append(r.drives, kernel.NewServer(1))
		r.queues = append(r.queues, kernel.NewPool(m.Drive.Depth))
	}
	return r
}

// start gives free slots to batches, in order.
func (r *run) start() {
	for r.next < len(r.loads) {
		if !r.slots.Acquire(&r.Sim, kernel.Event{Kind: evStart}) {
			return
		}
		r.begin()
	}
}

// begin samples the next batch.
func (r *run) begin() {
	done := r.sampler.Serve(r.Now(), r.loads[r.next].Sample)
	r.At(done, kernel.Event{Kind: evSampled, B: int64(r.next)})
	r.next++
}

func (r *run) handle(e *kernel.Event) {
	switch e.Kind {
	case evStart:
		r.begin()
		r.start()
	case evSampled:
		r.read(e.B)
		r.submit()
	case evArrive:
		if r.queues[r.requests[e.A].drive].Acquire(&r.Sim, kernel.Event{Kind: evEnter, A: e.A}) {
			r.enter(e.A)
		}
	case evEnter:
		r.enter(e.A)
	case evLeave:
		r.At(r.link.Serve(r.Now(), kernel.Rate(r.m.Link).For(r.requests[e.A].bytes)), kernel.Event{Kind: evDone, A: e.A})
	case evDone:
		r.arrived(e.A)
	case evBuffered:
		r.flows[e.B].waits--
		r.complete(int(e.B))
	case evAssembled:
		r.copy(int(e.B))
	case evCopied:
		r.count(-1)
		r.At(r.gpu.Serve(r.Now(), r.loads[e.B].Compute), kernel.Event{Kind: evComputed, B: e.B})
	case evComputed:
		r.slots.Release(&r.Sim)
	}
}

// read begins the reads of a sampled batch.
func (r *run) read(b int64) {
	r.count(1)
	r.sampled++
	if zero := r.loads[b].Zero; zero > 0 {
		r.flows[b].waits++
		r.At(r.link.Serve(r.Now(), kernel.Rate(r.m.Link).For(zero)), kernel.Event{Kind: evBuffered, B: b})
	}
}

// count adds n to reading.
func (r *run) count(n int) {
	if r.reading > 0 {
		r.readTime += r.Now() - r.readSince
	}
	r.readSince = r.Now()
	r.reading += n
}

// submit gives requests to the threads, up to the limit in flight.
func (r *run) submit() {
	for r.issuing < r.sampled {
		l := &r.loads[r.issuing]
		for r.kind < len(l.Reads) && r.taken == l.Reads[r.kind].Count {
			r.kind, r.taken = r.kind+1, 0
		}
		if r.kind == len(l.Reads) {
			r.flows[r.issuing].issued = true
			if n, _ := l.Requests(); n == 0 && l.Touched > 0 {
				r.touch(l)
			} else {
				r.complete(r.issuing)
			}
			r.issuing, r.kind = r.issuing+1, 0
			continue
		}
		if r.inFlight == r.m.Software.inFlight() {
			return
		}
		r.request(l)
	}
}

// touch occupies the threads for the pages in the page cache, for a batch without page faults.
func (r *run) touch(l *Load) {
	r.flows[r.issuing].waits++
	t := r.touches(l, int64(r.m.Software.Threads))
	for range r.m.Software.Threads - 1 {
		r.threads.Serve(r.Now(), t)
	}
	r.At(r.threads.Serve(r.Now(), t), kernel.Event{Kind: evBuffered, B: int64(r.issuing)})
}

// touches returns the time of all touches of a batch, divided by n.
func (r *run) touches(l *Load, n int64) kernel.Time {
	return micros(r.m.Software.TouchMicros * float64(l.Touched) / float64(n))
}

// request submits the next request of a batch. The touches of pages in the page cache are spread evenly
// over the requests.
func (r *run) request(l *Load) {
	cost := r.cost
	if l.Touched > 0 {
		n, _ := l.Requests()
		cost += r.touches(l, n)
	}
	drive := r.total
	if !l.Striped {
		drive = int64(rng.Mix(uint64(r.total)) >> 1)
	}
	q := request{batch: int32(r.issuing), drive: int32(drive % int64(r.m.Drives)), bytes: l.Reads[r.kind].Bytes, since: r.Now()}
	r.total++
	r.taken++
	r.fly(1)
	r.flows[r.issuing].waits++
	var id int32
	if n := len(r.idle); n > 0 {
		id, r.idle = r.idle[n-1], r.idle[:n-1]
		r.requests[id] = q
	} else {
		id = int32(len(r.requests))
		r.requests = append(r.requests, q)
	}
	r.At(r.threads.Serve(r.Now(), cost), kernel.Event{Kind: evArrive, A: id})
}

// fly adds n to the requests in flight.
func (r *run) fly(n int) {
	r.flight += float64(r.inFlight) * float64(r.Now()-r.flightAt)
	r.flightAt = r.Now()
	r.inFlight += n
}

// enter puts a request into its drive's queue.
func (r *run) enter(id int32) {
	q := &r.requests[id]
	kind := int32(evDone)
	if r.loads[q.batch].Direct {
		kind = evLeave
	}
	r.At(r.drives[q.drive].Serve(r.Now(), r.m.Drive.service(q.bytes))+r.delay, kernel.Event{Kind: kind, A: id})
}

// arrived ends a request.
func (r *run) arrived(id int32) {
	q := r.requests[id]
	r.idle = append(r.idle, id)
	r.queues[q.drive].Release(&r.Sim)
	r.fly(-1)
	r.latency.Add(r.Now() - q.since)
	r.flows[q.batch].waits--
	r.complete(int(q.batch))
	r.submit()
}

// complete assembles a batch if all of its rows have arrived.
func (r *run) complete(b int) {
	f, t := &r.flows[b], r.loads[b].Assemble
	switch {
	case !f.issued || f.waits > 0:
	case t == 0:
		r.copy(b)
	default:
		r.At(r.assembler.Serve(r.Now(), t), kernel.Event{Kind: evAssembled, B: int64(b)})
	}
}

// copy copies a batch to the GPU.
func (r *run) copy(b int) {
	r.At(r.link.Serve(r.Now(), kernel.Rate(r.m.Link).For(r.loads[b].Copy)), kernel.Event{Kind: evCopied, B: int64(b)})
}

func (r *run) result() Result {
	res := Result{Drives: r.m.Drives, Batches: len(r.loads), Seconds: r.Now().Seconds(), ReadSeconds: r.readTime.Seconds()}
	hits := int64(0)
	for i := range r.loads {
		l := &r.loads[i]
		n, bytes := l.Requests()
		res.Batches += l.Merged
		res.Rows += l.Rows
		hits += l.Hits
		res.Requests += n
		res.BytesRead += bytes
		res.UsefulBytes += l.Useful
	}
	if res.Rows > 0 {
		res.HitRatio = float64(hits) / float64(res.Rows)
	}
	res.SampleSeconds, res.ComputeSeconds = r.sampler.Stats().Busy.Seconds(), r.gpu.Stats().Busy.Seconds()
	res.AssembleSeconds = r.assembler.Stats().Busy.Seconds()
	for _, d := range r.drives {
		res.DrivesBusy += d.Stats().Utilisation(r.readTime) / float64(len(r.drives))
		res.DriveQueue += d.Stats().MeanQueue(r.Now()) / float64(len(r.drives))
	}
	res.LinkBusy = r.link.Stats().Utilisation(r.readTime)
	res.ThreadsBusy = r.threads.Stats().Utilisation(r.readTime)
	if r.readTime > 0 {
		s := r.readTime.Seconds()
		res.InFlight = r.flight / float64(r.readTime) / float64(r.m.Software.inFlight())
		res.RequestsPerSecond, res.BytesPerSecond, res.UsefulPerSecond = float64(res.Requests)/s, float64(res.BytesRead)/s, float64(res.UsefulBytes)/s
	}
	res.MeanLatency, res.P99Latency = r.latency.Mean().Seconds(), r.latency.Quantile(0.99).Seconds()
	res.Bound = res.bound()
	return res
}

// bound returns the name of the part with the largest share of the run's time; if that is reading, its
// busiest part.
func (r *Result) bound() string {
	if r.ComputeSeconds >= max(r.SampleSeconds, r.ReadSeconds) || r.ComputeSeconds > 0.97*r.Seconds {
		return "computing"
	}
	if r.SampleSeconds >= r.ReadSeconds || r.SampleSeconds > 0.97*r.Seconds {
		return "sampling"
	}
	name, most := "", -1.0
	if r.ReadSeconds > 0 {
		name, most = "assembling", r.AssembleSeconds/r.ReadSeconds
	}
	for _, c := range []struct {
		name string
		busy float64
	}{{"drives", r.DrivesBusy}, {"link", r.LinkBusy}, {"threads", r.ThreadsBusy}} {
		if c.busy > most {
			name, most = c.name, c.busy
		}
	}
	if most < 0.7 && r.InFlight > 0.7 {
		return "requests in flight" // checked last: a busy drive also has many requests in flight
	}
	if most < 0.5 {
		return "latency"
	}
	return name
}
