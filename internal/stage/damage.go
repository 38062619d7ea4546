package stage

import (
	"errors"
	"fmt"

	"diskgnn/internal/fault"
)

// damaged is an error on a finished directory, with what makes the directory again.
type damaged struct {
	err  error
	cure string
}

func (d *damaged) Error() string { return d.err.Error() + "; " + d.cure }
func (d *damaged) Unwrap() error { return d.err }

// Damaged adds to an error of kind fault.ErrCorrupt on a finished directory of the given
// format how the directory is made again. Other errors, and those that say it already,
// it returns as they are; the zero Format stands for one that is not known.
func Damaged(err error, dir string, format Format) error {
	if !errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	if _, ok := errors.AsType[*damaged](err); ok {
		return err
	}
	return &damaged{err, fmt.Sprintf("%s is damaged: make it again, by %s with --force, or from a copy", dir, format.maker())}
}

// plainly returns an error without what Damaged added to it.
func plainly(err error) error {
	if d, ok := errors.AsType[*damaged](err); ok && errors.Is(err, fault.ErrCorrupt) {
		return d.err
	}
	return err
}

// maker names the commands that make directories of a format.
func (f Format) maker() string {
	name, part := f, ""
	if whole, ok := f.Whole(); ok {
		name, part = whole, " --shard"
	}
	switch name.kind() {
	case RoleDataset:
		return "its diskgnn generate or import" + part
	case RoleSamples:
		return "its diskgnn presample" + part
	case RolePack:
		return "its diskgnn pack" + part
	}
	return "the command that made it"
}
