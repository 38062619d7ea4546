package stage

import (
	"bytes"
	"encoding/json"
	"fmt"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// journal is the content of journal.json: the owner of the directory, and its progress. It is one JSON
// object, which begins with the SHA-256 of the rest, so that a resumed run detects any changed byte.
//
//	{"sha256":"<64 hexadecimal digits>","format":…,"params_sha256":…,…}
type journal struct {
	Format Format `json:"format"`
	// Hash identifies the specification and the way, Dir.mark.
	Hash     string            `json:"params_sha256"`
	Params   json.RawMessage   `json:"params"`
	Parents  map[string]string `json:"parents,omitempty"`
	By       string            `json:"by,omitempty"`
	Progress json.RawMessage   `json:"progress,omitempty"`
}

const (
	journalHead = `{"sha256":"`
	// maxJournal is more than the longest journal takes: for features compressed in frames, eight
	// bytes for each MiB of them.
	maxJournal = 256 << 20
)

func (j *journal) encode() ([]byte, error) {
	b, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	rest := append([]byte(`",`), b[1:]...)
	return append([]byte(journalHead+binio.Hash(rest)), rest...), nil
}

// decodeJournal reads a journal that encode wrote. The error is of kind fault.ErrCorrupt for a
// damaged journal and for an earlier version, and of kind fault.ErrExists for other bytes, which no
// stage wrote.
func decodeJournal(b []byte) (j journal, err error) {
	const sum = len(journalHead) + 64
	if len(b) > sum && string(b[:len(journalHead)]) == journalHead && string(b[len(journalHead):sum]) == binio.Hash(b[sum:]) && json.Unmarshal(b, &j) == nil {
		return j, nil
	}
	// Every journal has both; a single changed byte destroys at most one.
	for _, mark := range []string{`"params_sha256":"`, `"name":"diskgnn.`} {
		if bytes.Contains(b, []byte(mark)) {
			return journal{}, fault.New(fault.ErrCorrupt, "its journal is damaged, or of an earlier version")
		}
	}
	return journal{}, fault.New(fault.ErrExists, "%s is not this program's", journalFile)
}

// finished reports whether the journal names anything that a resumed run can use.
func (j *journal) finished() bool { return len(j.Progress) > 0 && string(j.Progress) != "null" }

func (j *journal) spec() Spec {
	return Spec{Format: j.Format, Params: j.Params, Parents: j.Parents, By: j.By}
}

// Progress decodes into v the value that SaveProgress saved last, and reports whether there was one.
func (d *Dir) Progress(v any) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.progress) == 0 || string(d.progress) == "null" {
		return false, nil
	}
	if err := json.Unmarshal(d.progress, v); err != nil {
		return false, fault.New(fault.ErrCorrupt, "%s: %v; remove %s and run the command again", d.File(journalFile), err, d.path)
	}
	return true, nil
}

// SaveProgress writes v, as JSON, durably to the journal. Files that v names as finished must be durable
// already. v must have their checksums, computed from the bytes as they were written: a resumed run
// verifies these files before it uses them.
func (d *Dir) SaveProgress(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	params, err := canonical(d.spec.Params)
	if err != nil {
		return err
	}
	if err := d.unchanged(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.progress = raw
	j := journal{Format: d.spec.Format, Hash: d.mark, Params: params, Parents: d.spec.Parents, By: d.spec.By, Progress: raw}
	d.keep = d.keep || j.finished()
	b, err := j.encode()
	if err != nil {
		return err
	}
	if err := vfs.ReplaceFile(d.fs, d.File(journalFile), b); err != nil {
		return fmt.Errorf("journal %s: %w", d.path, err)
	}
	return nil
}
