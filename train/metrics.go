package train

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// metricsEnd is how far metrics.jsonl is written.
type metricsEnd struct {
	Bytes int64  `json:"bytes"`
	CRC   uint32 `json:"crc"` // CRC-32C of them
}

// appendMetrics adds a line and makes it durable.
func (d *runDir) appendMetrics(e Epoch) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := d.metrics.WriteAt(line, d.metricsEnd.Bytes); err != nil {
		return fmt.Errorf("write %s: %w", d.name(MetricsFile), err)
	}
	if err := d.metrics.Sync(); err != nil {
		return fmt.Errorf("write %s: %w", d.name(MetricsFile), err)
	}
	d.metricsEnd.Bytes += int64(len(line))
	d.metricsEnd.CRC = binio.UpdateCRC(d.metricsEnd.CRC, line)
	return nil
}

// mostLine bounds a line of metrics.jsonl; it has some 1,100 bytes.
const mostLine = 64 << 10

// readMetrics returns the epochs in a run's metrics.jsonl up to an end, of which there are
// so many.
func readMetrics(fsys vfs.FS, name string, end metricsEnd, epochs int) ([]Epoch, error) {
	if end.Bytes < 0 || end.Bytes > int64(epochs)*mostLine || end.Bytes == 0 && epochs > 0 {
		return nil, fault.New(fault.ErrCorrupt, "%s with %d bytes for %d epochs", name, end.Bytes, epochs)
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
			err = json.Unmarshal(line, &e)
		}
		if err == nil && (len(list) == epochs || e.Epoch != len(list)) {
			err = fmt.Errorf("epoch %d", e.Epoch)
		}
		if err != nil {
			return nil, fault.New(fault.ErrCorrupt, "%s: line %d: %v", name, len(list)+1, err)
		}
		list = append(list, e)
	}
	if len(list) != epochs {
		return nil, fault.New(fault.ErrCorrupt, "%s: %d epochs, not %d", name, len(list), epochs)
	}
	return list, nil
}

// checkMetrics makes sure that the file is what it was up to the end.
func checkMetrics(f vfs.File, name string, end metricsEnd) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Size() < end.Bytes {
		return fault.New(fault.ErrCorrupt, "%s has %d bytes, %d were written", name, st.Size(), end.Bytes)
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

// openMetrics opens metrics.jsonl to go on after an end: what follows it is cut off. The
// cut becomes durable with the next line: until then, whoever goes on cuts again.
func (d *runDir) openMetrics(end metricsEnd) (err error) {
	name := d.name(MetricsFile)
	if d.metrics, err = d.fs.OpenReadWrite(name); err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	d.metricsEnd = end
	if err := d.metrics.Truncate(end.Bytes); err != nil {
		return fmt.Errorf("cut %s to %d bytes: %w", name, end.Bytes, err)
	}
	return nil
}
