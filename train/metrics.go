package train

import (
	"bytes"
	"encoding/json"
	"fmt"

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

// readMetrics returns the epochs in a run's metrics.jsonl up to an end.
func readMetrics(fsys vfs.FS, name string, end metricsEnd) ([]Epoch, error) {
	if end.Bytes == 0 {
		return nil, nil // the file may have gone with the crash
	}
	b, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	if end.Bytes < 0 || int64(len(b)) < end.Bytes {
		return nil, fault.New(fault.ErrCorrupt, "%s has %d bytes, %d were written", name, len(b), end.Bytes)
	}
	b = b[:end.Bytes]
	if binio.CRC(b) != end.CRC {
		return nil, binio.BadRange(name, 0, end.Bytes)
	}
	var epochs []Epoch
	for line := range bytes.Lines(b) {
		var e Epoch
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fault.New(fault.ErrCorrupt, "%s: line %d: %v", name, len(epochs)+1, err)
		}
		epochs = append(epochs, e)
	}
	return epochs, nil
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
