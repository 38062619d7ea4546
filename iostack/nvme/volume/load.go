package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// defaultPiece is the number of bytes, whole granules, that are read and written at a time. Load holds two
// pieces.
const defaultPiece = 8 << 20

// BufferBytes is the memory of Load in bytes, beside the table and its encoded form.
const BufferBytes = 2 * defaultPiece

// Options are the options of Load. The zero value means the defaults.
type Options struct {
	// Force replaces the content of the drives. If there is room for both, another directory stays until
	// the new one is complete. Other content is destroyed at once.
	Force bool
	// Unit is the size of a unit of a new volume in bytes; 0: DefaultUnit, or the unit of the existing
	// volume.
	Unit int64
	// ID is the identifier of a new volume; the zero ID: a random one.
	ID ID
	// Journal is the number of bytes written between two journals; 0: 256 MiB.
	Journal int64
	// Check, if not nil, checks the directory when all of it is written, before it is in force. Its error
	// ends Load.
	Check func(v *Volume) error
	// Reporter shows the progress; nil: none.
	Reporter progress.Reporter

	piece int64
}

// Result describes the work of Load.
type Result struct {
	State   stage.State
	Volume  *Volume // the volume with the directory
	Written int64   // bytes of files written
	Note    string  // a message for the user, or ""
}

// Load writes a finished directory to a volume: meta.json, and the files that it lists. drives are all
// drives of the volume, in order; m is the meta.json of dir. If the volume holds the directory already,
// Load changes nothing; with Options.Force it verifies all bytes, and loads again if one is wrong. An
// interrupted Load is resumed. See the package comment for the state after a loss of power.
//
// Without Options.Force, another directory on the volume, another interrupted Load, or other content of the
// drives is an error of kind fault.ErrExists. Too little room is an error of kind fault.ErrBudget, before
// anything is written.
//
// The first error ends Load. When ctx ends, the data written so far is journalled, for the next Load.
func Load(ctx context.Context, drives []Drive, fsys vfs.FS, dir string, m *stage.Meta, o Options) (r Result, err error) {
	if o.Journal == 0 {
		o.Journal = 256 << 20
	}
	if o.piece == 0 {
		o.piece = defaultPiece
	}
	if o.Reporter == nil {
		o.Reporter = progress.Discard
	}
	c, err := contentsOf(fsys, dir, m)
	if err != nil {
		return r, err
	}
	v, err := attach(drives, o, func(l Layout) error { return c.place(names(drives), freeOf(l.Bytes()/Page, nil)) })
	if err != nil {
		return r, err
	}
	r.Volume = v
	if v.contents != nil && v.contents.same(c) {
		if o.Force {
			err = v.Verify(ctx, o.Reporter)
		}
		if !errors.Is(err, fault.ErrCorrupt) {
			r.State = stage.StateDone
			return r, err
		}
		r.Note = fmt.Sprintf("loaded again: %v", err)
	}
	l := &loader{v: v, c: c, fsys: fsys, dir: dir, o: o}
	if err := l.begin(&r); err != nil {
		return r, err
	}
	if err := l.write(ctx, &r); err != nil {
		return r, err
	}
	done := &Volume{drives: v.drives, layout: v.layout, id: v.id, super: v.super, contents: l.c}
	if o.Check != nil {
		if err := o.Check(done); err != nil {
			return r, fmt.Errorf("check the directory written to %s: %w", names(drives), err)
		}
	}
	if err := l.publish(); err != nil {
		return r, err
	}
	done.super = v.super
	r.Volume = done
	return r, nil
}

// contentsOf returns the table of a directory, without places and checksums.
func contentsOf(fsys vfs.FS, dir string, m *stage.Meta) (*Contents, error) {
	st, err := fsys.Stat(filepath.Join(dir, stage.MetaFile))
	if err != nil {
		return nil, err
	}
	c := &Contents{Format: m.Format.Name, Version: m.Format.Version, Fingerprint: m.Fingerprint}
	add := func(name string, size int64) {
		c.Files = append(c.Files, File{Name: name, Size: size, Sums: binio.Sums{Granule: Granule, Size: size, CRC: make([]uint32, granulesOf(size))}})
	}
	for _, f := range m.Files {
		if !validName(f.Name) {
			return nil, fault.New(fault.ErrInput, "%s: a volume cannot have a file named %.80q: a name is a path in the directory of up to %d bytes of printable characters", dir, f.Name, maxName)
		}
		add(f.Name, f.Size)
	}
	add(stage.MetaFile, st.Size())
	slices.SortFunc(c.Files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return c, nil
}

// loader is a Load under way.
type loader struct {
	v    *Volume
	c    *Contents // of the new directory
	fsys vfs.FS
	dir  string
	o    Options
}

// begin assigns places to all files, or takes the places of an interrupted Load.
func (l *loader) begin(r *Result) error {
	v := l.v
	begun, err := v.table(v.super.underWay)
	switch {
	case errors.Is(err, fault.ErrCorrupt), errors.Is(err, fault.ErrVersion) && l.o.Force:
		r.Note = fmt.Sprintf("the interrupted load cannot be resumed, and begins again: %v", err)
	case err != nil:
		return err
	case begun != nil && begun.same(l.c) && v.disjoint(begun):
		l.c = begun
		r.State = stage.StateResumed
		return nil
	case begun != nil && !begun.same(l.c) && !l.o.Force:
		return fault.New(fault.ErrExists, "%s: a load of another directory (%s, %.12s…) was not finished; --force discards it", names(v.drives), begun.Format, begun.Fingerprint)
	}
	if v.contents != nil && !l.o.Force {
		return fault.New(fault.ErrExists, "%s holds another directory (%s, %.12s…); --force replaces it", names(v.drives), v.contents.Format, v.contents.Fingerprint)
	}
	on, pages := names(v.drives), v.layout.Bytes()/Page
	if err := l.c.place(on, freeOf(pages, nil)); err != nil {
		return err
	}
	if v.super.underWay.bytes > 0 { // the place of its table is free once it is not named
		if err := v.advance(v.super.force, ref{}); err != nil {
			return err
		}
	}
	err = l.c.place(on, freeOf(pages, v.contents.extents(v.super.force)))
	if err != nil && v.contents != nil {
		if err := l.c.place(on, freeOf(pages, nil)); err != nil {
			return err
		}
		r.Note = fmt.Sprintf("there is no room for both directories: the old one (%s) was discarded first", v.contents.Format)
		if err = v.advance(ref{}, ref{}); err == nil {
			v.contents = nil
		}
	}
	if err != nil {
		return err
	}
	return l.journal()
}

// disjoint reports whether a table under way shares no page with the table in force.
func (v *Volume) disjoint(c *Contents) bool {
	return apart(append(c.extents(v.super.underWay), v.contents.extents(v.super.force)...)) == nil
}

// store writes the table to pages that the superblock does not use, and returns its place.
func (l *loader) store() (ref, error) {
	v := l.v
	b := l.c.encode()
	r := ref{bytes: int64(len(b)), crc: binio.CRC(b)}
	used := append(v.contents.extents(v.super.force), l.c.extents(v.super.underWay)...)
	free := freeOf(v.layout.Bytes()/Page, used)
	at, ok := free.last(r.pages())
	if !ok {
		return r, noRoom(names(v.drives), r.pages(), free.pages())
	}
	r.first = at.First
	return r, v.transfer(true, r.first*Page, append(b, make([]byte, r.pages()*Page-r.bytes)...))
}

// journal makes the written data durable, and then the record of it.
func (l *loader) journal() error {
	r, err := l.store()
	if err != nil {
		return fmt.Errorf("write the journal of %s: %w", names(l.v.drives), err)
	}
	return l.v.advance(l.v.super.force, r)
}

// publish puts the table in force. It writes both superblocks, so that either of them may be lost.
func (l *loader) publish() error {
	r, err := l.store()
	if err != nil {
		return fmt.Errorf("write the table of %s: %w", names(l.v.drives), err)
	}
	if err := l.v.advance(r, ref{}); err != nil {
		return err
	}
	return l.v.advance(r, ref{})
}

// filled is a piece of a file that was read and is to be written.
type filled struct {
	file   *File
	offset int64
	b      []byte // of the file, and zeros to the end of its page
	sums   []uint32
}

// write copies all files that were not written yet.
func (l *loader) write(ctx context.Context, r *Result) error {
	task := l.o.Reporter.Task("load", l.c.Bytes(), progress.Bytes)
	defer task.Done()
	if err := l.recheck(ctx, task); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	free, full := make(chan []byte, 2), make(chan filled, 2)
	for range cap(free) {
		free <- make([]byte, l.o.piece)
	}
	g.Go(func() error {
		defer close(full)
		return l.read(gctx, free, full)
	})
	since := int64(0)
	g.Go(func() error {
		for p := range full {
			if err := l.put(p); err != nil {
				return err
			}
			n := min(int64(len(p.b)), p.file.Size-p.offset)
			r.Written, since = r.Written+n, since+n
			task.Add(n)
			if since >= l.o.Journal {
				if err := l.journal(); err != nil {
					return err
				}
				since = 0
			}
			free <- p.b[:l.o.piece]
		}
		return nil
	})
	err := g.Wait()
	if err != nil && since > 0 && fault.EndedBy(ctx, err) {
		return errors.Join(err, l.journal())
	}
	return err
}

// recheck reads the data of an interrupted Load, and keeps it up to the first granule that does not match
// its checksum.
func (l *loader) recheck(ctx context.Context, task progress.Task) error {
	b := make([]byte, Granule)
	sure := int64(0)
	for i := range l.c.Files {
		f := &l.c.Files[i]
		for g, crc := range f.Sums.CRC {
			if sure == l.c.written {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			at := int64(g) * Granule
			b := b[:min(Granule, f.Size-at)]
			if err := l.v.Read(f, b, at); err != nil {
				return err
			}
			if binio.CRC(b) != crc {
				l.c.written = sure
				return nil
			}
			sure++
			task.Add(int64(len(b)))
		}
	}
	return nil
}

// read reads the source, from the first granule that was not written.
func (l *loader) read(ctx context.Context, free <-chan []byte, full chan<- filled) error {
	skip := l.c.written
	for i := range l.c.Files {
		f := &l.c.Files[i]
		have := min(skip, granulesOf(f.Size))
		skip -= have
		if have < granulesOf(f.Size) {
			if err := l.readFile(ctx, f, have*Granule, free, full); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loader) readFile(ctx context.Context, f *File, from int64, free <-chan []byte, full chan<- filled) (err error) {
	src, err := l.fsys.Open(filepath.Join(l.dir, f.Name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	for at := from; at < f.Size; {
		var b []byte
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b = <-free:
		}
		n := min(l.o.piece, f.Size-at)
		if got, err := src.ReadAt(b[:n], at); int64(got) < n {
			if errors.Is(err, io.EOF) {
				return fault.New(fault.ErrCorrupt, "%s ends before byte %d of %d", src.Name(), at+n, f.Size)
			}
			return fmt.Errorf("read %s: %w", src.Name(), err)
		}
		clear(b[n:binio.AlignUp(n, Page)])
		p := filled{file: f, offset: at, b: b[:binio.AlignUp(n, Page)]}
		for g := int64(0); g < n; g += Granule {
			p.sums = append(p.sums, binio.CRC(b[g:min(g+Granule, n)]))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case full <- p:
		}
		at += n
	}
	return nil
}

// put writes a piece of a file to its places.
func (l *loader) put(p filled) error {
	b := p.b
	for at := p.offset; len(b) > 0; {
		to, n := p.file.Locate(at)
		part := b[:min(n, int64(len(b)))]
		if err := l.v.transfer(true, to, part); err != nil {
			return fmt.Errorf("write %s to %s: %w", p.file.Name, names(l.v.drives), err)
		}
		at, b = at+int64(len(part)), b[len(part):]
	}
	l.c.written += int64(copy(p.file.Sums.CRC[p.offset/Granule:], p.sums))
	return nil
}
