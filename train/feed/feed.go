// Package feed hands loaded batches to another process, through a Unix socket and shared memory.
//
//	feed ─► consumer   Hello, with the file descriptors of the slots' memory
//	feed ─► consumer   Rows, for the consumer to hold; it sends one byte, any, when it has copied them
//	        …
//	feed ─► consumer   Batch: the places of the batch's arrays in the memory of its slot
//	consumer ─► feed   's': asks for the state of the store
//	feed ─► consumer   State, and the bytes of the state
//	consumer ─► feed   any other byte: the batch is used no more
//	        …
//	feed ─► consumer   End
//
// Messages of the feed are JSON, one in a line. The descriptors come with the first byte of Hello. The consumer has one
// batch at a time; the batches of the other slots are loaded meanwhile. It maps the memory of a slot once, for
// reading. The matrix of the features begins at byte 0, where the store has assembled it: no byte of it is copied. Stores
// assemble float32; for another type the rows are rounded in place, in one pass over them, before the batch is sent. The
// other arrays are written once, when the batch's graph is decoded, with the types that PyTorch expects of indices.
//
// A batch that cannot be loaded is never sent: End, with the error, comes in its place, after every batch before it. So
// the batches before an error are the same in every run, however far the feed was ahead. A store that reads the graphs
// of coming batches in advance tells their errors earlier, in place of the batch for which it reads them. An
// error that belongs to no batch, such as an interrupt, comes at once: the consumer reads it in place of the next batch.
//
// A feed has one consumer, or several, one for each rank of a training: each has a socket of its own, and all map the
// same memory. Batches pass through the store in one order, and go to the consumers in turn. A batch is sent when its
// consumer has used the one before and all batches before it are sent. End, with an error, goes to all of them.
//
// If a consumer closes the socket, Hand and Use return ErrGone. If the feed dies, the consumer reads the end of the stream
// in place of End.
package feed

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
	"diskgnn/train/engine"
)

// Protocol is the version of the messages, and TypedProtocol the version for typed graphs: a consumer that does not know node
// types refuses it.
const (
	Protocol      = 3
	TypedProtocol = 4
)

// MostSlots bounds the slots: a message carries at most 253 descriptors.
const MostSlots = 250

// MessageBytes bounds the memory of the messages, in bytes.
const MessageBytes = 1 << 20

// ErrGone is the error of a consumer that has closed the socket.
var ErrGone = errors.New("the consumer has closed the socket")

// Hello describes the batches to come.
type Hello struct {
	Protocol int    `json:"protocol"`
	Program  string `json:"program"` // its version
	Split    string `json:"split"`
	// Fingerprint is a hash of the batches and of their order. A position in them, From, has a meaning for equal ones.
	Fingerprint string `json:"fingerprint"`
	Batches     int    `json:"batches"`   // to come
	PerEpoch    int    `json:"per_epoch"` // batches of an epoch
	From        int    `json:"from"`      // batches that were left out at the beginning
	// DType is the type of the matrix: float32, float16 or bfloat16.
	DType   dtype.Type `json:"dtype"`
	Dim     int        `json:"dim"` // columns of the matrix
	Classes int        `json:"classes"`
	// TargetBytes is the length of a row of bits with the classes of a seed node, in a multi-label graph; otherwise 0.
	TargetBytes int     `json:"target_bytes"`
	Slots       []int64 `json:"slots"` // bytes of the memory of each slot
	// Held is the number of rows that the consumer holds: of the nodes of the lowest ranks.
	Held int64 `json:"held"`
	// Types are the node types and the relations of a typed graph, and SeedType is the type of the seed nodes.
	Types    *graph.Types `json:"types,omitempty"`
	SeedType int          `json:"seed_type,omitempty"`
}

// Rows are the next rows for the consumer to hold, at place 0 of a slot's memory.
type Rows struct {
	Slot int `json:"slot"`
	Rows int `json:"rows"`
}

// Batch is a loaded batch. Places are bytes from the beginning of the slot's memory.
type Batch struct {
	Item int   `json:"item"` // of the consumer, from Hello.From on
	Slot int   `json:"slot"`
	Rows int   `json:"rows"` // of the matrix, at place 0: one for each input node
	Read int64 `json:"read"` // bytes that were read from disk for the rows
	// Held are rows without content, in ranges of adjacent ones: the consumer holds the rows of their ranks.
	Held   []Range `json:"held"`
	Blocks []Block `json:"blocks"`
	// Arrays are the places between which all arrays but the matrix lie: one copy takes them.
	Arrays [2]int64 `json:"arrays"`
	// IDs is the place of an int64 for each input node, its id in the dataset; -1: the store has none.
	IDs int64 `json:"ids"`
	// Rank and Degree are the place of int64 for each input node: the node's rank (training batches alone have ranks:
	// see featurestore.Slot), and its in-degree in the whole graph.
	Rank   int64 `json:"rank"`
	Degree int64 `json:"degree"`
	// Labels is the place of an int64 for each seed node: its class, or -1. Targets is the place of the seed nodes' rows
	// of bits.
	Seeds   int   `json:"seeds"`
	Labels  int64 `json:"labels"`
	Targets int64 `json:"targets"`
	// Types is, for a typed graph, the place of an int64 for each input node: its type.
	Types int64 `json:"types"`
}

// Range is a range of rows of a matrix.
type Range struct {
	First int `json:"first"`
	Rows  int `json:"rows"`
}

// Block is a bipartite layer of a batch, the input side first.
type Block struct {
	Src   int `json:"src"` // numbers of sources, destinations and edges
	Dst   int `json:"dst"`
	Edges int `json:"edges"`
	// EdgeIndex is the place of int64, 2 × Edges: the positions of the edges' sources, then of their destinations. In a
	// typed graph the edges are in the order of their relations; ByRelation has the number of edges of each, and DstEnds
	// the destination after the last of each type.
	EdgeIndex int64 `json:"edge_index"`
	// DstPos is the place of an int64 for each destination: its position among the sources; -1: destination i is source i.
	DstPos     int64    `json:"dst_pos"`
	ByRelation []int    `json:"by_relation,omitempty"`
	DstEnds    []uint32 `json:"dst_ends,omitempty"`
}

// End is the last message.
type End struct {
	End   bool   `json:"end"`
	Error string `json:"error,omitempty"`
}

// State precedes the state of the store, which a consumer has asked for.
type State struct {
	State int `json:"state"` // bytes that follow the line; 0: the store has no state
}

// AskState is the byte with which a consumer asks for the state of the store.
const AskState = 's'

// Server is the feed's side of the sockets. Its methods belong to one goroutine, but for Hand and Slot's works.
type Server struct {
	// State returns the pieces of the store's state for a consumer that asks for it. Use calls it. Nil: there is none.
	State func() ([][]byte, error)
	// Stored reports whether the slots' matrices have the type that is said in the Hello, and not float32.
	Stored bool

	consumers []*consumer
	slots     []*slot
	dim       int
	dtype     dtype.Type     // of the matrix
	asks      chan *consumer // that want the state
	gone      context.Context
	leave     context.CancelCauseFunc // ends gone
	read      sync.WaitGroup
}

// consumer is one of the processes, by rank.
type consumer struct {
	conn *net.UnixConn
	mu   sync.Mutex           // of writing
	free chan struct{}        // has a token while the consumer has no batch
	has  atomic.Pointer[slot] // the slot of its batch
}

// NewServer returns a server for consumers. Close closes the connections.
func NewServer(conns ...*net.UnixConn) *Server {
	s := &Server{asks: make(chan *consumer, len(conns))}
	s.gone, s.leave = context.WithCancelCause(context.Background())
	for rank, conn := range conns {
		c := &consumer{conn: conn, free: make(chan struct{}, 1)}
		c.free <- struct{}{}
		s.consumers = append(s.consumers, c)
		s.read.Add(1)
		go func() {
			defer fault.Crash()
			defer s.read.Done()
			why := ErrGone
			if len(conns) > 1 {
				why = fmt.Errorf("rank %d of %d: %w", rank, len(conns), ErrGone)
			}
			defer s.leave(why)
			s.listen(c)
		}()
	}
	return s
}

// listen reads bytes of a consumer until it has closed the socket.
func (s *Server) listen(c *consumer) {
	for r := bufio.NewReader(c.conn); ; {
		b, err := r.ReadByte()
		switch {
		case err != nil:
			return
		case b == AskState:
			select {
			case s.asks <- c:
			default: // it does not wait for the answer
			}
		default:
			if sl := c.has.Swap(nil); sl != nil {
				sl.used <- struct{}{}
				c.free <- struct{}{}
			}
		}
	}
}

// Gone ends when a consumer has closed its socket, with a cause that is ErrGone.
func (s *Server) Gone() context.Context { return s.gone }

// Close closes the connections. The slots stay.
func (s *Server) Close() error {
	var errs []error
	for _, c := range s.consumers {
		errs = append(errs, c.conn.Close())
	}
	s.read.Wait()
	return errors.Join(errs...)
}

// send sends a message, with descriptors or further bytes.
func (c *consumer) send(message any, files []int, more ...[]byte) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n, _, err := c.conn.WriteMsgUnix(line, rights, nil)
	if err == nil {
		_, err = c.conn.Write(line[n:])
	}
	for _, b := range more {
		if err == nil {
			_, err = c.conn.Write(b)
		}
	}
	if err != nil {
		return fmt.Errorf("%w (%v)", ErrGone, err)
	}
	return nil
}

// Greet sends Hello to all consumers, with the version of the protocol and the slots that were made.
func (s *Server) Greet(h Hello) error {
	if len(s.slots) > MostSlots {
		return fault.New(fault.ErrUsage, "--slots %d: a consumer takes up to %d", len(s.slots), MostSlots)
	}
	if h.Protocol = Protocol; h.Types != nil {
		h.Protocol = TypedProtocol
	}
	s.dim, s.dtype = h.Dim, h.DType
	var files []int
	for _, sl := range s.slots {
		h.Slots = append(h.Slots, sl.bytes())
		files = append(files, int(sl.shared.File().Fd()))
	}
	for _, c := range s.consumers {
		if err := c.send(h, files); err != nil {
			return err
		}
	}
	return nil
}

// Hand sends a batch that is prepared in w to consumers, each as soon as it has used the batch before. number counts
// the batches of a consumer, read is the number of bytes that the rows were read with. Call Use afterwards.
func (s *Server) Hand(ctx context.Context, w engine.Work, read int64, number int, ranks []int) error {
	sl := w.(*slot)
	sl.message.Item, sl.message.Read = number, read
	if err := s.narrow(sl, sl.message.Rows, sl.message.Held); err != nil {
		return err
	}
	return s.give(ctx, sl, &sl.message, ranks)
}

// Rows sends rows for the consumers to hold, and returns when they have copied them. It uses the memory of a slot, in
// which no batch is.
func (s *Server) Rows(ctx context.Context, x []float32) error {
	sl, row, ranks := s.slots[0], 4*s.dim, make([]int, len(s.consumers))
	for i := range ranks {
		ranks[i] = i
	}
	for b := binio.Bytes(x); len(b) > 0; {
		n := min(len(b), len(sl.matrix)/row*row)
		copy(sl.matrix, b[:n])
		err := s.narrow(sl, n/row, nil)
		if err == nil {
			err = s.give(ctx, sl, &Rows{Rows: n / row}, ranks)
		}
		if err == nil {
			err = s.Use(ctx, sl)
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// narrow converts the matrix in a slot, of float32, in place: row i begins at element i × dim of the other type. Rows that
// the consumers hold have no content.
func (s *Server) narrow(sl *slot, rows int, held []Range) error {
	if s.dtype == dtype.Float32 || s.Stored {
		return nil
	}
	to, x := sl.matrix, binio.View[float32](sl.matrix[:4*rows*s.dim])
	at := 0
	for _, r := range append(slices.Clone(held), Range{First: rows}) {
		first, end := at*s.dim, r.First*s.dim
		if !kernel.Narrow(to[2*first:2*end], s.dtype, x[first:end], s.dim) {
			return fault.New(fault.ErrUsage, "--dtype %s: a feature is beyond its range; bfloat16 has the range of float32", s.dtype)
		}
		at = r.First + r.Rows
	}
	return nil
}

// give sends a message about the memory of a slot to consumers, each as soon as it has no other.
func (s *Server) give(ctx context.Context, sl *slot, message any, ranks []int) error {
	sl.users = len(ranks)
	for _, rank := range ranks {
		c := s.consumers[rank]
		select {
		case <-c.free:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.gone.Done():
			return context.Cause(s.gone)
		}
		c.has.Store(sl)
		if err := c.send(message, nil); err != nil {
			return err
		}
	}
	return nil
}

// Use returns when the consumers have used the batch in w. Meanwhile it answers consumers that ask for the state.
func (s *Server) Use(ctx context.Context, w engine.Work) error {
	sl := w.(*slot)
	for sl.users > 0 {
		select {
		case <-sl.used:
			sl.users--
		case c := <-s.asks:
			if err := s.answer(c); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.gone.Done():
			return context.Cause(s.gone)
		}
	}
	return nil
}

// answer sends the state of the store.
func (s *Server) answer(c *consumer) error {
	var m State
	var pieces [][]byte
	if s.State != nil {
		var err error
		if pieces, err = s.State(); err != nil {
			return err
		}
	}
	for _, b := range pieces {
		m.State += len(b)
	}
	return c.send(m, nil, pieces...)
}

// End sends the last message: the error that ended the batches, if any.
func (s *Server) End(err error) error {
	m := End{End: true}
	if err != nil {
		m.Error = err.Error()
	}
	var errs []error
	for _, c := range s.consumers {
		errs = append(errs, c.send(m, nil))
	}
	return errors.Join(errs...)
}

// Bytes returns the memory of a slot's arrays without the matrix, in bytes. named is set for a featurestore.Named slot.
func Bytes(sizes *graph.Sizes, targetBytes int, named bool) int64 {
	if len(sizes.Src) == 0 {
		return 0
	}
	var p places
	if named {
		p.take(8 * sizes.Inputs())
	}
	for l := range sizes.Src {
		p.take(2 * 8 * sizes.Edges[l])
		p.take(8 * sizes.Dst[l])
	}
	if sizes.Rows != nil {
		p.take(8 * sizes.Inputs())
	}
	seeds := sizes.Dst[len(sizes.Dst)-1]
	for _, n := range []int{8 * sizes.Inputs(), 8 * sizes.Inputs(), 8 * seeds, targetBytes * seeds} {
		p.take(n)
	}
	return p.at
}
