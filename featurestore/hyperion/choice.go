package hyperion

import (
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/online"
)

// frameBytes is what a row that is held takes besides itself: the policy knows its node.
const frameBytes = 4

// rowDemand returns what is needed of rows, by the hotness of the nodes.
func (c *candidate) rowDemand(hotness []uint32) demand {
	row := c.facts.RowBytes
	return demand{
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
func (c *candidate) listDemand() demand {
	l := c.lists()
	if l == nil {
		return demand{}
	}
	return demand{Accesses: l.Draws(), Bytes: l.ListBytes, Read: l.ListRead}
}

// choose divides the memory of a layout: it returns the nodes whose rows the frames have, and
// those whose lists are held in RAM.
func (c *candidate) choose(o own) (frames, lists []uint32, err error) {
	hotness, err := c.source.Hotness()
	if err != nil {
		return nil, nil, err
	}
	ofRows, ofLists := c.rowDemand(hotness), c.listDemand()
	row := ofRows.Bytes(0)
	room := room{GPU: o.near * row, RAM: o.room}
	if !o.shared {
		lists = divide(demand{}, ofLists, room).RAM.Lists
		ofLists, room.RAM = demand{}, (o.rows-o.near)*row
	}
	d := divide(ofRows, ofLists, room)
	if o.shared {
		lists = d.RAM.Lists
	}
	if frames = d.GPU.Rows; len(frames) == 0 {
		return d.RAM.Rows, lists, nil
	}
	return append(frames, d.RAM.Rows...), lists, nil // rows are in RAM once the GPU is full
}

// settle sets how many rows and which bytes of lists there will be in the room.
func (c *candidate) settle(o *own) error {
	frames, lists, err := c.choose(*o)
	if err != nil {
		return err
	}
	if o.shared {
		o.rows = min(max(o.near, int64(len(frames))), c.mostFrames())
	}
	for _, v := range lists {
		o.ofLists += c.lists().ListBytes(v)
	}
	return nil
}
