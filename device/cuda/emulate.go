package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"diskgnn/internal/binio"
)

// Emulation computes the launch of the kernel of the given name on host memory. args are the kernel's
// arguments, eight bytes each. at returns the memory from an address to the end of its allocation, nil for
// the null pointer.
type Emulation func(kernel string, args []uint64, at func(address uint64) []byte)

// OpenEmulated returns an emulated device for tests on machines without a GPU. Its memory is host memory,
// with NaN as the first content, under its host addresses. Work is done when it is enqueued; run computes
// the kernels. OpenLate returns a device that defers work.
func OpenEmulated(run Emulation, o Options) (*Device, error) {
	return open(newEmulated(run), 0, o)
}

// Emulate replaces the GPUs of the machine with some emulated ones for this process, until restore is
// called, so that tests run whole commands on them. Every Open opens another device, with memory of its own.
// Unless apart is set, Device.Reach connects them. No device may be open during the calls.
func Emulate(run Emulation, devices int, apart bool) (restore func()) {
	emulation.Store(&emulatedGPUs{run, devices, &machine{apart: apart}})
	return func() { emulation.Store(nil) }
}

// emulatedGPUs replace the machine's.
type emulatedGPUs struct {
	run     Emulation
	count   int
	machine *machine
}

// emulation has the emulated GPUs that replace the machine's; nil: none do.
var emulation atomic.Pointer[emulatedGPUs]

// presentDriver returns the driver of the machine's GPUs, or of those that replace them.
func presentDriver() (driver, error) {
	if g := emulation.Load(); g != nil {
		e := newEmulated(g.run)
		e.gpus, e.machine, e.mu = g.count, g.machine, &g.machine.mu
		return e, nil
	}
	return loadDriver()
}

// machine is the state shared by the emulated devices of one machine.
type machine struct {
	mu      sync.Mutex
	devices []*emulated // open ones; memory pinned by one is visible to all
	apart   bool        // no device reaches another one's memory
}

// OpenMachine is OpenEmulated for several devices of one machine. Unless apart is set, Device.Reach
// connects them.
func OpenMachine(run Emulation, o Options, devices int, apart bool) ([]*Device, error) {
	m := &machine{apart: apart}
	list := make([]*Device, devices)
	for i := range list {
		e := newEmulated(run)
		e.machine, e.mu = m, &m.mu
		var err error
		if list[i], err = open(e, 0, o); err != nil {
			for _, d := range list[:i] {
				d.Close()
			}
			return nil, err
		}
		list[i].index = i
	}
	return list, nil
}

func newEmulated(run Emulation) *emulated {
	m := new(machine)
	e := &emulated{run: run, gpus: 1, machine: m, mu: &m.mu, blocks: make(map[uint64]block), pinned: make(map[unsafe.Pointer]*pinned), names: make(map[handle]string),
		graphs: make(map[handle][]task), streams: make(map[handle]handle), blas: make(map[handle]handle), recorded: make(map[handle]bool), live: make(map[handle]string)}
	e.give = func(_ handle, t task) { t.do() }
	e.wrong = func(what string) { panic("cuda: " + what) }
	return e
}

// emulatedBytes is the reported memory of an emulated device, in bytes.
const emulatedBytes = 1 << 40

// emulated is the driver of an emulated device.
type emulated struct {
	run   Emulation
	give  func(s handle, t task) // gives a stream a task
	wrong func(what string)      // is called for errors that a real device need not detect

	gpus     int // of the machine
	machine  *machine
	mu       *sync.Mutex // of all below, and held while tasks run: the machine's
	reached  []*emulated // devices with memory in reach
	next     uint64
	blocks   map[uint64]block
	pinned   map[unsafe.Pointer]*pinned
	names    map[handle]string // of functions
	graphs   map[handle][]task
	streams  map[handle]handle // the graph that a stream is being captured in, or 0
	blas     map[handle]handle // the stream of a library
	recorded map[handle]bool   // events
	live     map[handle]string // objects that are not freed: streams, events, libraries and graphs, by kind
}

// Left returns the number of objects of an emulated device that were not freed, by kind: "stream", "event",
// "cuBLAS" and "graph". It is nil if there are none.
func (d *Device) Left() map[string]int {
	e := emulatedOf(d.driver)
	e.mu.Lock()
	defer e.mu.Unlock()
	var left map[string]int
	for _, kind := range e.live {
		if left == nil {
			left = make(map[string]int)
		}
		left[kind]++
	}
	return left
}

// emulatedOf returns the emulated driver that d is, or is made around.
func emulatedOf(d driver) *emulated {
	switch d := d.(type) {
	case *faulty:
		return emulatedOf(d.driver)
	case *late:
		return d.emulated
	}
	return d.(*emulated)
}

// block is device memory, or host memory as the device sees it.
type block struct {
	bytes []byte
	freed bool    // further use is an error
	host  *pinned // that it is; nil: it is the device's own
}

// gone reports whether the memory was freed.
func (b block) gone() bool { return b.freed || b.host != nil && b.host.freed }

// pinned is pinned host memory.
type pinned struct {
	bytes []byte
	freed bool
}

// task is a piece of a stream's work, or, of a late one, a mark that it passes or waits
// for.
type task struct {
	do            func()
	exec          handle // the graph that it is of, if any
	passes, waits *mark
}

func (e *emulated) handle() handle {
	e.next += 1 << 12
	return handle(e.next)
}

func (e *emulated) newHandle() (handle, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.handle(), nil
}

// made returns the handle of something new that has to be freed.
func (e *emulated) made(kind string) (handle, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.handle()
	e.live[h] = kind
	return h, nil
}

// drop records that an object of a kind was freed. The lock is held.
func (e *emulated) drop(h handle, kind string) {
	if e.live[h] != kind {
		e.wrong(fmt.Sprintf("a %s was freed twice, or never made", kind))
	}
	delete(e.live, h)
}

// ask enqueues work on a stream, or captures it.
func (e *emulated) ask(s handle, work ...func()) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, do := range work {
		if g := e.streams[s]; g != 0 {
			e.graphs[g] = append(e.graphs[g], task{do: do})
		} else {
			e.give(s, task{do: do})
		}
	}
	return nil
}

// at returns the memory from an address to the end of its block.
func (e *emulated) at(address uint64) []byte {
	if address == 0 {
		return nil
	}
	if b, ok := e.own(address); ok {
		return b
	}
	for _, peer := range e.reached {
		if b, ok := peer.own(address); ok {
			return b
		}
	}
	panic(fmt.Sprintf("cuda: nothing lies at %#x", address))
}

func (e *emulated) own(address uint64) ([]byte, bool) {
	for from, b := range e.blocks {
		if from > address || address-from > uint64(len(b.bytes)) {
			continue
		}
		if b.gone() {
			e.wrong(fmt.Sprintf("work on memory that was freed, at %#x", address))
			return poisoned(len(b.bytes))[address-from:], true
		}
		return b.bytes[address-from:], true
	}
	return nil, false
}

func (e *emulated) reach(_ int, peer driver, _ int, _ handle) (bool, error) {
	p := emulatedOf(peer)
	if p.machine != e.machine || e.machine.apart {
		return false, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reached = append(e.reached, p)
	return true, nil
}

func (e *emulated) count() (int, error) { return e.gpus, nil }
func (e *emulated) describe(int) (Info, error) {
	return Info{Name: "emulated", Memory: emulatedBytes, Major: 9, Node: -1}, nil
}
func (e *emulated) bind(handle) error { return nil }

func (e *emulated) retain(int) (handle, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.machine.devices = append(e.machine.devices, e)
	return e.handle(), nil
}

func (e *emulated) release(int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.machine.devices = slices.DeleteFunc(e.machine.devices, func(d *emulated) bool { return d == e })
	return nil
}

func (e *emulated) available() (int64, error) { return emulatedBytes, nil }

func (e *emulated) alloc(size int64) (uint64, error) {
	b := make([]byte, size+2*Align) // a block's end is no other one's begin
	skip := -uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) % Align
	b = b[skip : skip+uint64(size)]
	fill(b, poison)
	address := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.blocks[address] = block{bytes: b}
	return address, nil
}

// poison is the byte value of memory before the first write: floats are NaN, and indices are too large.
const poison = 0xFF

// poisoned returns memory filled with poison.
func poisoned(size int) []byte {
	b := make([]byte, size)
	fill(b, poison)
	return b
}

// fill doubles the filled part, which for many bytes is far faster than one by one.
func fill(b []byte, value byte) {
	if len(b) == 0 {
		return
	}
	b[0] = value
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

func (e *emulated) free(address uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.blocks, address)
	return nil
}

func (e *emulated) allocPinned(bytes int64) (unsafe.Pointer, error) {
	b := poisoned(int(bytes))
	p := unsafe.Pointer(unsafe.SliceData(b))
	return p, e.register(p, bytes)
}

func (e *emulated) freePinned(p unsafe.Pointer) error { return e.unregister(p) }

func (e *emulated) register(p unsafe.Pointer, bytes int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pinned[p] = &pinned{bytes: unsafe.Slice((*byte)(p), bytes)}
	return nil
}

func (e *emulated) unregister(p unsafe.Pointer) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pinned[p].freed = true
	delete(e.pinned, p)
	return nil
}

// mapped gives pinned memory an address of its own.
func (e *emulated) mapped(p unsafe.Pointer) (uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, ok := e.pinned[p]
	for _, peer := range e.machine.devices {
		if !ok {
			m, ok = peer.pinned[p]
		}
	}
	if !ok {
		return 0, &status{call: "map", why: "it is not pinned"}
	}
	address := uint64(e.handle())
	e.next += uint64(len(m.bytes))
	e.blocks[address] = block{bytes: m.bytes, host: m}
	return address, nil
}

func (e *emulated) newStream() (handle, error)        { return e.made("stream") }
func (e *emulated) syncStream(handle) error           { return nil }
func (e *emulated) waitFor(_, _ handle) error         { return nil }
func (e *emulated) newEvent() (handle, error)         { return e.made("event") }
func (e *emulated) done(handle) (bool, error)         { return true, nil }
func (e *emulated) syncEvent(handle) error            { return nil }
func (e *emulated) blasVersion(handle) string         { return "emulated" }
func (e *emulated) unloadModule(handle) error         { return nil }
func (e *emulated) dropGraph(handle) error            { return nil }
func (e *emulated) loadModule([]byte) (handle, error) { return e.newHandle() }

func (e *emulated) dropStream(s handle) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(s, "stream")
	return nil
}

func (e *emulated) dropBLAS(b handle) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(b, "cuBLAS")
	return nil
}

func (e *emulated) dropEvent(event handle) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(event, "event")
	delete(e.recorded, event)
	return nil
}

func (e *emulated) record(event, _ handle) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.recorded[event] = true
	return nil
}

// milliseconds returns 1 for any two recorded events.
func (e *emulated) milliseconds(from, to handle) (float64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.recorded[from] || !e.recorded[to] {
		return 0, &status{call: "elapsed", why: "an event was not recorded"}
	}
	return 1, nil
}

// blasWorkspace is small: the products need none, and memory of the device is poisoned byte by byte.
func (e *emulated) blasWorkspace() int64 { return 1 << 20 }

func (e *emulated) newBLAS(s handle, _ uint64, _ int64) (handle, error) {
	b, err := e.made("cuBLAS")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.blas[b] = s
	return b, err
}

// from returns the host memory of a copy to the device. Memory that is not pinned is copied at once.
func (e *emulated) from(p unsafe.Pointer, bytes int64) func() []byte {
	if m := e.pinning(p); m != nil {
		return func() []byte { return e.still(m, p, bytes) }
	}
	now := append([]byte(nil), unsafe.Slice((*byte)(p), bytes)...)
	return func() []byte { return now }
}

// pinning returns the pinned memory that begins at or before p and holds it, nil if there
// is none.
func (e *emulated) pinning(p unsafe.Pointer) *pinned {
	e.mu.Lock()
	defer e.mu.Unlock()
	for from, m := range e.pinned {
		if uintptr(p)-uintptr(from) < uintptr(len(m.bytes)) {
			return m
		}
	}
	return nil
}

// still returns the host memory at p if it is still pinned. If it is not, it reports an error.
func (e *emulated) still(m *pinned, p unsafe.Pointer, bytes int64) []byte {
	if m.freed {
		e.wrong("a copy from or to memory that is not pinned any more")
		return poisoned(int(bytes))
	}
	return unsafe.Slice((*byte)(p), bytes)
}

// copies enqueues a copy. The content of the destination is undefined during the copy.
func (e *emulated) copies(s handle, to, from func() []byte) error {
	return e.ask(s, func() { fill(to(), poison) }, func() { copy(to(), from()) })
}

// on returns a function that finds device memory at the time of the work.
func (e *emulated) on(address uint64, bytes int64) func() []byte {
	return func() []byte { return e.at(address)[:bytes] }
}

func (e *emulated) copyIn(to uint64, from unsafe.Pointer, bytes int64, s handle) error {
	return e.copies(s, e.on(to, bytes), e.from(from, bytes))
}

func (e *emulated) copyOut(to unsafe.Pointer, from uint64, bytes int64, s handle) error {
	m := e.pinning(to)
	return e.copies(s, func() []byte {
		if m == nil {
			return unsafe.Slice((*byte)(to), bytes)
		}
		return e.still(m, to, bytes)
	}, e.on(from, bytes))
}

func (e *emulated) copyWithin(to, from uint64, bytes int64, s handle) error {
	return e.copies(s, e.on(to, bytes), e.on(from, bytes))
}

func (e *emulated) set(to uint64, value byte, bytes int64, s handle) error {
	return e.ask(s, func() { fill(e.at(to)[:bytes], value) })
}

func (e *emulated) function(_ handle, name string) (handle, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.handle()
	e.names[f] = name
	return f, nil
}

func (e *emulated) launch(f handle, _, _ Dims, s handle, args []uint64) error {
	args = append([]uint64(nil), args...)
	return e.ask(s, func() { e.run(e.names[f], args, e.at) })
}

func (e *emulated) beginCapture(s handle) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.streams[s] = e.handle()
	return nil
}

func (e *emulated) endCapture(s handle) (handle, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.streams[s]
	e.streams[s] = 0
	return g, nil
}

func (e *emulated) instantiate(g handle) (handle, error) {
	exec, err := e.made("graph")
	return exec, errors.Join(err, e.update(exec, g))
}

func (e *emulated) update(exec, g handle) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.graphs[exec] = nil
	for _, t := range e.graphs[g] {
		e.graphs[exec] = append(e.graphs[exec], task{do: t.do, exec: exec})
	}
	return nil
}

func (e *emulated) dropExec(exec handle) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(exec, "graph")
	delete(e.graphs, exec)
	return nil
}

func (e *emulated) launchGraph(exec, s handle) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.graphs[exec] {
		e.give(s, t)
	}
	return nil
}

// sgemm sums products in float64 for every Precision.
func (e *emulated) sgemm(b handle, g *gemm) error {
	p := *g
	return e.ask(e.streamOf(b), func() {
		for i := range max(1, p.count) {
			e.product(&p, i)
		}
	})
}

func (e *emulated) streamOf(b handle) handle {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.blas[b]
}

func (e *emulated) product(g *gemm, i int) {
	a, b, c := floats(e.at(g.a))[i*g.nextA:], floats(e.at(g.b))[i*g.nextB:], floats(e.at(g.c))[i*g.nextC:]
	for j := range g.n {
		for i := range g.m {
			sum := 0.0
			for l := range g.k {
				x, y := i+l*g.lda, l+j*g.ldb
				if g.transA {
					x = l + i*g.lda
				}
				if g.transB {
					y = j + l*g.ldb
				}
				sum += float64(a[x]) * float64(b[y])
			}
			sum *= float64(g.alpha)
			if g.beta != 0 {
				sum += float64(g.beta) * float64(c[i+j*g.ldc])
			}
			c[i+j*g.ldc] = float32(sum)
		}
	}
}

func floats(b []byte) []float32 { return binio.View[float32](b[:len(b)/4*4]) }
