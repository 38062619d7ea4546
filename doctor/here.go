package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"diskgnn/device/cuda"
	"diskgnn/internal/budget"
	"diskgnn/internal/kernel"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/cufile"
	"diskgnn/iostack/pread"
	"diskgnn/iostack/uring"
	"diskgnn/train/cpu/blas"
)

// Here is the machine that the program runs on.
func Here() *Machine {
	return &Machine{
		Root:   "/",
		Arch:   runtime.GOARCH,
		SIMD:   func() ([]string, string) { return kernel.Kinds(), kernel.Kind() },
		Memory: budget.Default,
		Uring:  tryUring,
		Direct: tryDirect,
		Device: deviceOf,
		GPUs:   cuda.Devices,
		Tagged: tagged(),
		CUFile: cufile.Probe,
		BLAS: func() (string, string) {
			l, err := blas.Open(blas.Auto)
			if err != nil {
				return "", err.Error() // some library is always available
			}
			return l.Name(), l.Reason()
		},
		OpenBLAS: func() (string, error) {
			l, err := blas.Open(blas.OpenBLAS)
			if err != nil {
				return "", err
			}
			return l.Name(), nil
		},
		Getenv: os.Getenv,
	}
}

// tagged reports whether the program was built with the tag gpu.
func tagged() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			for tag := range strings.SplitSeq(s.Value, ",") {
				if tag == "gpu" {
					return true
				}
			}
		}
	}
	return false
}

// tryUring starts a stack of rings, which tests itself.
func tryUring() error {
	o := iostack.Options{}
	o.EnsureDefaults()
	s, err := uring.New(o)
	if err != nil {
		return err
	}
	return s.Close()
}

// scratch is the file that tryDirect makes. Its name is fixed, so that a file left by a crash is used
// again.
const scratch = "diskgnn-doctor.tmp"

// tryDirect opens a file of a directory as runs do, and reads it.
func tryDirect(directory string) (direct bool, reason string, err error) {
	if info, err := os.Stat(directory); err != nil {
		return false, "", err
	} else if !info.IsDir() {
		return false, "", errors.New(directory + " is no directory")
	}
	name := filepath.Join(directory, scratch)
	if err := vfs.WriteFile(vfs.OS, name, make([]byte, 2*iostack.Align)); err != nil {
		return false, "", err
	}
	defer func() { err = errors.Join(err, vfs.OS.Remove(name)) }()
	o := iostack.Options{Workers: 1}
	o.EnsureDefaults()
	s, err := pread.New(o)
	if err != nil {
		return false, "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	f, err := s.Open(name)
	if err != nil {
		return false, "", err
	}
	direct, reason = f.Direct()
	return direct, reason, f.Close()
}
