package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/train/cpu"
	"diskgnn/train/decide"
	"diskgnn/train/epoch"
	"diskgnn/train/rundir"
	"diskgnn/train/safetensors"
	"diskgnn/train/trained"
)

// A run may begin with the weights of another run instead of weights drawn from its seed. The file
// decides the run's weights: the recipe has its SHA-256, by which ranks are compared and a resumed
// run recognises it. All ranks read the file. A checksum in the file is compared; the weights of a
// run must have one.

// hashWeights finds the file of weights that the options name and hashes it. It reports whether the
// file has no checksum.
func (o *Options) hashWeights(fsys vfs.FS) (unsummed bool, err error) {
	if o.WeightsPath == "" {
		return false, nil
	}
	given, checked := o.WeightsPath, false
	st, err := fsys.Stat(given)
	if err == nil && st.IsDir() {
		if checked, err = checkedRun(fsys, given); err != nil {
			return false, fmt.Errorf("--init-from %s: %w", given, err)
		}
		o.WeightsPath = filepath.Join(given, rundir.WeightsFile)
		st, err = fsys.Stat(o.WeightsPath)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.WeightsPath != given:
		return false, fault.New(fault.ErrInput, "--init-from %s: the directory has no %s", given, rundir.WeightsFile)
	case errors.Is(err, fs.ErrNotExist):
		return false, fault.New(fault.ErrInput, "--init-from %s: there is no such file or run", given)
	case err != nil:
		return false, fmt.Errorf("--init-from %s: %w", given, err)
	case !st.Mode().IsRegular():
		return false, fault.New(fault.ErrInput, "--init-from %s: neither a file nor a run", given)
	}
	if out, weights := absolute(o.Out), absolute(o.WeightsPath); o.Force && o.Out != "" && strings.HasPrefix(weights, out+string(filepath.Separator)) {
		return false, fault.New(fault.ErrUsage, "--init-from %s: --force removes it before training begins; give another --out", given)
	}
	f, err := fsys.Open(o.WeightsPath)
	if err != nil {
		return false, fmt.Errorf("--init-from %s: %w", given, err)
	}
	o.InitFrom, unsummed, err = hashFile(f, st.Size(), checked)
	if err := errors.Join(err, f.Close()); err != nil {
		return false, fmt.Errorf("--init-from %s: %w", o.WeightsPath, err)
	}
	return unsummed, nil
}

// checkedRun reports whether a directory is a run with checksums in its files.
func checkedRun(fsys vfs.FS, dir string) (bool, error) {
	was, err := rundir.ReadSummary(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fault.ErrVersion) || errors.Is(err, fault.ErrInput) {
		return false, nil // not a readable run: its weights need no checksum
	}
	return was.Checked(), err
}

// hashFile checks a file of weights of size bytes and returns its SHA-256, and whether it has no
// checksum. With checked, a missing checksum is an error.
func hashFile(f io.ReaderAt, size int64, checked bool) (sum string, unsummed bool, err error) {
	if err := checkHead(f, size); err != nil {
		return "", false, err
	}
	metadata, err := safetensors.Verify(f, size)
	if err != nil {
		return "", false, err
	}
	if unsummed = !safetensors.Checked(metadata); unsummed && checked {
		return "", true, rundir.ErrNoChecksum
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, size)); err != nil {
		return "", false, err
	}
	return hex.EncodeToString(h.Sum(nil)), unsummed, nil
}

// checkHead refuses a file without the header of a file of weights, such as a large one of
// features, before all of it is read.
func checkHead(f io.ReaderAt, size int64) error {
	var head [8]byte // the length of the header
	if size < int64(len(head)) {
		return fault.New(fault.ErrInput, "it is not a safetensors file")
	}
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return err
	}
	if n := binary.LittleEndian.Uint64(head[:]); n > min(trained.MostHeader, uint64(size)) {
		return fault.New(fault.ErrInput, "it is not a safetensors file")
	}
	return nil
}

// beginWith gives a replica the weights of the file that the run begins with, if the options name
// one. The file must have exactly the model's parameters, by name and shape.
func beginWith(fsys vfs.FS, o *decide.Options, rep *epoch.Replica) error {
	e := rep.Engine
	if o.InitFrom == "" || e == nil {
		return nil
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("--init-from %s: %w", o.WeightsPath, fault.New(fault.ErrInput, format, args...))
	}
	params := e.Params()
	count := 0
	for _, p := range params {
		count += p.Len()
	}
	b, err := vfs.ReadExact(fsys, o.WeightsPath, func(size int64) error {
		if most := 4*int64(count) + trained.MostHeader; size > most {
			return bad("the file has %s, but the weights of this model have at most %s", budget.FormatBytes(size), budget.FormatBytes(most))
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return bad("the run began with this file, which is gone")
	}
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != o.InitFrom {
		return bad("it changed since the run began with it")
	}
	tensors, _, err := safetensors.Decode(b)
	if err != nil {
		return bad("%v", err)
	}
	if err := rundir.Fits(params, tensors); err != nil {
		return bad("%v", err)
	}
	for i := range tensors {
		if !cpu.Finite(tensors[i].Data) {
			return bad("the weights %s are not finite", tensors[i].Name)
		}
	}
	return e.Restore(rundir.FromTensors(params, tensors))
}

// absolute returns the absolute path of a directory, for the process that resumes; "" for none.
func absolute(dir string) string {
	if dir == "" {
		return ""
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	return path
}
