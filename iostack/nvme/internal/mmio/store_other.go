//go:build !amd64

package mmio

import "sync/atomic"

func store(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
