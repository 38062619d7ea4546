package hyperion

import (
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/binio"
)

// joined is a Planner for ascending nodes. One read serves rows on the same pages or on adjacent pages.
type joined struct{}

// joinedBytes is the most bytes of such a request, unless one row is larger.
const joinedBytes = 64 << 10

// Most implements machine.Planner.
func (joined) Most(rowBytes int) int64 { return max(joinedBytes, machine.Single{}.Most(rowBytes)) }

// Next implements machine.Planner.
func (j joined) Next(nodes []uint32, rowBytes int, size int64) (off, n int64, served int) {
	off, n, served = machine.Single{}.Next(nodes, rowBytes, size)
	for ; served < len(nodes); served++ {
		begin, bytes, _ := machine.Single{}.Next(nodes[served:], rowBytes, size)
		if begin > off+binio.AlignUp(n, binio.Page) || begin+bytes-off > j.Most(rowBytes) {
			break
		}
		n = begin + bytes - off
	}
	return off, n, served
}
