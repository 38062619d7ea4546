package residency

// Policy chooses, batch after batch, the nodes with rows in the frames of a cache. It belongs to one
// goroutine at a time; Batch of the policy static may be called concurrently.
type Policy interface {
	// Batch takes the distinct input nodes of the next batch. held[i] becomes the frame that holds
	// nodes[i] now, or -1: a miss. into[i] becomes the frame that takes the row of nodes[i], or -1: a
	// hit, or a miss that passes by. held and into belong to the caller, and are at least as long as nodes.
	//
	// Under Belady's policy the frames of into may hold rows that the batch uses, so replace rows only after
	// the batch's hits have been gathered. Other policies replace only rows that the batch does not use.
	//
	// Batch allocates nothing, and takes amortised constant time a node. It panics if a node is not below
	// Config.Nodes, or if under Belady's policy the nodes are not the trace's next batch, in any order.
	Batch(nodes []uint32, held, into []int32)

	// Rows returns the nodes of the rows in the cache, by frame: frames 0 to len-1 are taken. For a new
	// policy these are the rows to read into the cache before the first batch. The slice belongs to the
	// policy, and is valid until Batch or LoadState.
	Rows() []uint32

	// State returns the policy's content. A policy with an equal Config continues from it exactly.
	State() []byte

	// LoadState restores a result of State. If b is not a state of a policy with this Config, the error is of
	// kind fault.ErrCorrupt. After an error the policy must not be used any more.
	LoadState(b []byte) error

	// Bytes returns the memory of the policy, in bytes: Size.Bytes of its size.
	Bytes() int64
}

// Absent is the frame of a row that is not in the cache.
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

// Names returns the names of all policies, for New.
func Names() []string { return append([]string{Static}, append(Online(), Standby, Belady)...) }

// Online returns the names of the policies that decide access by access.
func Online() []string { return []string{LRU, Clock, Sieve, S3FIFO} }

// Config is the size of a policy's cache, and the input of the policies that need one.
type Config struct {
	Nodes  int // number of nodes, at most 2³²; node ids are below it
	Frames int // number of frames, below 2³¹; 0: the cache holds no rows

	Set   []uint32 // static: the nodes in the cache, by frame
	Trace Trace    // belady: all batches of later calls of Batch; New owns it, and sorts each batch
}

// Trace has the input nodes of batches, in the order of the batches: batch t uses
// Nodes[Start[t]:Start[t+1]].
type Trace struct {
	Start []int64
	Nodes []uint32
}

// Batches returns the number of batches.
func (t *Trace) Batches() int { return max(0, len(t.Start)-1) }

// Batch returns the nodes of batch i.
func (t *Trace) Batch(i int) []uint32 { return t.Nodes[t.Start[i]:t.Start[i+1]] }

// MaxKeys bounds the sum of the accesses of a trace and of the nodes, under Belady's policy.
const MaxKeys = 1 << 32

// Size has the numbers that determine a policy's memory: see Bytes.
type Size struct {
	Nodes, Frames     int
	Batches, Accesses int64 // of the trace, for belady
}
