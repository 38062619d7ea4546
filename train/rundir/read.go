package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/train/score"
)

// All of run.json except the result takes some ten thousand bytes, and an epoch in the result at
// least this many.
const (
	mostRun        = 1 << 32 // of a million epochs
	mostRunFacts   = 1 << 20
	leastEpochText = 256
)

// Read reads the run.json of a directory, and checks its format, version and checksum.
func Read(fsys vfs.FS, dir string) (File, error) { return read(fsys, dir, true) }

// ReadSummary is Read without the result's epochs, which are also in metrics.jsonl.
func ReadSummary(fsys vfs.FS, dir string) (File, error) { return read(fsys, dir, false) }

func read(fsys vfs.FS, dir string, epochs bool) (File, error) {
	name := filepath.Join(dir, stage.RunFile)
	b, err := vfs.ReadSmall(fsys, name, mostRun)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return File{}, fault.New(err, "no run at %s", dir)
	case errors.Is(err, syscall.ENOTDIR):
		return File{}, fault.New(err, "%s is a file, not a run", dir)
	case err != nil:
		return File{}, err
	}
	if kind := stage.Kind(fsys, dir); kind != "" { // a directory of another command, with its own run.json
		return File{}, fault.New(fault.ErrInput, "%s is a %s directory, not a run", dir, kind)
	}
	summed, err := checkSum(b)
	if err != nil {
		return File{}, fault.New(fault.ErrCorrupt, "%s: %w", name, err)
	}
	if err := checkFormat(b, dir); err != nil {
		return File{}, err
	}
	r, err := decode(b, epochs)
	if err == nil && r.Checked() && !summed {
		err = errors.New("its checksum is missing: it was edited or damaged")
	}
	if err != nil {
		return File{}, fault.New(fault.ErrCorrupt, "%s: %w", name, err)
	}
	return r, nil
}

// checkFormat refuses the run.json of other stages and of other versions: their fields may have
// other types.
func checkFormat(b []byte, dir string) error {
	var of struct {
		Format stage.Format `json:"format"`
	}
	if err := json.Unmarshal(b, &of); err != nil {
		return fault.New(fault.ErrCorrupt, "%s: %w", filepath.Join(dir, stage.RunFile), err)
	}
	if of.Format.Name != Format.Name {
		return fault.New(fault.ErrInput, "%s is not a run of this program", dir)
	}
	if _, err := versions.Decoder(of.Format.Version, "version %d; this program reads versions %s"); err != nil {
		return fmt.Errorf("%s is a %s, %w", dir, of.Format.Name, err)
	}
	return nil
}

// length is the length of a JSON value that is otherwise not read.
type length int

func (l *length) UnmarshalJSON(b []byte) error { *l = length(len(b)); return nil }

// decode reads the JSON of a run.json and, if wanted, the epochs of its result, in memory of its
// length.
func decode(b []byte, epochs bool) (f File, err error) {
	var whole struct {
		Result length `json:"result"`
	}
	if err := json.Unmarshal(b, &whole); err != nil {
		return f, err
	}
	if n := len(b) - int(whole.Result); n > mostRunFacts {
		return f, fmt.Errorf("it has %d bytes outside of the result, more than any run", n)
	}
	var parts struct {
		Result struct {
			Epochs length `json:"epochs"`
		} `json:"result"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return f, err
	}
	if n := whole.Result - parts.Result.Epochs; n > mostRunFacts {
		return f, fmt.Errorf("its result has %d bytes outside of the epochs, more than any run", n)
	}
	if whole.Result == 0 {
		return f, json.Unmarshal(b, &f)
	}
	if !epochs {
		_, err = decodeFacts[length](b, &f)
		return f, err
	}
	list, err := decodeFacts[json.RawMessage](b, &f)
	if err == nil && f.Result != nil {
		f.Result.Epochs, err = decodeEpochs(list)
	}
	return f, err
}

// decodeFacts reads everything but the epochs of the result, which it returns.
func decodeFacts[E any](b []byte, f *File) (epochs E, err error) {
	type result struct {
		*Result
		Epochs E `json:"epochs"` // hides the result's
	}
	facts := struct {
		*File
		Result *result `json:"result"` // hides the run's
	}{File: f, Result: &result{Result: &Result{ValidAccuracy: score.Undefined, TestAccuracy: score.Undefined}}}
	if err := json.Unmarshal(b, &facts); err != nil || facts.Result == nil {
		return epochs, err
	}
	f.Result = facts.Result.Result
	return facts.Result.Epochs, nil
}

// decodeEpochs reads the epochs of a result one by one.
func decodeEpochs(b []byte) (epochs []Epoch, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, nil // of a run without epochs
	}
	for d.More() {
		var e Epoch
		if err := d.Decode(&e); err != nil {
			return nil, fmt.Errorf("epoch %d of the result: %w", len(epochs), err)
		}
		if epochs = append(epochs, e); d.InputOffset() < leastEpochText*int64(len(epochs)) {
			return nil, fmt.Errorf("its result has %d epochs in %d bytes, fewer than they need", len(epochs), d.InputOffset())
		}
	}
	return epochs, nil
}

// The bytes before the checksum's digits at the end of run.json, and those after them.
const (
	sumBegin = ",\n  \"checksum\": \""
	sumEnd   = "\"\n}\n"
	sumBytes = 64 // digits
)

// errChecksum reports that a run.json was changed after it was written.
var errChecksum = errors.New("it does not match the checksum at its end: it was edited or damaged")

// Encode returns v as run.json holds it: with its checksum as the last member. v encodes as a JSON
// object that has members.
func Encode(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	b = bytes.TrimSuffix(b, []byte("\n}"))
	sum := binio.Hash(b)
	return append(append(append(b, sumBegin...), sum...), sumEnd...), nil
}

// checkSum compares the content of a run.json with the checksum at its end, and reports whether it
// has one.
func checkSum(b []byte) (summed bool, err error) {
	at := len(b) - len(sumEnd) - sumBytes
	if at < len(sumBegin) || !bytes.HasSuffix(b[:at], []byte(sumBegin)) || !bytes.HasSuffix(b, []byte(sumEnd)) {
		return false, nil
	}
	if binio.Hash(b[:at-len(sumBegin)]) != string(b[at:at+sumBytes]) {
		return true, errChecksum
	}
	return true, nil
}
