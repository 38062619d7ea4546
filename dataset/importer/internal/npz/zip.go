package npz

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Limits of an archive's directory. A graph has about ten members, each with 46 bytes and a name.
const (
	maxMembers   = 4096
	maxDirectory = 1 << 20
)

// OpenZip opens a zip archive of size bytes. An archive with more members, or a longer directory, than
// archives of arrays have is an error; it is found before memory is allocated for them.
func OpenZip(r io.ReaderAt, size int64) (*zip.Reader, error) {
	n, err := zipMembers(r, size)
	if err != nil {
		return nil, err
	}
	if n > maxMembers {
		return nil, fmt.Errorf("it has %d members, more than %d", n, maxMembers)
	}
	b := &bounded{r: r, left: maxDirectory}
	z, err := zip.NewReader(b, size)
	if b.over {
		return nil, fmt.Errorf("its zip directory has more than %d bytes", maxDirectory)
	}
	b.left = math.MaxInt64
	return z, err
}

// zipMembers returns the number of members in the end record of an archive's directory, for which
// zip.NewReader allocates memory. It returns 0 for other files.
func zipMembers(r io.ReaderAt, size int64) (uint64, error) {
	const (
		end, end64, locator64 = 22, 56, 20 // bytes of the records
		tail                  = 65 << 10   // in which the first of them lies
	)
	buf := make([]byte, min(tail, size))
	at := size - int64(len(buf))
	if _, err := r.ReadAt(buf, at); err != nil && err != io.EOF {
		return 0, err
	}
	if len(buf) < end {
		return 0, nil
	}
	i := bytes.LastIndex(buf[:len(buf)-end+4], []byte("PK\x05\x06"))
	if i < 0 {
		return 0, nil
	}
	n := uint64(binary.LittleEndian.Uint16(buf[i+10:]))
	locator := make([]byte, locator64)
	if off := at + int64(i) - locator64; off < 0 {
		return n, nil
	} else if _, err := r.ReadAt(locator, off); err != nil {
		return 0, err
	}
	if !bytes.HasPrefix(locator, []byte("PK\x06\x07")) {
		return n, nil
	}
	record := make([]byte, end64)
	if _, err := r.ReadAt(record, int64(binary.LittleEndian.Uint64(locator[8:])&math.MaxInt64)); err == nil {
		// All ones in 16 bits refer to this record, however few members there are: a writer
		// may put them there since the archive is longer than 4 GiB.
		if n == math.MaxUint16 {
			n = 0
		}
		n = max(n, binary.LittleEndian.Uint64(record[32:]))
	}
	return n, nil
}

// bounded fails once more bytes are read than are left.
type bounded struct {
	r    io.ReaderAt
	left int64
	over bool
}

func (b *bounded) ReadAt(p []byte, off int64) (int, error) {
	if b.over || int64(len(p)) > b.left {
		b.over = true
		return 0, io.ErrShortBuffer
	}
	b.left -= int64(len(p))
	return b.r.ReadAt(p, off)
}
