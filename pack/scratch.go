package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"diskgnn/internal/binio"
	"diskgnn/internal/mapped"
	"diskgnn/internal/stage"
)

// Scratch files. A finished directory has none of them.
const (
	partFile  = "index.tmp"  // the first pass's index, without chunk checksums
	stateFile = "ranges.tmp" // rangeState after the last durable range
	// compressFile has compressState after the last durable group.
	compressFile = "compress.tmp"

	// requestsFile lists the rows that every chunk will hold: node ids, uint32, batch after
	// batch, in the chunk's order.
	requestsFile = "requests.tmp"
	// ssdRequestsFile lists the rows of the SSD level: segment after segment, by place.
	ssdRequestsFile = "ssd-requests.tmp"

	// Under policy min: the codes of all accesses, and the nodes that the cache holds before
	// batch 0, by entry.
	minCodesFile   = "min-codes.tmp"
	minEntriesFile = "min-slots.tmp"
)

// rawFile names the file of a group's chunks before their compression.
func rawFile(group int) string { return fmt.Sprintf("cold-%05d.raw.tmp", group) }

// rowList is a scratch list of rows, mapped: node ids, list after list.
type rowList struct {
	file  *mapped.File
	nodes []uint32
	start []int64 // first of every list in nodes, and the end
}

// openRowList maps a list and compares it with its checksum.
func openRowList(ctx context.Context, dir *stage.Dir, name string, start []int64, crc uint32) (_ rowList, err error) {
	name = dir.File(name)
	l := rowList{start: start}
	l.file, err = mapped.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return l, touched(name, err)
	}
	if err != nil {
		return l, err
	}
	err = mapped.Guard(func() error {
		if have, want := int64(len(l.file.Data())), 4*start[len(start)-1]; have != want {
			return touched(name, fmt.Errorf("it has %d bytes instead of %d", have, want))
		}
		got := uint32(0)
		for b := l.file.Data(); len(b) > 0; {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(len(b), writeBuffer)
			got = binio.UpdateCRC(got, b[:n])
			b = b[n:]
		}
		if got != crc {
			return touched(name, errors.New("it does not match its checksum"))
		}
		return nil
	}, l.file)
	if err != nil {
		return l, errors.Join(err, l.file.Close())
	}
	l.nodes = binio.View[uint32](l.file.Data())
	return l, nil
}

// of returns list i, which may be touched under guard.
func (l *rowList) of(i int) []uint32 { return l.nodes[l.start[i]:l.start[i+1]] }

// guard calls do, and returns an error if the list cannot be read meanwhile.
func (l *rowList) guard(do func() error) error { return mapped.Guard(do, l.file) }

// close unmaps the list, if it is open.
func (l *rowList) close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}
