package rundir

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// mostLine bounds a line of metrics.jsonl; it has some 1,100 bytes.
const mostLine = 64 << 10

// ReadMetrics returns the first epochs of the file name, a run's metrics.jsonl: the lines up to end.
// It is an error of kind fault.ErrCorrupt if these bytes do not match the CRC of end, or have another
// number of epochs.
func ReadMetrics(fsys vfs.FS, name string, end MetricsEnd, epochs int) ([]Epoch, error) {
	if end.Bytes < 0 || end.Bytes > int64(epochs)*mostLine || end.Bytes == 0 && epochs > 0 {
		return nil, fault.New(fault.ErrCorrupt, "%s: the %d bytes that were recorded cannot be %d epochs", name, end.Bytes, epochs)
	}
	if end.Bytes == 0 {
		return nil, nil // the file may have gone with the crash
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := checkMetrics(f, name, end); err != nil {
		return nil, err
	}
	var list []Epoch
	for lines := bufio.NewReaderSize(io.NewSectionReader(f, 0, end.Bytes), mostLine); ; {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		var e Epoch
		if err == nil {
			err = e.decode(line)
		}
		if err == nil && (len(list) == epochs || e.Epoch != len(list)) {
			err = fmt.Errorf("unexpected epoch %d", e.Epoch)
		}
		if err != nil {
			return nil, fault.New(fault.ErrCorrupt, "%s: line %d: %v", name, len(list)+1, err)
		}
		list = append(list, e)
	}
	if len(list) != epochs {
		return nil, fault.New(fault.ErrCorrupt, "%s has %d epochs instead of %d", name, len(list), epochs)
	}
	return list, nil
}

// checkMetrics checks that the file is unchanged up to the end.
func checkMetrics(f vfs.File, name string, end MetricsEnd) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Size() < end.Bytes {
		return fault.New(fault.ErrCorrupt, "%s has %d bytes, but %d were written", name, st.Size(), end.Bytes)
	}
	crc, buf := uint32(0), make([]byte, mostLine)
	for r := io.NewSectionReader(f, 0, end.Bytes); ; {
		n, err := r.Read(buf)
		crc = binio.UpdateCRC(crc, buf[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
	if crc != end.CRC {
		return binio.BadRange(name, 0, end.Bytes)
	}
	return nil
}

// ReadLines returns the epochs of the complete lines in a run's metrics.jsonl: a killed run may
// have left a part of one more line, and a power failure a line with holes. The part of the file
// that run.json covers is compared with its checksum.
func (f *File) ReadLines(fsys vfs.FS, dir string) ([]Epoch, error) {
	name := filepath.Join(dir, MetricsFile)
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := f.checkLines(file, name); err != nil {
		return nil, err
	}
	epochs, err := decodeLines(file, f.State != StateFinished)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return epochs, nil
}

// checkLines compares metrics.jsonl with the length and checksum in run.json. Nothing follows the
// lines of a finished run.
func (f *File) checkLines(file vfs.File, name string) error {
	if f.Metrics == nil {
		return nil
	}
	if err := checkMetrics(file, name, *f.Metrics); err != nil {
		return err
	}
	st, err := file.Stat()
	if err == nil && f.State == StateFinished && st.Size() != f.Metrics.Bytes {
		err = fault.New(fault.ErrCorrupt, "%s has %d bytes, but %d were written", name, st.Size(), f.Metrics.Bytes)
	}
	return err
}

// decodeLines returns the epochs of the lines. The last line may be torn.
func decodeLines(from io.Reader, torn bool) ([]Epoch, error) {
	var epochs []Epoch
	for lines := bufio.NewReaderSize(from, mostLine); ; {
		n := len(epochs)
		bad := func(format string, args ...any) error {
			return fault.New(fault.ErrCorrupt, "line %d: "+format, append([]any{n + 1}, args...)...)
		}
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return epochs, nil
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, bad("it is longer than %d bytes", mostLine)
		case err != nil:
			return nil, err
		}
		var e Epoch
		if err := e.decode(line); err != nil {
			if _, end := lines.Peek(1); torn && errors.Is(end, io.EOF) {
				return epochs, nil
			}
			return nil, bad("%w", err)
		}
		if e.Epoch < 0 || e.Epoch > math.MaxInt32 || n > 0 && e.Epoch <= epochs[n-1].Epoch {
			return nil, bad("unexpected epoch %d", e.Epoch)
		}
		for i := range e.Links {
			e.Links[i].Workers = max(1, e.Links[i].Workers)
		}
		epochs = append(epochs, e)
	}
}
