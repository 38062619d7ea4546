// Package pieces reads files that consist of pieces: tables of features and of hidden states. Each piece is
// checked, and decompressed if necessary, by itself. Several pieces are read at a time.
package pieces

import (
	"context"
	"sync"
	"sync/atomic"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/iostack"
)

// File is a file of pieces. Its methods may be called from any goroutine.
type File interface {
	Path() string
	// Piece returns the offset and the size of piece i in the file, in bytes.
	Piece(i int) (offset, size int64)
	// Decode checks b, the stored bytes of piece i, and returns the piece's content: b itself, or memory of
	// dst if pieces are compressed.
	Decode(i int, b, dst []byte) ([]byte, error)
	Compressed() bool
}

// Depth is the number of pieces that are read at a time.
const Depth = 8

// Memory returns the bytes of the Buffers for pieces of up to most bytes.
func Memory(most int64, compressed bool) int64 { return Depth * each(most, compressed) }

// each returns the bytes of one buffer: the stored piece, shifted by up to a page, and, for a compressed
// file, the content.
func each(most int64, compressed bool) int64 {
	if compressed {
		return 2*most + binio.Page
	}
	return most + binio.Page
}

// Buffers are the memory for Depth pieces. Readers may share them: a Read waits for a free buffer.
type Buffers struct {
	mem  *device.Host
	free chan *Piece
}

// NewBuffers allocates buffers for pieces of up to most bytes. The caller frees them.
func NewBuffers(most int64, compressed bool) (*Buffers, error) {
	size := each(most, compressed)
	mem, err := device.NewHost(int(Depth * size))
	if err != nil {
		return nil, err
	}
	b := &Buffers{mem: mem, free: make(chan *Piece, Depth)}
	for i := range Depth {
		m := mem.Bytes()[int64(i)*size:][:size]
		b.free <- &Piece{Buffer: i, room: m[:most+binio.Page], plain: m[most+binio.Page:]}
	}
	return b, nil
}

// Free frees the memory. No Read may be under way.
func (b *Buffers) Free() { b.mem.Free() }

// Piece is a piece that was read, in one of the buffers.
type Piece struct {
	Index  int // number of the piece in the file
	Buffer int // number of the buffer, below Depth; no other piece is in it

	file        File
	room, plain []byte
	raw         []byte // of room
	group       iostack.Group
	req         [1]iostack.Request
}

// Decode checks the piece and returns its content, which is memory of the buffer.
func (p *Piece) Decode() ([]byte, error) { return p.file.Decode(p.Index, p.raw, p.plain) }

// Reader reads pieces of a file. Its methods may be called from any goroutine.
type Reader struct {
	pieces  File
	stack   iostack.Stack
	file    iostack.File
	buffers *Buffers
	bytes   atomic.Int64
}

// Open opens f through the stack. The pieces must fit in the buffers, compressed and decompressed. The
// caller closes the Reader.
func Open(stack iostack.Stack, f File, b *Buffers) (*Reader, error) {
	file, err := stack.Open(f.Path())
	if err != nil {
		return nil, err
	}
	return &Reader{pieces: f, stack: stack, file: file, buffers: b}, nil
}

// Bytes returns the number of bytes read so far.
func (r *Reader) Bytes() int64 { return r.bytes.Load() }

// Close closes the file. No Read may be under way.
func (r *Reader) Close() error { return r.file.Close() }

// Read reads pieces, and calls use with each once it was read: on up to Depth goroutines, in any order.
// next returns the index of the next piece to read, and false after the last; it is called by one goroutine
// at a time. A piece is valid until use returns. The first error of a read, of use or of ctx ends Read,
// which returns it.
func (r *Reader) Read(ctx context.Context, next func() (piece int, ok bool), use func(p *Piece) error) error {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	for range Depth {
		g.Go(func() error {
			p := <-r.buffers.free
			defer func() { r.buffers.free <- p }()
			for {
				mu.Lock()
				i, ok := next()
				mu.Unlock()
				if !ok {
					return nil
				}
				if err := r.fetch(ctx, p, i); err != nil {
					return err
				}
				if err := use(p); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

func (r *Reader) fetch(ctx context.Context, p *Piece, i int) error {
	off, size := r.pieces.Piece(i)
	pad := off % binio.Page // whole pages land in place then
	if pad+size > int64(len(p.room)) {
		pad = 0
	}
	p.file, p.Index, p.raw = r.pieces, i, p.room[pad:pad+size]
	p.req[0] = iostack.Request{File: r.file, Offset: off, Buf: p.raw}
	if err := r.stack.Submit(&p.group, p.req[:]); err != nil {
		return err
	}
	if err := r.stack.Wait(ctx, &p.group); err != nil {
		return err
	}
	r.bytes.Add(size)
	return nil
}
