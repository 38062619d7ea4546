package topology

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
)

// Choice has the flags that choose a topology. The zero value is the default. A run's directory
// records it under the names of the flags.
type Choice struct {
	Level string `json:"topology,omitempty"` // one of Levels; "" means mapped
	// Memory is the limit for held in-neighbours with their index: bytes, or a share of the size of
	// the indices. Nil: Bytes takes the caller's limit.
	Memory *budget.Size `json:"topology_memory,omitempty"`
	Order  string       `json:"topology_order,omitempty"` // which nodes come first: one of Orders; "" means the first one
}

// EnsureDefaults sets an empty Level to Mapped, and leaves the other fields as they are.
func (c *Choice) EnsureDefaults() {
	if c.Level == "" {
		c.Level = Mapped
	}
}

// Validate returns an error of kind fault.ErrUsage that names the first flag with an invalid value, or
// nil. Call EnsureDefaults before.
func (c *Choice) Validate() error {
	if err := CheckLevel(c.Level); err != nil {
		return err
	}
	switch m := c.Memory; {
	case c.Level != Cached && m != nil:
		return fault.New(fault.ErrUsage, "--topology-memory %s: needs --topology %s", m, Cached)
	case c.Level != Cached && c.Order != "":
		return fault.New(fault.ErrUsage, "--topology-order %s: needs --topology %s", c.Order, Cached)
	case m != nil && !(m.Unit == budget.UnitBytes && m.Value >= 0 && m.Value <= 1<<62 || m.Unit == budget.UnitPercent && m.Value >= 0 && m.Value <= 100):
		return fault.New(fault.ErrUsage, "--topology-memory %s: needs bytes, like 2GiB, or a share of the topology, like 10%%", m)
	}
	if c.Order != "" && !slices.Contains(Orders(), c.Order) {
		return fault.New(fault.ErrUsage, "--topology-order %s is not one of %s", c.Order, strings.Join(Orders(), ", "))
	}
	return nil
}

// Bytes returns the bytes of memory that Fill may take for the topology of d: Memory, or rest if that
// is nil, and at most the size of the whole topology. It returns 0 unless the level is Cached.
func (c *Choice) Bytes(d *dataset.Dataset, rest int64) int64 {
	f := d.Facts()
	most := heldBytes(f.Nodes, f.Nodes, f.Edges)
	switch m := c.Memory; {
	case c.Level != Cached:
		return 0
	case m == nil:
		return max(0, min(rest, most))
	case m.Unit == budget.UnitPercent:
		if m.Value == 100 {
			return most
		}
		return min(int64(math.Floor(m.Value/100*float64(d.IndicesBytes()))), most)
	default:
		return min(int64(m.Value), most)
	}
}

// Refused adds the remedy --topology-memory to an error of kind fault.ErrBudget, if held, the bytes of
// neighbours in memory, is above 0. It returns other errors unchanged.
func (c *Choice) Refused(err error, held int64) error {
	if held <= 0 || c.Level != Cached || !errors.Is(err, fault.ErrBudget) {
		return err
	}
	return fmt.Errorf("%w; neighbours held in memory take %s of it: lower that with --topology-memory", err, budget.FormatBytes(held))
}

// FillWork returns the bytes of memory that Open and Fill take while they work, beside the memory of
// the topology itself.
func (c *Choice) FillWork(d *dataset.Dataset) int64 {
	if c.Level != Cached {
		return 0
	}
	_, work := Needs(d, c.Level)
	return max(work, orderWork(c.Order, d.Facts().Nodes)+tableBytes(d.Facts().Nodes), readerBytes())
}
