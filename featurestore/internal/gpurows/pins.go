package gpurows

import (
	"diskgnn/device"
	"diskgnn/device/cuda"
)

// Pins are pinned host memory that a device copies from. The caller owns the memory, and frees it after
// Free.
type Pins struct {
	device *cuda.Device
	list   []*cuda.Pinned
}

// Pin pins host memory. Pages that are not allocated yet are placed on the device's NUMA node if possible.
func Pin(on device.GPU, hosts ...*device.Host) (*Pins, error) {
	d := cuda.DeviceOf(on)
	p := &Pins{device: d}
	err := d.Attached(func() error {
		for _, h := range hosts {
			h.Prefer(d.Node)
			pinned, err := d.Register(h.Bytes())
			if err != nil {
				return err
			}
			p.list = append(p.list, pinned)
		}
		return nil
	})
	if err != nil {
		p.Free()
		return nil, err
	}
	return p, nil
}

// Free unpins the memory. No copy may be under way. It does nothing for nil Pins or when called again.
func (p *Pins) Free() {
	if p == nil {
		return
	}
	_ = p.device.Attached(func() error { // fails only after a fault, which was reported
		for _, pinned := range p.list {
			pinned.Free()
		}
		return nil
	})
	p.list = nil
}

// Writer copies bytes from pinned host memory to a device, on a stream of its own. So a batch may read other bytes
// of the same buffer meanwhile. It belongs to one goroutine at a time.
type Writer struct {
	*Pins
	stream *cuda.Stream
}

// NewWriter returns a writer from host memory, which it pins until Free.
func NewWriter(on device.GPU, from *device.Host) (*Writer, error) {
	pins, err := Pin(on, from)
	if err != nil {
		return nil, err
	}
	w := &Writer{Pins: pins}
	err = w.device.Attached(func() (err error) {
		w.stream, err = w.device.NewStream()
		return err
	})
	if err != nil {
		pins.Free()
		return nil, err
	}
	return w, nil
}

// Put copies bytes to a buffer, to byte at and the ones after it, and waits for the copy.
func (w *Writer) Put(to device.Buffer, at int64, b []byte) error {
	return put(w.device, w.stream, to, at, b)
}

// Free frees the stream, and unpins the memory. It does nothing for a nil Writer.
func (w *Writer) Free() {
	if w == nil {
		return
	}
	_ = w.device.Attached(func() error { // fails only after a fault, which was reported
		w.stream.Free()
		return nil
	})
	w.Pins.Free()
}

// Marks are marks in the streams of a device, such as the ends of copies from the parts of a buffer.
type Marks struct {
	device *cuda.Device
	list   []*cuda.Event
}

// NewMarks returns n marks, which count as passed until they are set. Call Free also after an error.
func NewMarks(on device.GPU, n int) (*Marks, error) {
	m := &Marks{cuda.DeviceOf(on), make([]*cuda.Event, n)}
	return m, m.device.Attached(func() (err error) {
		for i := range m.list {
			if m.list[i], err = m.device.NewEvent(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Set puts mark i after all work submitted to the stream so far. The calling goroutine must be attached to
// the device.
func (m *Marks) Set(i int, s device.Stream) error { return m.list[i].Record(cuda.StreamOf(s)) }

// Wait returns when the work before mark i is done.
func (m *Marks) Wait(i int) error { return m.device.Attached(m.list[i].Synchronize) }

// Free frees the marks. It does nothing for nil Marks.
func (m *Marks) Free() {
	if m == nil {
		return
	}
	_ = m.device.Attached(func() error { // fails only after a fault, which was reported
		for _, e := range m.list {
			if e != nil {
				e.Free()
			}
		}
		return nil
	})
}
