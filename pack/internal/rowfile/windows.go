package rowfile

import (
	"encoding/binary"
	"fmt"
	"io"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// Windows sorts rows that do not fit in memory. They arrive in any order, each with its place, and go to
// one scratch file for each window of consecutive places. At the end each window is sorted in memory. It is
// for one goroutine.
type Windows struct {
	files    *Set
	rows     int64
	rowBytes int
	window   int64 // rows of each but the last
	out      []*Appender
}

// NewWindows creates scratch files for the given number of rows, of rowBytes bytes each, in windows of
// window rows. buffer is the size of each file's buffer in bytes.
func NewWindows(files *Set, rows int64, rowBytes int, window int64, buffer int) (*Windows, error) {
	w := &Windows{files: files, rows: rows, rowBytes: rowBytes, window: window}
	for i := range int((rows + window - 1) / window) {
		a, err := NewAppender(files, windowFile(i), buffer)
		if err != nil {
			w.Close()
			return nil, err
		}
		w.out = append(w.out, a)
	}
	return w, nil
}

func windowFile(i int) string { return fmt.Sprintf("hot-%05d.tmp", i) }

// Put adds the row of a place. Each place is put once.
func (w *Windows) Put(place int64, row []byte) error {
	var head [4]byte
	binary.LittleEndian.PutUint32(head[:], uint32(place))
	a := w.out[place/w.window]
	if err := a.Write(head[:]); err != nil {
		return err
	}
	return a.Write(row)
}

// Each calls do with the rows of one window after another, in the order of the places; rows is valid during
// the call. It removes each scratch file after its use.
func (w *Windows) Each(do func(rows []byte) error) error {
	buf := make([]byte, w.window*int64(w.rowBytes))
	for i, a := range w.out {
		if err := a.Finish(); err != nil {
			return err
		}
		n := min(w.window, w.rows-int64(i)*w.window)
		rows := buf[:n*int64(w.rowBytes)]
		if err := w.order(i, rows, a.CRC); err != nil {
			return err
		}
		if err := do(rows); err != nil {
			return err
		}
		if err := w.files.Dir.FS().Remove(w.files.Dir.File(windowFile(i))); err != nil {
			return err
		}
	}
	return nil
}

// order reads a window's rows into their places. want is the checksum of the window's file.
func (w *Windows) order(i int, dst []byte, want uint32) error {
	f, err := w.files.Dir.FS().Open(w.files.Dir.File(windowFile(i)))
	if err != nil {
		return err
	}
	defer f.Close()
	rec := 4 + w.rowBytes
	per := max(Buffer/rec, 1)
	piece := make([]byte, per*rec)
	crc := uint32(0)
	for left := len(dst) / w.rowBytes; left > 0; {
		n := min(left, per)
		if _, err := io.ReadFull(f, piece[:n*rec]); err != nil {
			return fmt.Errorf("read %s: %w", f.Name(), err)
		}
		crc = binio.UpdateCRC(crc, piece[:n*rec])
		for k := range n {
			r := piece[k*rec : (k+1)*rec]
			place := int64(binary.LittleEndian.Uint32(r)) - int64(i)*w.window
			if place < 0 || place >= int64(len(dst)/w.rowBytes) {
				return fault.New(fault.ErrCorrupt, "%s: the bytes read back differ from the bytes written", f.Name())
			}
			copy(dst[place*int64(w.rowBytes):], r[4:])
		}
		left -= n
	}
	if crc != want {
		return fault.New(fault.ErrCorrupt, "%s: the bytes read back differ from the bytes written", f.Name())
	}
	return nil
}

// Close closes the scratch files that are open.
func (w *Windows) Close() {
	for _, a := range w.out {
		a.Close()
	}
}
