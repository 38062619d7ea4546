package stage

import (
	"encoding/json"
	"fmt"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

type journal struct {
	Format   Format          `json:"format"`
	Hash     string          `json:"params_sha256"`
	Progress json.RawMessage `json:"progress,omitempty"`
}

// Progress fills v with what SaveProgress last saved and reports whether there
// was anything.
func (d *Dir) Progress(v any) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.progress) == 0 || string(d.progress) == "null" {
		return false, nil
	}
	if err := json.Unmarshal(d.progress, v); err != nil {
		return false, fault.New(fault.ErrCorrupt, "%s: %v; remove %s and start again", d.File(journalFile), err, d.path)
	}
	return true, nil
}

// SaveProgress journals v durably. What v says is finished must be durable
// already.
func (d *Dir) SaveProgress(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.progress = raw
	b, err := json.Marshal(journal{d.spec.Format, d.mark, raw})
	if err != nil {
		return err
	}
	if err := vfs.ReplaceFile(d.fs, d.File(journalFile), b); err != nil {
		return fmt.Errorf("journal %s: %w", d.path, err)
	}
	return nil
}
