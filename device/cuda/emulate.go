package cuda

import (
	"fmt"
	"strings"
	"unsafe"

	"diskgnn/internal/binio"
)

// Launch computes a launch on host memory: args are the kernel's arguments, of which
// those that are addresses stand for what at returns, up to the end of its allocation.
type Launch func(kernel string, args []uint64, at func(address uint64) []byte)

// OpenEmulated returns a device that is none: its memory, full of NaN at first, is the
// host's, at the addresses that it has there; everything asked of it is done at once,
// and run computes its kernels. It is there to test what is made of a device where
// there is none.
func OpenEmulated(run Launch, o Options) (*Device, error) {
	return open(newEmulated(run), 0, o)
}

func newEmulated(run Launch) *emulated {
	return &emulated{run: run, blocks: make(map[uint64][]byte), pinned: make(map[unsafe.Pointer][]byte), names: make(map[handle]string),
		graphs: make(map[handle][]func() error), streams: make(map[handle]handle), blas: make(map[handle]handle)}
}

// emulatedBytes is the memory that such a device says it has.
const emulatedBytes = 1 << 40

// emulated is the driver of such a device.
type emulated struct {
	run     Launch
	next    uint64
	blocks  map[uint64][]byte
	pinned  map[unsafe.Pointer][]byte
	names   map[handle]string // of functions
	graphs  map[handle][]func() error
	streams map[handle]handle // the graph that a stream is being captured in, or 0
	blas    map[handle]handle // the stream of a library
}

func (e *emulated) handle() handle {
	e.next += 1 << 12
	return handle(e.next)
}

// do does a stream's work, or captures it.
func (e *emulated) do(s handle, work func() error) error {
	if g := e.streams[s]; g != 0 {
		e.graphs[g] = append(e.graphs[g], work)
		return nil
	}
	return work()
}

// at returns the memory from an address to the end of its block.
func (e *emulated) at(address uint64) []byte {
	if address == 0 {
		return nil
	}
	for from, b := range e.blocks {
		if from <= address && address-from <= uint64(len(b)) {
			return b[address-from:]
		}
	}
	panic(fmt.Sprintf("cuda: nothing lies at %#x", address))
}

func (e *emulated) count() (int, error) { return 1, nil }
func (e *emulated) describe(int) (Info, error) {
	return Info{Name: "emulated", Memory: emulatedBytes, Major: 9, Node: -1}, nil
}
func (e *emulated) retain(int) (handle, error) { return e.handle(), nil }
func (e *emulated) release(int) error          { return nil }
func (e *emulated) bind(handle) error          { return nil }

func (e *emulated) available() (int64, error) { return emulatedBytes, nil }

func (e *emulated) alloc(size int64) (uint64, error) {
	b := make([]byte, size+2*Align) // a block's end is no other one's begin
	skip := -uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) % Align
	b = b[skip : skip+uint64(size)]
	fill(b, 0xFF)
	address := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	e.blocks[address] = b
	return address, nil
}

// fill doubles what is filled, which for many bytes is far faster than one by one.
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
	delete(e.blocks, address)
	return nil
}

func (e *emulated) allocPinned(bytes int64) (unsafe.Pointer, error) {
	b := make([]byte, bytes)
	p := unsafe.Pointer(unsafe.SliceData(b))
	e.pinned[p] = b
	return p, nil
}

func (e *emulated) freePinned(p unsafe.Pointer) error {
	delete(e.pinned, p)
	return nil
}

func (e *emulated) register(p unsafe.Pointer, bytes int64) error {
	e.pinned[p] = unsafe.Slice((*byte)(p), bytes)
	return nil
}

func (e *emulated) unregister(p unsafe.Pointer) error { return e.freePinned(p) }

// mapped gives pinned memory an address of its own.
func (e *emulated) mapped(p unsafe.Pointer) (uint64, error) {
	b, ok := e.pinned[p]
	if !ok {
		return 0, &status{call: "map", why: "it is not pinned"}
	}
	address := uint64(e.handle())
	e.next += uint64(len(b))
	e.blocks[address] = b
	return address, nil
}

func (e *emulated) newStream() (handle, error)                { return e.handle(), nil }
func (e *emulated) dropStream(handle) error                   { return nil }
func (e *emulated) syncStream(handle) error                   { return nil }
func (e *emulated) waitFor(_, _ handle) error                 { return nil }
func (e *emulated) newEvent() (handle, error)                 { return e.handle(), nil }
func (e *emulated) dropEvent(handle) error                    { return nil }
func (e *emulated) record(_, _ handle) error                  { return nil }
func (e *emulated) done(handle) (bool, error)                 { return true, nil }
func (e *emulated) syncEvent(handle) error                    { return nil }
func (e *emulated) dropBLAS(handle) error                     { return nil }
func (e *emulated) blasVersion(handle) string                 { return "emulated" }
func (e *emulated) image(string) ([]byte, error)              { return nil, nil }
func (e *emulated) unloadModule(handle) error                 { return nil }
func (e *emulated) dropExec(handle) error                     { return nil }
func (e *emulated) dropGraph(handle) error                    { return nil }
func (e *emulated) update(exec, g handle) error               { e.graphs[exec] = e.graphs[g]; return nil }
func (e *emulated) loadModule([]byte) (handle, error)         { return e.handle(), nil }
func (e *emulated) milliseconds(_, _ handle) (float64, error) { return 1, nil }

func (e *emulated) newBLAS(s handle, _ uint64, _ int64) (handle, error) {
	b := e.handle()
	e.blas[b] = s
	return b, nil
}

func (e *emulated) copyIn(to uint64, from unsafe.Pointer, bytes int64, s handle) error {
	return e.do(s, func() error { copy(e.at(to)[:bytes], unsafe.Slice((*byte)(from), bytes)); return nil })
}

func (e *emulated) copyOut(to unsafe.Pointer, from uint64, bytes int64, s handle) error {
	return e.do(s, func() error { copy(unsafe.Slice((*byte)(to), bytes), e.at(from)); return nil })
}

func (e *emulated) copyWithin(to, from uint64, bytes int64, s handle) error {
	return e.do(s, func() error { copy(e.at(to)[:bytes], e.at(from)); return nil })
}

func (e *emulated) set(to uint64, value byte, bytes int64, s handle) error {
	return e.do(s, func() error {
		fill(e.at(to)[:bytes], value)
		return nil
	})
}

func (e *emulated) function(_ handle, name string) (handle, error) {
	f := e.handle()
	e.names[f] = strings.TrimSuffix(name, "4") // how wide it is decides nothing
	return f, nil
}

func (e *emulated) launch(f handle, _, _ dims, s handle, args []uint64) error {
	args = append([]uint64(nil), args...)
	return e.do(s, func() error { e.run(e.names[f], args, e.at); return nil })
}

func (e *emulated) beginCapture(s handle) error {
	e.streams[s] = e.handle()
	return nil
}

func (e *emulated) endCapture(s handle) (handle, error) {
	g := e.streams[s]
	e.streams[s] = 0
	return g, nil
}

func (e *emulated) instantiate(g handle) (handle, error) {
	exec := e.handle()
	e.graphs[exec] = e.graphs[g]
	return exec, nil
}

func (e *emulated) launchGraph(exec, s handle) error {
	for _, work := range e.graphs[exec] {
		if err := e.do(s, work); err != nil {
			return err
		}
	}
	return nil
}

// sgemm sums products in float64, whatever the precision.
func (e *emulated) sgemm(b handle, g *gemm) error {
	p := *g
	return e.do(e.blas[b], func() error {
		for i := range max(1, p.count) {
			e.product(&p, i)
		}
		return nil
	})
}

// product computes one of the products.
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
