package machine

import (
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/featurestore/residency"
)

// gpuCache has frames for a GPU: the first near frames are in its memory, the others in RAM, and the GPU
// reads and writes them over the bus. Misses are copied to the GPU in the dataset's type and land after the
// frames in its memory, so one kernel makes a matrix of hits and misses:
//
//	entries of the table   0 … near-1   near … near+landing-1   near+landing …
//	their rows             frames       misses of each turn      frames near … in RAM
//
// If the GPU submits the reads, the misses of training batches come from its landed pages, not from the
// slot's memory: see package gpureads.
//
// A second kernel copies the admitted misses, which are the first ones, to their frames. Both kernels run
// on the table's stream in the order in which batches compute, and the CPU waits for neither.
type gpuCache struct {
	gpurows.Frames // its near rows are the first frames, and the landings of misses
	of             Frames
	facts          *featurestore.Facts
	bytes          int64            // of the device's memory
	devices        *gpureads.Reader // opened from of.Reads
}

func newGPUCache(f *featurestore.Facts, of Frames) *gpuCache {
	c := &gpuCache{of: of, facts: f}
	c.Table = gpurows.Table{Device: of.GPU, Near: of.Near + c.landing(), DType: f.DType, Dim: f.Dim}
	c.bytes = gpurows.OpenBytes(&c.Table, c.lay)
	return c
}

// landing returns the number of rows for landing misses, of all turns.
func (c *gpuCache) landing() int64 {
	return gpurows.LandingRows(int64(c.facts.Inputs(false)), int64(c.facts.Inputs(true)))
}

func (c *gpuCache) entry(frame int32) uint32 {
	if int64(frame) < c.of.Near {
		return uint32(frame)
	}
	return uint32(int64(frame) + c.landing())
}

// idBytes returns the memory of a matrix's entries: of its rows and, if rows enter frames, of these frames.
func (c *gpuCache) idBytes(eval bool) int64 {
	n := 4 * int64(c.facts.Inputs(eval))
	if c.of.Fixed {
		return n
	}
	return 2 * n
}

// lay takes the device memory, without the rows, out of the arena.
func (c *gpuCache) lay(a device.Memory) error {
	return c.Turns.Lay(a, gpurows.TurnBytes{IDs: c.idBytes(false)}, gpurows.TurnBytes{IDs: c.idBytes(true)})
}

func (c *gpuCache) ramBytes() int64 { return (c.of.All - c.of.Near) * c.RowBytes() }

func (c *gpuCache) Count(l *featurestore.Layout) {
	l.GPU, l.GPURows = c.Device, c.of.Near
	l.GPURowsBytes, l.GPUBytes = c.of.Near*c.RowBytes(), c.bytes
	l.RAMBytes += Pages(c.ramBytes())
}

func (c *gpuCache) open(devices *gpureads.Reader) error {
	c.devices = devices
	return c.OpenFrames(c.ramBytes(), c.bytes, c.lay)
}

func (c *gpuCache) close() { c.CloseFrames() }

func (c *gpuCache) Settle() error { return c.Device.Attached(c.Turns.Stream().Synchronize) }

// Fill collects rows for successive frames on the GPU, and copies them together.
func (c *gpuCache) Fill(m *Memory, put func(FillFrame) error) error {
	row := c.RowBytes()
	to := NewStaged(m, c.of.Near*row, c.put)
	if m.Dry || m.Err != nil {
		return m.Err
	}
	to.RAM = c.RAM.Bytes()
	if err := put(func(frame int32, b []byte) error { return to.Write(int64(frame)*row, b) }); err != nil {
		return err
	}
	return to.Flush()
}

// put copies bytes into the frames on the GPU, and waits for the copy.
func (c *gpuCache) put(at int64, b []byte) error {
	return c.Turns.Put(c.Device, c.Rows(), at, b)
}

func (c *gpuCache) matrix(m *Memory, eval bool) matrix {
	n := int64(c.facts.Inputs(eval))
	g := &gpuMatrix{gpuCache: c, Matrix: c.Turns.NewMatrix(eval), ids: m.Host(c.idBytes(eval)), own: c.of.Reads != nil && !eval}
	if g.own {
		n = 0
	}
	g.stored = m.Host(n * c.RowBytes())
	return g
}

// gpuMatrix is a slot's memory for matrices that the GPU assembles: the misses, admitted ones first, the
// entries of the matrix's rows, and the entries of frames that change.
type gpuMatrix struct {
	*gpuCache
	gpurows.Matrix
	stored *device.Host
	ids    *device.Host // entries of the matrix's rows, then entries for the admitted misses
	pins   *gpurows.Pins
	own    bool           // the GPU reads the misses,
	slot   *gpureads.Slot // with this slot

	held, into     []int32
	places         []uint32
	read, admitted int // misses
	now            *gpurows.Turn
}

// open lets the GPU copy from the slot.
func (m *gpuMatrix) open() (err error) {
	if m.own {
		if m.slot, err = m.devices.NewSlot(); err != nil {
			return err
		}
	}
	m.pins, err = gpurows.Pin(m.Device, m.stored, m.ids)
	return err
}

func (m *gpuMatrix) device() *gpureads.Slot { return m.slot }

func (m *gpuMatrix) Free() {
	if m.slot != nil {
		m.slot.Free()
		m.slot = nil
	}
	m.pins.Free()
}

func (m *gpuMatrix) land(held, into []int32, places []uint32) (near int) {
	m.held, m.into, m.places, m.read, m.admitted = held, into, places, 0, 0
	for _, frame := range into {
		if frame != residency.Absent {
			m.admitted++
		}
	}
	admitted, others := uint32(0), uint32(m.admitted)
	for i, frame := range held {
		if frame != residency.Absent {
			if int64(frame) < m.of.Near {
				near++
			}
			continue
		}
		next := &others
		if into[i] != residency.Absent {
			next = &admitted
		}
		places[m.read] = *next
		*next++
		m.read++
	}
	return near
}

func (m *gpuMatrix) Put(k int, row []byte) error {
	copy(m.stored.Bytes()[int(m.places[k])*len(row):], row)
	return nil
}

// Assemble sets the entries: the turn, and so the place of misses, is known now.
func (m *gpuMatrix) Assemble(int) {
	m.now = m.Turn()
	n, ids, landed := len(m.held), m.ids.Uint32s(), uint32(m.landed())
	misses := m.places
	for i, frame := range m.held {
		if frame != residency.Absent {
			ids[i] = m.entry(frame)
			continue
		}
		ids[i] = landed + misses[0]
		if to := m.into[i]; to != residency.Absent {
			ids[n+int(misses[0])] = m.entry(to)
		}
		misses = misses[1:]
	}
}

// landed returns the entry of the first landed miss.
func (m *gpuMatrix) landed() int64 { return m.of.Near + m.now.Landing(int64(m.facts.Inputs(false))) }

// bring submits the copies of the misses to their landing.
func (m *gpuMatrix) bring(copies device.Stream, misses device.Buffer) error {
	if m.slot != nil {
		return m.slot.Fill(copies, misses, m.read)
	}
	return copies.CopyIn(misses, m.stored.Bytes()[:misses.Bytes()])
}

// Fill submits the copies of the misses and of the entries and, after them on the table's stream, the gather
// and the copies of admitted misses to frames.
func (m *gpuMatrix) Fill(inputs int, copies device.Stream, x device.Buffer) (device.Span, error) {
	t, row := m.now, m.RowBytes()
	misses := m.Rows().Slice(m.landed()*row, int64(m.read)*row)
	if err := m.bring(copies, misses); err != nil {
		return nil, err
	}
	if err := m.Turns.Gather(t, &m.Table, copies, x, m.ids.Uint32s()[:inputs+m.admitted], inputs); err != nil {
		return nil, err
	}
	if n := int64(m.admitted); n > 0 {
		if err := m.Place(m.Turns.Stream(), misses.Slice(0, n*row), t.IDs.Slice(4*int64(inputs), 4*n), m.admitted); err != nil {
			return nil, err
		}
	}
	return m.Turns.End(t)
}
