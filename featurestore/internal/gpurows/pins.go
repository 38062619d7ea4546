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
