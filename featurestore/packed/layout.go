package packed

import (
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
)

// PlanOptions say what a layout may use.
type PlanOptions = featurestore.PlanOptions

// Layout says which rows live where, and what the buffers take.
type Layout struct {
	CacheRows int64 // ranks below are in RAM or on the GPU
	// Through is the last band that is read from disk: the chunk's bands
	// 0 … Through hold the ranks from CacheRows up.
	Through       int
	RAMBytes      int64 // of the cache
	KeepBytes     int64 // of what keeping the cache takes besides, under policy min
	SlotBytes     int64 // of one training slot
	EvalSlotBytes int64 // of one evaluation slot
	DecodeBytes   int64 // of all slots' decompression
	Note          string

	// GPU is the device that assembles the matrices; nil: the CPU does, and RAM holds all
	// rows of the cache.
	GPU           *cuda.Device
	GPURows       int64 // ranks below are on the GPU, or on all GPUs together
	GPUCacheBytes int64 // of their rows, on each
	// GPUBytes is what the store takes of the device's memory: for the rows, and for what
	// batches land in and are checked with.
	GPUBytes int64
	// GPUSlotBytes is what a training slot takes of it besides; more than 0 where chunks
	// are read into it.
	GPUSlotBytes int64
	QueueBytes   int64 // of the host's memory, of queues by which the GPU reads by itself

	// Peers are further devices, of further views: the hottest rows are divided among all
	// devices, or each has them; GPUBytes are taken of each.
	Peers   []*cuda.Device
	Divided bool

	direct bool       // reads can land in the GPU's memory
	late   *lateReads // the GPU submits and completes the reads of chunks; nil: the host does
}
