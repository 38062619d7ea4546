package cuda

import (
	"errors"
	"unsafe"
)

// Fault is an injected error: an emulated device returns it and does not execute the call.
type Fault struct {
	Why         string
	OutOfMemory bool
	Lost        bool // the device is lost: all later calls fail
}

// OpenFaulty is OpenEmulated for a device with injected faults. Before each call, fails gets the call's
// name and returns its fault, nil for none. The names are: "alloc", "pin", "register", "stream", "event",
// "cublas", "copy in", "copy out", "copy", "fill", "launch", "product", "capture", "launch graph", "wait"
// for a stream or event. To let a kernel fail, let the wait for it fail.
func OpenFaulty(run Emulation, o Options, fails func(call string) *Fault) (*Device, error) {
	return open(&faulty{newEmulated(run), fails}, 0, o)
}

type faulty struct {
	driver
	fails func(call string) *Fault
}

func (f *faulty) fail(call string) error {
	if w := f.fails(call); w != nil {
		if d, ok := f.driver.(*late); ok && w.Lost {
			d.lose()
		}
		return &status{call: call, why: w.Why, outOfMemory: w.OutOfMemory, lost: w.Lost}
	}
	return nil
}

func (f *faulty) alloc(bytes int64) (uint64, error) {
	if err := f.fail("alloc"); err != nil {
		return 0, err
	}
	return f.driver.alloc(bytes)
}

func (f *faulty) allocPinned(bytes int64) (unsafe.Pointer, error) {
	if err := f.fail("pin"); err != nil {
		return nil, err
	}
	return f.driver.allocPinned(bytes)
}

func (f *faulty) register(p unsafe.Pointer, bytes int64) error {
	if err := f.fail("register"); err != nil {
		return err
	}
	return f.driver.register(p, bytes)
}

func (f *faulty) newStream() (handle, error) {
	if err := f.fail("stream"); err != nil {
		return 0, err
	}
	return f.driver.newStream()
}

func (f *faulty) newEvent() (handle, error) {
	if err := f.fail("event"); err != nil {
		return 0, err
	}
	return f.driver.newEvent()
}

func (f *faulty) newBLAS(s handle, workspace uint64, bytes int64) (handle, error) {
	if err := f.fail("cublas"); err != nil {
		return 0, err
	}
	return f.driver.newBLAS(s, workspace, bytes)
}

func (f *faulty) copyIn(to uint64, from unsafe.Pointer, bytes int64, s handle) error {
	if err := f.fail("copy in"); err != nil {
		return err
	}
	return f.driver.copyIn(to, from, bytes, s)
}

func (f *faulty) copyOut(to unsafe.Pointer, from uint64, bytes int64, s handle) error {
	if err := f.fail("copy out"); err != nil {
		return err
	}
	return f.driver.copyOut(to, from, bytes, s)
}

func (f *faulty) copyWithin(to, from uint64, bytes int64, s handle) error {
	if err := f.fail("copy"); err != nil {
		return err
	}
	return f.driver.copyWithin(to, from, bytes, s)
}

func (f *faulty) set(to uint64, value byte, bytes int64, s handle) error {
	if err := f.fail("fill"); err != nil {
		return err
	}
	return f.driver.set(to, value, bytes, s)
}

func (f *faulty) launch(k handle, grid, block Dims, s handle, args []uint64) error {
	if err := f.fail("launch"); err != nil {
		return err
	}
	return f.driver.launch(k, grid, block, s, args)
}

func (f *faulty) sgemm(b handle, g *gemm) error {
	if err := f.fail("product"); err != nil {
		return err
	}
	return f.driver.sgemm(b, g)
}

func (f *faulty) beginCapture(s handle) error {
	if err := f.fail("capture"); err != nil {
		return err
	}
	return f.driver.beginCapture(s)
}

func (f *faulty) launchGraph(exec, s handle) error {
	if err := f.fail("launch graph"); err != nil {
		return err
	}
	return f.driver.launchGraph(exec, s)
}

// syncStream waits for the work, also if the call is to fail.
func (f *faulty) syncStream(s handle) error {
	return errors.Join(f.fail("wait"), f.driver.syncStream(s))
}

func (f *faulty) syncEvent(e handle) error {
	return errors.Join(f.fail("wait"), f.driver.syncEvent(e))
}
