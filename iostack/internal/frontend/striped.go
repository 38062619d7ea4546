package frontend

import (
	"errors"
	"math"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// OpenStriped opens the files at paths as one; see iostack.OpenStriped, which has checked
// the arguments.
func (s *Stack) OpenStriped(paths []string, unit int) (_ iostack.File, err error) {
	// Parts that are not nil, though there is none yet, and no descriptor of its own: a
	// whole that fails closes the parts that it has, and nothing else.
	f := &File{stack: s, path: strings.Join(paths, ","), direct: true, striping: iostack.Striping{Files: len(paths), Unit: unit},
		parts: make([]*File, 0, len(paths)), fd: -1}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	for _, path := range paths {
		part, err := s.open(path)
		if err != nil {
			return nil, err
		}
		f.parts = append(f.parts, part)
		f.size += part.size
		if f.direct && !part.direct {
			f.direct, f.reason = false, part.path+": "+part.reason
		}
	}
	for i, part := range f.parts {
		if want := f.striping.Size(f.size, i); part.size != want {
			return nil, fault.New(fault.ErrInput, "%s: %d bytes are not those of file %d of %d, striped in units of %d bytes: %d bytes in all would give it %d",
				part.path, part.size, i, len(f.parts), unit, f.size, want)
		}
	}
	return f, nil
}

// locate returns where the byte at the given offset lies, and how many from
// there on a read may ask for.
func (f *File) locate(offset int64) (part *File, at int64, n int) {
	part, at, n = f, offset, math.MaxInt
	if f.parts != nil {
		var i int
		i, at, n = f.striping.Locate(offset)
		part = f.parts[i]
	}
	if part.Runs != nil {
		n = min(n, part.Runs(at))
	}
	return part, at, n
}
