package packed

import (
	"runtime"

	"diskgnn/featurestore/internal/copier"
	"diskgnn/pack/packfile"
)

// codec is how the pieces of a chunk become rows as they are packed.
type codec interface {
	// workers returns how many goroutines copy rows: a few saturate memory, but all are
	// needed where they decompress.
	workers() int
	// memory returns what so many goroutines hold while they load pieces.
	memory(workers int) int64
	// open prepares for so many goroutines at once. close gives that back.
	open(workers int) error
	close()
	// load checks a piece of the chunk b of the file of the given name, and fills rows with
	// the piece's, unless they are b's own bytes.
	load(t *packfile.Train, name string, b []byte, p packfile.Piece, rows []byte) error
	// apart returns how much memory that many bytes of rows take beside the chunk, and
	// rows where they are: in the chunk, or in that memory.
	apart(bytes int64) int64
	rows(chunk, apart []byte) []byte
}

func newCodec(form packfile.Form) codec {
	if form.Compressed() {
		return &frames{form: form}
	}
	return asIs{}
}

// asIs is the codec of chunks that are rows as they lie on disk.
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

// memory counts rows to be widened, and the decoder's window and tables.
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
