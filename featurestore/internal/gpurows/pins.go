package gpurows

import (
	"diskgnn/device"
	"diskgnn/device/cuda"
)

// Pins are host memory that a device copies from. The memory stays its owner's, who frees it
// after them.
type Pins struct {
	device *cuda.Device
	list   []*cuda.Pinned
}

// Pin pins host memory. Pages that have no memory yet are placed on the device's NUMA node if possible.
func Pin(d *cuda.Device, hosts ...*device.Host) (*Pins, error) {
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

// Free is for pins, or nil, and may be called again. No copy is under way.
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
