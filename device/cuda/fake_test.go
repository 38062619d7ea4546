package cuda

import (
	"fmt"
	"testing"
	"unsafe"
)

// fake is a driver whose memory is the host's and whose kernels do nothing. Calls can
// be made to fail.
type fake struct {
	devices  int
	fail     map[string]error
	next     uintptr
	live     map[handle]string // what was made and not dropped yet
	blocks   map[uint64]int64
	pinned   map[unsafe.Pointer][]byte
	launches []string
	args     []uint64 // of the last launch
	named    map[handle]string
}

func newFake() *fake {
	return &fake{devices: 2, next: 4096, fail: make(map[string]error), live: make(map[handle]string),
		blocks: make(map[uint64]int64), pinned: make(map[unsafe.Pointer][]byte), named: make(map[handle]string)}
}

// openFake opens a device of a fake driver, which the test checks for leaks.
func openFake(t *testing.T, o Options) (*Device, *fake) {
	t.Helper()
	f := newFake()
	o.Code = f.code()
	d, err := open(f, 1, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		if len(f.live)+len(f.blocks)+len(f.pinned) > 0 {
			t.Errorf("left behind: %v, %d blocks, %d pinned", f.live, len(f.blocks), len(f.pinned))
		}
		if device, pinned := d.Held(); device != 0 || pinned != 0 {
			t.Errorf("%d and %d bytes still counted", device, pinned)
		}
	})
	return d, f
}

// code is two kernels of a file.
func (f *fake) code() Code {
	return Code{Functions: []Function{{"file", "one"}, {"file", "two"}}, Image: func(string) ([]byte, error) { return nil, f.fail["image"] }}
}

func (f *fake) made(what string) (handle, error) {
	if err := f.fail["make "+what]; err != nil {
		return 0, err
	}
	f.next += 512
	f.live[handle(f.next)] = what
	return handle(f.next), nil
}

func (f *fake) dropped(h handle) error {
	delete(f.live, h)
	return nil
}

func (f *fake) available() (int64, error) { return 1 << 19, f.fail["available"] }
func (f *fake) count() (int, error)       { return f.devices, f.fail["count"] }
func (f *fake) describe(int) (Info, error) {
	return Info{Name: "fake", Memory: 1 << 20}, f.fail["describe"]
}
func (f *fake) retain(int) (handle, error) { return 1, f.fail["retain"] }
func (f *fake) release(int) error          { return nil }
func (f *fake) bind(handle) error          { return f.fail["bind"] }
func (f *fake) reach(int, driver, int, handle) (bool, error) {
	return f.fail["apart"] == nil, f.fail["reach"]
}
func (f *fake) newStream() (handle, error)        { return f.made("stream") }
func (f *fake) dropStream(s handle) error         { return f.dropped(s) }
func (f *fake) syncStream(handle) error           { return f.fail["sync"] }
func (f *fake) waitFor(_, _ handle) error         { return f.fail["wait"] }
func (f *fake) newEvent() (handle, error)         { return f.made("event") }
func (f *fake) dropEvent(e handle) error          { return f.dropped(e) }
func (f *fake) record(_, _ handle) error          { return f.fail["record"] }
func (f *fake) done(handle) (bool, error)         { return f.fail["done"] == nil, f.fail["done"] }
func (f *fake) syncEvent(handle) error            { return f.fail["sync event"] }
func (f *fake) unloadModule(m handle) error       { return f.dropped(m) }
func (f *fake) beginCapture(handle) error         { return f.fail["begin"] }
func (f *fake) update(_, _ handle) error          { return f.fail["update"] }
func (f *fake) dropGraph(g handle) error          { return f.dropped(g) }
func (f *fake) dropExec(e handle) error           { return f.dropped(e) }
func (f *fake) launchGraph(_, _ handle) error     { return f.fail["launch graph"] }
func (f *fake) dropBLAS(b handle) error           { return f.dropped(b) }
func (f *fake) sgemm(handle, *gemm) error         { return f.fail["sgemm"] }
func (f *fake) blasVersion(handle) string         { return "fake" }
func (f *fake) unregister(p unsafe.Pointer) error { return f.freePinned(p) }

func (f *fake) mapped(p unsafe.Pointer) (uint64, error) { return uint64(uintptr(p)), f.fail["mapped"] }

func (f *fake) milliseconds(_, _ handle) (float64, error) { return 1.5, f.fail["milliseconds"] }

func (f *fake) alloc(bytes int64) (uint64, error) {
	if err := f.fail["alloc"]; err != nil {
		return 0, err
	}
	f.next += uintptr(bytes)
	f.next = (f.next + 511) &^ 511
	f.blocks[uint64(f.next)] = bytes
	return uint64(f.next), nil
}

func (f *fake) free(address uint64) error {
	delete(f.blocks, address)
	return nil
}

func (f *fake) allocPinned(bytes int64) (unsafe.Pointer, error) {
	if err := f.fail["pin"]; err != nil {
		return nil, err
	}
	b := make([]byte, bytes)
	f.pinned[unsafe.Pointer(&b[0])] = b
	return unsafe.Pointer(&b[0]), nil
}

func (f *fake) freePinned(p unsafe.Pointer) error {
	delete(f.pinned, p)
	return nil
}

func (f *fake) register(p unsafe.Pointer, _ int64) error {
	if err := f.fail["register"]; err != nil {
		return err
	}
	f.pinned[p] = nil
	return nil
}

func (f *fake) copyIn(uint64, unsafe.Pointer, int64, handle) error  { return f.fail["copy"] }
func (f *fake) copyOut(unsafe.Pointer, uint64, int64, handle) error { return f.fail["copy"] }
func (f *fake) copyWithin(_, _ uint64, _ int64, _ handle) error     { return f.fail["copy"] }
func (f *fake) set(uint64, byte, int64, handle) error               { return f.fail["set"] }

func (f *fake) loadModule([]byte) (handle, error) { return f.made("module") }

func (f *fake) function(m handle, name string) (handle, error) {
	if f.live[m] != "module" {
		return 0, fmt.Errorf("no module %d", m)
	}
	f.next++
	f.named[handle(f.next)] = name
	return handle(f.next), f.fail["function"]
}

func (f *fake) launch(h handle, _, _ Dims, _ handle, args []uint64) error {
	if f.launches != nil {
		f.launches, f.args = append(f.launches, f.named[h]), append(f.args[:0], args...)
	}
	return f.fail["launch"]
}

func (f *fake) endCapture(handle) (handle, error) {
	if err := f.fail["end"]; err != nil {
		return 0, err
	}
	return f.made("graph")
}

func (f *fake) instantiate(handle) (handle, error) { return f.made("exec") }

func (f *fake) blasWorkspace() int64                          { return 1 << 10 }
func (f *fake) newBLAS(handle, uint64, int64) (handle, error) { return f.made("blas") }
