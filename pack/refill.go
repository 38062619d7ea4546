package pack

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"diskgnn/internal/binio"
	"diskgnn/pack/cut"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/packfile"
)

// recorder writes the decisions of the simulated cache: the codes of the part's accesses and, in the
// part that has it, refill.bin.
type recorder struct {
	p      *Packing
	lo, hi int // training batches of the part: only their codes are kept
	last   int // batch
	common bool

	codes  *rowfile.Lists
	refill *rowfile.Summed // nil in all shards but the first
	// content holds, for each entry, the batch and the row of its matrix that the entry's row
	// comes from, as in refill.bin.
	content [][2]uint32
	pairs   []uint32
	entry   func(node uint32) uint32 // in which a node begins the cycle
	crc     uint32                   // of the list of entries
}

func newRecorder(p *Packing, d *cut.Decision) *recorder {
	lo, hi := d.Part.Batches(&d.Facts)
	return &recorder{p: p, lo: lo, hi: hi, last: d.Facts.Train - 1, common: d.Part.Common}
}

// Begin implements cut.Recorder.
func (r *recorder) Begin(nodes []uint32, entry func(node uint32) uint32) (err error) {
	if r.codes, err = rowfile.NewLists(r.p.fs, filepath.Join(r.p.dir.Path(), minCodesFile), cut.Starts(r.p.samples)); err != nil || !r.common {
		return err
	}
	r.entry = entry
	r.content, r.pairs = make([][2]uint32, len(nodes)), make([]uint32, 0, 1<<14)
	for e := range r.content {
		r.content[e] = [2]uint32{packfile.RefillHot, uint32(e)}
	}
	if r.crc, err = r.writeEntries(nodes); err != nil {
		return err
	}
	r.refill, err = rowfile.NewSummed(r.p.files, packfile.RefillFile)
	return err
}

// writeEntries writes the cache's first content, and returns the list's checksum.
func (r *recorder) writeEntries(nodes []uint32) (uint32, error) {
	a, err := rowfile.NewAppender(r.p.files, minEntriesFile, rowfile.Buffer)
	if err != nil {
		return 0, err
	}
	defer a.Close()
	if err := a.Write(binio.Bytes(nodes)); err != nil {
		return 0, err
	}
	return a.CRC, a.Finish()
}

// Batch implements cut.Recorder.
func (r *recorder) Batch(t int, codes, held []uint32) error {
	if t >= r.lo && t < r.hi {
		if err := r.codes.Write(t, codes); err != nil {
			return err
		}
	}
	if r.refill == nil {
		return nil
	}
	row := uint32(0)
	for _, code := range codes {
		if code&(cut.Hit|cut.Admit) == 0 {
			row++
		}
	}
	for _, code := range codes {
		if code&cut.Admit != 0 {
			r.content[code&cut.EntryMask] = [2]uint32{uint32(t), row}
			row++
		}
	}
	if t == r.last { // the same rows as in the beginning, in other entries
		for e, v := range held {
			r.content[e] = [2]uint32{packfile.RefillHot, r.entry(v)}
		}
	}
	if t != r.last && (t+1)%packfile.RefillBatches != 0 {
		return nil
	}
	for lo := 0; lo < len(r.content); {
		r.pairs = r.pairs[:0]
		for ; lo < len(r.content) && len(r.pairs) < cap(r.pairs); lo++ {
			r.pairs = append(r.pairs, r.content[lo][0], r.content[lo][1])
		}
		if err := r.refill.Write(binio.Bytes(r.pairs)); err != nil {
			return fmt.Errorf("write %s: %w", packfile.RefillFile, err)
		}
	}
	return nil
}

// End implements cut.Recorder.
func (r *recorder) End() (rec cut.Record, err error) {
	rec.Entries = r.crc
	if r.refill != nil {
		if rec.Files, err = r.refill.Finish(packfile.RefillSums); err != nil {
			return rec, err
		}
	}
	rec.Codes, err = r.codes.Finish()
	return rec, err
}

// close closes the files that End did not finish.
func (r *recorder) close() {
	if r.refill != nil {
		r.refill.Close()
	}
	_ = r.codes.Remove() // scratch
}

// hotPlaces returns, by node, the node's row in hot.bin. Nodes without one have a number beyond the end of
// the file. Under policy min the result overwrites the ranks, which nothing needs after the first pass.
func (p *Packing) hotPlaces(d *cut.Decision, crc uint32) ([]uint32, error) {
	places := d.Rank
	if p.params.Policy != packfile.PolicyMin {
		return places, nil
	}
	name := p.dir.File(minEntriesFile)
	f, err := p.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, touched(name, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for v := range places {
		places[v] = cut.NoEntry
	}
	rows := d.Facts.HotRows
	got, buf := uint32(0), make([]uint32, 1<<16)
	for entry := int64(0); entry < rows; {
		list := buf[:min(int64(len(buf)), rows-entry)]
		if _, err := io.ReadFull(f, binio.Bytes(list)); err != nil {
			return nil, touched(name, err)
		}
		got = binio.UpdateCRC(got, binio.Bytes(list))
		for _, v := range list {
			if int(v) < len(places) { // else the checksum does not match either
				places[v] = uint32(entry)
			}
			entry++
		}
	}
	if got != crc {
		return nil, touched(name, errors.New("it does not match its checksum"))
	}
	return places, nil
}
