package packed

import (
	"runtime"

	"diskgnn/featurestore/internal/copier"
	"diskgnn/pack/packfile"
)

// codec converts the pieces of a chunk to rows in packed form.
type codec interface {
	// workers returns the number of goroutines that convert: a few for copying, which memory limits, one for
	// each processor for decompressing.
	workers() int
	// memory returns the memory of the given number of goroutines while they load pieces, in bytes.
	memory(workers int) int64
	// open prepares for the given number of goroutines. close releases the memory.
	open(workers int) error
	close()
	// load checks piece p of the chunk b, of the file with the given name, and fills rows with the rows of
	// the piece, unless rows is a part of b.
	load(t *packfile.Train, name string, b []byte, p packfile.Piece, rows []byte) error
	// apart returns the memory for the given bytes of rows in addition to the chunk, and rows returns the
	// rows: a part of the chunk, or of that memory.
	apart(bytes int64) int64
	rows(chunk, apart []byte) []byte
}

func newCodec(form packfile.Form) codec {
	if form.Compressed() {
		return &frames{form: form}
	}
	return asIs{}
}

// asIs is the codec of chunks that are not compressed.
type asIs struct{}

func (asIs) workers() int                { return copier.Enough() }
func (asIs) memory(int) int64            { return 0 }
func (asIs) open(int) error              { return nil }
func (asIs) close()                      {}
func (asIs) apart(int64) int64           { return 0 }
func (asIs) rows(chunk, _ []byte) []byte { return chunk }

func (asIs) load(t *packfile.Train, name string, b []byte, p packfile.Piece, _ []byte) error {
	return t.VerifyPiece(name, b, p)
}

// frames is the codec of compressed chunks.
type frames struct {
	form    packfile.Form
	decoder *packfile.FrameDecoder
}

func (f *frames) workers() int { return runtime.GOMAXPROCS(0) }

// memory counts the rows of a piece, and the decoder's window and tables, for each goroutine.
func (f *frames) memory(workers int) int64 { return int64(workers) * 3 * f.form.PieceBytes() }

func (f *frames) open(workers int) (err error) {
	f.decoder, err = packfile.NewFrameDecoder(f.form.Codec, workers)
	return err
}

func (f *frames) close()                      { f.decoder.Close() }
func (f *frames) apart(bytes int64) int64     { return bytes }
func (f *frames) rows(_, apart []byte) []byte { return apart }

func (f *frames) load(t *packfile.Train, name string, b []byte, p packfile.Piece, rows []byte) error {
	return t.LoadPiece(f.decoder, name, b, p, rows)
}
