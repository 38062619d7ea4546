package comparison

import (
	stdbytes "bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"diskgnn/dataset"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
	"diskgnn/train/decide"
	"diskgnn/train/rundir"
)

const (
	specFile = "comparison.json"
	sumsFile = "checksums.json" // of the time of making the table of checksums
	lockFile = "lock"
	runFile  = stage.RunFile
	tmpExt   = ".tmp" // of a file being replaced

	mostSpec = 1 << 20 // bytes of comparison.json
	mostFact = 1 << 20 // bytes of a stage's run facts
)

// format names the directory.
var format = stage.Format{Name: "diskgnn.comparison", Version: 1}

// comparison is a comparison under way.
type comparison struct {
	fs      vfs.FS
	o       Options
	program Program
	rep     progress.Reporter
	data    *dataset.Dataset
	samples *mbfile.Reader // given ones; nil: drawn here

	result   Result
	variants []*variant
	rows     []*row
	prepared map[string]Preparation // SAMPLES and PACK, by directory
	broken   map[string]error       // PACK that could not be made

	driveBytes int64             // of the file that Drive measures
	random     map[int64]float64 // the drive's random reads in bytes per second, by size
}

// spec is the content of comparison.json: the common options of all runs in the directory.
type spec struct {
	Format   stage.Format `json:"format"`
	Dataset  string       `json:"dataset"`            // fingerprint
	Samples  string       `json:"samples,omitempty"`  // fingerprint, if they were given
	Sampling []string     `json:"sampling,omitempty"` // how they are drawn, if not
	Live     bool         `json:"live,omitempty"`     // while training
	Training []string     `json:"training"`           // flags
	// PageCache bounds the page cache of stores that map their rows; "": as the system allows.
	PageCache string `json:"page_cache,omitempty"`
}

func (c *comparison) spec() spec {
	s := spec{Format: format, Dataset: c.data.Fingerprint(), Training: c.o.trainingArgs()}
	if how := c.o.Train.PageCache; how != decide.PageCacheAuto {
		s.PageCache = how
	}
	if c.samples != nil {
		s.Samples = c.samples.Fingerprint()
	} else {
		o := c.o
		o.Dataset = "" // the path is no part of the comparison
		s.Sampling, s.Live = o.samplingArgs(""), o.Live
	}
	return s
}

// begin makes the directory, or finds it with the same comparison, and locks it.
func (c *comparison) begin() (lock io.Closer, err error) {
	out := filepath.Clean(c.o.Out)
	want, err := json.MarshalIndent(c.spec(), "", "  ")
	if err != nil {
		return nil, err
	}
	want = append(want, '\n')
	if err := vfs.MakeParents(c.fs, out); err != nil {
		return nil, err
	}
	if st, err := c.fs.Stat(out); err == nil && !st.IsDir() {
		return nil, fault.New(fault.ErrExists, "%s exists and is a file: remove it or choose another name", out)
	}
	if err := c.ours(out); err != nil {
		return nil, err
	}
	if err := c.fs.MkdirAll(out); err != nil {
		return nil, fmt.Errorf("make %s: %w", out, err)
	}
	if lock, err = c.fs.Lock(filepath.Join(out, lockFile)); err != nil {
		return nil, err
	}
	if err := c.claim(out, want); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// leave removes the locked directory if nothing was made in it: it would refuse a comparison with
// other flags.
func (c *comparison) leave() error {
	out := filepath.Clean(c.o.Out)
	names, err := c.fs.List(out)
	if err != nil || slices.ContainsFunc(names, func(n string) bool { return n != specFile && n != lockFile }) {
		return err
	}
	for _, name := range []string{filepath.Join(out, specFile), filepath.Join(out, lockFile), out} {
		if err := c.fs.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// claim writes the spec to the locked directory, or finds the same there.
func (c *comparison) claim(out string, want []byte) error {
	name := filepath.Join(out, specFile)
	ok, err := vfs.Exists(c.fs, name)
	if err != nil {
		return err
	}
	if !ok {
		if err := c.ours(out); err != nil { // somebody may have come before the lock
			return err
		}
		return vfs.ReplaceFile(c.fs, name, want)
	}
	was, err := vfs.ReadSmall(c.fs, name, mostSpec)
	if err == nil && !stdbytes.Equal(was, want) {
		err = fault.New(fault.ErrExists, "%s compares stores on other samples or with other flags (listed in %s): give the same flags, or another --out", out, name)
	}
	return err
}

// ours refuses a directory that has content and is not a comparison.
func (c *comparison) ours(out string) error {
	if ok, err := vfs.Exists(c.fs, out); err != nil || !ok {
		return err
	}
	names, err := c.fs.List(out)
	if err != nil {
		return err
	}
	begun := []string{lockFile, specFile + tmpExt} // files of a comparison that ended before it began
	if !slices.Contains(names, specFile) && slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(begun, n) }) {
		return fault.New(fault.ErrExists, "%s exists and is not a comparison of stores; remove it or choose another name", out)
	}
	return nil
}

// made returns the size of a stage's finished directory, and the seconds of the process that
// finished it.
func (c *comparison) made(dir string) (p Preparation, err error) {
	b, err := vfs.ReadSmall(c.fs, filepath.Join(dir, runFile), mostFact)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fault.New(fault.ErrCorrupt, "%s: %v", filepath.Join(dir, runFile), err)
	}
	p.DiskBytes = 0
	err = c.files(dir, func(_ string, size int64) error { p.DiskBytes += size; return nil })
	return p, err
}

// files calls f with the path and size of every regular file of a directory.
func (c *comparison) files(dir string, f func(name string, size int64) error) error {
	names, err := c.fs.List(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		name := filepath.Join(dir, n)
		info, err := c.fs.Stat(name)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			continue
		}
		if err := f(name, info.Size()); err != nil {
			return err
		}
	}
	return nil
}

// finished returns the result of the run in a directory, nil if there is none that finished.
func (c *comparison) finished(dir string) (*rundir.Result, error) {
	if ok, err := vfs.Exists(c.fs, dir); !ok || err != nil {
		return nil, err
	}
	if ok, err := vfs.Exists(c.fs, filepath.Join(dir, runFile)); !ok || err != nil {
		return nil, err // its process was killed before it began
	}
	f, err := rundir.Read(c.fs, dir)
	if errors.Is(err, fault.ErrVersion) {
		return nil, nil // it is made again
	}
	if err != nil || f.State != rundir.StateFinished || f.Result == nil || len(f.Result.Epochs) == 0 {
		return nil, err
	}
	return f.Result, nil
}
