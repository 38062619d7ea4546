package epoch

import (
	"errors"
	"strings"

	"diskgnn/internal/fault"
)

// DamagedPack is an error of kind fault.ErrCorrupt about a file of the store.
type DamagedPack struct{ error }

func (d *DamagedPack) Unwrap() error { return d.error }

// OfPack marks an error of reading a store as a DamagedPack, if the store is damaged.
func OfPack(err error) error {
	if err == nil || !errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	return &DamagedPack{err}
}

// RemakePack adds to an error about a damaged pack how it is made again.
func RemakePack(err error, dir string) error {
	if _, ok := errors.AsType[*DamagedPack](err); !ok {
		return err
	}
	return Remake(err, dir, "its diskgnn pack")
}

// Remake adds to an error about a damaged directory how it is made again, unless it says
// so.
func Remake(err error, dir, by string) error {
	if !errors.Is(err, fault.ErrCorrupt) || strings.Contains(err.Error(), "make it again") {
		return err
	}
	return fault.New(err, "%s; %s is damaged: make it again, by %s with --force, or from a copy", Once(err), dir, by)
}

// Once returns an error's text in one line. A device that is lost answers everything with
// the same error: repetitions are left out.
func Once(err error) string {
	first, rest, _ := strings.Cut(err.Error(), "\n")
	for line := range strings.SplitSeq(rest, "\n") {
		if !strings.HasSuffix(first, line) {
			first += "; " + line
		}
	}
	return first
}
