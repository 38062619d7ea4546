//go:build !amd64

package platform

import "sync/atomic"

func store(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
