package epoch

import (
	"errors"

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

// RemakePack adds to a DamagedPack error the way to make the pack in dir again. Other errors stay.
func RemakePack(err error, dir string) error {
	if _, ok := errors.AsType[*DamagedPack](err); !ok {
		return err
	}
	return fault.Remake(err, dir, "its diskgnn pack")
}
