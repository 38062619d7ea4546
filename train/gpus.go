package train

import (
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/internal/fault"
)

// AllGPUs as Options.Replicas stands for one replica on each GPU of the machine.
const AllGPUs = -1

// resolveGPUs settles the number of GPUs of this process that train, each as a rank.
func (o *Options) resolveGPUs() error {
	if o.Replicas == 0 || o.Replicas == 1 {
		return nil
	}
	if o.Engine != EngineGPU && o.Engine != EngineAuto && o.Engine != "" {
		return fault.New(fault.ErrUsage, "--gpus is for --engine %s, not %s", EngineGPU, o.Engine)
	}
	infos, err := cuda.Devices()
	if err != nil {
		return noGPUEngine(err)
	}
	if o.Replicas == AllGPUs {
		o.Replicas = len(infos)
	}
	if o.Replicas > len(infos) {
		return fault.New(fault.ErrUsage, "--gpus %d: this machine has %d", o.Replicas, len(infos))
	}
	o.Engine = EngineGPU
	return nil
}

// connect lets the GPUs of the process access each other's memory, so that the hottest rows are
// divided among them. Without peer access each GPU holds all of these rows. It refuses several GPUs if they cannot
// share the store.
func (r *runner) connect(needs *engineNeeds, store featurestore.Design) error {
	if needs.gpu == nil || len(r.replicas) == 1 {
		return nil
	}
	b := &beside{divide: true}
	for _, rep := range r.replicas[1:] {
		b.peers = append(b.peers, rep.Device)
	}
	if err := store.Refuse(&featurestore.PlanOptions{Peers: b.peers}); err != nil {
		return err
	}
	needs.beside, needs.direct, needs.reads = b, false, nil // direct reads land on one GPU only
	for _, rep := range r.replicas {
		err := rep.Device.Attached(func() error {
			for _, peer := range r.replicas {
				if peer == rep {
					continue
				}
				can, err := cuda.DeviceOf(rep.Device).Reach(cuda.DeviceOf(peer.Device))
				if err != nil {
					return err
				}
				b.divide = b.divide && can
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if b.divide {
		r.say("GPUs: %d, which reach each other's memory (cuDeviceCanAccessPeer: 1): they divide the hottest rows, and share one cache in RAM", len(r.replicas))
	} else {
		r.say("GPUs: %d, which do not all reach each other's memory (cuDeviceCanAccessPeer: 0): each has the hottest rows, and they share one cache in RAM", len(r.replicas))
	}
	return nil
}
