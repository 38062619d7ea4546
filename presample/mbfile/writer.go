package mbfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"sync/atomic"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/graph/batchcodec"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/prefetch"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// recordsFile is scratch: the index records of all finished files.
const recordsFile = "index.part"

// writeBuffer gathers small batches into large writes; large ones pass it by.
const writeBuffer = 1 << 20

// Writer writes the batches of a SAMPLES directory in order, and counts the hotness. A file that is
// full is synced in the background and recorded in the journal; a later run resumes after the last
// such file. Encode and Discard are safe for concurrent use, also beside Append; other methods are not.
type Writer struct {
	dir    *stage.Dir
	layout Layout
	lo, hi int          // the batches to write
	index  index        // of those written
	counts *device.Host // memory of hot
	hot    []uint32     // written by atomic additions until Finish

	file    vfs.File // being written; nil between files
	buf     *bufio.Writer
	size    int64
	pending chan error // the finishing of the file before; nil if none
	resumed int64      // bytes
	records vfs.File
	saved   journal
}

// journal is stage.Dir's record of the finished files.
type journal struct {
	Files   int    `json:"files"`       // full batch files, durable
	Records uint32 `json:"records_crc"` // CRC-32C of their records in recordsFile
}

// NewWriter begins or resumes the writing of a directory. It reads and checks the files that an
// interrupted run finished, and counts their hotness; the first file that was changed, and all files
// after it, are written again. The caller calls Append for the batches from Next on, then Finish, and
// Close in any case.
func NewWriter(ctx context.Context, dir *stage.Dir, layout Layout, rep progress.Reporter) (*Writer, error) {
	counts, err := device.NewHost(int(4 * layout.Nodes))
	if err != nil {
		return nil, fmt.Errorf("count the hotness: %w", err)
	}
	w := &Writer{dir: dir, layout: layout, counts: counts, hot: counts.Uint32s(), buf: bufio.NewWriterSize(nil, writeBuffer)}
	w.lo, w.hi = layout.Span()
	w.index = index{layers: layout.Layers, perFile: layout.BatchesPerFile, typed: layout.Types != nil, firstFile: layout.part().firstFile}
	w.index.records = make([]byte, 0, (w.hi-w.lo)*w.index.recordBytes())
	if w.records, err = dir.FS().OpenReadWrite(dir.File(recordsFile)); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", recordsFile, err), w.Close())
	}
	if err := w.resume(ctx, rep); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Next returns the number, in the whole directory, of the batch that Append writes next.
func (w *Writer) Next() int { return w.lo + w.index.batches() }

// ResumedBytes returns the size in bytes of the batches that an interrupted run wrote.
func (w *Writer) ResumedBytes() int64 { return w.resumed }

// resume takes over the files that an interrupted run finished.
func (w *Writer) resume(ctx context.Context, rep progress.Reporter) error {
	var was journal
	if ok, err := w.dir.Progress(&was); err != nil || !ok || was.Files <= 0 {
		return err
	}
	batches := w.hi - w.lo
	if was.Files <= batches/w.layout.BatchesPerFile { // else the last, short file is among them
		batches = was.Files * w.layout.BatchesPerFile
	}
	records := w.index.records[:batches*w.index.recordBytes()]
	if _, err := w.records.ReadAt(records, 0); err != nil || binio.CRC(records) != was.Records {
		rep.Logf("%s is damaged: sampling all batches again", w.dir.File(recordsFile))
		return nil
	}
	done := w.index
	done.records = records
	if err := done.validate(); err != nil {
		return err
	}
	task := rep.Task("check finished batches", int64(done.batches()), progress.Batches)
	defer task.Done()
	for f := range done.files() {
		switch err := w.recount(ctx, &done, f, task); {
		case errors.Is(err, fault.ErrCorrupt):
			rep.Logf("%v: sampling again from this file on", err)
			return nil
		case err != nil:
			return fmt.Errorf("resume %s: %w", w.dir.Path(), err)
		}
	}
	return nil
}

// recount checks the f-th file, which is finished, takes over its records and
// counts its hotness.
func (w *Writer) recount(ctx context.Context, done *index, f int, task progress.Task) error {
	file, err := w.dir.FS().Open(w.dir.File(BatchesFile(done.firstFile + f)))
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.ErrCorrupt, "%w", err)
	} else if err != nil {
		return err
	}
	defer file.Close()
	lo, hi := done.fileSpan(f)
	// Two passes: hotness must not be counted of a file that turns out bad.
	for _, count := range []bool{false, true} {
		var buf []byte
		for i := lo; i < hi; i++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			info := done.info(i)
			buf = binio.Grow(buf, int(info.Size))
			if err := readRange(file, &info, buf); err != nil {
				return err
			}
			if !count {
				continue
			}
			if err := w.heat(w.lo+i, buf); err != nil {
				return err
			}
			task.Add(1)
		}
	}
	n := done.recordBytes()
	w.index.records = done.records[:hi*n]
	w.resumed += done.fileSize(f)
	w.saved = journal{f + 1, binio.CRC(w.index.records)}
	return nil
}

// heat adds the input nodes of batch i, given its byte form, to the hotness.
func (w *Writer) heat(i int, form []byte) error {
	if i >= w.layout.Train {
		return nil
	}
	input, err := batchcodec.Inputs(form, w.layout.numTypes())
	if err != nil {
		return err
	}
	return w.count(i, input, 1)
}

// countAhead is the number of counts that are requested from memory together, while the counts before them are
// changed: the processor does not overlap the cache misses of atomic additions.
const countAhead = 32

// count adds by to the hotness of the input nodes of batch i, if it is a batch of training. After an error no count is
// changed.
func (w *Writer) count(i int, input []uint32, by uint32) error {
	if i >= w.layout.Train || len(input) == 0 {
		return nil
	}
	hot := w.hot
	if v := slices.Max(input); int64(v) >= int64(len(hot)) {
		return fault.New(fault.ErrCorrupt, "batch %d: the input node %d is out of range: the graph has %d nodes", i, v, len(hot))
	}
	for k, v := range input {
		prefetch.Ahead(hot, input, k, countAhead)
		atomic.AddUint32(&hot[v], by)
	}
	return nil
}

// Encode sets e to the encoding of batch i, as Encoded.Encode does, and counts its input nodes. Different goroutines
// may call it concurrently for different e. Then Append must write e, or Discard must take the count back: the batch is
// counted once, however often it is encoded.
func (w *Writer) Encode(e *Encoded, i int, b *graph.Batch) error {
	w.Discard(e)
	e.Encode(b)
	if err := w.heat(i, e.Bytes); err != nil {
		return err
	}
	e.counted, e.batch = true, i
	return nil
}

// Discard takes back the count of a batch that Encode counted and Append did not write. Else it does nothing.
func (w *Writer) Discard(e *Encoded) {
	if !e.counted {
		return
	}
	e.counted = false
	input, err := batchcodec.Inputs(e.Bytes, w.layout.numTypes())
	if err == nil {
		err = w.count(e.batch, input, ^uint32(0))
	}
	if err != nil {
		panic("mbfile: a counted batch changed: " + err.Error())
	}
}

// Append writes the next batch, and counts its input nodes unless Encode did. The caller may reuse e afterwards.
func (w *Writer) Append(e *Encoded) error {
	i := w.Next()
	if i >= w.hi || len(e.Edges) != w.layout.Layers {
		panic(fmt.Sprintf("mbfile: cannot append batch %d of %d, with %d layers instead of %d", i, w.hi, len(e.Edges), w.layout.Layers))
	}
	if e.counted && e.batch != i {
		panic(fmt.Sprintf("mbfile: batch %d is counted, but appended as batch %d", e.batch, i))
	}
	if w.file == nil {
		f, err := w.dir.FS().Create(w.dir.File(BatchesFile(i / w.layout.BatchesPerFile)))
		if err != nil {
			return fmt.Errorf("write batch %d: %w", i, err)
		}
		w.file, w.size = f, 0
		w.buf.Reset(f)
	}
	if _, err := w.buf.Write(e.Bytes); err != nil {
		return fmt.Errorf("write batch %d: %w", i, err)
	}
	w.index.add(w.size, int64(len(e.Bytes)), e.CRC, e.Nodes, e.Edges, e.Rows)
	w.size += int64(len(e.Bytes))
	if !e.counted {
		if err := w.heat(i, e.Bytes); err != nil {
			return err
		}
	}
	e.counted = false
	if n := w.Next(); n%w.layout.BatchesPerFile == 0 || n == w.hi {
		return w.cut()
	}
	return nil
}

// cut ends the current file and syncs it in the background while the next one is written. At most one
// file waits, so that the disk cannot fall behind without limit.
func (w *Writer) cut() error {
	if err := w.buf.Flush(); err != nil {
		return fmt.Errorf("write %s: %w", w.file.Name(), err)
	}
	if err := w.settle(); err != nil {
		return err
	}
	lo := w.saved.Files * w.layout.BatchesPerFile * w.index.recordBytes()
	fresh := w.index.records[lo:]
	w.saved = journal{w.saved.Files + 1, binio.UpdateCRC(w.saved.Records, fresh)}
	file, saved := w.file, w.saved
	w.file = nil
	w.pending = make(chan error, 1)
	done := w.pending
	go func() {
		defer fault.Crash()
		done <- w.finish(file, int64(lo), fresh, saved)
	}()
	return nil
}

// finish makes a file and its records durable, then journals them.
func (w *Writer) finish(file vfs.File, at int64, records []byte, saved journal) error {
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", file.Name(), err)
	}
	if _, err := w.records.WriteAt(records, at); err != nil {
		return fmt.Errorf("write %s: %w", recordsFile, err)
	}
	if err := w.records.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", recordsFile, err)
	}
	return w.dir.SaveProgress(saved)
}

// settle waits for the file that is being made durable.
func (w *Writer) settle() error {
	if w.pending == nil {
		return nil
	}
	err := <-w.pending
	w.pending = nil
	return err
}

// Finish writes the index and the hotness after the last batch, and returns the directory's files and
// facts for stage.Dir.Commit. epochs is the number of sample epochs.
func (w *Writer) Finish(epochs int) ([]stage.File, Facts, error) {
	if w.Next() != w.hi {
		panic(fmt.Sprintf("mbfile: finished after %d batches instead of %d", w.Next(), w.hi))
	}
	// The last file is synced meanwhile.
	hotness, inputs, err := writeHotness(w.dir, w.layout.Types, func(yield func([]uint32, error) bool) {
		for piece := range slices.Chunk(w.hot, hotnessPiece/4) {
			if !yield(piece, nil) {
				return
			}
		}
	})
	if err != nil {
		return nil, Facts{}, err
	}
	if err := w.settle(); err != nil {
		return nil, Facts{}, err
	}
	files, err := writeIndex(w.dir, &w.index)
	return append(files, hotness...), w.layout.facts(&w.index, epochs, inputs), err
}

// Close closes the files and frees the counts, after Finish or before. Durable files are kept for a run that resumes.
func (w *Writer) Close() error {
	err := w.settle()
	if w.file != nil {
		err = errors.Join(err, w.file.Close())
		w.file = nil
	}
	if w.records != nil {
		err = errors.Join(err, w.records.Close())
		w.records = nil
	}
	w.hot = nil
	w.counts.Free()
	return err
}

// Encoded is the byte form of a batch with its checksum and counts, for Writer.Append.
type Encoded struct {
	Bytes []byte // the byte form
	CRC   uint32
	Nodes []uint32 // as in BatchInfo
	Edges []uint32
	Rows  []uint32

	counted bool // Writer.Encode counted the input nodes, and Append did not write them yet
	batch   int  // the number of the counted batch
}

// Encode sets e to the encoding of b, reusing the memory of e. b must be valid, and in every block the
// destinations must be the first sources, in a typed graph of their types. Different goroutines may encode different Encoded values
// concurrently, before one goroutine writes them.
func (e *Encoded) Encode(b *graph.Batch) {
	e.Bytes = batchcodec.Append(e.Bytes[:0], b)
	e.CRC = binio.CRC(e.Bytes)
	layers := len(b.Blocks)
	e.Nodes, e.Edges = binio.Grow(e.Nodes, layers+1), binio.Grow(e.Edges, layers)
	for l := range b.Blocks {
		e.Nodes[l], e.Edges[l] = uint32(b.Blocks[l].NumSrc), uint32(len(b.Blocks[l].Indices))
	}
	e.Nodes[layers] = uint32(b.NumSeeds())
	e.Rows = e.Rows[:0]
	if b.Types != nil {
		for l := range b.Blocks {
			e.Rows = append(e.Rows, uint32(b.Blocks[l].NumRows()))
		}
	}
}

const (
	// hotnessGranule is the bytes of hotness.bin under one checksum.
	hotnessGranule = 1 << 20
	// hotnessPiece is the size of a write or read: whole granules.
	hotnessPiece = 4 << 20
)

// writeIndex writes index.bin and describes it and the files of batches.
func writeIndex(dir *stage.Dir, ix *index) ([]stage.File, error) {
	encoded := ix.encode()
	if err := vfs.WriteFile(dir.FS(), dir.File(IndexFile), encoded); err != nil {
		return nil, fmt.Errorf("write %s: %w", IndexFile, err)
	}
	files := []stage.File{{Name: IndexFile, Size: int64(len(encoded)), Checksum: binio.Hash(encoded)}}
	for f := range ix.files() {
		files = append(files, ix.file(f))
	}
	return files, nil
}

// writeHotness writes the pieces of hotness.bin and its table of sums. inputs are their sums by type, in a typed graph.
func writeHotness(dir *stage.Dir, types *graph.Types, pieces iter.Seq2[[]uint32, error]) (files []stage.File, inputs []int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", HotnessFile, err)
		}
	}()
	f, err := dir.FS().Create(dir.File(HotnessFile))
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	summer := binio.NewSummer(hotnessGranule)
	if types != nil {
		inputs = make([]int64, len(types.Nodes))
	}
	at := int64(0)
	for piece, err := range pieces {
		if err != nil {
			return nil, nil, err
		}
		if types != nil {
			addByType(inputs, types, at, piece)
		}
		at += int64(len(piece))
		if _, err := f.Write(binio.Bytes(piece)); err != nil {
			return nil, nil, err
		}
		_, _ = summer.Write(binio.Bytes(piece))
	}
	if err := f.Sync(); err != nil {
		return nil, nil, err
	}
	sums := summer.Sums()
	table := sums.Encode()
	if err := vfs.WriteFile(dir.FS(), dir.File(SumsFile), table); err != nil {
		return nil, nil, err
	}
	return []stage.File{
		{Name: HotnessFile, Size: sums.Size, Checksum: sums.Checksum()},
		{Name: SumsFile, Size: int64(len(table)), Checksum: binio.Hash(table)},
	}, inputs, nil
}
