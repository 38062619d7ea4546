package epoch

import (
	"errors"

	"diskgnn/internal/fault"
)

// DamagedPack is an error of kind fault.ErrCorrupt about a file of the store.
type DamagedPack struct{ error }

func (d *DamagedPack) Unwrap() error { return d.error }

// OfPack marks an error of what reads a store as a DamagedPack, if that is damaged.
func OfPack(err error) error {
	if err == nil || !errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	return &DamagedPack{err}
}
