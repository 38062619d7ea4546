package residency

import (
	"math"
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/fault"
)

// New makes the policy of the given name. An unknown name and sizes out of range are an error of kind
// fault.ErrUsage; wrong nodes in a trace or a set are an error of kind fault.ErrCorrupt.
func New(name string, c Config) (Policy, error) {
	switch {
	case !slices.Contains(Names(), name):
		return nil, fault.New(fault.ErrUsage, "residency: no policy is named %q", name)
	case c.Nodes < 0 || c.Nodes > graph.MaxNodes:
		return nil, fault.New(fault.ErrUsage, "residency: %d nodes are not between 0 and %d", c.Nodes, int64(graph.MaxNodes))
	case c.Frames < 0 || c.Frames > math.MaxInt32:
		return nil, fault.New(fault.ErrUsage, "residency: %d frames are not between 0 and %d", c.Frames, math.MaxInt32)
	}
	switch name {
	case Static:
		return newStatic(c)
	case Standby:
		return &standby{table: newTable(c.Nodes, c.Frames), queue: newLinks(c.Frames), last: make([]uint32, c.Frames)}, nil
	case Belady:
		return newBelady(c)
	}
	return newOnline(name, c), nil
}

// Bytes returns the memory of a policy of the given name and this size, in bytes.
func (s Size) Bytes(name string) int64 {
	table := tableBytes(s.Nodes, s.Frames)
	frames := int64(s.Frames)
	switch name {
	case LRU:
		return table + frames + listBytes(s.Frames)
	case Clock:
		return table + frames
	case Sieve:
		return table + frames + listBytes(s.Frames)
	case S3FIFO:
		return table + 5*frames + 4*int64(ghostPlaces(s.Frames))
	case Standby:
		return table + listBytes(s.Frames) + 4*frames
	case Belady:
		return table + 4*int64(s.Nodes) + 8*(s.Batches+1) + 8*s.Accesses + keysBytes(s.Accesses+int64(s.Nodes))
	}
	return table
}

func newOnline(name string, c Config) *online {
	o := &online{table: newTable(c.Nodes, c.Frames), name: name, mark: make([]uint8, c.Frames)}
	switch name {
	case LRU:
		o.order = &lru{o, newLinks(c.Frames)}
	case Clock:
		o.order = &clock{of: o}
	case Sieve:
		o.order = &sieve{o, newLinks(c.Frames), Absent}
	case S3FIFO:
		o.order = &s3fifo{of: o, next: make([]int32, c.Frames), ghosts: make([]uint32, 0, ghostPlaces(c.Frames))}
	default:
		panic("residency: no order for " + name)
	}
	return o
}
