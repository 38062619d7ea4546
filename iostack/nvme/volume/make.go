package volume

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"diskgnn/internal/fault"
)

// DefaultUnit is the default unit of a volume, in bytes: smaller reads are mostly on one drive, and larger
// ones on several.
const DefaultUnit = 1 << 20

// attach opens the volume on drives, or makes one on empty drives if room returns no error. It refuses
// drives with other content, unless o.Force is set.
func attach(drives []Drive, o Options, room func(Layout) error) (*Volume, error) {
	unit, id := o.Unit, o.ID
	if len(drives) == 0 || len(drives) > MaxDrives {
		return nil, fault.New(fault.ErrUsage, "a volume cannot have %d drives: 1 to %d are possible", len(drives), MaxDrives)
	}
	if unit != 0 && (unit < MinUnit || unit > MaxUnit || unit&(unit-1) != 0) {
		return nil, fault.New(fault.ErrUsage, "a unit of %d bytes is not a power of two from %d to %d", unit, MinUnit, MaxUnit)
	}
	v, err := existing(drives)
	switch {
	case err != nil:
	case v == nil:
	case v.super.generation == 0: // its making was cut off
		unit, id = v.layout.Unit, v.id
	case unit == 0 || unit == v.layout.Unit:
		return v, nil
	default:
		err = fault.New(fault.ErrExists, "%s is a volume with units of %d bytes, not of %d", names(drives), v.layout.Unit, unit)
	}
	if err != nil {
		known := slices.ContainsFunc([]error{fault.ErrExists, fault.ErrInput, fault.ErrCorrupt, fault.ErrVersion}, func(kind error) bool { return errors.Is(err, kind) })
		switch {
		case !known:
			return nil, err
		case !o.Force:
			return nil, fmt.Errorf("%w; --force makes a new volume of it, and its content is lost", err)
		}
	}
	if unit == 0 {
		unit = DefaultUnit
	}
	layout, err := fit(drives, unit)
	if err == nil {
		err = room(layout)
	}
	if err != nil {
		return nil, err
	}
	return makeVolume(drives, layout, id)
}

// existing returns the volume on drives, nil if they are empty. A volume of generation 0 was not completely
// made. Other content is an error.
func existing(drives []Drive) (*Volume, error) {
	l, known, err := readLabel(drives[0])
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, vacant(drives)
	}
	v := &Volume{drives: drives, id: l.id, layout: l.layout}
	if v.begunOnly() {
		return v, nil
	}
	return find(drives)
}

// begunOnly reports whether the making of a volume was interrupted: the first drive has its label and no
// superblock, and the others have labels of the same volume, or are empty.
func (v *Volume) begunOnly() bool {
	if v.layout.Drives != len(v.drives) || v.readSuper() != nil || v.super.generation > 0 {
		return false
	}
	for i, d := range v.drives {
		l, known, err := readLabel(d)
		if err != nil || known && (l.id != v.id || l.layout != v.layout || l.drive != i) || !known && vacant(v.drives[i:i+1]) != nil {
			return false
		}
	}
	return true
}

// vacant returns an error of kind fault.ErrExists unless all drives are empty.
func vacant(drives []Drive) error {
	for _, d := range drives {
		l, known, err := readLabel(d)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("drive %d of %d of a volume", l.drive, l.layout.Drives)
		if !known {
			if what, err = occupied(d); err != nil {
				return err
			}
		}
		if what != "" {
			return fault.New(fault.ErrExists, "%s holds %s", d.Name(), what)
		}
	}
	return nil
}

// makeVolume makes an empty volume of the drives. The first write already destroys their former content.
func makeVolume(drives []Drive, layout Layout, id ID) (*Volume, error) {
	if id == (ID{}) {
		rand.Read(id[:])
	}
	v := &Volume{drives: drives, id: id, layout: layout}
	zeros := make([]byte, max(head, tail))
	for _, d := range drives {
		if err := errors.Join(writeBytes(d, 0, zeros[:head]), writeBytes(d, bytesOf(d)-tail, zeros[:tail])); err != nil {
			return nil, fmt.Errorf("clear the ends of %s: %w", d.Name(), err)
		}
	}
	if err := v.flush(); err != nil {
		return nil, err
	}
	for i, d := range drives {
		l := label{drive: i, layout: layout, id: id}
		if err := writeBytes(d, 0, l.encode()); err != nil {
			return nil, fmt.Errorf("write the label of %s: %w", d.Name(), err)
		}
		if err := d.Flush(); err != nil {
			return nil, err
		}
	}
	return v, v.advance(ref{}, ref{})
}

// advance writes the next superblock, after it has made all earlier writes durable.
func (v *Volume) advance(force, underWay ref) error {
	if err := v.flush(); err != nil {
		return fmt.Errorf("flush %s: %w", names(v.drives), err)
	}
	s := super{generation: v.super.generation + 1, id: v.id, force: force, underWay: underWay}
	if err := writeBytes(v.drives[0], superAt(s.generation), s.encode()); err != nil {
		return fmt.Errorf("write a superblock of %s: %w", v.drives[0].Name(), err)
	}
	if err := v.drives[0].Flush(); err != nil {
		return fmt.Errorf("flush %s: %w", v.drives[0].Name(), err)
	}
	v.super = s
	return nil
}
