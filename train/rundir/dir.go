package rundir

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/train/checkpoint"
	"diskgnn/train/safetensors"
)

// Dir is the directory of a run under way, locked. Its methods belong to one goroutine at a time: Later
// hands the Dir to a write, and Wait gets it back.
type Dir struct {
	FS   vfs.FS
	Path string
	File File // the content of run.json, once saved
	MetricsEnd
	// Sources returns an error if the batches' files differ from the verified ones. It is called
	// before results of them are committed. Nil: nothing is mapped.
	Sources func() error
	// Extensible says that the latest checkpoint is of the last epoch: the run can be extended.
	Extensible bool

	behind
	lock    io.Closer
	metrics vfs.File
}

// Begin makes the directory out and locks it; file is the content of run.json. With force it clears an
// existing run. Anything else that exists is an error of kind fault.ErrExists. The caller closes the
// Dir.
func Begin(fsys vfs.FS, out string, force bool, file File) (*Dir, error) {
	out = filepath.Clean(out)
	if err := CheckOut(fsys, out, force); err != nil {
		return nil, err
	}
	parent := filepath.Dir(out)
	if err := vfs.MakeParents(fsys, out); err != nil {
		return nil, err
	}
	if err := fsys.MkdirAll(out); err != nil {
		return nil, fmt.Errorf("make %s: %w", out, err)
	}
	// Files inside are as durable as the directory's name.
	if err := fsys.SyncDir(parent); err != nil {
		return nil, err
	}
	d, err := Lock(fsys, out, file)
	if err != nil {
		return nil, err
	}
	if err := d.Clear(force); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Lock locks the directory of an existing run, and does not change its files. Save writes file, the
// new content of run.json. The caller closes the Dir.
func Lock(fsys vfs.FS, out string, file File) (d *Dir, err error) {
	d = &Dir{FS: fsys, Path: filepath.Clean(out), File: file}
	if d.lock, err = fsys.Lock(d.Name(LockFile)); err != nil {
		return nil, err
	}
	return d, nil
}

// Close closes metrics.jsonl and releases the lock. The directory stays as it is.
func (d *Dir) Close() error { return errors.Join(d.CloseMetrics(), d.lock.Close()) }

// Unlock removes the lock's file and releases the lock. It ignores errors: a file that remains is not
// locked.
func (d *Dir) Unlock() {
	_ = d.Remove(LockFile)
	_ = d.lock.Close()
}

// Checkpoints returns the directory of the run's checkpoints.
func (d *Dir) Checkpoints() checkpoint.Dir {
	return checkpoint.Dir{FS: d.FS, Path: d.Name(CheckpointsDir)}
}

// DropScratch removes the hidden states of a validation that was cut off, if there are some.
func (d *Dir) DropScratch() error {
	name := d.Name(ScratchDir)
	if ok, err := vfs.Exists(d.FS, name); err != nil || !ok {
		return err
	}
	return d.FS.RemoveAll(name)
}

// Clear removes the files of an existing run from the locked directory, and begins metrics.jsonl and
// run.json anew. Without force, an existing run is an error, as in CheckOut.
func (d *Dir) Clear(force bool) error {
	// Another process may have come between the first check and the lock.
	if err := CheckOut(d.FS, d.Path, force); err != nil {
		return err
	}
	// Checkpoints go before run.json says that another run is here.
	if err := d.Checkpoints().Clear(); err != nil {
		return err
	}
	if err := d.DropScratch(); err != nil {
		return err
	}
	// run.json next: from here on, remains of an earlier run do not count as finished.
	d.File.Format, d.File.State, d.File.Begun = Format, StateRunning, time.Now().UTC()
	if err := d.Save(); err != nil {
		return err
	}
	names, err := d.FS.List(d.Path)
	if err != nil {
		return fmt.Errorf("clear %s: %w", d.Path, err)
	}
	ours := []string{FinalFile, WeightsFile, ReportFile}
	for _, name := range names {
		if !slices.Contains(ours, name) && !isTrace(name) {
			continue
		}
		if err := d.Remove(name); err != nil {
			return fmt.Errorf("clear %s: %w", d.Path, err)
		}
	}
	return d.OpenMetrics(MetricsEnd{})
}

// CheckOut refuses an output that exists, unless it is a run and force is set.
func CheckOut(fsys vfs.FS, out string, force bool) error {
	ok, err := vfs.Exists(fsys, out)
	if err != nil || !ok {
		return err
	}
	was, err := Read(fsys, out)
	if errors.Is(err, fault.ErrVersion) && force {
		return nil
	}
	if errors.Is(err, fault.ErrVersion) {
		return fault.New(fault.ErrExists, "%s exists: %w; use --force to train anew in its place, or another name", out, err)
	}
	if fault.Starved(err) {
		return err
	}
	if err != nil {
		names, lerr := fsys.List(out)
		ours := []string{LockFile, stage.RunFile + tmpExt} // files of a run that ended before it began
		if lerr == nil && !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(ours, n) }) {
			return nil
		}
		if errors.Is(err, fault.ErrCorrupt) {
			return fault.New(fault.ErrExists, "%s exists and is not a run that can be read (%v); remove it or choose another name", out, err)
		}
		return fault.New(fault.ErrExists, "%s exists and is not a run of this program; remove it or choose another name", out)
	}
	if force {
		return nil
	}
	switch was.State {
	case StateFinished:
		return fault.New(fault.ErrExists, "%s exists: a finished run; use --force to train anew in its place, or another name", out)
	default:
		if err := was.Unlocked(fsys, out); err != nil {
			return err
		}
	}
	return fault.New(fault.ErrExists, "%s exists: a run that did not finish (%s); use --resume to go on, --force to start over, or another name", out, was.State)
}

// Name returns the path of a file of the directory.
func (d *Dir) Name(file string) string { return filepath.Join(d.Path, file) }

// Remove removes a file, if it is there.
func (d *Dir) Remove(file string) error {
	if ok, err := vfs.Exists(d.FS, d.Name(file)); err != nil || !ok {
		return err
	}
	return d.FS.Remove(d.Name(file))
}

// Save replaces run.json.
func (d *Dir) Save() error {
	end := d.MetricsEnd
	d.File.Metrics = &end
	b, err := Encode(d.File)
	if err != nil {
		return err
	}
	if err := vfs.ReplaceFile(d.FS, d.Name(stage.RunFile), b); err != nil {
		return fmt.Errorf("write %s: %w", d.Name(stage.RunFile), err)
	}
	return nil
}

// CheckSources calls Sources, if it is set, and returns its error.
func (d *Dir) CheckSources() error {
	if d.Sources == nil {
		return nil
	}
	return d.Sources()
}

// SaveCheckpoint writes the checkpoint of a step, and keeps the latest keep checkpoints.
func (d *Dir) SaveCheckpoint(step int64, head any, sections map[string][]byte, keep int) error {
	if err := d.CheckSources(); err != nil {
		return err
	}
	return d.Checkpoints().Write(step, head, sections, keep)
}

// SaveWeights replaces a file of weights by the weights after an epoch.
func (d *Dir) SaveWeights(name string, tensors []safetensors.Tensor, epoch int) error {
	if err := d.CheckSources(); err != nil {
		return err
	}
	metadata := map[string]string{
		"format": "pt", // the orientation is PyTorch's
		"model":  d.File.Params.Model,
		"epoch":  fmt.Sprint(epoch),
	}
	return d.Replace(name, func(w io.Writer) error { return safetensors.Write(w, tensors, metadata) })
}

// Replace writes a file by renaming: after a crash it has the old content or the new, never a
// mixture.
func (d *Dir) Replace(name string, content func(io.Writer) error) error {
	path := d.Name(name)
	write := func() (err error) {
		f, err := d.FS.Create(path + tmpExt)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		b := bufio.NewWriterSize(f, 1<<20)
		if err := content(b); err != nil {
			return err
		}
		if err := b.Flush(); err != nil {
			return err
		}
		return f.Sync()
	}
	err := write()
	if err == nil {
		err = d.FS.Rename(path+tmpExt, path)
	}
	if err == nil {
		err = d.FS.SyncDir(d.Path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// End records in File the run's final state and the error that ended it. Save writes it.
func (d *Dir) End(s State, why error) {
	now := time.Now().UTC()
	d.File.State, d.File.Ended = s, &now
	if why != nil {
		d.File.Error = why.Error()
	}
}

// AppendMetrics appends a line to metrics.jsonl durably.
func (d *Dir) AppendMetrics(e Epoch) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := d.metrics.WriteAt(line, d.MetricsEnd.Bytes); err != nil {
		return fmt.Errorf("write %s: %w", d.Name(MetricsFile), err)
	}
	if err := d.metrics.Sync(); err != nil {
		return fmt.Errorf("write %s: %w", d.Name(MetricsFile), err)
	}
	d.MetricsEnd.Bytes += int64(len(line))
	d.MetricsEnd.CRC = binio.UpdateCRC(d.MetricsEnd.CRC, line)
	return nil
}

// OpenMetrics opens metrics.jsonl to append after an end, and cuts off the bytes beyond it. The cut
// becomes durable with the next line: a run that resumes before that cuts again.
func (d *Dir) OpenMetrics(end MetricsEnd) (err error) {
	name := d.Name(MetricsFile)
	if d.metrics, err = d.FS.OpenReadWrite(name); err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	d.MetricsEnd = end
	if err := d.metrics.Truncate(end.Bytes); err != nil {
		return fmt.Errorf("cut %s to %d bytes: %w", name, end.Bytes, err)
	}
	return nil
}

// CloseMetrics closes metrics.jsonl, if it is open.
func (d *Dir) CloseMetrics() error {
	if d.metrics == nil {
		return nil
	}
	f := d.metrics
	d.metrics = nil
	if err := f.Close(); err != nil {
		return fmt.Errorf("write %s: %w", d.Name(MetricsFile), err)
	}
	return nil
}
