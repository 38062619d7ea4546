package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// pagesSuffix is the suffix of tables of the checksums of pages.
const pagesSuffix = ".pages"

// PageSumsFile is the name of the table of checksums of the features' pages.
const PageSumsFile = FeaturesFile + pagesSuffix

// PageBytes is the size of the pages that PageSums has checksums of, in bytes.
const PageBytes = binio.Page

// pageSumsStep is how many bytes of features are summed between two looks at the context.
const pageSumsStep = 4 * Granule

// IndicesPageSumsFile has the checksums of the indices' pages.
const IndicesPageSumsFile = IndicesFile + pagesSuffix

// PageSumsBytes returns the bytes of memory of the result of PageSums: 4 for each page of 4 KiB, a
// thousandth of the features.
func (d *Dataset) PageSumsBytes() int64 { return d.pagesBytes(FeaturesFile) }

func (d *Dataset) pagesBytes(file string) int64 {
	return (d.facts.size(file) + binio.Page - 1) / binio.Page * 4
}

// PageSumsWork returns the bytes of memory that PageSums holds while it works, beside its result.
func (d *Dataset) PageSumsWork() int64 { return d.PageSumsBytes() + pageSumsStep + 2*Granule }

// PageSums returns the checksums of the pages of the features, for readers of single rows. It reads
// them from a table in the directory, if that exists and matches the dataset's checksums. Otherwise it
// computes them in one pass over the features, which it checks, and writes the table for later
// readers, unless the file system is vfs.ReadOnly. If it cannot write the table, it logs that to rep
// and goes on. read counts the bytes read from the features and from the table.
//
// For compressed features it returns the error of RowsReadable.
func (d *Dataset) PageSums(ctx context.Context, rep progress.Reporter) (pages *binio.Sums, read int64, err error) {
	if err := d.RowsReadable(); err != nil {
		return nil, 0, err
	}
	return d.pageSums(FeaturesFile, rep, func() (*binio.Sums, error) { return d.sumPages(ctx, rep) })
}

// pageSums returns the checksums of a file's pages, which sum computes where they are not
// there.
func (d *Dataset) pageSums(file string, rep progress.Reporter, sum func() (*binio.Sums, error)) (pages *binio.Sums, read int64, err error) {
	defer func() { err = d.damaged(err) }()
	whole, err := d.checksums(file)
	if err != nil {
		return nil, 0, err
	}
	what := strings.TrimSuffix(file, filepath.Ext(file))
	name := d.path(file + pagesSuffix)
	pages, err = d.readPageSums(name, tableOf(file), &whole.sums)
	switch {
	case err == nil:
		return pages, binio.SumsBytes(pages.Size, pages.Granule), nil
	case !errors.Is(err, fs.ErrNotExist):
		rep.Logf("%s is made again: %v", name, err)
	}
	if pages, err = sum(); err != nil {
		return nil, 0, fmt.Errorf("sum the pages of the %s: %w", what, err)
	}
	if vfs.IsReadOnly(d.fs) {
		return pages, pages.Size, nil
	}
	if err := d.keepPageSums(name, pages); err != nil {
		rep.Logf("cannot save the checksums of the %s' pages, so every run computes them again: %v", what, err)
	}
	return pages, pages.Size, nil
}

// keepPageSums leaves a table for the next reader. One that another process leaves at the
// moment is the same.
func (d *Dataset) keepPageSums(name string, pages *binio.Sums) (err error) {
	tmp := name + vfs.TempSuffix
	lock, err := d.fs.Lock(tmp)
	if errors.Is(err, fault.ErrLocked) {
		return nil
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := vfs.ReplaceFile(d.fs, name, pages.Encode()); err != nil {
		_ = d.fs.Remove(tmp) // which may take room that is missing
		return err
	}
	return nil
}

// RowsReadable returns nil if single feature rows can be read from the file, since the features are
// not compressed; else an error of kind fault.ErrUsage that names the remedy.
func (d *Dataset) RowsReadable() error {
	if d.facts.Compression == "" {
		return nil
	}
	return fault.New(fault.ErrUsage, "the features of %s are compressed, so that single rows cannot be read: import it again without --compress, or pack it", d.dir)
}

// readPageSums reads the table that is there. One that does not agree with the sums of
// whole granules, which the fingerprint covers, is an error: it is damaged, or of other
// features.
func (d *Dataset) readPageSums(name, table string, whole *binio.Sums) (*binio.Sums, error) {
	b, err := vfs.ReadSmall(d.fs, name, binio.SumsBytes(whole.Size, binio.Page))
	if err != nil {
		return nil, err
	}
	s, err := binio.DecodeSums(b)
	if err != nil {
		return nil, err
	}
	if s.Granule != binio.Page || s.Size != whole.Size || !slices.Equal(s.Combine(Granule).CRC, whole.CRC) {
		return nil, fault.New(fault.ErrCorrupt, "it does not match %s", table)
	}
	return &s, nil
}

func (d *Dataset) sumPages(ctx context.Context, rep progress.Reporter) (_ *binio.Sums, err error) {
	r, err := d.Features()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	size := r.pieces.size
	task := rep.Task("sum the features' pages", size, progress.Bytes)
	defer task.Done()
	sums := binio.NewSummer(binio.Page)
	sums.Expect(size)
	buf, s := make([]byte, min(pageSumsStep, size)), newScratch()
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := r.read(s, buf[:min(int64(len(buf)), size-off)], off)
		if err != nil {
			return nil, err
		}
		_, _ = sums.Write(buf[:n]) // never fails
		off += n
		task.Add(n)
	}
	t := sums.Sums()
	return &t, nil
}
