package volume

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
)

var errPower = errors.New("the power is off")

// memory is drives in memory that lose power: a block that was written since the last flush is
// found as it was, or as any of the writes since made it.
type memory struct {
	mu     sync.Mutex
	drives []*memoryDrive
	ops    int          // writes and flushes so far
	cut    int          // the operation at which the power is cut; negative: none
	fail   map[int]bool // operations that fail, once
	wrote  int64        // bytes
	reads  int
	failRd int // the read that fails; negative: none
	off    bool
	rng    *rand.Rand
}

type memoryDrive struct {
	m     *memory
	name  string
	block int
	now   []byte
	kept  []byte
	dirty map[uint64][][]byte // versions of a block since the last flush
}

func newMemory(drives int, bytes int64, block int) *memory {
	m := &memory{cut: -1, failRd: -1, rng: rand.New(rand.NewPCG(1, 2))}
	for i := range drives {
		m.drives = append(m.drives, &memoryDrive{m: m, name: fmt.Sprintf("memory%d", i), block: block,
			now: make([]byte, bytes), kept: make([]byte, bytes), dirty: map[uint64][][]byte{}})
	}
	return m
}

func (m *memory) all() (d []Drive) {
	for _, x := range m.drives {
		d = append(d, x)
	}
	return d
}

// crash makes of all drives what is found after the loss of power, by chance.
func (m *memory) crash() {
	kind := m.rng.IntN(3)
	for _, d := range m.drives {
		for _, b := range sortedKeys(d.dirty) {
			versions := d.dirty[b]
			keep := -1
			switch kind { // 0: nothing that was not flushed is there
			case 1:
				keep = len(versions) - 1
			case 2:
				keep = m.rng.IntN(len(versions)+1) - 1
			}
			if keep >= 0 {
				copy(d.kept[int64(b)*int64(d.block):], versions[keep])
			}
		}
		d.dirty = map[uint64][][]byte{}
		copy(d.now, d.kept)
	}
	m.off, m.cut, m.ops, m.fail = false, -1, 0, nil
}

func sortedKeys(m map[uint64][][]byte) []uint64 {
	keys := make([]uint64, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// do counts an operation that changes something; torn says that the power goes in its middle.
func (m *memory) do() (torn bool, err error) {
	if m.off {
		return false, errPower
	}
	m.ops++
	if m.ops-1 == m.cut {
		m.off = true
		return true, errPower
	}
	if m.fail[m.ops-1] {
		return true, errors.New("the operation fails")
	}
	return false, nil
}

func (d *memoryDrive) Name() string     { return d.name }
func (d *memoryDrive) Blocks() uint64   { return uint64(len(d.now) / d.block) }
func (d *memoryDrive) BlockBytes() int  { return d.block }
func (d *memoryDrive) MaxTransfer() int { return 128 << 10 }

func (d *memoryDrive) ReadBlocks(first uint64, b []byte) error {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if d.m.off {
		return errPower
	}
	d.m.reads++
	if d.m.reads-1 == d.m.failRd {
		return errors.New("the read fails")
	}
	d.check(first, b)
	copy(b, d.now[int64(first)*int64(d.block):])
	return nil
}

func (d *memoryDrive) check(first uint64, b []byte) {
	if len(b)%d.block != 0 || int64(first)*int64(d.block)+int64(len(b)) > int64(len(d.now)) {
		panic(fmt.Sprintf("%d bytes from block %d on of %s", len(b), first, d.name))
	}
}

// WriteBlocks writes; when the power is cut or the operation fails, some of its blocks only.
func (d *memoryDrive) WriteBlocks(first uint64, b []byte) error {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	d.check(first, b)
	torn, err := d.m.do()
	if err != nil && !torn {
		return err
	}
	for i := 0; i < len(b); i += d.block {
		if torn && d.m.rng.IntN(2) == 0 {
			continue
		}
		at := first + uint64(i/d.block)
		d.m.wrote += int64(d.block)
		if block := d.now[at*uint64(d.block):][:d.block]; len(d.dirty[at]) == 0 && bytes.Equal(block, b[i:i+d.block]) {
			continue // as it was and as it became are the same
		}
		copy(d.now[at*uint64(d.block):], b[i:i+d.block])
		d.dirty[at] = append(d.dirty[at], slices.Clone(b[i:i+d.block]))
	}
	return err
}

func (d *memoryDrive) Flush() error {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if _, err := d.m.do(); err != nil {
		return err
	}
	for b := range d.dirty {
		copy(d.kept[b*uint64(d.block):][:d.block], d.now[b*uint64(d.block):])
	}
	d.dirty = map[uint64][][]byte{}
	return nil
}
