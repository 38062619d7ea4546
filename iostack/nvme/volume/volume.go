package volume

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

// Volume is an open volume, for reading. Like its drives, it is for one goroutine at a time. The results of
// Contents and Layout may be used by any number of goroutines, also after the drives were closed.
type Volume struct {
	drives   []Drive
	layout   Layout
	id       ID
	super    super
	contents *Contents
}

// Open reads the table of the volume on the given drives, which must be all of its drives, in their order.
// Drives without a volume, or a volume with an unfinished first Load, are an error of kind fault.ErrInput;
// damage is an error of kind fault.ErrCorrupt. The table takes a few bytes of memory for each MiB of data,
// twice as much during the call. The drives stay the caller's.
func Open(drives []Drive) (*Volume, error) {
	v, err := find(drives)
	if err != nil {
		return nil, err
	}
	if v.contents == nil {
		return nil, fault.New(fault.ErrInput, "%s holds no directory%s", names(drives), v.begun())
	}
	return v, nil
}

// Contents returns the volume's table. It must not be changed.
func (v *Volume) Contents() *Contents { return v.contents }

// Layout returns the mapping of the volume to its drives.
func (v *Volume) Layout() Layout { return v.layout }

// Generation returns the number of superblocks that were written.
func (v *Volume) Generation() uint64 { return v.super.generation }

// begun returns the end of an error message if there is an unfinished Load, else "".
func (v *Volume) begun() string {
	if v.super.underWay.bytes == 0 {
		return ""
	}
	return ": a load of one was not finished; run it again to resume"
}

// names returns the names of drives, joined with commas.
func names(drives []Drive) string {
	s := ""
	for i, d := range drives {
		if i > 0 {
			s += ","
		}
		s += d.Name()
	}
	return s
}

// find reads labels, superblocks and the table in force, if there is one.
func find(drives []Drive) (*Volume, error) {
	v := &Volume{drives: drives}
	for i, d := range drives {
		l, known, err := readLabel(d)
		switch {
		case err != nil:
			return nil, err
		case !known:
			return nil, fault.New(fault.ErrInput, "%s holds no volume: it has no label", d.Name())
		case l.drive != i || l.layout.Drives != len(drives):
			return nil, fault.New(fault.ErrInput, "%s is drive %d of a volume of %d, not drive %d of %d: give all its drives, in order", d.Name(), l.drive, l.layout.Drives, i, len(drives))
		case i == 0:
			v.id, v.layout = l.id, l.layout
		case l.id != v.id || l.layout != v.layout:
			return nil, fault.New(fault.ErrInput, "%s is a drive of another volume than %s", d.Name(), drives[0].Name())
		}
		if need := head + l.layout.Units*l.layout.Unit; bytesOf(d) < need {
			return nil, fault.New(fault.ErrCorrupt, "%s has %d bytes, but its label needs %d", d.Name(), bytesOf(d), need)
		}
	}
	if err := v.readSuper(); err != nil {
		return nil, err
	}
	var err error
	if v.contents, err = v.table(v.super.force); err != nil {
		return nil, err
	}
	if c := v.contents; c != nil && c.written != c.granules() {
		return nil, fault.New(fault.ErrCorrupt, "the table of %s is in force, but has only %d of %d granules", names(drives), c.written, c.granules())
	}
	return v, nil
}

func readLabel(d Drive) (l label, known bool, err error) {
	if n := d.BlockBytes(); n < 512 || n > Page || n&(n-1) != 0 {
		return l, false, fault.New(fault.ErrInput, "%s has blocks of %d bytes, not of 512 to 4096", d.Name(), n)
	}
	if bytesOf(d) < head+tail {
		return l, false, fault.New(fault.ErrInput, "%s has %d bytes: a drive of a volume needs more than %d", d.Name(), bytesOf(d), head+tail)
	}
	b := make([]byte, Page)
	if err := readBytes(d, 0, b); err != nil {
		return l, false, fmt.Errorf("read the label of %s: %w", d.Name(), err)
	}
	if l, known, err = decodeLabel(b); err != nil {
		return l, known, fmt.Errorf("%s: %w", d.Name(), err)
	}
	return l, known, nil
}

// readSuper reads the valid superblock of the higher generation. A volume without one is new; the first
// superblock has generation 1.
func (v *Volume) readSuper() error {
	b := make([]byte, Page)
	written := false
	for g := range uint64(2) {
		if err := readBytes(v.drives[0], superAt(g), b); err != nil {
			return fmt.Errorf("read a superblock of %s: %w", v.drives[0].Name(), err)
		}
		written = written || g == 0 && !zero(b)
		s, whole, err := decodeSuper(b, v.id, v.layout.Bytes()/Page)
		if err != nil {
			return fmt.Errorf("%s: %w", v.drives[0].Name(), err)
		}
		if whole && s.generation > v.super.generation {
			v.super = s
		}
	}
	if written && v.super.generation == 0 {
		return fault.New(fault.ErrCorrupt, "both superblocks of %s are damaged", v.drives[0].Name())
	}
	return nil
}

// table reads a table, nil if there is none.
func (v *Volume) table(r ref) (*Contents, error) {
	if r.bytes == 0 {
		return nil, nil
	}
	b := make([]byte, r.pages()*Page)
	if err := v.transfer(false, r.first*Page, b); err != nil {
		return nil, fmt.Errorf("read the table of %s: %w", names(v.drives), err)
	}
	b = b[:r.bytes]
	if binio.CRC(b) != r.crc {
		return nil, fault.New(fault.ErrCorrupt, "the table of %s does not match its checksum", names(v.drives))
	}
	c, err := decodeTable(b, v.layout.Bytes()/Page)
	if err != nil {
		return nil, fmt.Errorf("the table of %s: %w", names(v.drives), err)
	}
	for i := range c.Files {
		for _, e := range c.Files[i].Extents {
			if e.First < r.first+r.pages() && r.first < e.First+e.Pages {
				return nil, fault.New(fault.ErrCorrupt, "%s of %s lies in the pages of its table", c.Files[i].Name, names(v.drives))
			}
		}
	}
	return c, nil
}

// transfer reads or writes pages of the volume, on all drives at the same time.
func (v *Volume) transfer(write bool, at int64, b []byte) error {
	do := readBytes
	if write {
		do = writeBytes
	}
	of := func(only int) error {
		at, b := at, b
		for len(b) > 0 {
			drive, offset, n := v.layout.Locate(at)
			part := b[:min(n, int64(len(b)))]
			if drive == only {
				if err := do(v.drives[drive], offset, part); err != nil {
					return err
				}
			}
			at, b = at+int64(len(part)), b[len(part):]
		}
		return nil
	}
	if len(v.drives) == 1 || int64(len(b)) <= v.layout.Unit {
		for i := range v.drives {
			if err := of(i); err != nil {
				return err
			}
		}
		return nil
	}
	var g errgroup.Group
	for i := range v.drives {
		g.Go(func() error { return of(i) })
	}
	return g.Wait()
}

func (v *Volume) flush() error {
	var errs []error
	for _, d := range v.drives {
		errs = append(errs, d.Flush())
	}
	return errors.Join(errs...)
}

// Read fills b with a file's bytes from an offset on. A range outside the file is an error of kind
// fault.ErrCorrupt. It does not check the bytes; Verify does.
func (v *Volume) Read(f *File, b []byte, offset int64) error {
	if offset < 0 || offset > f.Size || int64(len(b)) > f.Size-offset {
		return fault.New(fault.ErrCorrupt, "%s: bytes %d to %d are outside the file, which has %d bytes", f.Name, offset, offset+int64(len(b)), f.Size)
	}
	for len(b) > 0 {
		at, n := f.Locate(offset)
		b2 := b[:min(n, int64(len(b)))]
		if err := v.readAny(at, b2); err != nil {
			return fmt.Errorf("read %s: %w", f.Name, err)
		}
		offset, b = offset+int64(len(b2)), b[len(b2):]
	}
	return nil
}

// readAny reads bytes of the volume from any offset on.
func (v *Volume) readAny(at int64, b []byte) error {
	if whole := int64(len(b)) / Page * Page; at%Page == 0 && whole > 0 {
		if err := v.transfer(false, at, b[:whole]); err != nil {
			return err
		}
		at, b = at+whole, b[whole:]
	}
	page := make([]byte, Page)
	for len(b) > 0 {
		if err := v.transfer(false, at/Page*Page, page); err != nil {
			return err
		}
		n := copy(b, page[at%Page:])
		at, b = at+int64(n), b[n:]
	}
	return nil
}

// Verify reads all files and checks them against the volume's checksums. A mismatch is an error of kind
// fault.ErrCorrupt. It holds one granule in memory.
func (v *Volume) Verify(ctx context.Context, rep progress.Reporter) error {
	task := rep.Task("verify volume", v.contents.Bytes(), progress.Bytes)
	defer task.Done()
	b := make([]byte, Granule)
	for i := range v.contents.Files {
		f := &v.contents.Files[i]
		for at := int64(0); at < f.Size; at += Granule {
			if err := ctx.Err(); err != nil {
				return err
			}
			b := b[:min(Granule, f.Size-at)]
			if err := v.Read(f, b, at); err != nil {
				return err
			}
			if err := f.Sums.Verify(names(v.drives)+": "+f.Name, at, b); err != nil {
				return err
			}
			task.Add(int64(len(b)))
		}
	}
	return nil
}
