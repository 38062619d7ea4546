package packed

import (
	"diskgnn/device/cuda"
	"diskgnn/internal/budget"
)

// PlanOptions say what a layout may use.
type PlanOptions struct {
	// Cache is the wanted RAM cache: a share of the nodes, or bytes. Nil takes as
	// much of what the pack holds as hot as Memory allows.
	Cache *budget.Size
	// Memory is what the store and its slots may hold, in bytes.
	Memory int64
	// Slots and EvalSlots are the numbers of slots that will be made.
	Slots, EvalSlots int
	// GPU is the device that the matrices are for; nil: they are for the host.
	GPU *cuda.Device
	// GPUMemory is what the store may hold of the device's, in bytes, and GPUCache the
	// share of the rows, or bytes, that it may hold there; nil: as much as fits.
	GPUMemory int64
	GPUCache  *budget.Size
	// Direct says that reads can land in the device's memory: chunks do, if they are not
	// compressed, in as many slots as there may be, MostSlots.
	Direct    bool
	MostSlots int
}

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
	GPURows       int64 // ranks below are on the GPU
	GPUCacheBytes int64 // of their rows
	// GPUBytes is what the store takes of the device's memory: for the rows, and for what
	// batches land in and are checked with.
	GPUBytes int64
	// GPUSlotBytes is what a training slot takes of it besides; more than 0 where chunks
	// are read into it.
	GPUSlotBytes int64

	direct bool // reads can land in the GPU's memory
}
