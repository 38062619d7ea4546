package pack

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"

	"diskgnn/internal/binio"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
)

// firstPass is the result of the first pass besides the graphs. The second pass starts from it.
// An interrupted run leaves it in the journal and index.tmp.
type firstPass struct {
	facts packfile.Facts
	// index has no checksums of chunks yet. The chunks are at the places where the ranges write them.
	index *packfile.Index
	files []stage.File // that are finished
	// requests and ssdRequests are the CRC-32C of the scratch lists of rows. entries is the CRC-32C of the
	// list of the cache's first content under policy min.
	requests, ssdRequests, entries uint32
}

// journal is the progress that the directory's journal holds.
type journal struct {
	// Graphs: the first pass is durable, with the following results.
	Graphs bool            `json:"graphs"`
	Facts  *packfile.Facts `json:"facts,omitempty"`
	Files  []stage.File    `json:"files,omitempty"`
	// Requests and SSDRequests are the CRC-32C of the scratch lists of rows.
	Requests    uint32 `json:"requests_crc,omitempty"`
	SSDRequests uint32 `json:"ssd_requests_crc,omitempty"`
	// Entries is the CRC-32C of the list of the cache's first content under policy min.
	Entries uint32 `json:"slots_crc,omitempty"`
}

// save makes the end of the first pass durable. form is the form of the chunks as the ranges write them.
func (f *firstPass) save(dir *stage.Dir, form packfile.Form) error {
	f.index.SharePieces(form, make([]uint32, pieces(f.index, form)), nil)
	b, err := f.index.Encode()
	if err != nil {
		return err
	}
	if err := vfs.WriteFile(dir.FS(), dir.File(partFile), b); err != nil {
		return err
	}
	if err := dir.FS().SyncDir(dir.Path()); err != nil {
		return err
	}
	return dir.SaveProgress(journal{Graphs: true, Facts: &f.facts, Files: f.files, Requests: f.requests, SSDRequests: f.ssdRequests, Entries: f.entries})
}

// loadFirstPass returns the record of an interrupted run's first pass, or nil.
func loadFirstPass(dir *stage.Dir, form packfile.Form) (*firstPass, error) {
	var j journal
	if _, err := dir.Progress(&j); err != nil || !j.Graphs || j.Facts == nil {
		return nil, err
	}
	b, err := vfs.ReadFile(dir.FS(), dir.File(partFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the earlier run was about to publish: everything is made again
	}
	if err != nil {
		return nil, err
	}
	x, err := packfile.DecodeIndex(b, form)
	if err != nil {
		return nil, touched(dir.File(partFile), err)
	}
	return &firstPass{facts: *j.Facts, index: x, files: j.Files, requests: j.Requests, ssdRequests: j.SSDRequests, entries: j.Entries}, nil
}

// check verifies the files that an interrupted run's first pass finished: graphs and, under
// policy min, the refill records.
func (f *firstPass) check(ctx context.Context, dir *stage.Dir, part packfile.Part) error {
	size := map[string]int64{}
	sums := map[string]string{}
	for _, file := range f.files {
		size[file.Name], sums[file.Name] = file.Size, file.Checksum
	}
	var files []keptFile
	for g := part.Lo; g < part.Hi; g++ {
		lo, hi := f.facts.GroupSpan(g)
		name := packfile.GraphFile(g)
		files = append(files, keptFile{name, size[name], func(yield func(region) bool) {
			regions(packfile.TrainGraphs(f.index.Train[lo:hi]), yield)
		}})
	}
	if part.Common {
		files = append(files, keptFile{packfile.EvalGraphFile, size[packfile.EvalGraphFile], func(yield func(region) bool) {
			regions(f.index.EvalGraphs(), yield)
		}})
	}
	if n, ok := size[packfile.RefillFile]; ok {
		table, err := keptSums(dir, stage.File{Name: packfile.RefillSums, Size: size[packfile.RefillSums], Checksum: sums[packfile.RefillSums]})
		if err != nil {
			return err
		}
		files = append(files, keptFile{packfile.RefillFile, n, sumRegions(table)})
	}
	return checkKept(ctx, dir, files)
}

// regions yields ranges as regions.
func regions(list iter.Seq[binio.Range], yield func(region) bool) {
	for r := range list {
		if !yield(region{off: r.Offset, size: r.Len, crc: r.CRC}) {
			return
		}
	}
}

// keptSums reads a finished table of page checksums.
func keptSums(dir *stage.Dir, table stage.File) (s binio.Sums, err error) {
	f, err := openKept(dir, table.Name, table.Size)
	if err != nil {
		return s, err
	}
	b := make([]byte, table.Size)
	_, err = io.ReadFull(f, b)
	if err = errors.Join(err, f.Close()); err != nil {
		return s, err
	}
	if binio.Hash(b) != table.Checksum {
		return s, touched(f.Name(), errors.New("it does not match its checksum"))
	}
	return binio.DecodeSums(b)
}

// coldSize returns the bytes of the cold file of a group's batches.
func coldSize(batches []packfile.Train) int64 {
	last := &batches[len(batches)-1]
	return last.ChunkOffset + binio.AlignUp(last.ChunkBytes, binio.Page)
}

func pieces(x *packfile.Index, f packfile.Form) int {
	n := 0
	for i := range x.Train {
		n += f.NumPieces(x.Train[i].Bands)
	}
	return n
}
