package spec

// Offsets of registers, in bytes.
const (
	CAP  = 0x00
	VS   = 0x08
	CC   = 0x14
	CSTS = 0x1c
	AQA  = 0x24
	ASQ  = 0x28
	ACQ  = 0x30

	Doorbells = 0x1000
)

// Capabilities is the register CAP.
type Capabilities uint64

// MaxEntries returns the largest number of entries of a queue (MQES).
func (c Capabilities) MaxEntries() int { return int(c&0xffff) + 1 }

// Timeout returns the time limit of enabling and disabling, in units of 500 ms (TO).
func (c Capabilities) Timeout() int { return int(c >> 24 & 0xff) }

// Stride returns the distance between doorbells in bytes (DSTRD).
func (c Capabilities) Stride() int { return 4 << (c >> 32 & 0xf) }

// MinPage returns the smallest page size that the host may choose, MaxPage the largest, in bytes.
func (c Capabilities) MinPage() int { return 4096 << (c >> 48 & 0xf) }
func (c Capabilities) MaxPage() int { return 4096 << (c >> 52 & 0xf) }

// NewCapabilities returns the register of a controller with the NVM command set, pages of
// 4 KiB, and contiguous queues.
func NewCapabilities(maxEntries, timeout, strideShift int) Capabilities {
	return Capabilities(maxEntries-1) | 1<<16 | Capabilities(timeout)<<24 | Capabilities(strideShift)<<32 | 1<<37
}

// Bits of CC.
const (
	Enable = 1
	// Entries are the sizes of entries that this program uses: 64 and 16 bytes.
	Entries = 6<<16 | 4<<20
)

// PageShift is the bit of CC from which the page size is stored, as log2(size / 4096).
const PageShift = 7

// Bits of CSTS.
const (
	Ready = 1
	Fatal = 2 // the controller has failed
)

// SubmissionDoorbell returns the offset of the submission doorbell of queue q, CompletionDoorbell the
// offset of its completion doorbell, given the stride in bytes.
func SubmissionDoorbell(q, stride int) int { return Doorbells + 2*q*stride }
func CompletionDoorbell(q, stride int) int { return Doorbells + (2*q+1)*stride }
