package hyperion

import (
	"diskgnn/featurestore"
	"diskgnn/featurestore/division"
	"diskgnn/featurestore/internal/online"
)

// frameBytes is what a row that is held takes besides itself: the policy knows its node.
const frameBytes = 4

// rowDemand returns what is needed of rows, by the hotness of the nodes.
func (c *candidate) rowDemand(hotness []uint32) division.Demand {
	row := c.facts.RowBytes
	return division.Demand{
		Accesses: hotness,
		Bytes:    func(uint32) int64 { return int64(row) + frameBytes },
		Read: func(v uint32) int64 {
			_, n, _ := online.Single{}.Next([]uint32{v}, row, c.size())
			return n
		},
	}
}

// lists returns the source's lists of neighbours if the store chooses which are held, else nil.
func (c *candidate) lists() featurestore.Lists {
	if l, ok := c.source.(featurestore.Lists); ok && l.Draws() != nil {
		return l
	}
	return nil
}

// listDemand returns what is needed of them.
func (c *candidate) listDemand() division.Demand {
	l := c.lists()
	if l == nil {
		return division.Demand{}
	}
	return division.Demand{Accesses: l.Draws(), Bytes: l.ListBytes, Read: l.ListRead}
}

// choose divides the memory of a layout.
func (c *candidate) choose(o own) (division.Division, error) {
	hotness, err := c.source.Hotness()
	if err != nil {
		return division.Division{}, err
	}
	rows, lists := c.rowDemand(hotness), c.listDemand()
	row := rows.Bytes(0)
	room := division.Room{GPU: o.near * row, RAM: o.room}
	if o.shared {
		return division.Divide(rows, lists, room), nil
	}
	d := division.Divide(division.Demand{}, lists, room)
	room.RAM = (o.rows - o.near) * row
	of := division.Divide(rows, division.Demand{}, room)
	d.GPU.Rows, d.RAM.Rows = of.GPU.Rows, of.RAM.Rows
	return d, nil
}

// settle sets how many rows and which bytes of lists there will be in the room.
func (c *candidate) settle(o *own) error {
	d, err := c.choose(*o)
	if err != nil {
		return err
	}
	if o.shared {
		o.rows = min(o.near+int64(len(d.RAM.Rows)), c.mostFrames())
	}
	for _, v := range d.RAM.Lists {
		o.ofLists += c.lists().ListBytes(v)
	}
	return nil
}
