package stage

import (
	"encoding/json"
	"path/filepath"

	"diskgnn/internal/vfs"
)

// PreprocessingFact is the key of run.json under which what was made of a dataset keeps how that
// was preprocessed: what is made of it in turn inherits the value.
const PreprocessingFact = "preprocessing"

// maxRunFile bounds what is read of a run.json, which takes a few hundred bytes.
const maxRunFile = 1 << 20

// RunFact returns a run fact of a finished directory, as JSON: nil if its run.json has none of the
// name, or cannot be read. No checksum covers it.
func RunFact(fsys vfs.FS, dir, key string) json.RawMessage {
	b, err := vfs.ReadSmall(fsys, filepath.Join(dir, RunFile), maxRunFile)
	if err != nil {
		return nil
	}
	var facts map[string]json.RawMessage
	if json.Unmarshal(b, &facts) != nil {
		return nil
	}
	return facts[key]
}
