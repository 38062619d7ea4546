package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/train/checkpoint"
	"diskgnn/train/safetensors"
)

// Verified is a run with checked files.
type Verified struct {
	File        File
	Bytes       int64 // of the files that have checksums
	Checkpoints int
	Unchecked   []string // files that are there and have no checksum
}

// Verify reads all files of a run that no process trains, and compares them with their checksums
// and with each other. It holds run.json and metrics.jsonl decoded.
func Verify(fsys vfs.FS, dir string) (*Verified, error) {
	f, err := Read(fsys, dir)
	if err != nil {
		return nil, err
	}
	v := &Verified{File: f}
	if err := v.verifyMetrics(fsys, dir); err != nil {
		return nil, err
	}
	if err := f.CheckWeights(fsys, dir); err != nil {
		return nil, err
	}
	if err := v.verifyCheckpoints(fsys, dir); err != nil {
		return nil, err
	}
	return v, v.list(fsys, dir)
}

// verifyMetrics compares metrics.jsonl with run.json.
func (v *Verified) verifyMetrics(fsys vfs.FS, dir string) error {
	f := &v.File
	epochs, err := f.ReadLines(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) && (f.Metrics == nil || f.Metrics.Bytes == 0) && f.State != StateFinished {
		return nil // it ended before its first epoch
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.ErrCorrupt, "%s is missing", filepath.Join(dir, MetricsFile))
	}
	if err != nil {
		return err
	}
	r := f.Result
	if f.State != StateFinished || r == nil {
		return nil
	}
	if len(r.Epochs) != len(epochs) {
		return fault.New(fault.ErrCorrupt, "%s has %d epochs, but %s has %d", filepath.Join(dir, MetricsFile), len(epochs), stage.RunFile, len(r.Epochs))
	}
	for i := range epochs {
		for k := range r.Epochs[i].Links {
			r.Epochs[i].Links[k].Workers = max(1, r.Epochs[i].Links[k].Workers) // as lines are decoded
		}
		line, err := json.Marshal(epochs[i])
		if err != nil {
			return err
		}
		result, err := json.Marshal(r.Epochs[i])
		if err != nil {
			return err
		}
		if !bytes.Equal(line, result) {
			return fault.New(fault.ErrCorrupt, "%s: epoch %d differs from the epoch in %s", filepath.Join(dir, MetricsFile), i, stage.RunFile)
		}
	}
	return nil
}

// CheckWeights compares the files of weights with their checksums. A finished run must have both
// files, with the epochs given in run.json.
func (f *File) CheckWeights(fsys vfs.FS, dir string) error {
	epochs := map[string]int{WeightsFile: -1, FinalFile: -1}
	if r := f.Result; f.State == StateFinished && r != nil {
		epochs[WeightsFile] = r.BestEpoch
		if r.BestEpoch >= 0 { // else nothing was trained
			epochs[FinalFile] = len(r.Epochs) - 1
		}
	}
	for _, file := range []string{WeightsFile, FinalFile} {
		name := filepath.Join(dir, file)
		metadata, err := verifyWeights(fsys, name)
		switch epoch := epochs[file]; {
		case errors.Is(err, fs.ErrNotExist) && epoch < 0:
		case errors.Is(err, fs.ErrNotExist):
			return fault.New(fault.ErrCorrupt, "%s is missing, although the run is finished", name)
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case f.Checked() && !safetensors.Checked(metadata):
			return fmt.Errorf("%s: %w", name, ErrNoChecksum)
		case epoch >= 0 && metadata["epoch"] != strconv.Itoa(epoch):
			return fault.New(fault.ErrCorrupt, "%s has the weights of epoch %.20q, but %s names epoch %d", name, metadata["epoch"], stage.RunFile, epoch)
		}
	}
	return nil
}

// ErrNoChecksum is about a file of weights without a checksum, in a run with checksums.
var ErrNoChecksum = fault.New(fault.ErrCorrupt, "it has no checksum, unlike the files of this run: it was damaged, or belongs to another run")

func verifyWeights(fsys vfs.FS, name string) (metadata map[string]string, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return safetensors.Verify(f, st.Size())
}

// verifyCheckpoints checks every checkpoint, and that it is one of this run.
func (v *Verified) verifyCheckpoints(fsys vfs.FS, dir string) error {
	run, err := v.File.Identity()
	if err != nil {
		return err
	}
	c := checkpoint.Dir{FS: fsys, Path: filepath.Join(dir, CheckpointsDir)}
	names, err := c.List()
	if err != nil {
		return err
	}
	for _, name := range names {
		raw, size, err := c.Verify(name)
		if err != nil {
			return err
		}
		var head struct {
			Run     string     `json:"run"`
			Epoch   int        `json:"epoch"`
			Metrics MetricsEnd `json:"metrics"`
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return fault.New(fault.ErrCorrupt, "%s: head: %v", c.File(name), err)
		}
		if head.Run != run {
			return fault.New(fault.ErrLineage, "%s is a checkpoint of another run", c.File(name))
		}
		if _, err := ReadMetrics(fsys, filepath.Join(dir, MetricsFile), head.Metrics, head.Epoch); err != nil {
			return fmt.Errorf("%s: %w", c.File(name), err)
		}
		v.Checkpoints++
		v.Bytes += size
	}
	return nil
}

// list counts the bytes of the run's files, and names those without a checksum.
func (v *Verified) list(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		path := filepath.Join(dir, n)
		switch {
		case slices.Contains([]string{stage.RunFile, MetricsFile, WeightsFile, FinalFile}, n) && v.File.Checked():
			st, err := fsys.Stat(path)
			if err != nil {
				return err
			}
			v.Bytes += st.Size()
		case slices.Contains([]string{stage.RunFile, MetricsFile, WeightsFile, FinalFile, ReportFile}, n) || isTrace(n):
			v.Unchecked = append(v.Unchecked, n)
		}
	}
	return nil
}
