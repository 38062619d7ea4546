package residency

// Policy decides, batch after batch, which nodes' rows the frames of a cache hold. One
// goroutine at a time uses it, but for the Batch of a static one.
type Policy interface {
	// Batch takes the distinct input nodes of the next batch. held[i] becomes the frame that holds
	// nodes[i] now, or -1: a miss. into[i] becomes the frame that takes the row of nodes[i], or -1: a
	// hit, or a miss that passes by. held and into are the caller's and at least as long as nodes.
	//
	// Under Belady's policy the frames of into may hold rows that the batch uses: they are replaced
	// once the batch's hits have been gathered. Other policies replace rows that the batch does not
	// use.
	//
	// It allocates nothing, and takes constant time a node, amortised. It panics on a caller's bug: a
	// node not below Config.Nodes, or under Belady's policy nodes that are not the trace's next batch,
	// in any order.
	Batch(nodes []uint32, held, into []int32)

	// Rows returns the nodes of the rows in the cache, by frame: frames 0 to len-1 are taken. Of a new
	// policy these are the rows to fill the cache with before the first batch. The slice is the
	// policy's, and valid until Batch or LoadState.
	Rows() []uint32

	// State returns the policy's contents, so that a policy of an equal Config goes on from it exactly.
	State() []byte

	// LoadState takes over a result of State. Bytes that are no state of a policy of this Config are an
	// error of kind fault.ErrCorrupt. The policy is of no use after an error.
	LoadState(b []byte) error

	// Bytes returns the memory that the policy holds: Size.Bytes of its size.
	Bytes() int64
}

// Absent is the frame of a row that the cache does not hold.
const Absent = int32(-1)

// Names of the policies.
const (
	Static  = "static"
	LRU     = "lru"
	Clock   = "clock"
	Sieve   = "sieve"
	S3FIFO  = "s3fifo"
	Standby = "standby"
	Belady  = "belady"
)

// Names returns the names that New knows.
func Names() []string { return append([]string{Static}, append(Online(), Standby, Belady)...) }

// Online returns the names of the policies of GraphBolt's disk store.
func Online() []string { return []string{LRU, Clock, Sieve, S3FIFO} }

// Config is the size of a policy's cache, and the input of the policies that need one.
type Config struct {
	Nodes  int // node ids are below it; at most 2³²
	Frames int // rows that the cache can hold; below 2³¹, and 0 is a cache that holds none

	Set   []uint32 // static: the nodes it holds, by frame
	Trace Trace    // belady: all batches that Batch will get; New takes it over, and sorts each batch
}

// Trace is the input nodes of batches, in the order of the batches: batch t uses
// Nodes[Start[t]:Start[t+1]].
type Trace struct {
	Start []int64
	Nodes []uint32
}

// Batches returns the number of batches.
func (t *Trace) Batches() int { return max(0, len(t.Start)-1) }

// Batch returns the nodes of batch i.
func (t *Trace) Batch(i int) []uint32 { return t.Nodes[t.Start[i]:t.Start[i+1]] }

// MaxKeys bounds the accesses of a trace and the nodes together, under Belady's policy.
const MaxKeys = 1 << 32

// Size has the numbers that decide a policy's memory.
type Size struct {
	Nodes, Frames     int
	Batches, Accesses int64 // of the trace, for belady
}
